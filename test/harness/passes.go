package harness

import (
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// passLevel is the verbosity at which controller-runtime logs every pass.
const passLevel = 5

// passes counts what the operators of this process did for each custom resource, from the log of controller-runtime: its
// metrics and the engine's add up all resources of a kind.
type passes struct {
	mu     sync.Mutex
	counts map[resource]passCount
}

// resource is one custom resource, by the name of its controller.
type resource struct{ controller, namespace, name string }

// seldom is from which length on a timer is no polling: the renewal of a certificate has one of months.
const seldom = 24 * time.Hour

// passCount is how many passes have ended, and how many of them with a timer for another one within seldom.
type passCount struct {
	ended, timers int
	// due is when the next pass begins by the timer of the last one, the zero time where that set none. It is at once where it left the time to
	// the rate limiter.
	due time.Time
}

var counted = passes{counts: map[resource]passCount{}}

func (p *passes) of(r resource) passCount {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[r]
}

// Passes is how often the operators of this process reconciled one custom resource, by the name of its controller.
func Passes(controller, namespace, name string) int {
	return counted.of(resource{controller, namespace, name}).ended
}

// PassDue says whether the operators of this process reconcile a custom resource once more by a certain time, although nothing changes: the last
// pass set a timer, and the pass at its end is not over yet. controller-runtime drops a timer when a pass begins.
func PassDue(controller, namespace, name string, by time.Time) bool {
	due := counted.of(resource{controller, namespace, name}).due
	return !due.IsZero() && !due.After(by)
}

// hear takes in a line of the log (sigs.k8s.io/controller-runtime v0.25.2, pkg/internal/controller/controller.go,
// reconcileHandler). A text that changes there fails NoTimer, which waits for a pass that has ended.
func (p *passes) hear(r resource, message string) {
	after, timer := strings.CutPrefix(message, "Reconcile done, requeueing")
	if !timer && message != "Reconcile successful" && message != "Reconciler error" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	count := p.counts[r]
	count.ended++
	// Without a time, and after an error, it is by the rate limiter.
	wait, err := time.ParseDuration(strings.TrimPrefix(after, " after "))
	if timer && (err != nil || wait < seldom) {
		count.timers++
	}
	if count.due = time.Now().Add(wait); message == "Reconcile successful" {
		count.due = time.Time{}
	}
	p.counts[r] = count
}

// countingPasses is a logger that counts passes, and hands on to another one what that one wants to hear.
func countingPasses(log logr.Logger) logr.Logger {
	next := log.GetSink()
	if deep, ok := next.(logr.CallDepthLogSink); ok {
		next = deep.WithCallDepth(1)
	}
	return logr.New(passSink{next: next})
}

// passSink counts passes; next is nil where nobody listens.
type passSink struct {
	next logr.LogSink
	resource
}

// Init implements logr.LogSink; the next sink has been initialized by its own logger.
func (s passSink) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink.
func (s passSink) Enabled(level int) bool { return level == passLevel || s.wants(level) }

func (s passSink) wants(level int) bool { return s.next != nil && s.next.Enabled(level) }

// Info implements logr.LogSink.
func (s passSink) Info(level int, message string, values ...any) {
	counted.hear(s.resource, message)
	if s.wants(level) {
		s.next.Info(level, message, values...)
	}
}

// Error implements logr.LogSink.
func (s passSink) Error(err error, message string, values ...any) {
	counted.hear(s.resource, message)
	if s.next != nil {
		s.next.Error(err, message, values...)
	}
}

// WithValues implements logr.LogSink.
func (s passSink) WithValues(values ...any) logr.LogSink {
	for i := 0; i+1 < len(values); i += 2 {
		text, _ := values[i+1].(string)
		switch values[i] {
		case "controller":
			s.controller = text
		case "namespace":
			s.namespace = text
		case "name":
			s.name = text
		}
	}
	if s.next != nil {
		s.next = s.next.WithValues(values...)
	}
	return s
}

// WithName implements logr.LogSink.
func (s passSink) WithName(name string) logr.LogSink {
	if s.next != nil {
		s.next = s.next.WithName(name)
	}
	return s
}
