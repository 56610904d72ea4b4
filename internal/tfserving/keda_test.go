package tfserving

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
)

const scaledByKEDA = inline + `  autoscaling:
    minReplicas: 0
    maxReplicas: 5
    behavior: {scaleDown: {stabilizationWindowSeconds: 60}}
    keda:
      pollingInterval: 10
      cooldownPeriod: 120
      fallback: {failureThreshold: 3, replicas: 2}
      triggers:
        - type: prometheus
          name: requests
          metadata: {serverAddress: "http://prometheus.monitoring:9090", query: "sum(rate(requests[1m]))", threshold: "20"}
          authenticationRef: {name: prometheus}
        - {type: cpu, metricType: Utilization, metadata: {value: "70"}}
`

// find returns an object of a plan; nil for none.
func find(p plan.Plan, kind string) *plan.Object {
	for i := range p.Stages[0].Objects {
		if o := &p.Stages[0].Objects[i]; o.Desired.GetKind() == kind {
			return o
		}
	}
	return nil
}

func TestAScaledObjectHasTheTriggers(t *testing.T) {
	c := controllertest.New(testNow, gvkScaledObject)
	_, p := gatherAndRender(t, c, custom(t, scaledByKEDA))
	controllertest.Golden(t, "keda", p)
	if find(p, gvkAutoscaler.Kind) != nil {
		t.Error("there is a HorizontalPodAutoscaler, too, beside which KEDA refuses the ScaledObject")
	}
	if o := find(p, gvkDeployment.Kind); o.Replicas != plan.ReplicasLeft {
		t.Errorf("the replicas are %q, although KEDA scales to zero", o.Replicas)
	}
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "spec.resources.requests.cpu") {
		t.Errorf("warnings %q", p.Warnings)
	}
}

// TestZeroPausesKEDA, which would start pods for a trigger that is active otherwise.
func TestZeroPausesKEDA(t *testing.T) {
	cr := custom(t, scaledByKEDA)
	cr.Spec.Replicas = ptr.To[int32](0)
	_, p := gatherAndRender(t, controllertest.New(testNow, gvkScaledObject), cr)
	if got := find(p, gvkScaledObject.Kind).Desired.GetAnnotations()[pausedAnnotation]; got != "0" {
		t.Errorf("%s is %q", pausedAnnotation, got)
	}
	if o := find(p, gvkDeployment.Kind); o.Replicas != plan.ReplicasDeclared || *deployed(t, p, "tfs").Spec.Replicas != 0 {
		t.Errorf("the replicas are %q", o.Replicas)
	}
}

// TestOneAutoscalerGoesBeforeTheOtherComes: two would scale the Deployment, and KEDA refuses a ScaledObject beside a HorizontalPodAutoscaler.
func TestOneAutoscalerGoesBeforeTheOtherComes(t *testing.T) {
	keda, cpu := custom(t, scaledByKEDA), custom(t, inline+"  autoscaling: {maxReplicas: 3}\n")
	for there, declared := range map[schema.GroupVersionKind]*v1alpha1.Tfserv{gvkAutoscaler: keda, gvkScaledObject: cpu} {
		c := controllertest.New(testNow, gvkScaledObject)
		other := find(func() plan.Plan { _, p := gatherAndRender(t, c, declared); return p }(), map[bool]string{
			true: gvkScaledObject.Kind, false: gvkAutoscaler.Kind,
		}[there == gvkAutoscaler])
		if other == nil || other.Hold != "" {
			t.Fatalf("without a %s it is held: %+v", there.Kind, other)
		}
		c.Own(child(there), ownerOf(declared))
		_, p := gatherAndRender(t, c, declared)
		if o := find(p, other.Desired.GetKind()); o == nil || !strings.Contains(o.Hold, there.Kind) {
			t.Errorf("beside a %s: %+v", there.Kind, o)
		}
		if find(p, there.Kind) != nil {
			t.Errorf("the %s is declared on", there.Kind)
		}
	}
}

func child(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace("ns")
	u.SetName("tfs")
	return u
}

// TestReplicasCountAgainOnceNoAutoscalerIsLeft: whoever wrote them last.
func TestReplicasCountAgainOnceNoAutoscalerIsLeft(t *testing.T) {
	const hpa, so = "HorizontalPodAutoscaler", "ScaledObject"
	for name, test := range map[string]struct {
		spec       string
		facts      Facts
		mode       plan.Replicas
		autoscaled string
	}{
		"none":                        {"", Facts{}, plan.ReplicasObserved, ""},
		"of the owner's own":          {"", Facts{Running: &Running{}}, plan.ReplicasObserved, ""},
		"by CPU":                      {"autoscaling: {maxReplicas: 3}", Facts{}, plan.ReplicasObserved, hpa},
		"by KEDA":                     {"autoscaling: {maxReplicas: 3, keda: {triggers: []}}", Facts{KEDA: true}, plan.ReplicasLeft, so},
		"by KEDA, which is not there": {"autoscaling: {maxReplicas: 3, keda: {triggers: []}}", Facts{}, plan.ReplicasObserved, so},
		"paused":                      {"replicas: 0, autoscaling: {maxReplicas: 3}", Facts{}, plan.ReplicasDeclared, hpa},
		"its HPA is about to go":      {"", Facts{Autoscaler: true, Running: &Running{Autoscaled: hpa}}, plan.ReplicasLeft, hpa},
		"its ScaledObject is to go":   {"", Facts{ScaledObject: true, Running: &Running{Autoscaled: so}}, plan.ReplicasLeft, so},
		"its HPA has just gone":       {"", Facts{Running: &Running{Autoscaled: hpa}}, plan.ReplicasObserved, ""},
		"its ScaledObject is gone":    {"", Facts{Running: &Running{Autoscaled: so}}, plan.ReplicasDeclared, ""},
	} {
		r := &renderer{cr: custom(t, "metadata: {name: tfs}\nspec: {"+test.spec+"}\n"), facts: test.facts}
		if mode, autoscaled := r.replicasMode(); mode != test.mode || autoscaled != test.autoscaled {
			t.Errorf("%s: %q and %q, want %q and %q", name, mode, autoscaled, test.mode, test.autoscaled)
		}
	}
}

// TestAnAutoscalerThatDoesNotScaleIsTold, by its reason alone.
func TestAnAutoscalerThatDoesNotScaleIsTold(t *testing.T) {
	cpu := inline + "  autoscaling: {maxReplicas: 3}\n"
	for name, test := range map[string]struct {
		spec, kind, conditions, want string
	}{
		"a trigger fails":        {scaledByKEDA, "ScaledObject", `[{type: Ready, status: "False", reason: TriggerError, message: secret}]`, "TriggerError"},
		"one of several fails":   {scaledByKEDA, "ScaledObject", `[{type: Ready, status: Unknown, reason: PartialTriggerError}]`, "PartialTriggerError"},
		"all is well":            {scaledByKEDA, "ScaledObject", `[{type: Ready, status: "True", reason: ScaledObjectReady}]`, ""},
		"KEDA has not looked":    {scaledByKEDA, "ScaledObject", `[{type: Ready, status: Unknown}]`, ""},
		"two select the pods":    {cpu, "HorizontalPodAutoscaler", `[{type: ScalingActive, status: "False", reason: AmbiguousSelector}]`, "AmbiguousSelector"},
		"pods are being started": {cpu, "HorizontalPodAutoscaler", `[{type: ScalingActive, status: "False", reason: FailedGetResourceMetric}]`, ""},
	} {
		c, cr := controllertest.New(testNow, gvkScaledObject), custom(t, test.spec)
		_, p := gatherAndRender(t, c, cr)
		u := find(p, test.kind).Desired.DeepCopy()
		u.Object["status"] = map[string]any{"conditions": list(t, test.conditions)}
		c.Own(u, ownerOf(cr))
		project(t, c, cr)
		got := strings.Join(cr.Status.Warnings, "\n")
		told := strings.Contains(got, "the "+test.kind+" does not scale: "+test.want+"; see kubectl describe "+strings.ToLower(test.kind)+" tfs")
		if told != (test.want != "") || strings.Contains(got, "secret") {
			t.Errorf("%s: warnings %s", name, got)
		}
	}
}

func list(t *testing.T, text string) (out []any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestAnAutoscalerWithoutMetricsIsTold once pods that start would have some. Nothing else wakes anybody then: it writes nothing while it goes on to fail.
func TestAnAutoscalerWithoutMetricsIsTold(t *testing.T) {
	for name, test := range map[string]struct {
		condition string
		after     time.Duration
		starting  bool
		want      string
		wakes     bool
	}{
		"no metrics server":   {"ScalingActive, status: 'False', reason: FailedGetResourceMetric", 2 * time.Minute, false, "FailedGetResourceMetric", false},
		"an unknown metric":   {"ScalingActive, status: 'False', reason: FailedGetPodsMetric", time.Hour, false, "FailedGetPodsMetric", false},
		"no target":           {"AbleToScale, status: 'False', reason: FailedGetScale", 2 * time.Minute, false, "FailedGetScale", false},
		"not for long":        {"ScalingActive, status: 'False', reason: FailedGetResourceMetric", 119 * time.Second, false, "", true},
		"no server is ready":  {"ScalingActive, status: 'False', reason: FailedGetResourceMetric", time.Hour, true, "", false},
		"it scales":           {"ScalingActive, status: 'True', reason: ValidMetricFound", time.Hour, false, "", false},
		"replicas are 0":      {"ScalingActive, status: 'False', reason: ScalingDisabled", time.Hour, false, "", false},
		"it says nothing yet": {"ScalingLimited, status: 'False', reason: DesiredWithinRange", time.Hour, false, "", false},
	} {
		c, cr := controllertest.New(testNow), custom(t, inline+"  autoscaling: {maxReplicas: 3}\n")
		_, p := gatherAndRender(t, c, cr)
		u := find(p, "HorizontalPodAutoscaler").Desired.DeepCopy()
		u.Object["status"] = map[string]any{"conditions": list(t, "[{type: "+test.condition+", lastTransitionTime: '"+testNow.Format(time.RFC3339)+"'}]")}
		c.Own(u, ownerOf(cr))
		d := controllertest.MustFind(t, p, "Deployment", cr.Name)
		d.Object["spec"].(map[string]any)["replicas"] = int64(1)
		rolledOut(t, c, cr, p, !test.starting)
		c.Time = testNow.Add(test.after)
		facts, p := gatherAndRender(t, c, cr)
		projected(c, cr, facts, p, !test.starting)
		got := strings.Join(cr.Status.Warnings, "\n")
		if want := "the HorizontalPodAutoscaler does not scale: " + test.want + ";"; strings.Contains(got, "does not scale") != (test.want != "") || test.want != "" && !strings.Contains(got, want) {
			t.Errorf("%s: warnings %s", name, got)
		}
		if due := testNow.Add(2 * time.Minute); p.WakeAt.Equal(due) != test.wakes || !p.WakeAt.IsZero() != test.wakes {
			t.Errorf("%s: wakes at %s", name, p.WakeAt)
		}
	}
}
