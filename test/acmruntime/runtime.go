package acmruntime

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/acm/config"
)

// The type of elements that the runtime orders.
const (
	Type        = config.DefaultType
	TypeVersion = config.DefaultTypeVersion
)

// Composition is a definition of automation compositions with one element definition.
type Composition struct {
	ID         string
	Definition acm.Identifier
	Properties map[string]any
	State      string

	revision string
}

// Instance is an automation composition.
type Instance struct {
	ID          string
	Composition *Composition
	Elements    []*Element
	// Result is the stateChangeResult: NO_ERROR, FAILED or TIMEOUT.
	Result string

	revision string
}

// Element is an element of an instance, as its participant acknowledged it last.
type Element struct {
	ID         string
	Properties map[string]any

	DeployState, LockState string
	// Message is that of the last acknowledgement, Acks is how many there were.
	Message string
	Acks    int
	// Reported is what the participant last reported of the element.
	Reported acm.Condition
}

// Runtime is one ACM runtime.
type Runtime struct {
	Release     Release
	Participant string

	transport acm.Transport
	mu        sync.Mutex
	changed   *sync.Cond

	compositions map[string]*Composition
	instances    map[string]*Instance
	elements     map[string]*Element
	seen         map[acm.MessageType]int
	last         atomic.Pointer[acm.Outgoing]
}

// New makes a runtime that talks over a transport to one participant.
func New(release Release, participant string, transport acm.Transport) *Runtime {
	r := &Runtime{
		Release: release, Participant: participant, transport: transport,
		compositions: map[string]*Composition{}, instances: map[string]*Instance{}, elements: map[string]*Element{},
		seen: map[acm.MessageType]int{},
	}
	r.changed = sync.NewCond(&r.mu)
	return r
}

// Run answers the participant until the context is done.
func (r *Runtime) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		batch, err := r.transport.Receive(ctx)
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		for _, record := range batch.Records {
			if err := r.take(ctx, record); err != nil {
				return err
			}
		}
		if err := batch.Done(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return ctx.Err()
}

// told is what participants send.
type told struct {
	MessageType   acm.MessageType `json:"messageType"`
	MessageID     string          `json:"messageId"`
	ParticipantID string          `json:"participantId"`
	ReplicaID     string          `json:"replicaId"`
	CompositionID string          `json:"compositionId"`
	InstanceID    string          `json:"automationCompositionId"`
	State         string          `json:"compositionState"`
	Result        string          `json:"stateChangeResult"`
	Message       string          `json:"message"`
	Results       map[string]struct {
		DeployState string `json:"deployState"`
		LockState   string `json:"lockState"`
		acm.Condition
	} `json:"automationCompositionResultMap"`
	Updated bool               `json:"outPropertiesUpdated"`
	Infos   []acm.InstanceInfo `json:"automationCompositionInfoList"`
}

// take handles one record.
func (r *Runtime) take(ctx context.Context, record []byte) error {
	var m told
	if err := json.Unmarshal(record, &m); err != nil || m.ParticipantID != r.Participant {
		return nil // Our own, or of another.
	}
	r.mu.Lock()
	defer r.changed.Broadcast()
	defer r.mu.Unlock()
	r.seen[m.MessageType]++
	switch m.MessageType {
	case acm.TypeRegister:
		return r.send(ctx, object{
			"messageType": acm.TypeRegisterAck, "responseTo": m.MessageID, "message": "Participant Register Ack", "result": true,
			"participantId": m.ParticipantID,
		})
	case acm.TypeReqSync:
		var all []*Instance
		c := r.compositions[m.CompositionID]
		if i := r.instances[m.InstanceID]; i != nil {
			c = i.Composition
		}
		for _, i := range r.instances {
			if i.Composition == c {
				all = append(all, i)
			}
		}
		if c != nil {
			return r.send(ctx, r.syncMessage(c, all))
		}
	case acm.TypePrimeAck:
		if c := r.compositions[m.CompositionID]; c != nil {
			c.State = m.State + " " + m.Result
		}
	case acm.TypeStateChangeAck, acm.TypeDeployAck:
		r.acknowledge(m)
	case acm.TypeStatus:
		for _, info := range m.Infos {
			for _, one := range info.Elements {
				if e := r.elements[one.ElementID]; e != nil {
					e.Reported = one.Condition
				}
			}
		}
	}
	return nil
}

// acknowledge takes in how an order ended on elements. One FAILED fails the instance, and nothing but the next order takes that back:
// an acknowledgement of success changes the element's states alone (policy/clamp 9.1.0, runtime-acm, supervision/scanner:
// SimpleScanner.handleAcStateChange, and MonitoringScanner.scanAutomationComposition, line 120, which goes no further for FAILED;
// London's SupervisionScanner, line 131, is the same). A TIMEOUT becomes NO_ERROR once every element is at rest
// (AbstractScanner.complete). States on the way are refused (SupervisionAcHandler.validateMessage).
func (r *Runtime) acknowledge(m told) {
	for id, result := range m.Results {
		e := r.elements[id]
		if e == nil || underway(result.DeployState, result.LockState) {
			continue
		}
		e.DeployState, e.LockState, e.Message = result.DeployState, result.LockState, m.Message
		e.Acks++
		if m.Updated {
			e.Reported = result.Condition
		}
	}
	i := r.instances[m.InstanceID]
	switch {
	case i == nil:
	case m.Result == failed:
		i.Result = failed
	case i.Result == timedOut && !i.underway():
		i.Result = noError
	}
}

// The values of stateChangeResult.
const (
	noError  = "NO_ERROR"
	failed   = "FAILED"
	timedOut = "TIMEOUT"
)

// underway says that states are on the way to others.
func underway(deployState, lockState string) bool {
	return strings.HasSuffix(deployState, "ING") || strings.HasSuffix(lockState, "ING")
}

// underway says that an element of the instance has not been acknowledged.
func (i *Instance) underway() bool {
	return slices.ContainsFunc(i.Elements, func(e *Element) bool { return underway(e.DeployState, e.LockState) })
}

// TimeOut is what the runtime does with an instance whose time is up (AbstractScanner.handleTimeout): what has not failed is
// timed out, and since Oslo the participant is told so.
func (r *Runtime) TimeOut(ctx context.Context, i *Instance) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !i.underway() || i.Result == failed {
		return nil
	}
	i.Result = timedOut
	if r.Release != Master {
		return nil
	}
	return r.send(ctx, r.syncMessage(i.Composition, []*Instance{i}))
}

// order sends an order on an instance, whose elements are on the way from now on. What was told of the order before is void
// (SupervisionAcHandler sets NO_ERROR with each order).
func (r *Runtime) order(ctx context.Context, i *Instance, message object, deployState, lockState string) error {
	r.mu.Lock()
	i.Result = noError
	for _, e := range i.Elements {
		if deployState != "" {
			e.DeployState = deployState
		}
		if lockState != "" {
			e.LockState = lockState
		}
	}
	r.mu.Unlock()
	return r.send(ctx, message)
}

func (r *Runtime) send(ctx context.Context, message object) error {
	record := encode(message)
	r.last.Store(&record)
	return r.transport.Publish(ctx, record)
}

// Again sends the last message once more, as brokers do.
func (r *Runtime) Again(ctx context.Context) error { return r.transport.Publish(ctx, *r.last.Load()) }

// SendRaw sends any bytes.
func (r *Runtime) SendRaw(ctx context.Context, record []byte) error {
	return r.transport.Publish(ctx, acm.Outgoing{Key: "raw", Body: record})
}

// DeployMessage is the order to deploy an instance, for a test to change.
func (r *Runtime) DeployMessage(i *Instance) map[string]any {
	return r.orderMessage(acm.TypeDeploy, "DEPLOY", i)
}

// Seen is how many messages of a type the participant has sent.
func (r *Runtime) Seen(kind acm.MessageType) int { return r.seen[kind] }

// Revise gives a composition another revision, of which the participant does not know.
func (r *Runtime) Revise(c *Composition, revision string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.revision = revision
}

// Sync tells the participant all that it should know of a composition.
func (r *Runtime) Sync(ctx context.Context, c *Composition) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*Instance
	for _, i := range r.instances {
		if i.Composition == c {
			all = append(all, i)
		}
	}
	message := r.syncMessage(c, all)
	message["revisionIdComposition"] = c.revision
	return r.send(ctx, message)
}

// Send sends any message, for what a test makes itself.
func (r *Runtime) Send(ctx context.Context, message map[string]any) error {
	return r.send(ctx, message)
}

// Commission makes a composition known to the runtime.
func (r *Runtime) Commission(properties map[string]any) *Composition {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &Composition{
		ID: uuid.NewString(), revision: uuid.NewString(), Properties: properties, State: "COMMISSIONED NO_ERROR",
		Definition: acm.Identifier{Name: "onap.policy.clamp.ac.element.KserveAutomationCompositionElement", Version: "1.2.3"},
	}
	r.compositions[c.ID] = c
	return c
}

// Prime orders the participant to prime a composition, Deprime the opposite.
func (r *Runtime) Prime(ctx context.Context, c *Composition) error {
	return r.send(ctx, r.primeMessage(c, true))
}

// Deprime orders the participant to forget a composition.
func (r *Runtime) Deprime(ctx context.Context, c *Composition) error {
	return r.send(ctx, r.primeMessage(c, false))
}

// Instantiate makes an automation composition with one element for each set of properties.
func (r *Runtime) Instantiate(c *Composition, properties ...map[string]any) *Instance {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := &Instance{ID: uuid.NewString(), revision: uuid.NewString(), Composition: c, Result: noError}
	for _, p := range properties {
		e := &Element{ID: uuid.NewString(), Properties: p, DeployState: "UNDEPLOYED", LockState: "NONE"}
		i.Elements = append(i.Elements, e)
		r.elements[e.ID] = e
	}
	r.instances[i.ID] = i
	return i
}

// Deploy orders what an instance is made of. It does not wait, nor do the orders that follow.
func (r *Runtime) Deploy(ctx context.Context, i *Instance) error {
	return r.order(ctx, i, r.orderMessage(acm.TypeDeploy, "DEPLOY", i), "DEPLOYING", "")
}

// Undeploy orders the removal of what an instance runs.
func (r *Runtime) Undeploy(ctx context.Context, i *Instance) error {
	return r.order(ctx, i, r.changeMessage("UNDEPLOY", "NONE", i), "UNDEPLOYING", "")
}

// Delete orders an instance to be forgotten.
func (r *Runtime) Delete(ctx context.Context, i *Instance) error {
	return r.order(ctx, i, r.changeMessage("DELETE", "NONE", i), "DELETING", "")
}

// Lock orders an instance to be locked, or unlocked.
func (r *Runtime) Lock(ctx context.Context, i *Instance, lock bool) error {
	word := map[bool]string{true: "LOCK", false: "UNLOCK"}[lock]
	return r.order(ctx, i, r.changeMessage("NONE", word, i), "", word+"ING")
}

// Update gives the elements of an instance, which have other properties by now.
func (r *Runtime) Update(ctx context.Context, i *Instance) error {
	return r.order(ctx, i, r.orderMessage(acm.TypePropertiesUpdate, "UPDATE", i), "UPDATING", "")
}

// Element returns a copy of an element as it was acknowledged last.
func (r *Runtime) Element(id string) Element {
	r.mu.Lock()
	defer r.mu.Unlock()
	return *r.elements[id]
}

// Await waits until a condition holds, which is looked at after each message.
func (r *Runtime) Await(ctx context.Context, what string, holds func() bool) error {
	stop := context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.changed.Broadcast()
	})
	defer stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for !holds() {
		if ctx.Err() != nil {
			return fmt.Errorf("waiting until %s: %w", what, ctx.Err())
		}
		r.changed.Wait()
	}
	return nil
}

// AwaitRegistered waits for the participant's first registration.
func (r *Runtime) AwaitRegistered(ctx context.Context) error {
	return r.Await(ctx, "the participant has registered", func() bool { return r.seen[acm.TypeRegister]+r.seen[acm.TypeStatus] > 0 })
}

// AwaitComposition waits until a composition is in a state, such as "PRIMED NO_ERROR".
func (r *Runtime) AwaitComposition(ctx context.Context, c *Composition, state string) error {
	return r.Await(ctx, "the composition is "+state, func() bool { return c.State == state })
}

// AwaitInstance waits until all elements of an instance are in a deploy state, and the instance has a result.
func (r *Runtime) AwaitInstance(ctx context.Context, i *Instance, state, result string) error {
	return r.Await(ctx, "the instance is "+state+" "+result, func() bool {
		return i.Result == result && !slices.ContainsFunc(i.Elements, func(e *Element) bool { return e.DeployState != state })
	})
}
