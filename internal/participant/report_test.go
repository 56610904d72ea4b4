package participant

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/acm/acmtest"
)

var brokerOfTest = acm.Broker{
	Kind: "Kafka", Servers: []string{"kafka:9092"}, PublishTopic: "operations",
	Topics: []acm.Topic{{Name: "operations", Group: "g"}, {Name: "syncs", Group: "g-r"}},
}

// TestRegistrationsBackOff: a runtime that does not answer is asked once a minute in the end; a broker that takes nothing, every five seconds.
func TestRegistrationsBackOff(t *testing.T) {
	b := &broker{}
	p, clock := participant(b, &server{})
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	b.refuse = func(acm.Outgoing) error {
		switch n++; n {
		case 10, 11:
			return errors.New("the broker does not answer")
		case 13: // The runtime has answered.
			p.state.Registered = true
		case 15:
			cancel()
		}
		return nil
	}
	if err := p.announce(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	const s = time.Second
	want := []time.Duration{1 * s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 60 * s, 60 * s, 60 * s, 5 * s, 5 * s, 5 * s, 10 * s, 120 * s}
	if !slices.Equal(clock.waits[:len(want)], want) {
		t.Errorf("it has waited %v", clock.waits)
	}
	if registrations := len(b.told(acm.TypeRegister)); registrations != 11 {
		t.Errorf("it has registered %d times", registrations)
	}
}

// TestTheLogSaysWhatIsWaitedFor: a line at the start, one when the runtime has not answered after 30 s, and one when it has.
func TestTheLogSaysWhatIsWaitedFor(t *testing.T) {
	b, said := &broker{}, &acmtest.Lines{}
	p, clock := participant(b, &server{})
	p.settings.Log, p.settings.Broker, p.settings.Identity.Version = said.Logger(), brokerOfTest, "v1"
	if err := p.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(said.With("has started", me, "kafka:9092", "syncs in group g-r", "operations in group g", `"version"="v1"`)) != 1 {
		t.Errorf("at the start it says %q", said.With())
	}
	told := trouble{}
	for _, c := range []struct {
		after time.Duration
		lines int
	}{{29 * time.Second, 0}, {time.Second, 1}, {time.Minute, 1}, {5 * time.Minute, 2}, {5 * time.Minute, 2}, {5 * time.Minute, 3}} {
		clock.Step(c.after)
		p.tellTrouble(&told)
		if got := len(said.With("not ready", "not acknowledged", "syncs in group g-r", "written is operations")); got != c.lines {
			t.Errorf("after %s more it has told %d times, not %d: %q", c.after, got, c.lines, said.With())
		}
	}
	p.state.Registered = true
	p.tellTrouble(&told)
	p.tellTrouble(&told)
	if len(said.With("ready again")) != 1 {
		t.Errorf("in the end it says %q", said.With())
	}
}

// watched are the elements of the watch.
type watched struct{ *keeper.CompositionElement }

func (w watched) Get(string, string) (*keeper.CompositionElement, bool) {
	return w.CompositionElement, true
}
func (w watched) Follow(func(_, _ *keeper.CompositionElement)) {}

// statuses takes every status, unless it refuses all of them.
type statuses struct {
	client.SubResourceWriter
	refused error
}

func (s statuses) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return s.refused
}

// Status implements client.Client.
func (s *server) Status() client.SubResourceWriter { return statuses{refused: s.refusedStatus} }

// TestARefusedRecordIsNotToldAgain: the API server may refuse a status for hours, and the runtime broadcasts a synchronization for each failure that it
// is told. What is told after that is another outcome.
func TestARefusedRecordIsNotToldAgain(t *testing.T) {
	b, s, said, recorder := &broker{}, &server{}, &acmtest.Lines{}, events.NewFakeRecorder(100)
	p, clock := participant(b, s)
	p.settings.Log, p.settings.Events = said.Logger(), recorder
	start(t, p)
	order, id, element := deploy()
	within(t, "the order", b.send(order))
	cr := s.stored[element].(*keeper.CompositionElement)
	cr.Status.Outcome = &keeper.OrderOutcome{OrderID: id, Type: "Deploy", ElementStates: keeper.ElementStates{DeployState: "DEPLOYED", LockState: "LOCKED"}}
	p.store.Elements = watched{cr}
	s.refusedStatus = apierrors.NewForbidden(schema.GroupResource{}, element, errors.New("refused"))
	for range 20 {
		p.outbox.add(element)
		p.outbox.next(t.Context())
		clock.Step(time.Hour)
	}
	if told := len(b.told(acm.TypeStateChangeAck)); told != 1 || len(recorder.Events) != 1 {
		t.Errorf("the runtime is told %d times, with %d events", told, len(recorder.Events))
	}
	if pause := p.outbox.refused.When(element); pause < 4*time.Minute {
		t.Errorf("after 20 refusals it is recorded again in %s", pause)
	}
	cr.Status.UseState, cr.Status.OperationalState = "IN_USE", "DISABLED"
	p.outbox.add(element)
	p.outbox.next(t.Context())
	if told := len(b.told(acm.TypeStateChangeAck)); told != 2 {
		t.Errorf("the runtime is told %d times, though the element fares otherwise", told)
	}
}

// TestOrdersAreTold: the log has a line for an order and for its outcome, a success is an event, and the time that it took is measured.
func TestOrdersAreTold(t *testing.T) {
	b, s, said, recorder := &broker{}, &server{}, &acmtest.Lines{}, events.NewFakeRecorder(10)
	p, clock := participant(b, s)
	p.settings.Log, p.settings.Events = said.Logger(), recorder
	start(t, p)
	order, id, element := deploy()
	within(t, "the order", b.send(order))
	if len(said.With("an order is carried out", `"order"="Deploy"`, id, `"elements"=1`)) != 1 {
		t.Errorf("of the order it says %q", said.With())
	}
	cr, ok := s.stored[element].(*keeper.CompositionElement)
	if !ok {
		t.Fatalf("stored are %v", s.stored)
	}
	clock.Step(3 * time.Second)
	outcome := keeper.OrderOutcome{OrderID: id, Type: "Deploy", ElementStates: keeper.ElementStates{DeployState: "DEPLOYED", LockState: "LOCKED"}}
	cr.Status.Outcome = &outcome
	p.store.Elements = watched{cr}
	before := series(t, acknowledged)["Deploy NO_ERROR"]
	p.Saw(nil, cr)
	p.mu.Lock()
	depth := p.outbox.depth()
	p.mu.Unlock()
	if depth != 1 || !p.outbox.next(t.Context()) {
		t.Errorf("the outbox has %d", depth)
	}
	if len(said.With("an order has ended", `"order"="Deploy"`, id, "NO_ERROR", "DEPLOYED", "3s")) != 1 || answered(b, id) == "" {
		t.Errorf("of its end it says %q, the runtime is told %q", said.With(), b.said)
	}
	if got := <-recorder.Events; !strings.Contains(got, "Normal OrderCompleted Deploy after 3s: DEPLOYED, LOCKED") {
		t.Errorf("the event is %s", got)
	}
	if series(t, acknowledged)["Deploy NO_ERROR"] != before+1 || p.outbox.depth() != 0 {
		t.Errorf("the time is not measured, or the outbox has %d", p.outbox.depth())
	}
}

// TestAnOutcomeWaitsForTheHeldOrder: the runtime takes each acknowledgement for that of its last order. While that one is held, the outcome of
// the one before is not told, and is told when the held one is dropped.
func TestAnOutcomeWaitsForTheHeldOrder(t *testing.T) {
	b, s := &broker{}, &server{}
	p, clock := participant(b, s)
	order, id, element := deploy()
	instance := order["automationCompositionId"].(string)
	now := metav1.NewMicroTime(noon)
	cr := &keeper.CompositionElement{ObjectMeta: metav1.ObjectMeta{Name: element}}
	cr.Spec = keeper.CompositionElementSpec{
		ParticipantID: me, AutomationCompositionID: instance, Order: &keeper.ElementOrder{ID: id, Type: "Deploy", Time: now, Received: now},
	}
	cr.Status.Outcome = &keeper.OrderOutcome{OrderID: id, Type: "Deploy", ElementStates: keeper.ElementStates{DeployState: "DEPLOYED", LockState: "LOCKED"}}
	p.store.Elements = watched{cr}
	p.state.Elements[element] = acm.Element{ID: element, InstanceID: instance, Order: acm.Order{ID: id, Type: acm.OrderDeploy}}
	held := newUUID()
	p.state.Held[held] = acm.Held{
		MessageID: held, InstanceID: instance, CompositionID: newUUID(), Received: noon, Record: acm.Message{MessageID: held, RevisionComposition: newUUID()},
	}
	p.Saw(nil, cr)
	p.outbox.next(t.Context())
	if got := answered(b, id); got != "" {
		t.Fatalf("told is %q", got)
	}
	clock.Step(acm.HeldFor)
	p.dropExpired(t.Context())
	p.outbox.next(t.Context())
	if got := answered(b, id); got != "NO_ERROR Deployed" {
		t.Errorf("told is %q in the end", got)
	}
}

// series are the values of a metric by the values of its labels; of a histogram, how often it was observed.
func series(t *testing.T, metric prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(metric)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range families {
		for _, one := range family.GetMetric() {
			var labels []string
			for _, label := range one.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			out[strings.Join(labels, " ")] = one.GetGauge().GetValue() + one.GetCounter().GetValue() + float64(one.GetHistogram().GetSampleCount())
		}
	}
	return out
}

// TestGauges: what the participant waits for is measured, and nothing is where none runs.
func TestGauges(t *testing.T) {
	p, clock := participant(&broker{}, &server{})
	p.state.Registered = true
	p.state.Held["held"] = acm.Held{Received: noon.Add(-time.Minute)}
	p.state.Elements["done"] = acm.Element{Order: acm.Order{Type: acm.OrderDeploy, Received: noon.Add(-time.Hour)}, Settled: &acm.Outcome{}}
	p.state.Elements["waits"] = acm.Element{Order: acm.Order{Type: acm.OrderDeploy, Received: noon.Add(-2 * time.Minute)}}
	clock.Step(time.Second)
	connected.WithLabelValues("refused").Set(1) // As before the broker refused it.
	p.measure(t.Context())
	for _, c := range []struct {
		metric prometheus.Collector
		want   map[string]float64
	}{
		{registered, map[string]float64{"": 1}},
		{connected, map[string]float64{"operations": 1, "syncs": 0}},
		{topicLag, map[string]float64{"operations": 3}},
		{pendingOrders, map[string]float64{"": 1}},
		{oldestOrder, map[string]float64{"": 121}},
		{unsent, map[string]float64{"": 0}},
	} {
		if got := series(t, c.metric); !maps.Equal(got, c.want) {
			t.Errorf("measured is %v, not %v", got, c.want)
		}
	}
	forgetGauges()
	if n := len(series(t, registered)) + len(series(t, connected)) + len(series(t, topicLag)) + len(series(t, unsent)); n != 0 {
		t.Errorf("%d series are left", n)
	}
}
