package fieldownership

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
)

func TestInvariant11FieldsThatOthersMustFillAreCeded(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"status and server fields": {
			in: `{apiVersion: v1, kind: Pod, metadata: {name: p, uid: u, resourceVersion: "1", generation: 2, creationTimestamp: null,
			  selfLink: /x, deletionTimestamp: null, managedFields: [], labels: {a: b}}, status: {phase: Running}}`,
			want: `{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {a: b}}}`,
		},
		"aggregated rules": {
			in:   `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, aggregationRule: {clusterRoleSelectors: []}, rules: []}`,
			want: `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, aggregationRule: {clusterRoleSelectors: []}}`,
		},
		"own rules": {
			in:   `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, rules: [{verbs: [get]}]}`,
			want: `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, rules: [{verbs: [get]}]}`,
		},
		"webhooks": {
			in: `{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, webhooks: [
			  {name: a, clientConfig: {caBundle: Cg==}}, {name: b, clientConfig: {caBundle: ""}}, {name: c, clientConfig: {caBundle: "\n"}},
			  {name: d, clientConfig: {caBundle: null}}, {name: e, clientConfig: {caBundle: Q0E=, url: u}}, {name: f}]}`,
			want: `{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, webhooks: [
			  {name: a, clientConfig: {}}, {name: b, clientConfig: {}}, {name: c, clientConfig: {}},
			  {name: d, clientConfig: {}}, {name: e, clientConfig: {caBundle: Q0E=, url: u}}, {name: f}]}`,
		},
		"an injected webhook": {
			in: `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration,
			  metadata: {annotations: {cert-manager.io/inject-ca-from: n/c}}, webhooks: [{clientConfig: {caBundle: Q0E=}}]}`,
			want: `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration,
			  metadata: {annotations: {cert-manager.io/inject-ca-from: n/c}}, webhooks: [{clientConfig: {}}]}`,
		},
		"a conversion webhook": {
			in:   `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, spec: {group: g, conversion: {webhook: {clientConfig: {caBundle: Cg==}}}}}`,
			want: `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, spec: {group: g, conversion: {webhook: {clientConfig: {}}}}}`,
		},
		"an APIService": {
			in:   `{apiVersion: apiregistration.k8s.io/v1, kind: APIService, spec: {group: g, caBundle: ""}}`,
			want: `{apiVersion: apiregistration.k8s.io/v1, kind: APIService, spec: {group: g}}`,
		},
		"a Secret that others fill": {
			in:   `{apiVersion: v1, kind: Secret, data: {}}`,
			want: `{apiVersion: v1, kind: Secret}`,
		},
		"empty values of a Secret at creation": {
			in:   `{apiVersion: v1, kind: Secret, type: Opaque, data: {a: "", b: Yg==, c: null}, stringData: {d: "", e: null, b: d}}`,
			want: `{apiVersion: v1, kind: Secret, type: Opaque, data: {a: "", b: ZA==, c: "", d: "", e: ""}}`,
		},
		"a Secret without data": {
			in:   `{apiVersion: v1, kind: Secret, data: null, stringData: {}}`,
			want: `{apiVersion: v1, kind: Secret}`,
		},
		"a Secret that the API server will refuse": {
			in:   `{apiVersion: v1, kind: Secret, data: wrong, stringData: {a: b}}`,
			want: `{apiVersion: v1, kind: Secret, data: wrong, stringData: {a: b}}`,
		},
		"empty keys that the type of a Secret requires": {
			in:   `{apiVersion: v1, kind: Secret, type: kubernetes.io/tls, data: {tls.crt: "", tls.key: "", ca.crt: ""}}`,
			want: `{apiVersion: v1, kind: Secret, type: kubernetes.io/tls, data: {tls.crt: "", tls.key: "", ca.crt: ""}}`,
		},
		"a ConfigMap keeps empty values": {
			in:   `{apiVersion: v1, kind: ConfigMap, data: {a: ""}}`,
			want: `{apiVersion: v1, kind: ConfigMap, data: {a: ""}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := object(t, c.in)
			got := ForCreate(in)
			if diff := cmp.Diff(object(t, c.want).Object, got.Object); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(object(t, c.in).Object, in.Object); diff != "" {
				t.Errorf("the input changed: %s", diff)
			}
			if diff := cmp.Diff(object(t, c.want).Object, DropExternallyManaged(in, nil, managers, false).Object); diff != "" {
				t.Errorf("applied without a live object: %s", diff)
			}
			if diff := cmp.Diff(got.Object, ForCreate(got).Object); diff != "" {
				t.Errorf("not idempotent: %s", diff)
			}
		})
	}
}

func TestEmptyValuesAreLeftToWhoHasFilledThem(t *testing.T) {
	const (
		declared = `{apiVersion: v1, kind: Secret, stringData: {a: "", b: ""}}`
		secret   = "apiVersion: v1\nkind: Secret\nmetadata:\n  managedFields:\n"
		filled   = "data: {a: eA==, b: \"\"}\n"
	)
	mine := entry(me, "Update", early, `{"f:data":{".":{},"f:a":{},"f:b":{}}}`)
	rest := entry(me, "Apply", early, `{"f:data":{".":{},"f:b":{}}}`)
	previous := entry("kfctl", "Update", early, `{"f:data":{".":{},"f:a":{},"f:b":{}}}`)
	theirs := entry("cert-manager", "Update", late, `{"f:data":{"f:a":{}}}`)
	both := entry("user", "Apply", late, `{"f:data":{"f:a":{},"f:b":{}}}`)
	for name, c := range map[string]struct{ live, want string }{
		"another manager holds one with a value": {secret + rest + theirs + filled, `{b: ""}`},
		"another manager holds both, one empty":  {secret + mine + both + filled, `{b: ""}`},
		"another manager holds both, filled":     {secret + mine + both + "data: {a: eA==, b: eA==}\n", ""},
		"nobody else holds it":                   {secret + mine + filled, `{a: "", b: ""}`},
		"nobody holds it":                        {secret + "    []\n" + filled, `{a: "", b: ""}`},
		"only the previous operator holds it":    {secret + previous + filled, `{a: "", b: ""}`},
		"another manager holds it empty":         {secret + both + `data: {a: "", b: ""}` + "\n", `{a: "", b: ""}`},
		"the keys are gone":                      {secret + mine, `{a: "", b: ""}`},
	} {
		t.Run(name, func(t *testing.T) {
			want := `{apiVersion: v1, kind: Secret, data: ` + c.want + `}`
			if c.want == "" {
				want = `{apiVersion: v1, kind: Secret}`
			}
			got := DropExternallyManaged(object(t, declared), object(t, c.live), managers, false)
			if diff := cmp.Diff(object(t, want).Object, got.Object); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatAnotherManagerMayFillDependsOnTheLiveObject(t *testing.T) {
	for text, want := range map[string]bool{
		deployment: true,
		`{apiVersion: v1, kind: Secret, data: {a: ""}}`:                  true,
		`{apiVersion: v1, kind: Secret, data: {a: null}}`:                true,
		`{apiVersion: v1, kind: Secret, stringData: {a: ""}}`:            true,
		`{apiVersion: v1, kind: Secret, data: {a: eA==}}`:                false,
		`{apiVersion: v1, kind: ConfigMap, data: {a: ""}}`:               false,
		`{apiVersion: apps/v1, kind: DaemonSet, spec: {template: null}}`: false,
	} {
		if got := DependsOnLive(object(t, text)); got != want {
			t.Errorf("%s: %t, want %t", text, got, want)
		}
	}
}

// managers are those whose fields are ours: MLKeeper, and an operator before it.
var managers = sets.New(me, "kfctl")

func TestInvariant11ReplicasAreLeftToAnAutoscaler(t *testing.T) {
	const declared = int64(2)
	mine := entry(me, "Apply", early, `{"f:spec":{"f:replicas":{}}}`)
	theirs := entry("kube-controller-manager", "Update", late, `{"f:spec":{"f:replicas":{}}}`)
	tail := "spec: {replicas: 5}\n"
	for name, c := range map[string]struct {
		live   string
		scaled bool
		want   any
	}{
		"no autoscaler":         {live + mine + tail, false, declared},
		"not read":              {"", true, declared},
		"only we hold it":       {live + mine + tail, true, int64(5)},
		"the autoscaler too":    {live + mine + theirs + tail, true, nil},
		"the autoscaler alone":  {live + theirs + tail, true, nil},
		"nobody holds it":       {live + "    []\n" + tail, true, nil},
		"gone from live":        {live + mine, true, nil},
		"live without replicas": {live + mine + "spec: {}\n", true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var observed *unstructured.Unstructured
			if c.live != "" {
				observed = object(t, c.live)
			}
			got := DropExternallyManaged(object(t, deployment), observed, managers, c.scaled)
			replicas := got.Object["spec"].(map[string]any)["replicas"]
			if replicas != c.want {
				t.Errorf("replicas are %v, want %v", replicas, c.want)
			}
		})
	}
	if got := ForCreate(object(t, deployment)); got.Object["spec"].(map[string]any)["replicas"] != declared {
		t.Errorf("the start value is missing at creation: %v", got.Object)
	}
}
