package acm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/acm/record"
	"mlkeeper.dev/test/acmruntime"
)

// who is the participant.
var who = acm.Identity{
	ParticipantID: "101c62b3-8918-41b9-a747-d21eb79c6c04", ReplicaID: "45b06d8a-952a-59ca-99f9-678637e3cae7",
	Supported: []acm.ElementType{{ID: "67a7d646-76c7-5511-b13a-84207233c9dd", TypeName: acmruntime.Type, TypeVersion: acmruntime.TypeVersion}},
}

// sites is a runtime, a broker and a participant, each of which moves when the test says so.
type sites struct {
	t       *rapid.T
	release acmruntime.Release
	r       *acmruntime.Runtime
	s       *acm.State
	// logs are the partitions of the topics, with what was read of each; order has their names as they came to be.
	logs map[string]*partition
	// told are the orders that were acknowledged, by element.
	told map[string]string
	// said is what the participant says and the runtime has not heard.
	said         []acm.Outgoing
	compositions []*acmruntime.Composition
	instances    []*acmruntime.Instance
	now          time.Time
	ids          int
	// asks are how many questions were asked.
	asks int
}

// partition is one of a topic. All that was read but the last record is committed.
type partition struct {
	records         [][]byte
	read, committed int
}

// Send implements acmruntime.Bus. Records of one key are in one partition; without a key they are anywhere.
func (w *sites) Send(_ context.Context, topic string, key, value []byte) error {
	name := topic
	switch {
	case topic == acmruntime.SyncTopic:
	case key == nil:
		name += fmt.Sprint(rapid.IntRange(0, 2).Draw(w.t, "partition"))
	default:
		name += string(key)
	}
	if w.logs[name] == nil {
		w.logs[name] = &partition{}
	}
	w.logs[name].records = append(w.logs[name].records, value)
	return nil
}

// Receive implements acmruntime.Bus.
func (w *sites) Receive(ctx context.Context) ([]acmruntime.Record, error) { return nil, ctx.Err() }

// Close implements acmruntime.Bus.
func (w *sites) Close() {}

func (w *sites) id() string {
	w.ids++
	return fmt.Sprintf("00000000-0000-4000-8000-%012d", w.ids)
}

func (w *sites) says(messages ...acm.Outgoing) { w.said = append(w.said, messages...) }

// unread are the partitions of which something was not read.
func (w *sites) unread() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(w.logs)) {
		if l := w.logs[name]; l.read < len(l.records) {
			out = append(out, name)
		}
	}
	return out
}

// read has the participant take in one record.
func (w *sites) read(name string) {
	l := w.logs[name]
	raw := l.records[l.read]
	l.committed = max(l.committed, l.read)
	l.read++
	m, err := acm.Decode(raw)
	if err != nil {
		w.t.Fatalf("%v: %s", err, raw)
	}
	for _, effect := range acm.Handle(who, w.s, m, w.now) {
		w.s.Apply(effect)
		switch e := effect.(type) {
		case acm.SendRegister:
			w.says(who.Register(w.id(), w.now))
		case acm.SendStatus:
			w.says(who.Status(w.id(), w.now, "", nil))
		case acm.PrimeAnswer:
			w.says(who.PrimeAck(w.now, e))
		case acm.ElementAnswer:
			w.says(who.ElementAck(w.now, e))
		}
	}
	w.tell()
}

// underway are the elements whose order is being carried out.
func (w *sites) underway() []string {
	var out []string
	for _, id := range slices.Sorted(maps.Keys(w.s.Elements)) {
		if e := w.s.Elements[id]; e.Order.Type != acm.NoOrder && e.Settled == nil {
			out = append(out, id)
		}
	}
	return out
}

// settle has the cluster end an order.
func (w *sites) settle(id string) {
	e := w.s.Elements[id]
	outcome := e.Order.Conclude("")
	e.Settled = &outcome
	w.s.Elements[id] = e
	w.tell()
}

// tell has the participant acknowledge what has ended and is not acknowledged yet.
func (w *sites) tell() {
	for _, id := range slices.Sorted(maps.Keys(w.s.Elements)) {
		e := w.s.Elements[id]
		if e.Settled == nil || w.told[id] == e.Order.ID || w.s.Awaits(e.InstanceID) {
			continue
		}
		w.told[id] = e.Order.ID
		w.says(who.ElementAck(w.now, acm.ElementAnswer{InstanceID: e.InstanceID, ElementID: id, Outcome: *e.Settled}))
		if e.Settled.DeployState == acm.Deleted {
			delete(w.s.Elements, id)
		}
	}
}

// hear has the runtime take in one message of the participant.
func (w *sites) hear() {
	m := w.said[0]
	w.said = w.said[1:]
	w.r.Hear(context.Background(), acmruntime.Record{Key: []byte(m.Key), Value: m.Body})
}

// pass lets time pass, and has the runtime scan.
func (w *sites) pass(d time.Duration) {
	w.now = w.now.Add(d)
	w.r.Pass(context.Background(), d)
}

// restart has the participant end and start: it knows what the cluster remembers, reads again what it has not committed, and
// registers.
func (w *sites) restart() {
	next, secrets := acm.NewState(), map[string][]byte{}
	keep := func(payload []byte) *keeper.PayloadReference {
		ref := &keeper.PayloadReference{Name: fmt.Sprint(len(secrets))}
		secrets[ref.Name] = payload
		return ref
	}
	fetch := func(ref keeper.PayloadReference) ([]byte, error) { return secrets[ref.Name], nil }
	for id, e := range w.s.Elements {
		cr := &keeper.CompositionElement{Spec: record.ElementSpec(e, keep)}
		cr.Name = id
		if e.Settled != nil {
			outcome := record.OutcomeStatus(*e.Settled)
			cr.Status.Outcome = &outcome
		}
		element, err := record.Element(cr, fetch)
		if err != nil {
			w.t.Fatal(err)
		}
		next.Apply(acm.PutElement{Element: element})
	}
	for id, d := range w.s.Definitions {
		cr := &keeper.CompositionDefinition{Spec: record.DefinitionSpec(d, keep)}
		cr.Name = id
		definition, err := record.Definition(cr, fetch)
		if err != nil {
			w.t.Fatal(err)
		}
		next.Apply(acm.PutDefinition{Definition: definition})
	}
	for id, h := range w.s.Held {
		cr := &keeper.PendingOrder{Spec: record.HeldSpec(h, keep)}
		cr.Name = id
		cr.CreationTimestamp.Time = h.Received
		held, err := record.Held(cr, fetch)
		if err != nil {
			w.t.Fatal(err)
		}
		next.Apply(acm.HoldOrder{Held: held})
	}
	w.s = next
	for _, name := range slices.Sorted(maps.Keys(w.logs)) {
		if l := w.logs[name]; rapid.Bool().Draw(w.t, "again") {
			l.read = l.committed
		}
	}
	w.says(who.Register(w.id(), w.now))
}

// ask has the participant ask what held orders wait for.
func (w *sites) ask() {
	for _, q := range w.s.Questions() {
		w.asks++
		w.says(who.ReqSync(w.id(), w.now, q.CompositionID, q.InstanceID))
	}
}

// order has somebody give an order to the runtime, which refuses most of them, depending on the states.
func (w *sites) order() {
	ctx, i := context.Background(), rapid.SampledFrom(w.instances).Draw(w.t, "instance")
	c := rapid.SampledFrom(w.compositions).Draw(w.t, "composition")
	properties := map[string]any{"x": w.ids}
	w.ids++
	orders := map[string]func() error{
		"deploy":   func() error { return w.r.Deploy(ctx, i) },
		"undeploy": func() error { return w.r.Undeploy(ctx, i) },
		"delete":   func() error { return w.r.Delete(ctx, i) },
		"lock":     func() error { return w.r.Lock(ctx, i, true) },
		"unlock":   func() error { return w.r.Lock(ctx, i, false) },
		"update":   func() error { return w.r.Update(ctx, i, properties) },
	}
	if w.release != acmruntime.London {
		orders["migrate"] = func() error { return w.r.Migrate(ctx, i, c, properties) }
		orders["review"] = func() error { return w.r.Review(ctx, i) }
		orders["prepare"] = func() error { return w.r.Prepare(ctx, i) }
		orders["synchronize"] = func() error { w.r.SyncAll(ctx); return nil }
	}
	_ = orders[rapid.SampledFrom(slices.Sorted(maps.Keys(orders))).Draw(w.t, "order")]() // A refusal is none of the participant's business.
}

// step moves somebody.
func (w *sites) step() {
	switch what := rapid.SampledFrom([]string{"order", "order", "read", "read", "read", "settle", "hear", "hear", "pass", "ask", "restart"}).Draw(w.t, "step"); what {
	case "order":
		w.order()
	case "read":
		if names := w.unread(); len(names) > 0 {
			w.read(rapid.SampledFrom(names).Draw(w.t, "topic"))
		}
	case "settle":
		if ids := w.underway(); len(ids) > 0 {
			w.settle(rapid.SampledFrom(ids).Draw(w.t, "element"))
		}
	case "hear":
		if len(w.said) > 0 {
			w.hear()
		}
	case "pass":
		w.pass(rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute, 4 * time.Minute}).Draw(w.t, "time"))
	case "ask":
		w.ask()
	case "restart":
		w.restart()
	}
}

// rest has everybody do what is left to be done; nothing may be left after some rounds.
func (w *sites) rest() {
	for range 30 {
		before := w.asks
		for names := w.unread(); len(names) > 0; names = w.unread() {
			w.read(names[0])
		}
		for _, id := range w.underway() {
			w.settle(id)
		}
		for len(w.said) > 0 {
			w.hear()
		}
		w.pass(time.Second)
		if len(w.unread()) > 0 {
			continue
		}
		w.ask()
		if len(w.said) == 0 && w.asks == before && len(w.underway()) == 0 {
			return
		}
	}
	w.t.Fatalf("nothing comes to rest: held are %v, underway %v", w.s.Held, w.underway())
}

// judge compares what the participant runs with what the runtime says in the end.
func (w *sites) judge() {
	if err := w.r.Faults(); err != nil {
		w.t.Fatal(err)
	}
	if len(w.s.Held) > 0 && w.release != acmruntime.London {
		w.t.Fatalf("still held are %v", w.s.Held)
	}
	for _, i := range w.instances {
		for _, e := range i.Elements {
			has, known := w.s.Elements[e.ID]
			text := fmt.Sprintf("instance %s is %s, %s %s; the element is known: %t, %+v", i.ID, i.DeployState, i.LockState, i.Result, known, has)
			switch i.DeployState {
			case "DEPLOYED":
				want, _ := json.Marshal(e.Properties["x"])
				if !has.Present || string(has.Content.Properties["x"]) != string(want) {
					w.t.Fatalf("%s; x should be %s", text, want)
				}
			case "UNDEPLOYED", "DELETED":
				if has.Present {
					w.t.Fatal(text)
				}
			default:
				w.t.Fatal(text)
			}
		}
	}
}

// TestAnyInterleaving: whatever the order in which orders are given, topics and partitions are read, orders end, acknowledgements arrive,
// time passes and the participant restarts, in the end its services are those that the runtime names, and nothing is held or asked.
func TestAnyInterleaving(t *testing.T) {
	for _, release := range []acmruntime.Release{acmruntime.London, acmruntime.V910, acmruntime.Master} {
		t.Run(string(release), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				w := &sites{t: t, release: release, s: acm.NewState(), logs: map[string]*partition{}, told: map[string]string{}, now: time.Now()}
				w.r = acmruntime.New(release, who.ParticipantID, w)
				w.says(who.Register(w.id(), w.now))
				w.rest()
				for range 2 {
					c := w.r.Commission(map[string]any{"startPhase": 0})
					w.compositions = append(w.compositions, c)
					if err := w.r.Prime(t.Context(), c); err != nil {
						t.Fatal(err)
					}
					// The runtime takes the acknowledgement in; what it says to that may be read later.
					for len(w.said) == 0 {
						w.read(w.unread()[0])
					}
					for len(w.said) > 0 {
						w.hear()
					}
					w.pass(0)
					i, err := w.r.Instantiate(c, map[string]any{"x": -1})
					if err != nil {
						t.Fatal(err)
					}
					w.instances = append(w.instances, i)
				}
				for range rapid.IntRange(1, 40).Draw(t, "steps") {
					w.step()
				}
				w.rest()
				w.judge()
			})
		})
	}
}
