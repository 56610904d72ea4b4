package acmruntime

import (
	"context"
	"slices"
	"testing"
	"time"
)

// slowBus is a bus whose broker takes nothing until it is told to.
type slowBus struct {
	tape
	calls chan struct{}
	takes chan struct{}
}

// Send implements Bus.
func (b *slowBus) Send(ctx context.Context, topic string, key, value []byte) error {
	b.calls <- struct{}{}
	<-b.takes
	return b.tape.Send(ctx, topic, key, value)
}

// TestABrokerThatTakesItsTime: a broker without the topic makes a producer wait for a minute. What the runtime knows can be asked for
// meanwhile, and what is to be said keeps its order.
func TestABrokerThatTakesItsTime(t *testing.T) {
	bus := &slowBus{calls: make(chan struct{}), takes: make(chan struct{})}
	r, ctx := New(V910, recordedParticipant, bus), t.Context()
	r.present(ctx, recordedReplica, []elementType{{TypeName: Type, TypeVersion: TypeVersion}}, true)
	one, other := r.Commission(object{}), r.Commission(object{})
	done := make(chan error)
	order := func(c *Composition) { go func() { done <- r.Prime(ctx, c) }() }
	order(one)
	<-bus.calls
	asked := make(chan error)
	go func() { asked <- r.Faults() }()
	select {
	case err := <-asked:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the state is locked while the broker takes a message")
	}
	order(other)
	if err := r.Await(ctx, "the second order is given", func() bool { return other.State == priming }); err != nil {
		t.Fatal(err)
	}
	bus.takes <- struct{}{}
	<-bus.calls
	bus.takes <- struct{}{}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	var said []string
	for _, l := range bus.sent {
		said = append(said, l.text("compositionId"))
	}
	if !slices.Equal(said, []string{one.ID, other.ID}) {
		t.Errorf("said is %v, not %v", said, []string{one.ID, other.ID})
	}
}

// TestOrdersReadTheStateUnderItsLock is for the race detector: participants answer while orders are given.
func TestOrdersReadTheStateUnderItsLock(t *testing.T) {
	s, ctx := newSite(t, V910), t.Context()
	to := s.Commission(object{})
	i, err := s.Instantiate(s.primed(object{}), object{})
	s.must(err)
	s.must(s.Prime(ctx, to))
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.locked(func() { to.State, i.DeployState = primed, deployed })
	}()
	if s.Migrate(ctx, i, to, object{}) == nil && s.Rollback(ctx, i) == nil {
		t.Error("an instance that is not deployed is migrated and rolled back")
	}
	<-done
}
