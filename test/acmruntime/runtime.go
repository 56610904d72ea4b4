package acmruntime

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// The type of elements that the runtime orders, the topics, and the description and identifier of the first definition of a composition, as in ONAP's
// documentation of the Kserve participant and in runtime-acm's application.yaml.
const (
	Type        = "org.onap.policy.clamp.acm.KserveAutomationCompositionElement"
	TypeVersion = "1.0.1"
	// Topic is that of orders and of all that participants say.
	Topic = "policy-acruntime-participant"
	// SyncTopic is that on which runtimes since Oslo acknowledge registrations and synchronize.
	SyncTopic = "acm-ppnt-sync"
	// Description is that of each element definition.
	Description = "Automation composition element for the Kserve Requests"

	definitionName    = "onap.policy.clamp.ac.element.KserveAutomationCompositionElement"
	definitionVersion = "1.2.3"
)

// The times of runtime-acm's application.yaml, and AcmUtils.DELAY_MESSAGE. The last one is shortened: what it decides is that the
// runtime acts some time after it has been told, and on all that it was told by then.
const (
	heartBeat        = 120 * time.Second
	maxStatusWait    = 150 * time.Second
	maxOperationWait = 36 * time.Second
	// londonWait is London's maxStatusWaitMs, for operations too.
	londonWait   = 200 * time.Second
	delayMessage = 50 * time.Millisecond
)

// Bus is the runtime's side of a broker.
type Bus interface {
	// Send publishes a record; a key of nil is none.
	Send(ctx context.Context, topic string, key, value []byte) error
	// Receive blocks until there are records of the topic of operations.
	Receive(ctx context.Context) ([]Record, error)
	Close()
}

// Record is what a participant, or the runtime itself, has published. A bus that keeps no keys leaves Key nil.
type Record struct{ Key, Value []byte }

// Composition is an AutomationCompositionDefinition.
type Composition struct {
	ID          string
	Definitions []*Definition
	// State and Result are the state and the stateChangeResult.
	State, Result string

	revision string
	lastMsg  time.Time
	told     []primeAckMessage
}

// Definition is an element definition. State is what its participant acknowledged.
type Definition struct {
	Name, Version, Description string
	Properties                 map[string]any
	State, Message             string
}

// Instance is an AutomationComposition.
type Instance struct {
	ID          string
	Composition *Composition
	Elements    []*Element
	// The states of the instance, which follow those of its elements when the runtime scans. Result is the stateChangeResult.
	DeployState, LockState, SubState, Result string

	revision string
	target   *Composition
	precheck bool
	// phase is the start phase or stage that is ordered.
	phase   int
	lastMsg time.Time
	// before are the elements before an update or a migration, which a rollback restores.
	before []*Element
	// last are the elements before the order that is carried out, a rollback included.
	last []*Element
	told []func(*changes)
	gone bool
}

// Element is an element of an instance.
type Element struct {
	ID         string
	Definition *Definition
	Properties map[string]any

	DeployState, LockState, SubState, MigrationState string
	// Message is that of the last acknowledgement, Messages are those of all, and Acks is how many there were.
	Message  string
	Messages []string
	Acks     int
	// Reported is what the participant last reported of the element.
	Reported Condition

	stage *int
}

// Runtime is one ACM runtime with one participant.
type Runtime struct {
	Release     Release
	Participant string

	bus     Bus
	mu      sync.Mutex
	changed *sync.Cond
	// outbox is what is to be published, in its order. Who publishes holds publishing and not mu, since a broker may take a minute.
	outbox     []outgoing
	publishing sync.Mutex
	// wake has a scan follow.
	wake chan struct{}
	// ahead is how far the runtime's clock is ahead of the machine's.
	ahead time.Duration

	compositions []*Composition
	instances    []*Instance
	// replicas are those that are ON_LINE, with the time of their last message; known says that the participant ever was.
	replicas map[id]time.Time
	known    bool
	types    []elementType

	seen       map[string]int
	registered int
	awaited    int
	faults     []string
	// sent are the digests of what the runtime has sent, since it reads the topic too; orders the ids of its messages.
	sent   map[[sha256.Size]byte]bool
	orders map[id]bool
	last   sending
	// withholds says that messages on the second topic wait in withheld.
	withholds bool
	withheld  []object
}

type sending struct {
	topic   string
	message object
}

// outgoing is a record that is to be published, and how.
type outgoing func() error

// New makes a runtime that talks over a bus to one participant.
func New(release Release, participant string, bus Bus) *Runtime {
	r := &Runtime{
		Release: release, Participant: participant, bus: bus, wake: make(chan struct{}, 1), replicas: map[id]time.Time{},
		seen: map[string]int{}, sent: map[[sha256.Size]byte]bool{}, orders: map[id]bool{},
	}
	r.changed = sync.NewCond(&r.mu)
	return r
}

// now is the time by the runtime's clock.
func (r *Runtime) now() time.Time { return time.Now().Add(r.ahead) }

// Run answers the participant until the context is done.
func (r *Runtime) Run(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.supervise(ctx)
	}()
	defer func() { <-done }()
	for ctx.Err() == nil {
		records, err := r.bus.Receive(ctx)
		if err != nil {
			pause(ctx, delayMessage)
			continue
		}
		for _, record := range records {
			r.Hear(ctx, record)
		}
	}
	return ctx.Err()
}

// supervise scans after what participants say, and every heartBeat (SupervisionAspect).
func (r *Runtime) supervise(ctx context.Context) {
	beat := time.NewTicker(heartBeat)
	defer beat.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			r.Pass(ctx, 0)
		case <-r.wake:
			pause(ctx, delayMessage)
			r.rescan(ctx)
		}
	}
}

// Pass lets time pass by the runtime's clock, and has it scan as it does every heartBeat: what is late times out, and a replica that
// has been silent for maxStatusWait is OFF_LINE.
func (r *Runtime) Pass(ctx context.Context, d time.Duration) {
	r.locked(func() {
		r.ahead += d
		r.scan(ctx)
		r.scanParticipants()
	})
}

// rescan scans without time passing.
func (r *Runtime) rescan(ctx context.Context) { r.locked(func() { r.scan(ctx) }) }

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// locked does something with the state, and then publishes what is to be published.
func (r *Runtime) locked(do func()) {
	r.holding(func() {
		do()
		r.changed.Broadcast()
	})
	r.flush()
}

func (r *Runtime) holding(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
}

// flush publishes the outbox, or waits until somebody else has done so.
func (r *Runtime) flush() {
	r.publishing.Lock()
	defer r.publishing.Unlock()
	for {
		var next outgoing
		r.holding(func() {
			if len(r.outbox) > 0 {
				next, r.outbox = r.outbox[0], r.outbox[1:]
			}
		})
		if next == nil {
			return
		}
		if err := next(); err != nil {
			r.holding(func() {
				r.fault("(the runtime itself cannot publish: %v)", err)
				r.changed.Broadcast()
			})
		}
	}
}

// fault keeps what a participant did wrong.
func (r *Runtime) fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

// Faults are what the participant has said that its side of the protocol does not allow: messages that do not parse, that have fields
// of no release or lack some of any, states on the way in acknowledgements, answers to no order. A test fails if there are any.
func (r *Runtime) Faults() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.faulty()
}

func (r *Runtime) faulty() error {
	if len(r.faults) == 0 {
		return nil
	}
	return errors.New("the participant breaks the protocol: " + strings.Join(r.faults, "; "))
}

// send has a message published. The original logs what the broker does not take and goes on (AbstractParticipantPublisher): its order
// times out then. A test fails, since the participant is not at fault and waits in vain.
func (r *Runtime) send(ctx context.Context, topic string, message object) {
	r.last = sending{topic, message}
	if to, ok := message["messageId"].(string); ok {
		r.orders[id(to)] = true
	}
	var key []byte
	if text, ok := message["partitionKey"].(string); ok {
		key = []byte(text)
	}
	r.publish(ctx, topic, key, encode(message))
}

func (r *Runtime) publish(ctx context.Context, topic string, key, value []byte) {
	r.sent[sha256.Sum256(value)] = true
	r.outbox = append(r.outbox, func() error {
		// The test is over if the context is done: what is left to say interests nobody.
		if err := r.bus.Send(ctx, topic, key, value); err != nil && ctx.Err() == nil {
			return err
		}
		return nil
	})
}

// sendSync publishes on the topic of synchronizations; London has none and synchronizes nobody.
func (r *Runtime) sendSync(ctx context.Context, message object) {
	topic := SyncTopic
	switch {
	case r.Release == London:
		topic = Topic
	case r.withholds:
		r.withheld = append(r.withheld, message)
		return
	}
	r.send(ctx, topic, message)
}

// Withhold keeps what is sent on the second topic until it is called with false: topics are not in step with each other.
func (r *Runtime) Withhold(ctx context.Context, yes bool) {
	r.locked(func() {
		r.withholds = yes
		late := r.withheld
		r.withheld = nil
		for _, message := range late {
			r.sendSync(ctx, message)
		}
	})
}

// SyncAll tells the participant all that it should know, as an administrator asks for (REST /participants/sync).
func (r *Runtime) SyncAll(ctx context.Context) {
	r.locked(func() { r.restart(ctx, "") })
}

// DeployMessage is the order to deploy an instance, for a test to change and to send.
func (r *Runtime) DeployMessage(i *Instance) map[string]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.deployMessage(i, true)
}

// Send sends any message on the topic of operations, for what a test makes itself. Its messageId counts as an order's.
func (r *Runtime) Send(ctx context.Context, message map[string]any) error {
	r.locked(func() { r.send(ctx, Topic, message) })
	return ctx.Err()
}

// SendRaw sends any bytes.
func (r *Runtime) SendRaw(ctx context.Context, value []byte) error {
	r.locked(func() { r.publish(ctx, Topic, []byte("raw"), value) })
	return ctx.Err()
}

// Again sends the last message once more, as brokers do.
func (r *Runtime) Again(ctx context.Context) error {
	r.locked(func() { r.send(ctx, r.last.topic, r.last.message) })
	return ctx.Err()
}

// Seen is how many messages of a type the participant has sent. It is for Await.
func (r *Runtime) Seen(kind string) int { return r.seen[kind] }

// Online says that a replica of the participant is ON_LINE. It is for Await.
func (r *Runtime) Online() bool { return len(r.replicas) > 0 }

// Element returns a copy of an element as it was acknowledged last.
func (r *Runtime) Element(elementID string) Element {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range r.instances {
		for _, e := range i.Elements {
			if e.ID == elementID {
				return *e
			}
		}
	}
	return Element{}
}

// Await waits until a condition holds, which is looked at after each message and scan. A fault of the participant ends it.
func (r *Runtime) Await(ctx context.Context, what string, holds func() bool) error {
	stop := context.AfterFunc(ctx, func() { r.holding(r.changed.Broadcast) })
	defer stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for !holds() {
		if err := r.faulty(); err != nil {
			return fmt.Errorf("waiting until %s: %w", what, err)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("waiting until %s: %w", what, ctx.Err())
		}
		r.changed.Wait()
	}
	return r.faulty()
}

// AwaitRegistered waits for a REGISTER of the participant that was not waited for before: no other message makes up for it.
func (r *Runtime) AwaitRegistered(ctx context.Context) error {
	return r.Await(ctx, "the participant has registered", func() bool {
		if r.registered == r.awaited {
			return false
		}
		r.awaited = r.registered
		return true
	})
}

// AwaitComposition waits until a composition is in a state, such as "PRIMED NO_ERROR".
func (r *Runtime) AwaitComposition(ctx context.Context, c *Composition, state string) error {
	return r.Await(ctx, "the composition is "+state, func() bool { return c.State+" "+c.Result == state })
}

// AwaitInstance waits until all elements of an instance are in a deploy state, and the instance has a result. Unless that is FAILED,
// which ends nothing, the instance is in that state too.
func (r *Runtime) AwaitInstance(ctx context.Context, i *Instance, state, result string) error {
	err := r.Await(ctx, "the instance is "+state+" "+result, func() bool {
		if i.gone {
			return state == deleted // There are no elements any more, whatever was acknowledged last.
		}
		return i.Result == result && (result == failed || i.DeployState == state && i.SubState == none && !transitional("", i.LockState, none)) &&
			!slices.ContainsFunc(i.Elements, func(e *Element) bool { return e.DeployState != state })
	})
	if err == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	text := fmt.Sprintf("; it is %s, %s, %s %s", i.DeployState, i.LockState, i.SubState, i.Result)
	for _, e := range i.Elements {
		text += fmt.Sprintf("; element %s is %s, %s: %s %v", e.ID, e.DeployState, e.LockState, e.Message, e.Reported.OutProperties)
	}
	return fmt.Errorf("%w%s", err, text)
}
