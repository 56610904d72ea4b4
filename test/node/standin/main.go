// Command standin stands in for the images that a real node would run in the
// test of one. It was made for that test and calculates nothing: as the TrustyAI
// service it listens where the real one of a generation does, answers the probes,
// shows metrics of the expected names, and remembers the payloads that it receives; as TensorFlow Serving it is the stand-in
// of test/tfserver. Further commands let a pod play a client in the cluster, and
// kube-rbac-proxy.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mlkeeper.dev/test/tfserver"
)

const usage = `usage: standin COMMAND
  serve GENERATION               be the TrustyAI service: Java, JavaTLS or Python
  proxy FLAG...                  be kube-rbac-proxy
  wait                           be a client: wait for commands by kubectl exec
  get URL [TOKENFILE]            print what is there, asking with the token in a file
  post URL BODY [TOKENFILE]      post a text and print the answer
  load URL BODY COUNT INTERVAL   post it so often, and fail if one is not answered
named tensorflow_model_server: TensorFlow Serving, with that program's flags`

func main() {
	if filepath.Base(os.Args[0]) == serverName {
		os.Exit(tfserver.Main(os.Args[1:], buckets{}))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "standin:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	switch command, rest := args[0], args[1:]; {
	case command == "serve" && len(rest) == 1:
		return serve(ctx, rest[0])
	case command == "proxy":
		return proxy(ctx, rest)
	case command == "wait":
		<-ctx.Done()
		return nil
	case command == "get" && (len(rest) == 1 || len(rest) == 2):
		return call(ctx, http.MethodGet, rest[0], "", rest[1:])
	case command == "post" && (len(rest) == 2 || len(rest) == 3):
		return call(ctx, http.MethodPost, rest[0], rest[1], rest[2:])
	case command == "load" && len(rest) == 4:
		count, err := strconv.Atoi(rest[2])
		if err != nil {
			return err
		}
		interval, err := time.ParseDuration(rest[3])
		if err != nil {
			return err
		}
		return load(ctx, rest[0], rest[1], count, interval)
	default:
		return errors.New(usage)
	}
}

// call sends one request and prints the answer; one that is no success is an
// error.
func call(ctx context.Context, method, url, body string, tokenFiles []string) error {
	client, err := newClient()
	if err != nil {
		return err
	}
	code, answer, err := send(ctx, client, method, url, body, tokenFiles...)
	if err != nil {
		return err
	}
	if code/100 != 2 {
		return fmt.Errorf("%s %s: %d %s: %s", method, url, code, http.StatusText(code), answer)
	}
	_, err = os.Stdout.Write(answer)
	return err
}

// send sends one request and returns the answer to it, whatever its code.
func send(
	ctx context.Context, client *http.Client, method, url, body string, tokenFiles ...string,
) (code int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	for _, path := range tokenFiles {
		token, err := os.ReadFile(path)
		if err != nil {
			return 0, nil, err
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}
