package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/reader"
)

// gathered are the values of a gauge or a counter by the values of its labels.
func gathered(t *testing.T, name string) map[string]float64 {
	t.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range families {
		for _, one := range family.GetMetric() {
			if family.GetName() != name {
				continue
			}
			series := ""
			for _, label := range one.GetLabel() {
				series += label.GetValue() + " "
			}
			out[series] = one.GetGauge().GetValue() + one.GetCounter().GetValue()
		}
	}
	return out
}

// expect compares the series of a gauge.
func expect(t *testing.T, when, name string, want map[string]float64) {
	t.Helper()
	if got := gathered(t, name); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %s is %v, want %v", when, name, got, want)
	}
}

const (
	notReadyMetric  = "mlkeeper_not_ready_since_timestamp_seconds"
	failingMetric   = "mlkeeper_failing"
	failsMetric     = "mlkeeper_failing_since_timestamp_seconds"
	busyMetric      = "mlkeeper_continuous_reconciles_since_timestamp_seconds"
	repairsMetric   = "mlkeeper_most_drift_corrections"
	begin           = 1e9
	kindOfThisTests = "Tested"
)

// one is the key of a custom resource.
func one(i int) client.ObjectKey { return client.ObjectKey{Namespace: "ns", Name: fmt.Sprint(i)} }

// readiness is a condition Ready that changed at a time.
func readiness(is metav1.ConditionStatus, reason string, at time.Time) *metav1.Condition {
	return &metav1.Condition{Type: "Ready", Status: is, Reason: reason, LastTransitionTime: metav1.NewTime(at)}
}

// TestTheLongestNotReadyIsToldAmongMany: of 2,000 custom resources another one is not Ready in each minute, and one is for an hour.
func TestTheLongestNotReadyIsToldAmongMany(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(begin, 0))
	m := newMetrics(clock)
	set := func(i int, is metav1.ConditionStatus, reason string) {
		m.observe(kindOfThisTests, one(i), nil, readiness(is, reason, clock.Now()), clock.Now())
	}
	for i := range 2000 {
		set(i, metav1.ConditionTrue, "Ready")
	}
	expect(t, "all are Ready", notReadyMetric, map[string]float64{})
	series := kindOfThisTests + " Progressing "
	for minute := range 60 {
		set(minute, metav1.ConditionFalse, "Progressing")
		if minute > 0 {
			set(minute-1, metav1.ConditionTrue, "Ready")
		}
		if minute == 30 {
			set(1999, metav1.ConditionUnknown, "Progressing")
		}
		if minute >= 30 {
			// What is Unknown becomes False, and a condition that is not written has a later transition each time.
			set(1999, metav1.ConditionFalse, "Progressing")
		}
		expect(t, fmt.Sprint("minute ", minute), notReadyMetric, map[string]float64{series: begin + 60*float64(min(minute, 30))})
		clock.Step(time.Minute)
	}
	set(1999, metav1.ConditionFalse, "VolumeNotFound")
	expect(t, "the reason is another", notReadyMetric, map[string]float64{
		kindOfThisTests + " VolumeNotFound ": begin + 60*30, series: begin + 60*59,
	})
	m.forget(kindOfThisTests, one(1999))
	set(59, metav1.ConditionTrue, "Ready")
	expect(t, "it is deleted", notReadyMetric, map[string]float64{})
	m.observe(kindOfThisTests, one(1), nil, readiness(metav1.ConditionFalse, "Stalled", time.Unix(begin-3600, 0)), clock.Now())
	expect(t, "after a restart", notReadyMetric, map[string]float64{kindOfThisTests + " Stalled ": begin - 3600})
}

// TestOneThatLoopsIsToldAmongMany: 2,000 custom resources are created one after the other, and one is reconciled for ever.
func TestOneThatLoopsIsToldAmongMany(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(begin, 0))
	m := newMetrics(clock)
	series := kindOfThisTests + " "
	for minute := range 180 {
		for range 100 {
			m.ended(kindOfThisTests, one(minute), false)
		}
		for range 4 {
			if minute >= 60 && minute < 120 {
				m.ended(kindOfThisTests, one(1999), false)
			}
		}
		// A burst is busy for one period of ten minutes, and for the next until that is over.
		at := float64(clock.Now().Unix()-begin) / 60
		got, told := gathered(t, busyMetric)[series]
		if loops := (got - begin) / 60; minute >= 80 && minute < 120 && loops != 60 {
			t.Errorf("minute %v: the loop is told since %v", at, loops)
		} else if (minute < 80 || minute > 140) && told && at-loops > 20 {
			t.Errorf("minute %v: what was created counts as busy since minute %v", at, loops)
		}
		clock.Step(time.Minute)
	}
	clock.Step(time.Hour)
	expect(t, "nothing happens any more", busyMetric, map[string]float64{})
}

// TestAFewReconcilesAreNoLoop: what changes once in twenty seconds may last, also after a creation with many reconciles.
func TestAFewReconcilesAreNoLoop(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(begin, 0))
	m := newMetrics(clock)
	for range 100 {
		m.ended(kindOfThisTests, one(0), false)
	}
	for range 3 * 180 {
		m.ended(kindOfThisTests, one(0), false)
		clock.Step(20 * time.Second)
	}
	expect(t, "after three hours", busyMetric, map[string]float64{})
}

// TestTheLongestFailureIsTold: the pauses between the attempts of one that fails for ever are so long that no rate shows it.
func TestTheLongestFailureIsTold(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(begin, 0))
	m := newMetrics(clock)
	series := kindOfThisTests + " "
	m.ended(kindOfThisTests, one(0), false)
	expect(t, "all is well", failsMetric, map[string]float64{})
	expect(t, "all is well", failingMetric, map[string]float64{series: 0})
	for range 10 {
		m.ended(kindOfThisTests, one(1), true)
		m.ended(kindOfThisTests, one(2), true)
		m.ended(kindOfThisTests, one(2), false)
		expect(t, "one fails", failingMetric, map[string]float64{series: 1})
		clock.Step(5 * time.Minute)
		m.ended(kindOfThisTests, one(3), true)
		expect(t, "one fails for ever, and another at times", failsMetric, map[string]float64{series: begin})
		expect(t, "both fail", failingMetric, map[string]float64{series: 2})
		m.ended(kindOfThisTests, one(3), false)
	}
	m.gaveUp(kindOfThisTests, one(1))
	expect(t, "it is being deleted", failsMetric, map[string]float64{})
	m.ended(kindOfThisTests, one(1), true)
	m.forget(kindOfThisTests, one(1))
	expect(t, "it is gone", failsMetric, map[string]float64{})
	if n := len(m.active[kindOfThisTests]); n != 3 {
		t.Errorf("%d are kept, want 3", n)
	}
}

// TestCorrectionsOfOneObjectAreTold: four objects that were changed once each are no writer that changes one all the time, also where the
// pauses of that one grow to five minutes.
func TestCorrectionsOfOneObjectAreTold(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(begin, 0))
	m := newMetrics(clock)
	object := func(name string) plan.Key {
		key := plan.Key{Namespace: "ns", Name: name}
		key.Kind = "Deployment"
		return key
	}
	for i := range 4 {
		m.repaired(kindOfThisTests, one(i), object(fmt.Sprint(i)))
		clock.Step(2 * time.Minute)
	}
	expect(t, "four objects", repairsMetric, map[string]float64{"Deployment ": 1})
	for i := range 20 {
		m.repaired(kindOfThisTests, one(0), object("0"))
		clock.Step(min(time.Second<<i, 5*time.Minute*5/4))
	}
	expect(t, "one object, with pauses", repairsMetric, map[string]float64{"Deployment ": 21})
	clock.Step(11 * time.Minute)
	expect(t, "it was left alone", repairsMetric, map[string]float64{"Deployment ": 0})
	m.repaired(kindOfThisTests, one(0), object("another"))
	if n := len(m.active[kindOfThisTests][one(0)].repairs); n != 1 {
		t.Errorf("%d objects are kept, want 1", n)
	}
	m.forget(kindOfThisTests, one(0))
	if m.active[kindOfThisTests][one(0)] != nil {
		t.Error("what is gone is kept")
	}
}

// TestEachLoopWithAnotherClientIsTold: the alert about a loop is the same, whether somebody changes the object back, deletes it, makes again what was
// pruned, or spoils what is generated. What MLKeeper writes for another reason is no loop with somebody.
func TestEachLoopWithAnotherClientIsTold(t *testing.T) {
	apply := func(reason string) decide.Action {
		return decide.Action{Verb: decide.Apply, Reason: reason, KnownUID: "a", UID: "a"}
	}
	generated := apply(decide.ReasonChanged)
	generated.Object.Generated = true
	left := apply(decide.ReasonDrift)
	left.Object.Drift.Leave = true
	for name, c := range map[string]struct {
		action decide.Action
		told   float64
		drift  float64
	}{
		"changed back":            {apply(decide.ReasonDrift), 5, 5},
		"deleted":                 {decide.Action{Verb: decide.Create, Reason: decide.ReasonMissing, KnownUID: "a"}, 5, 0},
		"made again":              {decide.Action{Verb: decide.Delete, Reason: decide.ReasonPruned, UID: "a"}, 5, 0},
		"generated, and spoiled":  {generated, 5, 0},
		"made by somebody":        {decide.Action{Verb: decide.Apply, Reason: decide.ReasonUnverified, KnownUID: "a", UID: "b"}, 5, 0},
		"made for the first time": {decide.Action{Verb: decide.Create, Reason: decide.ReasonMissing}, 0, 0},
		"rendered differently":    {apply(decide.ReasonChanged), 0, 0},
		"left as it is":           {left, 0, 0},
	} {
		m := newMetrics(testclock.NewFakeClock(time.Unix(begin, 0)))
		c.action.Key.Kind = kindOfThisTests + strings.ReplaceAll(name, " ", "")
		for range 5 {
			m.wrote(kindOfThisTests, one(0), c.action)
		}
		series := c.action.Key.Kind + " "
		if got := gathered(t, repairsMetric)[series]; got != c.told {
			t.Errorf("%s: corrected %v times, want %v", name, got, c.told)
		}
		if got := gathered(t, "mlkeeper_drift_corrections_total")[series]; got != c.drift {
			t.Errorf("%s: %v corrections of a drift, want %v", name, got, c.drift)
		}
	}
}

// attempts is a controller whose Gather does what a test says.
type attempts struct {
	controller.Controller[*v1.TrustyAIService, struct{}]
	gather func() error
}

func (a attempts) Gather(context.Context, controller.Reader, *v1.TrustyAIService) (struct{}, error) {
	return struct{}{}, a.gather()
}

// TestEveryEndOfAReconcileIsCounted: a reconcile that ends before its report, or by a panic of the report, fails like one that reports it.
func TestEveryEndOfAReconcileIsCounted(t *testing.T) {
	for name, spoil := range map[string]func(*stacks[*v1.TrustyAIService, struct{}]){
		"an error before the report": func(s *stacks[*v1.TrustyAIService, struct{}]) {
			s.sys = attempts{gather: func() error { return errors.New("refused") }}
		},
		"a panic of the controller": func(s *stacks[*v1.TrustyAIService, struct{}]) {
			s.sys = attempts{gather: func() error { panic("bug") }}
		},
		"a panic of the report": func(s *stacks[*v1.TrustyAIService, struct{}]) {
			s.sys = attempts{gather: func() error { return plan.Problem{Class: plan.Waiting, Reason: "Missing"} }}
			s.def.Common = func(*v1.TrustyAIService) controller.Common { panic("bug") }
		},
	} {
		s, clock := readingStacks()
		s.metrics = newMetrics(clock)
		spoil(s)
		p := passOf("a", newState("uid"), "")
		p.cr, p.reader = p.before.DeepCopy(), s.readers.New(reader.Request{})
		func() {
			defer func() { _ = recover() }()
			_, _ = s.attempt(t.Context(), p, false)
		}()
		expect(t, name, failingMetric, map[string]float64{"TrustyAIService ": 1})
	}
}
