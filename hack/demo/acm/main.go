// Command acm is the other side of the KServe participant in the demo: `acm broker` runs franz-go's in-process broker and writes
// an application.yaml for it; `acm workflow` is a small ACM runtime that primes, deploys and undeploys over it, as the page of
// ONAP's Kserve participant describes. Neither is meant for anything but the demo and development.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"mlkeeper.dev/internal/acm/config"
	"mlkeeper.dev/test/acmruntime"
)

// patience bounds every step of the workflow.
const patience = time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "acm:", err)
		os.Exit(1) //nolint:gocritic // The signals need no undoing.
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("say broker or workflow")
	}
	flags := flag.NewFlagSet("acm "+args[0], flag.ContinueOnError)
	file := flags.String("config", "", "application.yaml, which broker writes and workflow reads")
	payload := flags.String("payload", "", "file with the InferenceService that workflow deploys")
	namespace := flags.String("namespace", "default", "namespace of the InferenceService")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "broker":
		return broker(ctx, *file)
	case "workflow":
		return workflow(ctx, *file, *payload, *namespace)
	}
	return fmt.Errorf("there is no %q: say broker or workflow", args[0])
}

// broker runs until it is interrupted.
func broker(ctx context.Context, file string) error {
	cluster, err := kfake.NewCluster(kfake.SeedTopics(acmruntime.Partitions, acmruntime.Topic, acmruntime.SyncTopic))
	if err != nil {
		return err
	}
	defer cluster.Close()
	text := acmruntime.Application(config.DefaultParticipantID, "kafka", cluster.ListenAddrs(), nil)
	// Under another name first, so that who waits for the file never reads half of it.
	if err := os.WriteFile(file+".part", []byte(text), 0o600); err != nil {
		return err
	}
	if err := os.Rename(file+".part", file); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// workflow is that of the seed.
func workflow(ctx context.Context, file, payload, namespace string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	service, err := os.ReadFile(payload)
	if err != nil {
		return err
	}
	settings, err := config.Read(text, config.Options{})
	if err != nil {
		return err
	}
	side, err := acmruntime.OnKafka(settings.Kafka.Servers)
	if err != nil {
		return err
	}
	defer side.Close()
	runtime := acmruntime.New(acmruntime.V910, settings.Identity.ParticipantID, side)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { _ = runtime.Run(ctx) }()

	c := runtime.Commission(map[string]any{"provider": "ONAP", "startPhase": 0, "uninitializedToPassiveTimeout": 60})
	var i *acmruntime.Instance
	state := func() string {
		e := runtime.Element(i.Elements[0].ID)
		return e.DeployState + ", " + e.LockState
	}
	for _, step := range []struct {
		what string
		do   func(context.Context) error
		wait func(context.Context) error
		tell func() string
	}{
		{"registered", nil, runtime.AwaitRegistered, func() string { return "participant " + settings.Identity.ParticipantID }},
		{
			"primed", func(ctx context.Context) error { return runtime.Prime(ctx, c) },
			func(ctx context.Context) error { return runtime.AwaitComposition(ctx, c, "PRIMED NO_ERROR") },
			func() string { return "composition " + c.ID },
		},
		{
			"deployed", func(ctx context.Context) (err error) {
				if i, err = runtime.Instantiate(c, map[string]any{
					"kserveInferenceEntityId": map[string]any{"name": "entity1", "version": "1.0.0"},
					"name":                    "sklearn-iris", "namespace": namespace, "payload": string(service),
				}); err != nil {
					return err
				}
				return runtime.Deploy(ctx, i)
			},
			func(ctx context.Context) error { return runtime.AwaitInstance(ctx, i, "DEPLOYED", "NO_ERROR") }, state,
		},
	} {
		if err := within(ctx, step.do, step.wait); err != nil {
			return err
		}
		fmt.Printf("    %-12s %s\n", step.what, step.tell())
	}
	return nil
}

// within does a step and waits for its end, for a while.
func within(ctx context.Context, steps ...func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, step := range steps {
		if step == nil {
			continue
		}
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}
