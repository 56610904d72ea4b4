package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"

	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/internal/requests"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// The figures of a process. Those of its maps are named by type and field.
const (
	heapBytes     = "heap in use"
	spanBytes     = "heap with its gaps"
	stackBytes    = "stacks"
	residentBytes = "memory of the process"
	goroutines    = "goroutines"
	openFiles     = "open files"
)

// listening begins the line that tells where the operator of a soak listens.
const listening = "listening on "

// soakOperator is the operator of a soak in a process of its own, so that its memory, goroutines and files are its own.
type soakOperator struct {
	operator *harness.Operator
	gusts    gusts
}

// ServeOperator runs the operator of all kinds until the standard input ends, and tells its figures to whoever asks.
func ServeOperator(kubeconfig string, seed int64, kinds []*Kind) error {
	runtime.MemProfileRate = 16 << 10 // The heap is small, and what leaks in minutes is smaller.
	c, err := cluster.Connect(kubeconfig)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	o := &soakOperator{gusts: gusts{random: rand.New(rand.NewPCG(uint64(seed), 3))}} //nolint:gosec // Faults need no cryptographic randomness.
	var done <-chan error
	suite := &Suite{kinds: kinds}
	o.operator, done, err = harness.Run(ctx, c, harness.Options{
		Engine: engine.Options{Log: funcr.New(func(prefix, args string) {
			if strings.Contains(strings.ToLower(args), "panic") {
				fmt.Println(prefix, args)
			}
		}, funcr.Options{})},
		Config: func(cfg *rest.Config) { cfg.Wrap(o.gusts.wrap) },
	}, suite.controllers()...)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: o.handler(), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	fmt.Println(listening + listener.Addr().String())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return <-done
}

// handler answers whether the operator is ready, begins and ends faults, and tells the figures and the heap profile.
func (o *soakOperator) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if err := o.operator.Engine.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("POST /faults/{state}", func(w http.ResponseWriter, r *http.Request) {
		reply(w, o.gusts.set(r.PathValue("state") == "on"))
	})
	mux.HandleFunc("GET /heap", func(w http.ResponseWriter, _ *http.Request) {
		if err := pprof.Lookup("heap").WriteTo(w, 0); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	mux.HandleFunc("GET /figures", func(w http.ResponseWriter, _ *http.Request) { reply(w, o.figures()) })
	return mux
}

func reply(w http.ResponseWriter, value any) {
	if err := json.NewEncoder(w).Encode(value); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// figures are those of the process at rest. What a garbage collection would free is not counted, nor are the tables of the profiler, which
// grow with every stack that it meets.
func (o *soakOperator) figures() map[string]float64 {
	runtime.GC()
	debug.FreeOSMemory()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	out := map[string]float64{
		heapBytes: float64(memory.HeapAlloc), spanBytes: float64(memory.HeapInuse), stackBytes: float64(memory.StackInuse),
		residentBytes: float64(memory.Sys - memory.HeapReleased - memory.BuckHashSys), goroutines: float64(runtime.NumGoroutine()),
	}
	if files, err := os.ReadDir("/proc/self/fd"); err == nil {
		out[openFiles] = float64(len(files))
	}
	for field, n := range harness.Sizes(o.operator.Engine) {
		out[field] = float64(n)
	}
	return out
}

// One of so many requests meets a fault, and one of so many breaks a watch.
const (
	requestsPerFault = 20
	requestsPerBreak = 60
)

// gusts is a transport in which requests meet faults at random, while it is told to.
type gusts struct {
	mu      sync.Mutex
	random  *rand.Rand
	on      bool
	met     map[string]int
	streams map[*stream]bool
}

// set begins or ends the faults, and returns how many requests met each so far.
func (g *gusts) set(on bool) map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.on = on
	out := map[string]int{}
	for what, n := range g.met {
		out[what] = n
	}
	return out
}

// answers are the codes of refusals that a retry gets over.
var answers = []int{http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

// draw says what a request meets: nothing, a fault by its name, and the code of a refusal.
func (g *gusts) draw(req request) (Action, int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.on {
		return "", 0
	}
	if g.met == nil {
		g.met = map[string]int{}
	}
	if g.random.IntN(requestsPerBreak) == 0 {
		for s := range g.streams { // The order of a map is random.
			g.met[string(Cut)]++
			s.cut(reset())
			break
		}
	}
	if g.random.IntN(requestsPerFault) > 0 {
		return "", 0
	}
	what := []Action{Answer, Reset, Timeout, Lose}[g.random.IntN(4)]
	code := answers[g.random.IntN(len(answers))]
	if code == http.StatusConflict && !req.write() {
		code = http.StatusInternalServerError
	}
	g.met[string(what)]++
	return what, code
}

func (g *gusts) wrap(next http.RoundTripper) http.RoundTripper {
	return requests.RoundTripper(func(r *http.Request) (*http.Response, error) {
		req, err := parse(r)
		if err != nil {
			return nil, err
		}
		what, code := g.draw(req)
		switch what {
		case Answer:
			return refusal(r, code), nil
		case Reset:
			return nil, reset()
		case Timeout:
			return nil, hangs(r.Context())
		}
		resp, err := next.RoundTrip(r)
		switch {
		case err != nil:
			return nil, err
		case what == Lose:
			drop(resp)
			return nil, reset()
		case req.Verb == verbWatch && resp.StatusCode == http.StatusOK:
			resp.Body = g.open(resp.Body, req.Resource)
		}
		return resp, nil
	})
}

// open makes a watch one that can be broken.
func (g *gusts) open(body io.ReadCloser, resource string) *stream {
	s := newStream(body, resource, func(s *stream) {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.streams, s)
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.streams == nil {
		g.streams = map[*stream]bool{}
	}
	g.streams[s] = true
	return s
}
