package status

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/fieldownership"
	"mlkeeper.dev/internal/engine/plan"
)

var (
	noon   = time.Date(2026, 1, 2, 12, 0, 0, 5e8, time.UTC)
	reason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)
)

func drawProblem(t *rapid.T) plan.Problem {
	text := rapid.String()
	return plan.Problem{
		Class:   rapid.SampledFrom([]plan.Class{plan.Terminal, plan.Waiting, plan.Blocked}).Draw(t, "class"),
		Reason:  rapid.SampledFrom([]string{"Invalid", "ResourceConflict", "SecretMissing"}).Draw(t, "reason"),
		Field:   text.Draw(t, "field"),
		Value:   text.Draw(t, "value"),
		Message: text.Draw(t, "message"),
		Remedy:  text.Draw(t, "remedy"),
	}
}

func drawInput(t *rapid.T) Input {
	j := Input{
		State: controller.ObservedState{
			Problems: rapid.SliceOfN(rapid.Custom(drawProblem), 0, 3).Draw(t, "problems"),
			Ready:    rapid.Bool().Draw(t, "ready"), Now: noon,
			Waiting: rapid.StringN(0, 5000, -1).Draw(t, "waiting"),
		},
		Verdict: controller.Verdict{
			Reason:  rapid.SampledFrom([]string{"", "ReplicasReady", "Down"}).Draw(t, "verdict"),
			Message: rapid.SampledFrom([]string{"", "one of two", strings.Repeat("ä", 3000)}).Draw(t, "says"),
			Hold:    rapid.Bool().Draw(t, "hold"),
		},
	}
	if rapid.Bool().Draw(t, "transient") {
		j.Err = errors.New("no answer")
	}
	for range rapid.IntRange(0, 2).Draw(t, "ceded") {
		j.Ceded = append(j.Ceded, CededField{Field: fieldownership.Field{Text: ".spec.replicas", Manager: "someone"}})
	}
	return j
}

// checkLegal fails on conditions that kstatus does not know how to read, or that the API server would refuse.
func checkLegal(t *rapid.T, generation int64, conditions []metav1.Condition, j Input) {
	seen := map[string]metav1.ConditionStatus{}
	for _, c := range conditions {
		if _, twice := seen[c.Type]; twice {
			t.Fatalf("%s is there twice", c.Type)
		}
		seen[c.Type] = c.Status
		switch {
		case c.ObservedGeneration != generation:
			t.Fatalf("%s is of generation %d", c.Type, c.ObservedGeneration)
		case !reason.MatchString(c.Reason):
			t.Fatalf("%s has the reason %q", c.Type, c.Reason)
		case c.Message == "" || len(c.Message) > 32768 || !utf8.ValidString(c.Message):
			t.Fatalf("%s has the message %q", c.Type, c.Message)
		case c.Type != ConditionReady && c.Status != metav1.ConditionTrue:
			t.Fatalf("%s is %s, and should be absent", c.Type, c.Status)
		case c.LastTransitionTime.Nanosecond() != 0:
			t.Fatalf("%s has a time that does not survive the API server", c.Type)
		}
	}
	ready, stalled, reconciling := seen[ConditionReady], seen[ConditionStalled], seen[ConditionReconciling]
	switch {
	case ready == "" || ready == metav1.ConditionUnknown:
		t.Fatal("Ready is missing")
	case stalled != "" && reconciling != "":
		t.Fatal("Stalled and Reconciling at once")
	case (ready == metav1.ConditionTrue) != (stalled == "" && reconciling == ""):
		t.Fatalf("Ready %q, Stalled %q, Reconciling %q", ready, stalled, reconciling)
	case ready == metav1.ConditionTrue && (!j.State.Ready || j.Verdict.Hold || len(j.State.Problems) > 0):
		t.Fatal("Ready although something stands in the way")
	}
	u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&struct {
		metav1.ObjectMeta `json:"metadata"`
		Status            struct {
			ObservedGeneration int64              `json:"observedGeneration"`
			Conditions         []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Generation: generation},
		Status: struct {
			ObservedGeneration int64              `json:"observedGeneration"`
			Conditions         []metav1.Condition `json:"conditions"`
		}{generation, conditions},
	})
	if err != nil {
		t.Fatal(err)
	}
	u["apiVersion"], u["kind"] = "x.io/v1", "Thing"
	got, err := kstatus.Compute(&unstructured.Unstructured{Object: u})
	want := kstatus.CurrentStatus
	switch {
	case stalled != "":
		want = kstatus.FailedStatus
	case reconciling != "":
		want = kstatus.InProgressStatus
	}
	if err != nil || got.Status != want {
		t.Fatalf("kstatus reads %v, wanted %s, error %v", got, want, err)
	}
}

func TestConditionsAreLegalForKstatus(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		conditions := []metav1.Condition{}
		common := controller.Common{Conditions: &conditions}
		// Whatever stood there before, the next input replaces it.
		for generation := int64(1); generation <= 3; generation++ {
			j := drawInput(t)
			if rapid.Bool().Draw(t, "suspended before") {
				Set(&conditions, metav1.Condition{Type: ConditionSuspended, Status: metav1.ConditionTrue}, metav1.NewTime(noon))
			}
			SetConditions(common, generation, j)
			checkLegal(t, generation, conditions, j)
			before := append([]metav1.Condition(nil), conditions...)
			j.State.Now = noon.Add(time.Hour)
			SetConditions(common, generation, j)
			for i := range before {
				if before[i] != conditions[i] {
					t.Fatalf("the same input changes %+v to %+v", before[i], conditions[i])
				}
			}
		}
	})
}

func TestWordsOfReady(t *testing.T) {
	blocked := plan.Problem{Class: plan.Blocked, Reason: "ResourceConflict", Message: "taken"}
	waiting := plan.Problem{Class: plan.Waiting, Reason: "SecretMissing", Message: "no Secret"}
	terminal := plan.Problem{Class: plan.Terminal, Reason: "Invalid", Field: "spec.a", Message: "bad"}
	for _, c := range []struct {
		name            string
		j               Input
		status          metav1.ConditionStatus
		reason, message string
		besides         string
	}{
		{"ready", Input{State: controller.ObservedState{Ready: true}}, "True", ReasonReady, "Everything is as declared.", ""},
		{
			"ready in the controller's words",
			Input{State: controller.ObservedState{Ready: true}, Verdict: controller.Verdict{Reason: "Up", Message: "2 of 2"}},
			"True", "Up", "2 of 2", "",
		},
		{
			"ready with a reason alone",
			Input{State: controller.ObservedState{Ready: true}, Verdict: controller.Verdict{Reason: "Up"}},
			"True", "Up", "Everything is as declared.", "",
		},
		{
			"on its way",
			Input{State: controller.ObservedState{Waiting: "waiting for a"}},
			"False", ReasonProgressing, "waiting for a",
			ConditionReconciling,
		},
		{
			"on its way, in the controller's words",
			Input{State: controller.ObservedState{Waiting: "waiting for a"}, Verdict: controller.Verdict{Reason: "Starting", Message: "soon"}},
			"False", "Starting", "waiting for a", ConditionReconciling,
		},
		{
			"held",
			Input{State: controller.ObservedState{Ready: true}, Verdict: controller.Verdict{Hold: true, Reason: "NoStorage", Message: "no PVC"}},
			"False", "NoStorage", "no PVC", ConditionReconciling,
		},
		{
			"retrying",
			Input{State: controller.ObservedState{Waiting: "retrying: x"}, Err: errors.New("x")},
			"False", ReasonRetrying,
			"retrying: x", ConditionReconciling,
		},
		{"waiting", Input{State: controller.ObservedState{Problems: []plan.Problem{waiting, blocked}}}, "False", "SecretMissing", "no Secret", ConditionReconciling},
		{
			"terminal before waiting",
			Input{State: controller.ObservedState{Problems: []plan.Problem{waiting, terminal}}},
			"False", "Invalid",
			"spec.a: bad", ConditionStalled,
		},
		{
			"a problem before the controller's words",
			Input{State: controller.ObservedState{Problems: []plan.Problem{terminal}}, Verdict: controller.Verdict{Reason: "Up", Message: "x"}},
			"False", "Invalid", "spec.a: bad", ConditionStalled,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var conditions []metav1.Condition
			c.j.State.Now = noon
			SetConditions(controller.Common{Conditions: &conditions}, 1, c.j)
			ready := meta.FindStatusCondition(conditions, ConditionReady)
			if ready.Status != c.status || ready.Reason != c.reason || ready.Message != c.message {
				t.Errorf("%+v", ready)
			}
			for _, name := range []string{ConditionStalled, ConditionReconciling} {
				if got := meta.IsStatusConditionTrue(conditions, name); got != (name == c.besides) {
					t.Errorf("%s: %v", name, got)
				}
			}
		})
	}
}

func TestMostSevere(t *testing.T) {
	if p, stalled := mostSevere(nil); p != nil || stalled {
		t.Error(p, stalled)
	}
	rapid.Check(t, func(t *rapid.T) {
		problems := rapid.SliceOfN(rapid.Custom(drawProblem), 1, 5).Draw(t, "problems")
		first := -1
		for i := len(problems) - 1; i >= 0; i-- {
			if problems[i].Class == plan.Terminal {
				first = i
			}
		}
		p, stalled := mostSevere(problems)
		if stalled != (first >= 0) || p != &problems[max(first, 0)] {
			t.Fatal("not the first terminal one, or the first")
		}
	})
}

func TestBoundedStaysValid(t *testing.T) {
	for _, s := range []string{"", "short", strings.Repeat("ä", 4000), "x" + strings.Repeat("ä", 4000), "a\xffb", strings.Repeat("x", 5000)} {
		got := Bounded(s)
		if len(got) > 4096 || !utf8.ValidString(got) || len(s) < 4096 && utf8.ValidString(s) && got != s {
			t.Errorf("%d bytes become %d, valid %v", len(s), len(got), utf8.ValidString(got))
		}
	}
}

func TestCededFieldsNameTheirObject(t *testing.T) {
	key := plan.Key{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Namespace: "ns", Name: "d"}
	got := ceded([]CededField{{Object: key, Field: fieldownership.Field{Text: "spec.replicas", Manager: "someone"}}})
	if want := "spec.replicas of Deployment ns/d is ceded to someone after 3 conflicts in 10 min: remove one of the two declarations"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
