package engine

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

// fakeRules tell one health of every object, and count how often they are asked.
type fakeRules struct {
	id    string
	told  health.Result
	none  bool
	cost  uint64
	asked int
}

func (r *fakeRules) ID() string { return r.id }

func (r *fakeRules) For(_, kind string) bool { return kind == "Thing" }

func (r *fakeRules) Of(*unstructured.Unstructured) (health.Result, uint64, bool) {
	r.asked++
	return r.told, r.cost, !r.none
}

// seenThing is a custom resource as a watch has it.
func seenThing(name, version string, generation int64) *observe.Object {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "x.io/v1", "kind": "Thing"}}
	u.SetName(name)
	u.SetUID(types.UID(name))
	u.SetResourceVersion(version)
	u.SetGeneration(generation)
	return observe.From(u, true)
}

func stampedFor(rules plan.HealthRules, seen *observe.Object) plan.Stamped {
	return plan.Stamped{Key: seen.Key, Object: plan.Object{Health: rules}}
}

// TestWithHealth: what the custom resource tells counts, and what a watch has is not changed.
func TestWithHealth(t *testing.T) {
	seen, told := seenThing("a", "1", 1), health.Result{Status: health.Failed}
	before := seen.Health
	h := &healths{}
	if got, asked := h.of(stampedFor(&fakeRules{told: told}, seen), seen); got.Health != told || !asked || seen.Health != before {
		t.Errorf("%+v, and the watch has %+v", got.Health, seen.Health)
	}
	terminating := seenThing("terminating", "1", 1)
	terminating.DeletionTimestamp = &metav1.Time{}
	metadata := observe.FromMetadata(kindOf(seen), &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "m", ResourceVersion: "1"}})
	for what, c := range map[string]struct {
		o    plan.Stamped
		seen *observe.Object
	}{
		"no rule for its kind":  {stampedFor(&fakeRules{id: "other", told: told, none: true}, seen), seen},
		"no rules":              {plan.Stamped{Key: seen.Key}, seen},
		"one that is deleted":   {stampedFor(&fakeRules{told: told}, terminating), terminating},
		"one without a content": {stampedFor(&fakeRules{told: told}, metadata), metadata},
		"none":                  {stampedFor(&fakeRules{told: told}, seen), nil},
	} {
		if got, asked := h.of(c.o, c.seen); got != c.seen || !asked {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

func kindOf(o *observe.Object) schema.GroupVersionKind { return o.Key.WithVersion("v1") }

// TestAnObjectIsAskedForOnce: the health of an object that has not changed costs nothing in the next reconcile.
func TestAnObjectIsAskedForOnce(t *testing.T) {
	h, rules := &healths{}, &fakeRules{id: "a", cost: 5}
	for i, c := range []struct {
		seen  *observe.Object
		rules *fakeRules
		asked int
	}{
		{seenThing("a", "1", 1), rules, 1},
		{seenThing("a", "1", 1), rules, 1},
		{seenThing("a", "2", 1), rules, 2},
		{seenThing("b", "2", 1), rules, 3},
		{seenThing("a", "2", 1), rules, 3},
		{seenThing("", "", 0), rules, 4},
		{seenThing("", "", 0), rules, 5}, // Nothing tells its versions apart.
		{seenThing("a", "2", 1), &fakeRules{id: "b", cost: 5}, 1},
	} {
		h.of(stampedFor(c.rules, c.seen), c.seen)
		if c.rules.asked != c.asked {
			t.Errorf("case %d: asked %d times, not %d", i, c.rules.asked, c.asked)
		}
	}
	if h.spent != 6*5 {
		t.Errorf("%d is spent", h.spent)
	}
	a := seenThing("a", "2", 1)
	h.keep(map[plan.Key]bool{a.Key: true})
	if _, kept := h.told[a.Key]; len(h.told) != 1 || !kept {
		t.Errorf("%v is kept of what the plan has no more", h.told)
	}
}

// TestTheExpressionsOfAReconcileAreBounded has more objects than one reconcile may ask for: each of them is asked for at last.
func TestTheExpressionsOfAReconcileAreBounded(t *testing.T) {
	h, rules := &healths{}, &fakeRules{id: "a", told: health.Result{Status: health.Current}, cost: maxHealthCost / 10}
	pass := func(version string, generation int64) (asked int, statuses map[health.Status]int, message string) {
		before := rules.asked
		h.spent, statuses = 0, map[health.Status]int{}
		for i := range 25 {
			seen := seenThing(fmt.Sprint(i), version, generation)
			seen.Health.Status = health.Failed
			got, _ := h.of(stampedFor(rules, seen), seen)
			statuses[got.Health.Status]++
			if got.Health.Status == health.InProgress {
				message = got.Health.Message
			}
		}
		return rules.asked - before, statuses, message
	}
	asked, statuses, message := pass("1", 1)
	if asked != 10 || statuses[health.Current] != 10 || statuses[health.InProgress] != 15 || !strings.Contains(message, "simplify healthCheckExprs") {
		t.Errorf("%d asked, %v, %q", asked, statuses, message)
	}
	for i, want := range []int{10, 5, 0} {
		if asked, _, _ := pass("1", 1); asked != want {
			t.Errorf("pass %d after it: %d asked, not %d", i, asked, want)
		}
	}
	// What was known stands for what has another status, and not for what has another specification.
	if asked, statuses, _ := pass("2", 1); asked != 5 || statuses[health.Current] != 25 {
		t.Errorf("%d asked, %v", asked, statuses)
	}
	// They leave something for what was never asked for, and what has no rules takes nothing.
	late := seenThing("late", "1", 1)
	if _, asked := h.of(stampedFor(rules, late), late); !asked {
		t.Error("an object is never asked for where the objects before it have ever new versions")
	}
	other := seenThing("other", "1", 1)
	other.Key.Kind = "Deployment"
	h.spent = maxHealthCost
	if got, asked := h.of(stampedFor(rules, other), other); !asked || got != other {
		t.Errorf("an object without a rule has the health %v", got.Health)
	}
	if asked, statuses, _ := pass("3", 2); asked != 10 || statuses[health.Current] != 10 || statuses[health.InProgress] != 15 {
		t.Errorf("%d asked, %v", asked, statuses)
	}
}

// TestEachReconcileMayAsk: what one reconcile has taken is not counted against the next.
func TestEachReconcileMayAsk(t *testing.T) {
	s, clock := readingStacks()
	cr := &v1.TrustyAIService{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}}
	seen, rules := seenThing("a", "1", 1), &fakeRules{id: "a", cost: 1}
	p := s.newReconciliation(cr)
	p.state.healths.spent = maxHealthCost
	if s.withHealth(p, stampedFor(rules, seen), seen); rules.asked != 0 || !p.nextAt.Equal(clock.Now().Add(healthRetry)) {
		t.Errorf("asked %d times, and the next reconcile is at %v", rules.asked, p.nextAt)
	}
	p = s.newReconciliation(cr)
	if s.withHealth(p, stampedFor(rules, seen), seen); rules.asked != 1 || !p.nextAt.IsZero() {
		t.Errorf("asked %d times, and the next reconcile is at %v", rules.asked, p.nextAt)
	}
}
