package health

import (
	"reflect"
	"testing"
)

// TestStripKeepsLittle shows what stays of a kind with many fields, a Pod, and of kinds without a status.
func TestStripKeepsLittle(t *testing.T) {
	for _, c := range []struct {
		full, left sample
	}{
		{
			sample{kind: "v1 Pod", body: `
metadata: {name: a, labels: {b: c}, managedFields: [{manager: m}]}
spec: {containers: [{name: a, env: [{name: PASSWORD, value: secret}]}]}
status:
  phase: Pending
  podIP: 10.0.0.1
  containerStatuses: [{name: a, image: i, state: {waiting: {reason: ErrImagePull, message: m}}}]
  conditions: [{type: Ready, status: "False", lastProbeTime: null, lastTransitionTime: "2026-01-01T00:00:00Z"}]`},
			sample{kind: "v1 Pod", body: `
metadata: {name: a, labels: {b: c}, managedFields: [{manager: m}]}
status:
  phase: Pending
  containerStatuses: [{state: {waiting: {reason: ErrImagePull}}}]
  conditions: [{type: Ready, status: "False"}]`},
		},
		{
			sample{kind: "v1 Secret", body: `
metadata: {name: a}
data: {password: QQ==}`},
			sample{kind: "v1 Secret", body: `metadata: {name: a}`},
		},
		{
			sample{kind: "gateway.networking.k8s.io/v1 HTTPRoute", body: `
metadata: {name: a}
spec:
  hostnames: [h]
  rules: [{filters: [{requestMirror: {percent: 1, backendRef: {name: s, port: 1}}}], backendRefs: [{name: t, port: 1, weight: 1}]}]
status:
  parents:
  - {controllerName: c, parentRef: {name: g}, conditions: [{type: Accepted, status: "False", reason: NoMatchingParent, message: m, observedGeneration: 2}]}`},
			sample{kind: "gateway.networking.k8s.io/v1 HTTPRoute", body: `
metadata: {name: a}
spec: {rules: [{filters: [{requestMirror: {backendRef: {name: s}}}], backendRefs: [{name: t}]}]}
status: {parents: [{conditions: [{type: Accepted, status: "False", reason: NoMatchingParent, observedGeneration: 2}]}]}`},
		},
		{
			sample{kind: thing, body: `
metadata: {name: a}
spec: {big: field}
status: {phase: x, observedGeneration: 1}`},
			sample{kind: thing, body: `
metadata: {name: a}
status: {observedGeneration: 1}`},
		},
	} {
		full := c.full.object(t)
		got := Strip(full)
		if want := c.left.object(t); !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		got.SetLabels(map[string]string{"changed": "yes"})
		if full.GetLabels()["changed"] != "" {
			t.Error("the copy shares its metadata with the original")
		}
	}
}

func TestStripDoesNotGrowSharedPaths(t *testing.T) {
	if cap(genericFields) != len(genericFields) {
		t.Error("appending to the generic paths would write into the shared slice")
	}
}
