package participant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/engine/backoff"
)

const me = "101c62b3-8918-41b9-a747-d21eb79c6c04"

var noon = time.Date(2026, 8, 21, 12, 0, 0, 0, time.UTC)

// broker is a transport whose topics are what the test sends.
type broker struct {
	batches chan acm.Batch
	mu      sync.Mutex
	// refuse says why a message is not taken; nil for never.
	refuse func(acm.Outgoing) error
	said   []acm.Outgoing
}

func (b *broker) Receive(ctx context.Context) (acm.Batch, error) {
	select {
	case <-ctx.Done():
		return acm.Batch{}, ctx.Err()
	case batch := <-b.batches:
		return batch, nil
	}
}

func (b *broker) Publish(_ context.Context, messages ...acm.Outgoing) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range messages {
		if b.refuse != nil {
			if err := b.refuse(m); err != nil {
				return err
			}
		}
		b.said = append(b.said, m)
	}
	return nil
}

func (b *broker) Healthy() error { return nil }
func (b *broker) Topics(context.Context) []acm.TopicState {
	return []acm.TopicState{{Name: "operations", Connected: true, Lag: 3}, {Name: "syncs", Lag: -1}, {Name: "refused", Refused: true, Lag: -1}}
}
func (b *broker) Close() {}

// send hands a batch over; done is closed when it is.
func (b *broker) send(messages ...any) (done chan struct{}) {
	done = make(chan struct{})
	batch := acm.Batch{Done: func(context.Context) error { close(done); return nil }}
	for _, m := range messages {
		raw, err := json.Marshal(m)
		if err != nil {
			panic(err)
		}
		batch.Records = append(batch.Records, raw)
	}
	select {
	case b.batches <- batch:
	case <-time.After(30 * time.Second): // Then it is never done, either.
	}
	return done
}

// told are the messages of a type.
func (b *broker) told(kind acm.MessageType) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, m := range b.said {
		if m.Type == kind {
			out = append(out, string(m.Body))
		}
	}
	return out
}

// server is an API server that the test lets refuse.
type server struct {
	client.Client
	mu sync.Mutex
	// refuse says why a write is not taken; nil for never.
	refuse func(verb string, o client.Object) error
	// refusedStatus is why no status is taken; nil where each is.
	refusedStatus error
	// items are what is listed, unreachable how many lists fail first.
	items       map[string][]unstructured.Unstructured
	unreachable int
	stored      map[string]client.Object
}

func (s *server) write(verb string, o client.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		if err := s.refuse(verb, o); err != nil {
			return err
		}
	}
	if verb == "delete" {
		delete(s.stored, o.GetName())
		return nil
	}
	if _, made := o.(*corev1.Secret); made && verb == "create" && s.stored[o.GetName()] != nil {
		return apierrors.NewAlreadyExists(schema.GroupResource{Resource: "secrets"}, o.GetName())
	}
	s.stored[o.GetName()] = o
	return nil
}

func (s *server) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	return s.write("create", o)
}

func (s *server) Patch(_ context.Context, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
	return s.write("patch", o)
}

func (s *server) Delete(_ context.Context, o client.Object, _ ...client.DeleteOption) error {
	return s.write("delete", o)
}

func (s *server) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unreachable > 0 {
		s.unreachable--
		return apierrors.NewServiceUnavailable("the API server starts")
	}
	if _, secrets := list.(*corev1.SecretList); secrets {
		return nil
	}
	out, ok := list.(*unstructured.UnstructuredList)
	if !ok {
		return errors.New("a typed list fails as a whole where one object does not fit")
	}
	out.Items = s.items[strings.TrimSuffix(out.GetKind(), "List")]
	return nil
}

func (s *server) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stored[name] != nil
}

// none are no CompositionElements on the watch.
type none struct{}

func (none) Get(string, string) (*keeper.CompositionElement, bool) { return nil, false }
func (none) Follow(func(_, _ *keeper.CompositionElement))          {}

// hurried is a clock on which nobody waits; it keeps how long it was asked to.
type hurried struct {
	*clocktesting.FakeClock
	mu    sync.Mutex
	waits []time.Duration
}

func (h *hurried) After(d time.Duration) <-chan time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waits = append(h.waits, d)
	h.Step(d)
	out := make(chan time.Time, 1)
	out <- h.Now()
	return out
}

func participant(b *broker, s *server) (*Participant, *hurried) {
	if b.batches == nil {
		b.batches = make(chan acm.Batch)
	}
	s.stored = map[string]client.Object{}
	clock := &hurried{FakeClock: clocktesting.NewFakeClock(noon)}
	return New(Settings{Identity: acm.Identity{ParticipantID: me, ReplicaID: "r"}, Clock: clock, Log: logr.Discard()}, b,
		Store{Client: s, Reader: s, Elements: none{}, Participant: me}), clock
}

// start runs a participant until the test ends.
func start(t *testing.T, p *Participant) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.receive(ctx) // It ends with its context.
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

func within(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s is not done", what)
	}
}

// until waits for what follows from another goroutine.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not come to this: %s", what)
		}
	}
}

func newUUID() string { return string(uuid.NewUUID()) }

// deploy is an order for a new element.
func deploy() (message map[string]any, id, element string) {
	id, element = newUUID(), newUUID()
	return map[string]any{
		"messageType": acm.TypeDeploy, "messageId": id, "timestamp": noon.Format(time.RFC3339), "automationCompositionId": newUUID(),
		"compositionId": newUUID(), "participantUpdatesList": []any{map[string]any{
			"participantId": me, "acElementList": []any{map[string]any{"id": element, "properties": map[string]any{}}},
		}},
	}, id, element
}

// answered says how an order was acknowledged; empty for not at all.
func answered(b *broker, id string) string {
	for _, text := range b.told(acm.TypeStateChangeAck) {
		var ack struct{ ResponseTo, StateChangeResult, Message string }
		if json.Unmarshal([]byte(text), &ack) == nil && ack.ResponseTo == id {
			return ack.StateChangeResult + " " + ack.Message
		}
	}
	return ""
}

// TestHeartbeatIsRepeatedSoon: the runtime gives up a replica after 150 s, so that the next heartbeat must not wait for the interval of
// 120 s.
func TestHeartbeatIsRepeatedSoon(t *testing.T) {
	refusals := []bool{false, true, true, true, true, true, false, true, false}
	b := &broker{}
	p, clock := participant(b, &server{})
	p.state.Registered = true
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	b.refuse = func(acm.Outgoing) error {
		if n == len(refusals) {
			cancel()
			return nil
		}
		n++
		if refusals[n-1] {
			return errors.New("the broker does not answer")
		}
		return nil
	}
	if err := p.announce(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	const s = time.Second
	want := []time.Duration{120 * s, 1 * s, 2 * s, 4 * s, 5 * s, 5 * s, 120 * s, 1 * s, 120 * s}
	if !slices.Equal(clock.waits[:len(want)], want) {
		t.Errorf("it has waited %v", clock.waits)
	}
}

// refusals are answers of the API server to one order, with what is to blame: the order, or nobody who gives orders.
func refusals() map[string]struct {
	err   error
	order bool
} {
	status := func(code int32, reason metav1.StatusReason, message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
	}
	elements := schema.GroupResource{Group: "keeper.mlkeeper.dev", Resource: "compositionelements"}
	return map[string]struct {
		err   error
		order bool
	}{
		"a webhook":            {status(403, metav1.StatusReasonForbidden, `admission webhook "gatekeeper.sh" denied the request: no models on Friday`), true},
		"a policy":             {status(422, metav1.StatusReasonInvalid, `compositionelements.keeper.mlkeeper.dev "x" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`), true},
		"its size":             {status(500, "", "etcdserver: request is too large"), true},
		"its content":          {status(422, metav1.StatusReasonInvalid, `CompositionElement "x" is invalid: spec.content: too long`), true},
		"a missing right":      {apierrors.NewForbidden(elements, "x", errors.New(`User "mlkeeper" cannot create resource "compositionelements"`)), false},
		"a webhook that fails": {status(500, metav1.StatusReasonInternalError, `Internal error occurred: failed calling webhook "x": no endpoints available`), false},
		"an unreachable one":   {errors.New("connection refused"), false},
		"a timeout":            {apierrors.NewTimeoutError("slow", 1), false},
	}
}

// TestOrdersThatAreRefused: an order that the API server refuses for what it is fails, and those behind it are carried out. What no order
// is to blame for is waited for: nothing fails, health tells, and synchronizations go on.
func TestOrdersThatAreRefused(t *testing.T) {
	for name, c := range refusals() {
		t.Run(name, func(t *testing.T) {
			b, s := &broker{}, &server{}
			p, _ := participant(b, s)
			p.state.Registered = true
			first, id, bad := deploy()
			next, _, good := deploy()
			healed := false
			s.refuse = func(_ string, o client.Object) error {
				if o.GetName() == bad && !healed {
					return c.err
				}
				return nil
			}
			start(t, p)
			done := b.send(first)
			if c.order {
				within(t, "the order", done)
				if got := answered(b, id); !strings.HasPrefix(got, "FAILED Deploy Failed: ") || !strings.Contains(got, c.err.Error()) {
					t.Errorf("it is answered with %q", got)
				}
				within(t, "the next order", b.send(next))
				if !s.has(good) || s.has(bad) || p.Healthy() != nil {
					t.Errorf("stored are %v, health is %v", s.stored, p.Healthy())
				}
				return
			}
			until(t, "health tells", func() bool { return p.Healthy() != nil })
			if got := p.Healthy().Error(); !strings.Contains(got, c.err.Error()) {
				t.Errorf("health is %s", got)
			}
			// The second topic goes on.
			within(t, "a message of the second topic", b.send(map[string]any{
				"messageType": acm.TypeSync, "messageId": newUUID(), "timestamp": noon.Format(time.RFC3339), "compositionId": good, "state": "PRIMED",
				"participantDefinitionUpdates": []any{map[string]any{"participantId": me, "automationCompositionElementDefinitionList": []any{
					map[string]any{"acElementDefinitionId": map[string]any{"name": "n", "version": "1"}},
				}}},
			}))
			if got := answered(b, id); got != "" || !s.has(good) {
				t.Errorf("it is answered with %q, stored are %v", got, s.stored)
			}
			s.mu.Lock()
			healed = true
			s.mu.Unlock()
			within(t, "the order", done)
			if got := answered(b, id); got != "" || !s.has(bad) || p.Healthy() != nil {
				t.Errorf("it is answered with %q, stored are %v, health is %v", got, s.stored, p.Healthy())
			}
		})
	}
}

// TestHealthTellsOfADroppedSynchronization: orders wait for a synchronization that is too large, and the runtime sends it again and again.
func TestHealthTellsOfADroppedSynchronization(t *testing.T) {
	p, _ := participant(&broker{}, &server{})
	p.state.Registered = true
	order, id, element := deploy()
	order["revisionIdComposition"] = "r1"
	sync := map[string]any{
		"messageType": acm.TypeSync, "messageId": newUUID(), "compositionId": order["compositionId"], "revisionIdComposition": "r1", "state": "PRIMED",
		"participantDefinitionUpdates": []any{map[string]any{"participantId": me, "automationCompositionElementDefinitionList": []any{
			map[string]any{"acElementDefinitionId": map[string]any{"name": "n", "version": "1"}},
		}}},
		"padding": strings.Repeat("x", acm.MaxSync),
	}
	read := func(message map[string]any) error {
		raw, err := json.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		if out := p.decide(t.Context(), [][]byte{raw}); len(out.answers) > 0 {
			t.Errorf("said is %+v", out.answers)
		}
		return p.Healthy()
	}
	if err := read(sync); err != nil {
		t.Errorf("while no order waits, health is %v", err)
	}
	if err := read(order); err != nil || len(p.state.Held) != 1 {
		t.Errorf("before a synchronization, health is %v", err)
	}
	if err := read(sync); err == nil || !strings.Contains(err.Error(), fmt.Sprint(order["compositionId"])) || !strings.Contains(err.Error(), "more than 8388608") {
		t.Errorf("while order %s waits, health is %v", id, err)
	}
	delete(sync, "padding")
	if err := read(sync); err != nil || p.state.Elements[element].Order.ID != id {
		t.Errorf("after a synchronization, health is %v, and the element %+v", err, p.state.Elements[element])
	}
}

// TestTopicsThatChangeOneElement: an order that could not be stored and a synchronization by which its instance is deleted leave the newest
// state, whichever is written last.
func TestTopicsThatChangeOneElement(t *testing.T) {
	b, s := &broker{}, &server{}
	p, _ := participant(b, s)
	order, _, element := deploy()
	down := true
	s.refuse = func(string, client.Object) error {
		if down {
			return errors.New("connection refused")
		}
		return nil
	}
	start(t, p)
	first := b.send(order)
	// Batches of different topics are evaluated beside each other: the deletion has to come after what it deletes.
	until(t, "the order is evaluated and waits", func() bool {
		p.mu.Lock()
		_, known := p.state.Elements[element]
		p.mu.Unlock()
		return known && p.Healthy() != nil
	})
	second := b.send(map[string]any{
		"messageType": acm.TypeSync, "messageId": newUUID(), "timestamp": noon.Format(time.RFC3339), "compositionId": order["compositionId"], "delete": true,
		"automationcompositionList": []any{map[string]any{"automationCompositionId": order["automationCompositionId"], "deployState": "DELETED"}},
	})
	s.mu.Lock()
	down = false
	s.mu.Unlock()
	within(t, "the order", first)
	within(t, "the synchronization", second)
	if s.has(element) {
		t.Errorf("stored is %+v", s.stored[element])
	}
}

// TestARevisionWritesNothing: the runtime tells another revision of an instance with each acknowledgement of an element, and an instance may
// have hundreds.
func TestARevisionWritesNothing(t *testing.T) {
	b, s := &broker{}, &server{}
	p, _ := participant(b, s)
	order, _, _ := deploy()
	writes := 0
	s.refuse = func(string, client.Object) error { writes++; return nil }
	start(t, p)
	within(t, "the order", b.send(order))
	before := writes
	within(t, "the synchronization", b.send(map[string]any{
		"messageType": acm.TypeSync, "messageId": newUUID(), "timestamp": noon.Format(time.RFC3339), "compositionId": order["compositionId"],
		"automationcompositionList": []any{map[string]any{
			"automationCompositionId": order["automationCompositionId"], "revisionId": "r2", "deployState": "DEPLOYING", "lockState": "NONE",
		}},
	}))
	if before == 0 || writes != before {
		t.Errorf("the order causes %d writes, the revision %d", before, writes-before)
	}
}

// TestTheRevisionGoesWithItsInstance: the runtime makes instances and deletes them for as long as the participant runs.
func TestTheRevisionGoesWithItsInstance(t *testing.T) {
	p, _ := participant(&broker{}, &server{})
	var elements []*keeper.CompositionElement
	for _, id := range []string{"a", "b"} {
		p.state.Elements[id] = acm.Element{ID: id, InstanceID: "i", Order: acm.Order{ID: "order"}}
		cr := &keeper.CompositionElement{ObjectMeta: metav1.ObjectMeta{Name: id}}
		cr.Spec = keeper.CompositionElementSpec{ParticipantID: me, AutomationCompositionID: "i", Order: &keeper.ElementOrder{ID: "order"}}
		elements = append(elements, cr)
	}
	p.state.Revisions["i"] = "r2"
	for i, want := range []int{1, 0} {
		p.Saw(elements[i], nil)
		if len(p.state.Elements) != want || len(p.state.Revisions) != want {
			t.Errorf("with %d elements left, known are %v with the revisions %v", want, p.state.Elements, p.state.Revisions)
		}
	}
}

// stored is an object as it is stored, whatever the types say.
func stored(t *testing.T, kind, name, spec string) unstructured.Unstructured {
	t.Helper()
	out := unstructured.Unstructured{}
	text := fmt.Sprintf(`{"apiVersion":"keeper.mlkeeper.dev/v1alpha1","kind":%q,"metadata":{"name":%q},"spec":%s}`, kind, name, spec)
	if err := out.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestUnreadableObjectsAreLeftOut: somebody has edited an element, with a time that the schema allows, and a held order.
func TestUnreadableObjectsAreLeftOut(t *testing.T) {
	spec := func(time string) string {
		return fmt.Sprintf(`{"participantId":%q,"automationCompositionId":"i","content":{},"order":{"type":"Deploy","id":"m","time":%q,"received":%q}}`, me, time, time)
	}
	s := &server{unreachable: 2, items: map[string][]unstructured.Unstructured{
		"CompositionElement": {
			stored(t, "CompositionElement", "good", spec("2026-08-21T12:00:00.000000Z")),
			stored(t, "CompositionElement", "edited", spec("2026-08-21T12:00:00Z")),
			stored(t, "CompositionElement", "of another", `{"participantId":"x"}`),
		},
		"CompositionDefinition": {stored(t, "CompositionDefinition", "primed", fmt.Sprintf(`{"participantId":%q,"revision":"r"}`, me))},
		"PendingOrder": {
			stored(t, "PendingOrder", "edited", fmt.Sprintf(`{"participantId":%q,"message":{"startPhase":"zero"}}`, me)),
			stored(t, "PendingOrder", "held", fmt.Sprintf(`{"participantId":%q,"message":{"messageId":"held"}}`, me)),
		},
	}}
	p, clock := participant(&broker{}, s)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := p.insist(ctx, p.load); err != nil {
		t.Fatal(err)
	}
	if len(p.state.Elements) != 1 || p.state.Elements["good"].Order.ID != "m" || len(p.state.Definitions) != 1 || len(p.state.Held) != 1 {
		t.Errorf("known are %+v", p.state)
	}
	if len(clock.waits) != 2 {
		t.Errorf("an API server that starts was waited for %v", clock.waits)
	}
}

// TestOrdersOfOneBatch: one read of a topic brings many orders, whose writes succeed while others are still started. The race detector
// judges.
func TestOrdersOfOneBatch(t *testing.T) {
	b, s := &broker{}, &server{}
	p, _ := participant(b, s)
	start(t, p)
	var orders []any
	var ids []string
	for range 4 * maxWrites {
		order, id, _ := deploy()
		order["revisionIdComposition"] = newUUID()
		orders, ids = append(orders, order), append(ids, id)
	}
	within(t, "the batch", b.send(orders...))
	for _, id := range ids {
		if !s.has(id) {
			t.Errorf("order %s is not held", id)
		}
	}
}

// TestQuestionsEnd: what a held order waits for is asked for with pauses that grow, until the order is dropped.
func TestQuestionsEnd(t *testing.T) {
	b, s := &broker{}, &server{}
	p, clock := participant(b, s)
	start(t, p)
	order, id, _ := deploy()
	order["revisionIdComposition"] = newUUID()
	again, second, _ := deploy()
	again["compositionId"], again["revisionIdComposition"] = order["compositionId"], order["revisionIdComposition"]
	within(t, "the order", b.send(order, again))
	if !s.has(id) || !s.has(second) {
		t.Fatalf("stored are %v", s.stored)
	}
	questions, asked := map[acm.Question]backoff.Retry{}, []int{}
	for wait := time.Nanosecond; wait > 0; {
		if wait = p.askDue(context.Background(), questions); wait > 0 {
			clock.Step(wait)
		}
		asked = append(asked, len(b.told(acm.TypeReqSync)))
		if len(asked) > 1000 {
			t.Fatal("it asks for ever")
		}
	}
	if asked[0] != 1 || asked[len(asked)-1] > 20 || s.has(id) || s.has(second) || len(p.state.Held) != 0 {
		t.Errorf("the questions are %v, held are %v", asked, p.state.Held)
	}
	if took := clock.Now().Sub(noon); took < acm.HeldFor || took > acm.HeldFor+askAgain.Longest*5/4 {
		t.Errorf("it took %v", took)
	}
}

// TestAPanicOverAnOrderIsAFailureThatPasses: the step is tried again, and the process goes on.
func TestAPanicOverAnOrderIsAFailureThatPasses(t *testing.T) {
	b, s := &broker{}, &server{}
	p, _ := participant(b, s)
	p.state.Registered = true
	order, _, element := deploy()
	panics := 2
	s.refuse = func(string, client.Object) error {
		if panics > 0 {
			panics--
			panic("over a write")
		}
		return nil
	}
	start(t, p)
	within(t, "the order", b.send(order))
	if panics > 0 || !s.has(element) || p.Healthy() != nil {
		t.Errorf("stored are %v, health is %v", s.stored, p.Healthy())
	}
	done := make(chan struct{})
	raw, err := json.Marshal(order)
	if err != nil {
		t.Fatal(err)
	}
	commits := 0
	b.batches <- acm.Batch{Records: [][]byte{raw}, Done: func(context.Context) error {
		if commits++; commits == 1 {
			panic("over a commit")
		}
		close(done)
		return nil
	}}
	within(t, "the order that was given twice", done)
}

// panicsIn is how many panics are counted for a part of the participant.
func panicsIn(t *testing.T, part string) float64 {
	t.Helper()
	return series(t, panics)[part]
}

// TestAPanicOverARecordSkipsThatRecord: the record would cause the same panic again, so that those behind it must not wait for it.
func TestAPanicOverARecordSkipsThatRecord(t *testing.T) {
	s := &server{}
	p, _ := participant(&broker{}, s)
	p.state.Held = nil // An assignment to it panics.
	pending, _, _ := deploy()
	pending["revisionIdComposition"] = newUUID()
	order, _, element := deploy()
	before := panicsIn(t, "record")
	batch := acm.Batch{Done: func(context.Context) error { return nil }}
	for _, m := range []any{pending, order} {
		raw, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		batch.Records = append(batch.Records, raw)
	}
	if err := p.carryOut(t.Context(), batch); err != nil { // Not in a goroutine, where a panic would end all tests.
		t.Fatal(err)
	}
	if !s.has(element) {
		t.Errorf("stored are %v", s.stored)
	}
	if counted := panicsIn(t, "record") - before; counted != 1 {
		t.Errorf("%v panics are counted", counted)
	}
}

// panicking is a transport and a watch whose calls panic at first.
type panicking struct {
	*broker
	none
	polls, reads atomic.Int32
}

func (f *panicking) Receive(ctx context.Context) (acm.Batch, error) {
	if f.polls.Add(1) == 1 {
		panic("over a poll")
	}
	return f.broker.Receive(ctx)
}

func (f *panicking) Get(string, string) (*keeper.CompositionElement, bool) {
	if f.reads.Add(1) == 1 {
		panic("over an element")
	}
	return nil, false
}

// TestAPanicEndsNoLoop: what a loop did when it panicked is done again, and the process goes on.
func TestAPanicEndsNoLoop(t *testing.T) {
	b, s := &broker{}, &server{}
	p, _ := participant(b, s)
	f := &panicking{broker: b}
	p.transport, p.store.Elements = f, f

	t.Run("receive", func(t *testing.T) {
		start(t, p)
		order, _, element := deploy()
		within(t, "the order", b.send(order))
		if f.polls.Load() < 2 || !s.has(element) {
			t.Errorf("there were %d polls, stored are %v", f.polls.Load(), s.stored)
		}
	})
	t.Run("outbox", func(t *testing.T) {
		p.outbox.queue.Add("element")
		for range 2 { // The second call waits for the retry.
			if !p.outbox.next(t.Context()) {
				t.Fatal("the outbox ends")
			}
		}
		if f.reads.Load() != 2 {
			t.Errorf("the element was read %d times", f.reads.Load())
		}
	})
	t.Run("heartbeat", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		sent := 0
		b.refuse = func(acm.Outgoing) error {
			if sent++; sent == 1 {
				panic("over a heartbeat")
			}
			cancel()
			return nil
		}
		if err := p.announce(ctx); !errors.Is(err, context.Canceled) || sent < 2 {
			t.Errorf("%d heartbeats, %v", sent, err)
		}
		b.refuse = nil
	})
	t.Run("questions", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p.state.Held = map[string]acm.Held{"held": {
			MessageID: "held", CompositionID: newUUID(), InstanceID: newUUID(), Received: p.now(),
			Record: acm.Message{MessageID: "held", RevisionComposition: newUUID()},
		}}
		asked := 0
		b.refuse = func(acm.Outgoing) error {
			if asked++; asked == 1 {
				panic("over a question")
			}
			cancel()
			return nil
		}
		if err := p.ask(ctx); !errors.Is(err, context.Canceled) || asked < 2 {
			t.Errorf("%d questions, %v", asked, err)
		}
	})
	t.Run("watch", func(*testing.T) {
		p.Saw(nil, nil) // Nothing holds such an event.
	})
}
