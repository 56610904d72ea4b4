package convert

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// removed are the groups and versions that Kubernetes 1.36 no longer serves, and with which the real KfDefs come.
var removed = []string{
	"apiextensions.k8s.io/v1beta1", "rbac.authorization.k8s.io/v1beta1", "rbac.authorization.k8s.io/v1alpha1",
	"admissionregistration.k8s.io/v1beta1", "apiregistration.k8s.io/v1beta1", "policy/v1beta1", "autoscaling/v2beta1",
	"autoscaling/v2beta2", "extensions/v1beta1", "networking.k8s.io/v1beta1", "apps/v1beta1", "apps/v1beta2", "batch/v1beta1",
	"batch/v2alpha1", "scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha1", "storage.k8s.io/v1beta1",
	"discovery.k8s.io/v1beta1", "coordination.k8s.io/v1beta1", "events.k8s.io/v1beta1", "certificates.k8s.io/v1beta1",
	"node.k8s.io/v1beta1", "node.k8s.io/v1alpha1", "flowcontrol.apiserver.k8s.io/v1beta1", "flowcontrol.apiserver.k8s.io/v1beta2",
	"flowcontrol.apiserver.k8s.io/v1beta3", "admissionregistration.k8s.io/v1alpha1",
}

// today is a cluster that serves everything but what was removed.
var today = Converter{Served: func(gvk schema.GroupVersionKind) bool {
	for _, r := range removed {
		if gvk.GroupVersion().String() == r {
			return false
		}
	}
	return true
}}

func parse(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	out := map[string]any{}
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: out}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u
}

// TestConvert pins every conversion by an object and what it becomes.
func TestConvert(t *testing.T) {
	cases := map[string]struct{ in, want, warning string }{
		"role": {
			in:   `{apiVersion: rbac.authorization.k8s.io/v1beta1, kind: ClusterRole, metadata: {name: a}, rules: [{apiGroups: [""], verbs: [get]}]}`,
			want: `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}, rules: [{apiGroups: [""], verbs: [get]}]}`,
		},
		"binding": {
			in: `{apiVersion: rbac.authorization.k8s.io/v1beta1, kind: RoleBinding, metadata: {name: a}, roleRef: {kind: Role, name: r},
subjects: [{kind: ServiceAccount, name: s, namespace: n}, {kind: User, name: "*"}]}`,
			want: `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: a},
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r},
subjects: [{kind: ServiceAccount, name: s, namespace: n}, {kind: User, name: "*", apiGroup: rbac.authorization.k8s.io}]}`,
		},
		"binding of v1alpha1": {
			in: `{apiVersion: rbac.authorization.k8s.io/v1alpha1, kind: ClusterRoleBinding, metadata: {name: a}, roleRef: {apiGroup: g},
subjects: [{kind: User, name: "*", apiVersion: rbac.authorization.k8s.io/v1alpha1}]}`,
			want: `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: a}, roleRef: {apiGroup: g},
subjects: [{kind: Group, name: "system:authenticated", apiGroup: rbac.authorization.k8s.io}]}`,
		},
		"webhook with nothing said": {
			in: `{apiVersion: admissionregistration.k8s.io/v1beta1, kind: MutatingWebhookConfiguration, metadata: {name: a},
webhooks: [{name: w.x.io, clientConfig: {url: u}}]}`,
			want: `{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: a},
webhooks: [{name: w.x.io, clientConfig: {url: u}, failurePolicy: Ignore, matchPolicy: Exact, timeoutSeconds: 30, sideEffects: None,
admissionReviewVersions: [v1beta1]}]}`,
			warning: "MutatingWebhookConfiguration a: sideEffects of w.x.io was not None",
		},
		"webhook with everything said": {
			in: `{apiVersion: admissionregistration.k8s.io/v1beta1, kind: ValidatingWebhookConfiguration, metadata: {name: a},
webhooks: [{name: w.x.io, failurePolicy: Fail, matchPolicy: Equivalent, timeoutSeconds: 5, sideEffects: NoneOnDryRun,
admissionReviewVersions: [v1, v1beta1]}]}`,
			want: `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: a},
webhooks: [{name: w.x.io, failurePolicy: Fail, matchPolicy: Equivalent, timeoutSeconds: 5, sideEffects: NoneOnDryRun,
admissionReviewVersions: [v1, v1beta1]}]}`,
		},
		"webhook of unknown effects": {
			in: `{apiVersion: admissionregistration.k8s.io/v1beta1, kind: ValidatingWebhookConfiguration, metadata: {name: a},
webhooks: [{name: w.x.io, failurePolicy: Fail, matchPolicy: Exact, timeoutSeconds: 5, sideEffects: Unknown, admissionReviewVersions: []}]}`,
			want: `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: a},
webhooks: [{name: w.x.io, failurePolicy: Fail, matchPolicy: Exact, timeoutSeconds: 5, sideEffects: None, admissionReviewVersions: [v1beta1]}]}`,
			warning: "sideEffects",
		},
		"disruption budget": {
			in:   `{apiVersion: policy/v1beta1, kind: PodDisruptionBudget, metadata: {name: a}, spec: {minAvailable: 1, selector: {matchLabels: {a: b}}}, status: {}}`,
			want: `{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: a}, spec: {minAvailable: 1, selector: {matchLabels: {a: b}}}}`,
		},
		"disruption budget with an empty selector": {
			in:      `{apiVersion: policy/v1beta1, kind: PodDisruptionBudget, metadata: {name: a}, spec: {minAvailable: 1, selector: {}}}`,
			want:    `{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: a}, spec: {minAvailable: 1}}`,
			warning: "its empty selector is removed",
		},
		"autoscaler v2beta1": {
			in: `{apiVersion: autoscaling/v2beta1, kind: HorizontalPodAutoscaler, metadata: {name: a}, spec: {maxReplicas: 5, metrics: [
{type: Resource, resource: {name: cpu, targetAverageUtilization: 80}},
{type: Resource, resource: {name: memory, targetAverageValue: 1Gi}},
{type: ContainerResource, containerResource: {name: cpu, container: c, targetAverageUtilization: 60}},
{type: Pods, pods: {metricName: m, targetAverageValue: 3, selector: {matchLabels: {a: b}}}},
{type: Object, object: {metricName: m, target: {kind: Service, name: s}, targetValue: 7}},
{type: Object, object: {metricName: m, target: {kind: Service, name: s}, targetValue: 0, averageValue: 2}},
{type: External, external: {metricName: m, metricSelector: {matchLabels: {a: b}}, targetAverageValue: 4}}]}}`,
			want: `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: a}, spec: {maxReplicas: 5, metrics: [
{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}},
{type: Resource, resource: {name: memory, target: {type: AverageValue, averageValue: 1Gi}}},
{type: ContainerResource, containerResource: {name: cpu, container: c, target: {type: Utilization, averageUtilization: 60}}},
{type: Pods, pods: {metric: {name: m, selector: {matchLabels: {a: b}}}, target: {type: AverageValue, averageValue: 3}}},
{type: Object, object: {metric: {name: m}, describedObject: {kind: Service, name: s}, target: {type: Value, value: 7}}},
{type: Object, object: {metric: {name: m}, describedObject: {kind: Service, name: s}, target: {type: AverageValue, averageValue: 2}}},
{type: External, external: {metric: {name: m, selector: {matchLabels: {a: b}}}, target: {type: AverageValue, averageValue: 4}}}]}}`,
		},
		"autoscaler v2beta2": {
			in:   `{apiVersion: autoscaling/v2beta2, kind: HorizontalPodAutoscaler, metadata: {name: a}, spec: {metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization}}}]}}`,
			want: `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: a}, spec: {metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization}}}]}}`,
		},
		"API service": {
			in:   `{apiVersion: apiregistration.k8s.io/v1beta1, kind: APIService, metadata: {name: v1.x}, spec: {group: x, service: {name: s, namespace: n}}}`,
			want: `{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.x}, spec: {group: x, service: {name: s, namespace: n}}}`,
		},
		"ingress of extensions": {
			in: `{apiVersion: extensions/v1beta1, kind: Ingress, metadata: {name: a, annotations: {kubernetes.io/ingress.class: gce}},
spec: {backend: {serviceName: d, servicePort: 80}, rules: [{host: h, http: {paths: [
{path: /a, backend: {serviceName: s, servicePort: http}}, {backend: {serviceName: s, servicePort: "8080"}},
{path: /b, pathType: Prefix, backend: {resource: {kind: K, name: n}}}]}}]}}`,
			want: `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: a, annotations: {kubernetes.io/ingress.class: gce}},
spec: {defaultBackend: {service: {name: d, port: {number: 80}}}, rules: [{host: h, http: {paths: [
{path: /a, pathType: ImplementationSpecific, backend: {service: {name: s, port: {name: http}}}},
{pathType: ImplementationSpecific, backend: {service: {name: s, port: {number: 8080}}}},
{path: /b, pathType: Prefix, backend: {resource: {kind: K, name: n}}}]}}]}}`,
		},
		"ingress of networking": {
			in:   `{apiVersion: networking.k8s.io/v1beta1, kind: Ingress, metadata: {name: a}, spec: {rules: [{host: h}]}}`,
			want: `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: a}, spec: {rules: [{host: h}]}}`,
		},
		"deployment of extensions": {
			in: `{apiVersion: extensions/v1beta1, kind: Deployment, metadata: {name: a}, spec: {rollbackTo: {revision: 1},
template: {metadata: {labels: {a: b}}, spec: {containers: []}}}}`,
			want: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {selector: {matchLabels: {a: b}},
strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 1, maxSurge: 1}},
template: {metadata: {labels: {a: b}}, spec: {containers: []}}}}`,
		},
		"stateful set with a selector": {
			in: `{apiVersion: apps/v1beta2, kind: StatefulSet, metadata: {name: a}, spec: {selector: {matchLabels: {x: y}},
template: {metadata: {labels: {x: y, a: b}}}}}`,
			want: `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {selector: {matchLabels: {x: y}},
template: {metadata: {labels: {x: y, a: b}}}}}`,
		},
		"daemon set": {
			in: `{apiVersion: extensions/v1beta1, kind: DaemonSet, metadata: {name: a}, spec: {templateGeneration: 3, selector: {}, template: {metadata: {labels: {a: b}}}}}`,
			want: `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a}, spec: {selector: {matchLabels: {a: b}},
updateStrategy: {type: OnDelete}, template: {metadata: {labels: {a: b}}}}}`,
			warning: "DaemonSet a: its pods are replaced only when they are deleted, as v1beta1 assumed",
		},
		"replica set": {
			in:   `{apiVersion: apps/v1beta2, kind: ReplicaSet, metadata: {name: a}, spec: {selector: {matchLabels: {a: b}}}}`,
			want: `{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: a}, spec: {selector: {matchLabels: {a: b}}}}`,
		},
		"cron job": {
			in:   `{apiVersion: batch/v1beta1, kind: CronJob, metadata: {name: a}, spec: {schedule: "* * * * *", jobTemplate: {spec: {}}}}`,
			want: `{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}, spec: {schedule: "* * * * *", jobTemplate: {spec: {}}}}`,
		},
		"network policy": {
			in:   `{apiVersion: extensions/v1beta1, kind: NetworkPolicy, metadata: {name: a}, spec: {podSelector: {}}}`,
			want: `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: a}, spec: {podSelector: {}}}`,
		},
		"priority class": {
			in:   `{apiVersion: scheduling.k8s.io/v1beta1, kind: PriorityClass, metadata: {name: a}, value: 7}`,
			want: `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: a}, value: 7}`,
		},
		"storage class": {
			in:   `{apiVersion: storage.k8s.io/v1beta1, kind: StorageClass, metadata: {name: a}, provisioner: p}`,
			want: `{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: a}, provisioner: p}`,
		},
		"pod security policy":               {in: `{apiVersion: policy/v1beta1, kind: PodSecurityPolicy, metadata: {name: a}}`, warning: "PodSecurityPolicy a: left out"},
		"pod security policy of extensions": {in: `{apiVersion: extensions/v1beta1, kind: PodSecurityPolicy, metadata: {name: a}}`, warning: "left out"},
		"kind that nobody knows": {
			in:   `{apiVersion: extensions/v1beta1, kind: Widget, metadata: {name: a}, status: {a: b}}`,
			want: `{apiVersion: extensions/v1beta1, kind: Widget, metadata: {name: a}, status: {a: b}}`,
		},
		"kind that is served": {
			in:   `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {rollbackTo: {}}}`,
			want: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {rollbackTo: {}}}`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in := parse(t, c.in)
			before := in.DeepCopy()
			got, warnings, err := today.Convert(in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, in); diff != "" {
				t.Errorf("the input changed:\n%s", diff)
			}
			if c.want == "" {
				if got != nil {
					t.Errorf("not left out: %v", got)
				}
			} else if diff := cmp.Diff(parse(t, c.want), got); diff != "" {
				t.Error(diff)
			}
			checkWarning(t, warnings, c.warning)
		})
	}
}

func checkWarning(t *testing.T, warnings []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(warnings) > 0:
		t.Errorf("warnings %q", warnings)
	case want != "" && (len(warnings) != 1 || !strings.Contains(warnings[0], want)):
		t.Errorf("warnings %q, want %q", warnings, want)
	}
}

// TestServed shows that the cluster decides: one that serves the old version keeps it, one that serves neither gets the
// object as it is.
func TestServed(t *testing.T) {
	const text = `{apiVersion: policy/v1beta1, kind: PodDisruptionBudget, metadata: {name: a}, spec: {selector: {}}}`
	for name, served := range map[string]bool{"all": true, "nothing": false} {
		t.Run(name, func(t *testing.T) {
			in := parse(t, text)
			got, warnings, err := Converter{Served: func(schema.GroupVersionKind) bool { return served }}.Convert(in)
			if got != in || warnings != nil || err != nil {
				t.Errorf("%v, %v, %v", got, warnings, err)
			}
		})
	}
	policy := parse(t, `{apiVersion: policy/v1beta1, kind: PodSecurityPolicy, metadata: {name: a}}`)
	if got, _, _ := (Converter{Served: func(schema.GroupVersionKind) bool { return true }}).Convert(policy); got != policy {
		t.Errorf("a served PodSecurityPolicy became %v", got)
	}
}

// TestErrors shows what cannot be converted, by a message that names the field.
func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{apiVersion: autoscaling/v2beta1, kind: HorizontalPodAutoscaler, metadata: {name: a}, spec: {metrics: [{type: Odd}]}}`:  "the type of metric 1 is not known: correct spec.metrics",
		`{apiVersion: autoscaling/v2beta1, kind: HorizontalPodAutoscaler, metadata: {name: a}, spec: {metrics: [{type: Pods}]}}`: "no field pods",
		`{apiVersion: apiextensions.k8s.io/v1beta1, kind: CustomResourceDefinition, metadata: {name: a}, spec: {names: []}}`:     "correct the field",
		`{apiVersion: certificates.k8s.io/v1beta1, kind: CertificateSigningRequest, metadata: {name: a}, spec: {request: x}}`:    "asks for spec.signerName",
	} {
		got, _, err := today.Convert(parse(t, text))
		if got != nil || err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), " a: cannot be converted from ") {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

// TestErrorsAndWarningsQuoteNoValue: it may come from a Secret, by a variable or by the values of a chart.
func TestErrorsAndWarningsQuoteNoValue(t *testing.T) {
	const definition = `{apiVersion: apiextensions.k8s.io/v1beta1, kind: CustomResourceDefinition, metadata: {name: a`
	for text, want := range map[string]string{
		`{apiVersion: autoscaling/v2beta1, kind: HorizontalPodAutoscaler, metadata: {name: a}, spec: {metrics: [{type: hunter2}]}}`: "spec.metrics",
		definition + `, creationTimestamp: hunter2}}`:                                                                  "correct the field",
		definition + `}, spec: {names: hunter2}}`:                                                                      "spec.names",
		definition + `}, spec: {version: v1, validation: {openAPIV3Schema: {type: hunter2}}}}`:                         "type: Invalid value: must be object",
		definition + `}, spec: {version: v1, validation: {openAPIV3Schema: {type: hunter2, not: {type: "hunter2"}}}}}`: "and 1 more",
	} {
		_, warnings, err := today.Convert(parse(t, text))
		if told := fmt.Sprint(warnings, err); strings.Contains(told, "hunter2") || !strings.Contains(told, want) {
			t.Errorf("%s: %s; want %q", text, told, want)
		}
	}
}

// FuzzConvert shows that no object, however odd, makes a conversion panic or change its input.
func FuzzConvert(f *testing.F) {
	for _, seed := range []string{
		`{"apiVersion":"extensions/v1beta1","kind":"Ingress","spec":{"backend":{"servicePort":[]},"rules":[1,{"http":{"paths":[{}]}}]}}`,
		`{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"CustomResourceDefinition","spec":{"version":"v1","validation":{"openAPIV3Schema":{"type":"object","properties":{"a":{"items":[]}}}}}}`,
		`{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"CustomResourceDefinition","spec":{"versions":[{"name":"v1","schema":{}}],"conversion":{"strategy":"Webhook"}}}`,
		`{"apiVersion":"autoscaling/v2beta1","kind":"HorizontalPodAutoscaler","spec":{"metrics":[{"type":"Resource","resource":{"targetAverageUtilization":{}}}]}}`,
		`{"apiVersion":"apps/v1beta1","kind":"Deployment","spec":{"selector":7,"template":{"metadata":{"labels":{"a":[1]}}}}}`,
		`{"apiVersion":"admissionregistration.k8s.io/v1beta1","kind":"MutatingWebhookConfiguration","webhooks":[null,{"admissionReviewVersions":7}]}`,
		`{"apiVersion":"rbac.authorization.k8s.io/v1alpha1","kind":"RoleBinding","subjects":{"a":1},"roleRef":[]}`,
		`{"apiVersion":"policy/v1beta1","kind":"PodDisruptionBudget","spec":[],"metadata":7}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		in := &unstructured.Unstructured{}
		if err := in.UnmarshalJSON(raw); err != nil {
			return
		}
		before := in.DeepCopy()
		out, _, err := today.Convert(in)
		if diff := cmp.Diff(before, in); diff != "" {
			t.Errorf("the input changed:\n%s", diff)
		}
		if err != nil || out == nil {
			return
		}
		again, _, err := today.Convert(out)
		if diff := cmp.Diff(out, again); diff != "" || err != nil {
			t.Errorf("a second conversion: %v\n%s", err, diff)
		}
	})
}

// TestDependsHoldsWhatARuleKnows leaves out kinds of which the answer makes no difference, such as those that come with their own
// definition a moment later.
func TestDependsHoldsWhatARuleKnows(t *testing.T) {
	depends := Depends{}
	serves := func(gvk schema.GroupVersionKind) bool { return gvk.Version == "v1" }
	c := Converter{Served: depends.Record(serves)}
	for _, apiVersion := range []string{"policy/v1beta1", "apps/v1", "example.com/v1alpha1"} {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": "PodDisruptionBudget"}}
		if _, _, err := c.Convert(u); err != nil {
			t.Fatal(err)
		}
	}
	if got := depends.String(); got != "policy/v1/PodDisruptionBudget=true,policy/v1beta1/PodDisruptionBudget=false" {
		t.Error(got)
	}
	now := depends.Now(func(schema.GroupVersionKind) bool { return false })
	if got := now.String(); got != "policy/v1/PodDisruptionBudget=false,policy/v1beta1/PodDisruptionBudget=false" {
		t.Error(got)
	}
}
