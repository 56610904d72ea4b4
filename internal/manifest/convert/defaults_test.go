package convert

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// TestDefaultsOfOldVersionsAreWrittenOut converts manifests of Kubeflow 0.6 and 1.0 that rely on what their version assumed. What that was
// is in Kubernetes' own list of changes (kubernetes.io/blog/2019/07/18/api-deprecations-in-1-16): "spec.updateStrategy.type now
// defaults to RollingUpdate (the default in extensions/v1beta1 was OnDelete)" of DaemonSets, and "in apps/v1beta1" of StatefulSets;
// "maxSurge and maxUnavailable now default to 25% (the default in extensions/v1beta1 was 1)" of Deployments.
func TestDefaultsOfOldVersionsAreWrittenOut(t *testing.T) {
	one := map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxUnavailable": int64(1), "maxSurge": int64(1)}}
	cases := map[string]struct {
		in, field, warning string
		want               any
	}{
		"gcp/gpu-driver/base/daemon-set.yaml of 0.6.2": {
			in: `{apiVersion: extensions/v1beta1, kind: DaemonSet, metadata: {name: nvidia-driver-installer, namespace: kube-system},
spec: {template: {metadata: {labels: {k8s-app: nvidia-driver-installer}}}}}`,
			field: "updateStrategy", want: map[string]any{"type": "OnDelete"}, warning: "as v1beta1 assumed",
		},
		"a daemon set that rolls": {
			in: `{apiVersion: extensions/v1beta1, kind: DaemonSet, metadata: {name: a},
spec: {updateStrategy: {type: RollingUpdate}, template: {metadata: {labels: {a: b}}}}}`,
			field: "updateStrategy", want: map[string]any{"type": "RollingUpdate"},
		},
		"a daemon set of apps/v1beta2, which rolls": {
			in:    `{apiVersion: apps/v1beta2, kind: DaemonSet, metadata: {name: a}, spec: {selector: {matchLabels: {a: b}}}}`,
			field: "updateStrategy",
		},
		"a stateful set of apps/v1beta1": {
			in: `{apiVersion: apps/v1beta1, kind: StatefulSet, metadata: {name: a}, spec: {serviceName: s,
template: {metadata: {labels: {a: b}}}}}`,
			field: "updateStrategy", want: map[string]any{"type": "OnDelete"}, warning: "as v1beta1 assumed",
		},
		"jupyter/jupyter/base/stateful-set.yaml of 0.6.2": {
			in: `{apiVersion: apps/v1beta2, kind: StatefulSet, metadata: {name: jupyter}, spec: {replicas: 1, serviceName: '',
template: {metadata: {labels: {app: jupyter}}}}}`,
			field: "updateStrategy",
		},
		"aws/aws-istio-authz-adaptor/base/deployment.yaml of 1.0.0": {
			in: `{apiVersion: extensions/v1beta1, kind: Deployment, metadata: {name: authzadaptor, labels: {run: authzadaptor}},
spec: {replicas: 1, selector: {matchLabels: {run: authzadaptor}}, template: {metadata: {labels: {run: authzadaptor}}}}}`,
			field: "strategy", want: one,
		},
		"argo/base/deployment.yaml of 0.6.2": {
			in: `{apiVersion: extensions/v1beta1, kind: Deployment, metadata: {name: argo-ui}, spec: {selector: {matchLabels: {app: argo-ui}},
strategy: {rollingUpdate: {maxSurge: 25%, maxUnavailable: 25%}, type: RollingUpdate}}}`,
			field: "strategy",
			want:  map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxUnavailable": "25%", "maxSurge": "25%"}},
		},
		"a deployment of extensions that is made anew": {
			in:    `{apiVersion: extensions/v1beta1, kind: Deployment, metadata: {name: a}, spec: {strategy: {type: Recreate}}}`,
			field: "strategy", want: map[string]any{"type": "Recreate"},
		},
		"common/ambassador/base/deployment.yaml of 0.6.2": {
			in:    `{apiVersion: apps/v1beta1, kind: Deployment, metadata: {name: ambassador}, spec: {template: {metadata: {labels: {service: ambassador}}}}}`,
			field: "strategy",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, warnings, err := today.Convert(parse(t, c.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, mapAt(got.Object, "spec")[c.field]); diff != "" {
				t.Error(diff)
			}
			checkWarning(t, warnings, c.warning)
		})
	}
}

// TestAutoscalersFindTheirTarget converts the references of autoscalers, whatever the version of the autoscaler.
func TestAutoscalersFindTheirTarget(t *testing.T) {
	cases := map[string]struct{ in, want string }{
		"kfdef/generic/istio/istio-noauth.yaml of 1.0.0": {
			in: `{apiVersion: autoscaling/v2beta1, kind: HorizontalPodAutoscaler, metadata: {name: istio-egressgateway},
spec: {maxReplicas: 5, scaleTargetRef: {apiVersion: apps/v1beta1, kind: Deployment, name: istio-egressgateway}}}`,
			want: `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: istio-egressgateway},
spec: {maxReplicas: 5, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: istio-egressgateway}}}`,
		},
		"an autoscaler that is served": {
			in: `{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {name: a},
spec: {scaleTargetRef: {apiVersion: extensions/v1beta1, kind: Deployment, name: d}}}`,
			want: `{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {name: a},
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}}}`,
		},
		"a metric of an object": {
			in: `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: a}, spec: {metrics: [{type: Object,
object: {describedObject: {apiVersion: extensions/v1beta1, kind: Ingress, name: i}}}]}}`,
			want: `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: a}, spec: {metrics: [{type: Object,
object: {describedObject: {apiVersion: networking.k8s.io/v1, kind: Ingress, name: i}}}]}}`,
		},
		"a target of another API": {
			in: `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: a},
spec: {scaleTargetRef: {apiVersion: serving.knative.dev/v1, kind: Revision, name: d}}}`,
			want: `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: a},
spec: {scaleTargetRef: {apiVersion: serving.knative.dev/v1, kind: Revision, name: d}}}`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in := parse(t, c.in)
			before := in.DeepCopy()
			got, warnings, err := today.Convert(in)
			if err != nil || len(warnings) > 0 {
				t.Fatal(err, warnings)
			}
			if diff := cmp.Diff(parse(t, c.want), got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, in); diff != "" {
				t.Errorf("the input changed:\n%s", diff)
			}
		})
	}
}

// TestKindsOfTheControlPlane converts kinds whose old versions had other fields, as Kubernetes' guide
// (kubernetes.io/docs/reference/using-api/deprecation-guide) lists them.
func TestKindsOfTheControlPlane(t *testing.T) {
	cases := map[string]struct{ in, want, warning string }{
		"endpoint slice": {
			in: `{apiVersion: discovery.k8s.io/v1beta1, kind: EndpointSlice, metadata: {name: a}, addressType: IPv4, endpoints: [
{addresses: [10.1.2.3], topology: {kubernetes.io/hostname: node-1, topology.kubernetes.io/zone: us-west2-a, rack: seven}}]}`,
			want: `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: a}, addressType: IPv4, endpoints: [
{addresses: [10.1.2.3], nodeName: node-1, zone: us-west2-a}]}`,
			warning: "the topology rack of its endpoints is left out",
		},
		"lease": {
			in:   `{apiVersion: coordination.k8s.io/v1beta1, kind: Lease, metadata: {name: a}, spec: {holderIdentity: h}}`,
			want: `{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: a}, spec: {holderIdentity: h}}`,
		},
		"event": {
			in:   `{apiVersion: events.k8s.io/v1beta1, kind: Event, metadata: {name: a}, series: {count: 2, state: Ongoing}}`,
			want: `{apiVersion: events.k8s.io/v1, kind: Event, metadata: {name: a}, series: {count: 2}}`,
		},
		"signing request": {
			in:   `{apiVersion: certificates.k8s.io/v1beta1, kind: CertificateSigningRequest, metadata: {name: a}, spec: {signerName: example.com/s}}`,
			want: `{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: a}, spec: {signerName: example.com/s, usages: [digital signature, key encipherment]}}`,
		},
		"runtime class": {
			in:   `{apiVersion: node.k8s.io/v1beta1, kind: RuntimeClass, metadata: {name: gvisor}, handler: runsc}`,
			want: `{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: gvisor}, handler: runsc}`,
		},
		"runtime class of v1alpha1": {
			in:   `{apiVersion: node.k8s.io/v1alpha1, kind: RuntimeClass, metadata: {name: gvisor}, spec: {runtimeHandler: runsc, overhead: {podFixed: {cpu: 1}}}}`,
			want: `{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: gvisor}, handler: runsc, overhead: {podFixed: {cpu: 1}}}`,
		},
		"priority level of v1beta1": {
			in: `{apiVersion: flowcontrol.apiserver.k8s.io/v1beta1, kind: PriorityLevelConfiguration, metadata: {name: a},
spec: {type: Limited, limited: {assuredConcurrencyShares: 20}}}`,
			want: `{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: PriorityLevelConfiguration, metadata: {name: a},
spec: {type: Limited, limited: {nominalConcurrencyShares: 20}}}`,
		},
		"priority level of v1beta2 whose zero meant 30": {
			in: `{apiVersion: flowcontrol.apiserver.k8s.io/v1beta2, kind: PriorityLevelConfiguration, metadata: {name: a},
spec: {type: Limited, limited: {assuredConcurrencyShares: 0}}}`,
			want: `{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: PriorityLevelConfiguration, metadata: {name: a}, spec: {type: Limited, limited: {}}}`,
		},
		"priority level of v1beta3 that keeps its zero": {
			in: `{apiVersion: flowcontrol.apiserver.k8s.io/v1beta3, kind: PriorityLevelConfiguration, metadata: {name: a,
annotations: {flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares: ""}}, spec: {type: Limited, limited: {nominalConcurrencyShares: 0}}}`,
			want: `{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: PriorityLevelConfiguration, metadata: {name: a, annotations: {}},
spec: {type: Limited, limited: {nominalConcurrencyShares: 0}}}`,
		},
		"flow schema": {
			in:   `{apiVersion: flowcontrol.apiserver.k8s.io/v1beta3, kind: FlowSchema, metadata: {name: a}, spec: {matchingPrecedence: 1}}`,
			want: `{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: FlowSchema, metadata: {name: a}, spec: {matchingPrecedence: 1}}`,
		},
		"storage capacity": {
			in:   `{apiVersion: storage.k8s.io/v1beta1, kind: CSIStorageCapacity, metadata: {name: a}, storageClassName: s}`,
			want: `{apiVersion: storage.k8s.io/v1, kind: CSIStorageCapacity, metadata: {name: a}, storageClassName: s}`,
		},
		"admission policy": {
			in:   `{apiVersion: admissionregistration.k8s.io/v1beta1, kind: ValidatingAdmissionPolicy, metadata: {name: a}, spec: {failurePolicy: Fail}}`,
			want: `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: a}, spec: {failurePolicy: Fail}}`,
		},
		"binding of an admission policy": {
			in:   `{apiVersion: admissionregistration.k8s.io/v1alpha1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: a}, spec: {policyName: p}}`,
			want: `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: a}, spec: {policyName: p, validationActions: [Deny]}}`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, warnings, err := today.Convert(parse(t, c.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(parse(t, c.want), got); diff != "" {
				t.Error(diff)
			}
			checkWarning(t, warnings, c.warning)
		})
	}
}

// noManifest are kinds that are requests and answers, and are not stored, and those that no manifest of a user declares.
var noManifest = []string{
	"DeploymentRollback", "Scale", "TokenReview", "LocalSubjectAccessReview", "SelfSubjectAccessReview", "SelfSubjectRulesReview",
	"SubjectAccessReview", "SelfSubjectReview", "Eviction",
}

// TestEveryRemovedKindIsConverted asks Kubernetes' own types, which say in which release they are no longer served.
func TestEveryRemovedKindIsConverted(t *testing.T) {
	const last = 36
	n := 0
	for gvk, kind := range scheme.Scheme.AllKnownTypes() {
		removed, hasEnd := reflect.New(kind).Interface().(interface{ APILifecycleRemoved() (int, int) })
		if !hasEnd || strings.HasSuffix(gvk.Kind, "List") || slices.Contains(noManifest, gvk.Kind) {
			continue
		}
		if _, minor := removed.APILifecycleRemoved(); minor > last {
			continue
		}
		n++
		if !superseded(gvk) {
			t.Errorf("%s is not converted", gvk)
		}
	}
	if n < 40 {
		t.Errorf("Kubernetes says of %d kinds only that they are removed", n)
	}
}

// TestConvertAllFails shows that no object is left out because it cannot be converted: the others would be taken for all that is
// declared, and the object that was made of an earlier revision would be pruned.
func TestConvertAllFails(t *testing.T) {
	good := parse(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}`)
	var objects []*unstructured.Unstructured
	for i := range 3 {
		objects = append(objects, good, parse(t, fmt.Sprintf(
			`{apiVersion: autoscaling/v2beta1, kind: HorizontalPodAutoscaler, metadata: {name: h%d}, spec: {metrics: [{type: Resuorce}]}}`, i)))
	}
	got, warnings, err := today.ConvertAll(objects)
	if err == nil || got != nil || len(warnings.Texts) > 0 {
		t.Fatalf("%v, %v, %v", got, warnings, err)
	}
	for _, want := range []string{"HorizontalPodAutoscaler h0", "the type of metric 1", "correct spec.metrics", "2 objects more"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %s", err, want)
		}
	}
	if got, _, err := today.ConvertAll([]*unstructured.Unstructured{good}); len(got) != 1 || err != nil {
		t.Error(got, err)
	}
}

// TestAReferenceAsksTheCluster shows that a cluster that serves the old API keeps the reference, and that the answer counts.
func TestAReferenceAsksTheCluster(t *testing.T) {
	depends := Depends{}
	c := Converter{Served: depends.Record(func(schema.GroupVersionKind) bool { return true })}
	in := parse(t, `{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {name: a},
spec: {scaleTargetRef: {apiVersion: extensions/v1beta1, kind: Deployment, name: d}}}`)
	if got, _, err := c.Convert(in); got != in || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	if got := depends.String(); got != "extensions/v1beta1/Deployment=true" {
		t.Error(got)
	}
}
