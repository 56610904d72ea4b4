package faults

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"

	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/internal/requests"
	"mlkeeper.dev/test/harness"
)

// sharedOperator is one operator of all kinds for many runs: no fault ends it, so that it needs to start only once.
type sharedOperator struct {
	suite *Suite
	begin sync.Once
	end   context.CancelFunc
	done  <-chan error
	err   error

	mu   sync.Mutex
	runs map[string]*run
	// namespaces are those of all runs that ever shared the operator: it goes on with what they leave.
	namespaces map[string]bool
}

// join has the operator work for a run. The first one starts it.
func (o *sharedOperator) join(r *run) error {
	o.mu.Lock()
	if o.runs == nil {
		o.runs, o.namespaces = map[string]*run{}, map[string]bool{}
	}
	o.namespaces[r.world.Namespace] = true
	o.runs[r.world.Namespace] = r
	o.mu.Unlock()
	o.begin.Do(o.start)
	return o.err
}

// has says that a run shares the operator which a text names by its namespace, or did.
func (o *sharedOperator) has(text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.namespaces[ofRun.FindString(text)]
}

func (o *sharedOperator) leave(r *run) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.runs, r.world.Namespace)
}

func (o *sharedOperator) start() {
	ctx, cancel := context.WithCancel(context.Background())
	o.end = cancel
	_, o.done, o.err = harness.Run(ctx, o.suite.cluster, harness.Options{
		Engine: engine.Options{
			Shards: heldBy(o.has), Log: funcr.New(o.logged, funcr.Options{}),
		},
		Config: func(cfg *rest.Config) { cfg.Wrap(o.wrap) },
	}, o.suite.controllers()...)
}

// controllers are those of all kinds.
func (s *Suite) controllers() []harness.Register {
	out := make([]harness.Register, 0, len(s.kinds))
	for _, k := range s.kinds {
		out = append(out, k.Controller)
	}
	return out
}

// stop ends the operator, if it runs, and waits for it.
func (o *sharedOperator) stop() {
	if o.end == nil {
		return
	}
	o.end()
	if o.err == nil {
		if err := <-o.done; err != nil {
			o.suite.Log("the shared operator ended: %v", err)
		}
	}
}

// wrap notes every request in the journal of the run that it is about.
func (o *sharedOperator) wrap(next http.RoundTripper) http.RoundTripper {
	return requests.RoundTripper(func(r *http.Request) (*http.Response, error) {
		req, err := parse(r)
		if err != nil {
			return nil, err
		}
		of := o.run(r.URL.Path + " " + req.Name)
		if of == nil {
			return next.RoundTrip(r)
		}
		p := Point{Verb: req.Verb, Resource: req.Resource, Name: lasting(req.Name, of.world.Namespace)}
		e := of.journal.add(entry{request: req, Point: p, Operator: 1, At: time.Now()})
		resp, err := next.RoundTrip(r)
		if err != nil {
			of.journal.done(e, 0, err.Error())
			return nil, err
		}
		of.journal.done(e, resp.StatusCode, "")
		return resp, nil
	})
}

// run is the run that a text names by its namespace, or nil.
func (o *sharedOperator) run(text string) *run {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.runs[ofRun.FindString(text)]
}

// logged tells a run of a panic that the operator recovered from for its custom resource, and every run of another one.
func (o *sharedOperator) logged(prefix, args string) {
	if !strings.Contains(strings.ToLower(args), "panic") {
		return
	}
	text := short(fmt.Sprintf("%s %s", prefix, args))
	if r := o.run(text); r != nil {
		r.fail("O9", "the operator panicked: %s", text)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.runs {
		r.fail("O9", "the operator panicked, perhaps for another custom resource: %s", text)
	}
}
