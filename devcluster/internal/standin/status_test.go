package standin

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func object() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "n", "namespace": "ns", "generation": int64(3)},
		"spec":     map[string]any{},
	}}
}

// A status that is not settled by its own writing would be written for ever.
func TestEveryRoleSettles(t *testing.T) {
	for _, r := range roles {
		obj := object()
		if r.spec != nil {
			if !r.spec(obj) || r.spec(obj) {
				t.Errorf("%s: the defaults do not settle", r.crd)
			}
		}
		if r.status == nil {
			continue // Its status follows from that of its children.
		}
		first := r.status(obj, "2026-01-01T00:00:00Z")
		if settled(obj.Object["status"], first) {
			t.Errorf("%s: an empty status is settled", r.crd)
		}
		if !settled(first, r.status(obj, "2027-01-01T00:00:00Z")) {
			t.Errorf("%s: only the time changed, and it is not settled", r.crd)
		}
	}
}

func TestRouteHostOfTheUserStays(t *testing.T) {
	obj := object()
	if err := unstructured.SetNestedField(obj.Object, "mine.example", "spec", "host"); err != nil {
		t.Fatal(err)
	}
	if defaultRouteHost(obj) || obj.GetAnnotations() != nil {
		t.Error("the route was changed")
	}
}

// status reads a field of a status.
func status(u map[string]any, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(u, path...)
	return value
}

// TestInferenceServiceFollowsItsDeployment: the status is what KServe makes of the Deployment's, its counter included.
func TestInferenceServiceFollowsItsDeployment(t *testing.T) {
	obj := object()
	obj.SetAnnotations(map[string]string{"mine": "yes"})
	for _, c := range []struct {
		name, available, progressing, reason string
		want                                 string
	}{
		{"new", "", "", "", "False"},
		{"starting", "False", "True", "ReplicaSetUpdated", "False"},
		{"not told yet", "", "True", "NewReplicaSetCreated", "Unknown"},
		{"serving", "True", "True", "NewReplicaSetAvailable", "True"},
		{"the old one serves while the new one comes", "True", "True", "ReplicaSetUpdated", "True"},
		{"stuck", "True", "False", "ProgressDeadlineExceeded", "False"},
	} {
		d := deploymentOf(obj, "predictor")
		if got := status(d.Object, "spec", "template", "metadata", "annotations", "mine"); got != "yes" {
			t.Errorf("the annotation of the service is %v in the template", got)
		}
		var conditions []any
		for kind, told := range map[string][2]string{"Available": {c.available}, "Progressing": {c.progressing, c.reason}} {
			if told[0] != "" {
				conditions = append(conditions, map[string]any{"type": kind, "status": told[0], "reason": told[1]})
			}
		}
		d.Object["status"] = map[string]any{"observedGeneration": int64(7), "conditions": conditions}
		got := &unstructured.Unstructured{Object: map[string]any{
			"status": kserveStatus(obj, standard, map[string]*unstructured.Unstructured{"predictor": d}, "now"),
		}}
		if ready := conditionIn(got, "Ready").status; ready != c.want || status(got.Object, "status", "observedGeneration") != int64(7) {
			t.Errorf("%s: Ready is %s, not %s; %v", c.name, ready, c.want, got.Object["status"])
		}
	}
}

// TestScalingMakesNoOtherTemplate: what KServe gives to the autoscaler restarts nothing.
func TestScalingMakesNoOtherTemplate(t *testing.T) {
	obj := object()
	before := hash(template(obj, "predictor"))
	set := func(value any, path ...string) {
		if err := unstructured.SetNestedField(obj.Object, value, path...); err != nil {
			t.Fatal(err)
		}
	}
	set(int64(3), "spec", "predictor", "minReplicas")
	if hash(template(obj, "predictor")) != before {
		t.Error("scaling makes another template")
	}
	set("s3://other", "spec", "predictor", "model", "storageUri")
	if hash(template(obj, "predictor")) == before {
		t.Error("another model makes the same template")
	}
}
