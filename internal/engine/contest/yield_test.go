package contest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// creation stands for no live object: the desired one is about to be created.
const creation = "creation"

func TestLaw11FieldsThatOthersMustFillAreYielded(t *testing.T) {
	for name, c := range map[string]struct{ in, live, want string }{
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
		"a Secret with empty values": {
			in:   `{apiVersion: v1, kind: Secret, type: Opaque, data: {a: "", b: Yg==, c: null}, stringData: {d: ""}}`,
			want: `{apiVersion: v1, kind: Secret, type: Opaque, data: {b: Yg==}}`,
		},
		"a Secret without data": {
			in:   `{apiVersion: v1, kind: Secret, data: null}`,
			want: `{apiVersion: v1, kind: Secret}`,
		},
		"required keys of a Secret at creation": {
			in:   `{apiVersion: v1, kind: Secret, type: kubernetes.io/tls, data: {tls.crt: "", tls.key: "", ca.crt: ""}}`,
			want: `{apiVersion: v1, kind: Secret, type: kubernetes.io/tls, data: {tls.crt: "", tls.key: ""}}`,
			live: creation,
		},
		"required keys of a Secret that may be filled": {
			in:   `{apiVersion: v1, kind: Secret, type: kubernetes.io/tls, data: {tls.crt: "", tls.key: ""}}`,
			want: `{apiVersion: v1, kind: Secret, type: kubernetes.io/tls}`,
		},
		"required keys of a Secret once filled": {
			in:   `{apiVersion: v1, kind: Secret, type: kubernetes.io/tls, data: {tls.crt: "", tls.key: ""}}`,
			live: `{apiVersion: v1, kind: Secret, type: kubernetes.io/tls, data: {tls.crt: Yg==, tls.key: ""}}`,
			want: `{apiVersion: v1, kind: Secret, type: kubernetes.io/tls, data: {tls.key: ""}}`,
		},
		"a ConfigMap keeps empty values": {
			in:   `{apiVersion: v1, kind: ConfigMap, data: {a: ""}}`,
			want: `{apiVersion: v1, kind: ConfigMap, data: {a: ""}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := object(t, c.in)
			yielded := func(u *unstructured.Unstructured) *unstructured.Unstructured {
				switch c.live {
				case creation:
					return ForCreate(u)
				case "":
					return Yield(u, nil, me, false)
				default:
					return Yield(u, object(t, c.live), me, false)
				}
			}
			got := yielded(in)
			if diff := cmp.Diff(object(t, c.want).Object, got.Object); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(object(t, c.in).Object, in.Object); diff != "" {
				t.Errorf("the input changed: %s", diff)
			}
			if diff := cmp.Diff(got.Object, yielded(got).Object); diff != "" {
				t.Errorf("not idempotent: %s", diff)
			}
		})
	}
}

func TestLaw11ReplicasAreLeftToAnAutoscaler(t *testing.T) {
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
		"not read":              {"", true, nil},
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
			got := Yield(object(t, deployment), observed, me, c.scaled)
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
