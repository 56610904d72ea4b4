package dmaap_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/acm/dmaap"
	"mlkeeper.dev/test/acmruntime"
)

const topic = "POLICY-ACRUNTIME-PARTICIPANT"

// connect makes a transport to a router.
func connect(t *testing.T, router http.Handler, change func(*dmaap.Config)) *dmaap.Transport {
	t.Helper()
	server := httptest.NewServer(router)
	t.Cleanup(server.Close)
	config := dmaap.Config{
		Servers: []string{server.URL}, Topic: topic, Group: "g", Instance: "i", FetchTimeout: 50 * time.Millisecond,
	}
	if change != nil {
		change(&config)
	}
	out, err := dmaap.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(out.Close)
	return out
}

// within bounds a test.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// subscribed makes the router know the consumer: what is published before is not for it, nor what a request takes that nobody waits for.
func subscribed(t *testing.T, router *acmruntime.Router, transport *dmaap.Transport) {
	t.Helper()
	for bound := within(t); !router.Rests(topic, "g"); {
		if bound.Err() != nil {
			t.Fatal("the router does not hear of the consumer")
		}
		ctx, cancel := context.WithTimeout(bound, 100*time.Millisecond)
		_, _ = transport.Receive(ctx)
		cancel()
		time.Sleep(10 * time.Millisecond)
	}
}

func TestRecords(t *testing.T) {
	for name, change := range map[string]func(*acmruntime.Router, *dmaap.Config){
		"without credentials": func(*acmruntime.Router, *dmaap.Config) {},
		"with a password": func(r *acmruntime.Router, c *dmaap.Config) {
			r.User, r.Password, c.User, c.Password = "u", "p", "u", "p"
		},
		"with an API key": func(r *acmruntime.Router, c *dmaap.Config) {
			r.APIKey, r.APISecret, c.APIKey, c.APISecret = "k", "s", "k", "s"
		},
	} {
		t.Run(name, func(t *testing.T) {
			router := &acmruntime.Router{}
			transport := connect(t, router, func(c *dmaap.Config) { change(router, c) })
			subscribed(t, router, transport)
			sent := []string{`{"a":1}`, `{"b":"ü <&>"}`, `{"c":[]}`}
			for _, text := range sent {
				if err := transport.Publish(within(t), acm.Outgoing{Key: "k ü", Body: []byte(text)}); err != nil {
					t.Fatal(err)
				}
			}
			for _, text := range sent {
				batch, err := transport.Receive(within(t))
				if err != nil || len(batch.Records) != 1 || string(batch.Records[0]) != text {
					t.Fatalf("received %q, %v in place of %q", batch.Records, err, text)
				}
				if err := batch.Done(within(t)); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestErrorAnswers(t *testing.T) {
	for _, c := range []struct {
		status, code int
		want         string
	}{
		{404, 3001, "make the topic"},
		{503, 3002, "overloaded"},
		{401, 4002, "correct the credentials"},
		{409, 5012, "another consumer"},
		{429, 5012, "asked again"},
		{302, 0, "HTTP 302"},
	} {
		router := &acmruntime.Router{Refuse: func(*http.Request) (int, int) { return c.status, c.code }}
		transport := connect(t, router, nil)
		if _, err := transport.Receive(within(t)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("HTTP %d, code %d is told as %v", c.status, c.code, err)
		}
		if err := transport.Publish(within(t), acm.Outgoing{Body: []byte("{}")}); err == nil {
			t.Errorf("HTTP %d, code %d counts as published", c.status, c.code)
		}
		if err := transport.Healthy(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("after HTTP %d, code %d its health is %v", c.status, c.code, err)
		}
	}
}

func TestHostileAnswers(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"endless": func(w http.ResponseWriter, _ *http.Request) {
			for range 20 {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		},
		"no list": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"a":1}`)) },
		"elsewhere": func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, "http://169.254.169.254/latest", http.StatusFound)
		},
	} {
		if batch, err := connect(t, answer, nil).Receive(within(t)); err == nil {
			t.Errorf("%s: %q", name, batch.Records)
		}
	}
}

// TestNextServer: what one server refuses is asked of the next.
func TestNextServer(t *testing.T) {
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	transport := connect(t, &acmruntime.Router{}, func(c *dmaap.Config) { c.Servers = append([]string{dead.URL}, c.Servers...) })
	ctx := within(t)
	if err := transport.Publish(ctx, acm.Outgoing{Body: []byte("{}")}); err == nil {
		t.Error("a dead server takes messages")
	}
	if err := transport.Publish(ctx, acm.Outgoing{Body: []byte("{}")}); err != nil {
		t.Error(err)
	}
}

func TestConfig(t *testing.T) {
	good := dmaap.Config{Servers: []string{"message-router"}, Topic: "t", Group: "g", Instance: "i"}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*dmaap.Config){
		"no servers": func(c *dmaap.Config) { c.Servers = nil },
		"no topic":   func(c *dmaap.Config) { c.Topic = "" },
		"no address": func(c *dmaap.Config) { c.Servers = []string{"http://"} },
		"a password": func(c *dmaap.Config) { c.Servers = []string{"http://kserve:secret@message-router"} },
	} {
		bad := good
		change(&bad)
		if _, err := dmaap.New(bad); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s is told as %v", name, err)
		}
	}
}
