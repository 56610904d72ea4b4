package kserve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"k8s.io/client-go/rest"

	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/engine/digestkey"
	"mlkeeper.dev/internal/requests"
	"mlkeeper.dev/test/acmruntime"
)

// errCrash is what the participant hears of a step at which it crashes, and of all that follow.
var errCrash = errors.New("the operator crashes here")

// step is something of a participant's life before or after which it may crash: a write to the cluster, a message to the broker,
// or the commit of a record.
type step struct {
	what string
	// nth counts the steps of one name, from 1.
	nth int
}

func (s step) String() string { return fmt.Sprintf("%s (%d)", s.what, s.nth) }

// crash lets an operator crash at one step: before it, or after it with a lost response.
type crash struct {
	at    step
	after bool
	// hit is closed at the crash; from then on nothing arrives.
	hit chan struct{}

	mu    sync.Mutex
	dead  bool
	taken map[string]int
	steps []step
}

func newCrash(at step, after bool) *crash {
	return &crash{at: at, after: after, hit: make(chan struct{}), taken: map[string]int{}}
}

// do carries out what is a step under each of some names.
func (c *crash) do(carryOut func() error, what ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return errCrash
	}
	for _, name := range what {
		c.taken[name]++
		now := step{name, c.taken[name]}
		c.steps = append(c.steps, now)
		c.dead = c.dead || now == c.at
	}
	if !c.dead {
		return carryOut()
	}
	if c.after {
		_ = carryOut()
	}
	close(c.hit)
	return errCrash
}

// wrap has the writes to the cluster crash.
func (c *crash) wrap(cfg *rest.Config) {
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return requests.RoundTripper(func(r *http.Request) (answer *http.Response, err error) {
			request := requests.Of(r)
			if !request.Write() || slices.Contains([]string{"leases", "events"}, request.Resource) || makesKey(r) {
				return next.RoundTrip(r)
			}
			lost := c.do(func() error {
				answer, err = next.RoundTrip(r) //nolint:bodyclose // It is closed below, or by who asked.
				return err
			}, "write "+request.String())
			if lost != nil && answer != nil {
				answer.Body.Close()
				answer = nil
			}
			return answer, lost
		})
	})
}

// makesKey says that a request creates the key of the digests, which the first life does for all.
func makesKey(r *http.Request) bool {
	if r.Method != http.MethodPost || r.GetBody == nil {
		return false
	}
	body, err := r.GetBody()
	if err != nil {
		return false
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	return err == nil && bytes.Contains(text, []byte(digestkey.Name))
}

// mortal has the messages to the broker crash.
type mortal struct {
	acm.Transport
	crash *crash
}

func (m mortal) Publish(ctx context.Context, messages ...acm.Outgoing) error {
	for _, message := range messages {
		err := m.crash.do(func() error { return m.Transport.Publish(ctx, message) }, "publish "+string(message.Type))
		if err != nil {
			return err
		}
	}
	return nil
}

// fromRuntime are the messages whose commit is a step. The participant commits its own too, since they are on the same topic.
var fromRuntime = []acm.MessageType{acm.TypeRegisterAck, acm.TypePrime, acm.TypeDeploy, acm.TypePropertiesUpdate, acm.TypeStateChange}

func (m mortal) Receive(ctx context.Context) (acm.Batch, error) {
	batch, err := m.Transport.Receive(ctx)
	if err != nil {
		return batch, err
	}
	done, what := batch.Done, []string{}
	for _, record := range batch.Records {
		var message struct {
			MessageType acm.MessageType `json:"messageType"`
		}
		if json.Unmarshal(record, &message) == nil && slices.Contains(fromRuntime, message.MessageType) {
			what = append(what, "commit "+string(message.MessageType))
		}
	}
	batch.Done = func(ctx context.Context) error {
		return m.crash.do(func() error { return done(ctx) }, what...)
	}
	return batch, nil
}

// everyCrash has the operator crash before and after each step; otherwise it crashes before one and after the next, in turn.
var everyCrash = flag.Bool("crash.all", false, "crash before and after each step; otherwise one of the two, in turn")

// sides says where the operator crashes at a step: before it, after it, or both, each in a life of its own.
func sides(step int) []bool {
	if *everyCrash {
		return []bool{false, true}
	}
	return []bool{step%2 == 1}
}

// TestCrashAtEveryStep: an operator that crashes before or after any single write or message of a whole life loses no order, and
// runs none twice.
func TestCrashAtEveryStep(t *testing.T) {
	var steps []step
	t.Run("no crash", func(t *testing.T) { steps = live(t, newCrash(step{}, false)) })
	if len(steps) < 20 {
		t.Fatalf("a life has these steps only: %v", steps)
	}
	var missed []string
	out := &strings.Builder{}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "STEP\tCRASH BEFORE IT, OR AFTER IT WITH THE ANSWER LOST")
	crashes := 0
	for i, at := range steps {
		fmt.Fprint(table, at)
		for _, after := range sides(i) {
			crashes++
			healed := map[bool]string{false: "before: healed", true: "after: healed"}[after]
			t.Run(fmt.Sprintf("%s, after %t", at, after), func(t *testing.T) {
				// A step that is one of several of its name, such as a second status, is not in every life.
				for range attempts {
					began, point := time.Now(), newCrash(at, after)
					live(t, point)
					if point.dead {
						healed += fmt.Sprintf(" in %.1f s", time.Since(began).Seconds())
						return
					}
				}
				healed = "not reached"
				missed = append(missed, fmt.Sprintf("%s, after %t", at, after))
				if at.nth == 1 {
					t.Errorf("%d lives have no such step", attempts)
				}
			})
			if t.Failed() {
				return
			}
			fmt.Fprint(table, "\t", healed)
		}
		fmt.Fprintln(table)
	}
	table.Flush()
	t.Logf("%d steps\n%s", len(steps), out)
	if len(missed) > crashes/10 {
		t.Errorf("of %d crashes more than a tenth did not take place, and show nothing: %q", crashes, missed)
	}
}

// attempts is how many lives a step has to come up in.
const attempts = 3

// live goes through a life with a crash and a restart, and returns its steps.
func live(t *testing.T, point *crash) []step {
	t.Helper()
	s := onKafka(t, acmruntime.London)
	s.wrap, s.transport = point.wrap, func(next acm.Transport) acm.Transport { return mortal{next, point} }
	s.run()
	over, restarted := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(restarted)
		select {
		case <-point.hit:
		case <-over:
			return
		}
		s.operator.Stop()
		s.wrap, s.transport = nil, nil
		s.run()
	}()
	s.must(s.runtime.AwaitRegistered(within(t)))
	c := s.primed(map[string]any{})
	i := s.deployed(c, s.model("sklearn-iris", sklearn(1)))
	first := s.service("sklearn-iris")
	e := i.Elements[0]
	s.must(s.runtime.Update(within(t), i, s.model("sklearn-iris", sklearn(2))))
	// The runtime does not ask which order an acknowledgement answers. One that is repeated after a crash counts as that of the order which
	// has come since, so that the instance is at rest too early.
	s.must(s.runtime.Await(within(t), "updated", func() bool { return slices.Contains(e.Messages, "Updated") }))
	s.must(s.runtime.AwaitInstance(within(t), i, "DEPLOYED", "NO_ERROR"))
	// Each order has changed the service once.
	if now := s.service("sklearn-iris"); replicas(now) != 2 || now.GetUID() != first.GetUID() || now.GetGeneration() != 2 {
		t.Errorf("after the update there are %d replicas of generation %d: %v", replicas(now), now.GetGeneration(), now)
	}
	s.must(s.runtime.Undeploy(within(t), i))
	s.must(s.runtime.AwaitInstance(within(t), i, "UNDEPLOYED", "NO_ERROR"))
	s.must(s.runtime.Delete(within(t), i))
	s.must(s.runtime.AwaitInstance(within(t), i, "DELETED", "NO_ERROR"))
	s.c.Eventually(t, patience, func() error {
		if s.element(e.ID) != nil || s.service("sklearn-iris") != nil {
			return errors.New("something is left")
		}
		return s.payloads(1) // Of the composition.
	})
	close(over)
	<-restarted
	point.mu.Lock()
	defer point.mu.Unlock()
	return slices.Clone(point.steps)
}

// TestCrashWhileAnOrderIsReleased: a held order is forgotten only when it is an element's. The elements cannot be written here
// until the operator has crashed.
func TestCrashWhileAnOrderIsReleased(t *testing.T) {
	s := onKafka(t, acmruntime.V910)
	refused := make(chan struct{}, 100)
	s.wrap = func(cfg *rest.Config) {
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return requests.RoundTripper(func(r *http.Request) (*http.Response, error) {
				if request := requests.Of(r); request.Write() && request.Resource == "compositionelements" {
					refused <- struct{}{}
					return nil, errCrash
				}
				return next.RoundTrip(r)
			})
		})
	}
	s.start()
	// The order is of the revision that the priming has made, of which the participant does not know yet.
	s.runtime.Withhold(within(t), true)
	i := s.instance(s.primed(map[string]any{}), s.model("held", sklearn(1)))
	s.must(s.runtime.Deploy(within(t), i))
	s.must(s.runtime.Await(within(t), "it is asked for", func() bool { return s.runtime.Seen("PARTICIPANT_REQ_SYNC_MSG") > 0 }))
	s.runtime.Withhold(within(t), false)
	<-refused
	<-refused // Whatever goes with the elements has been tried too.
	s.operator.Stop()
	s.wrap = nil
	s.start()
	s.must(s.runtime.AwaitInstance(within(t), i, "DEPLOYED", "NO_ERROR"))
}
