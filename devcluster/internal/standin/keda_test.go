package standin

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"
)

func decoded(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u
}

func scaled(t *testing.T, name, marks, spec string) *unstructured.Unstructured {
	t.Helper()
	return decoded(t, "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {namespace: ns, name: "+name+", annotations: {"+marks+"}}\n"+
		"spec: {scaleTargetRef: {name: app}, "+spec+"}\n")
}

func hpaOf(t *testing.T, name, marks string) *unstructured.Unstructured {
	t.Helper()
	return decoded(t, "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {namespace: ns, name: "+name+", "+marks+"}\n"+
		"spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: app}}\n")
}

// TestKEDARefuses what its webhook refuses, in its words.
func TestKEDARefuses(t *testing.T) {
	const prometheus, cpu = "triggers: [{type: prometheus, metadata: {query: up}}]", `triggers: [{type: cpu, metadata: {value: "50"}}]`
	app := decoded(t, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {namespace: ns, name: app}\n"+
		"spec: {template: {spec: {containers: [{name: a, resources: {limits: {cpu: 1}}}, {name: b}]}}}\n")
	for name, test := range map[string]struct {
		obj   *unstructured.Unstructured
		there []runtime.Object
		want  string
	}{
		"good":                     {obj: scaled(t, "app", "", prometheus)},
		"more than there may be":   {obj: scaled(t, "app", "", "minReplicaCount: 101, "+prometheus), want: "MinReplicaCount=101 must be less than MaxReplicaCount=100"},
		"idle as many as at least": {obj: scaled(t, "app", "", "minReplicaCount: 1, idleReplicaCount: 1, "+prometheus), want: "IdleReplicaCount=1 must be less"},
		"no trigger":               {obj: scaled(t, "app", "", "triggers: []"), want: "no triggers defined"},
		"a name twice": {
			obj:  scaled(t, "app", "", "triggers: [{type: cron, name: requests, metadata: {}}, {type: cron, name: requests, metadata: {}}]"),
			want: "is defined multiple times",
		},
		"a cron that is cached": {obj: scaled(t, "app", "", "triggers: [{type: cron, useCachedMetrics: true, metadata: {}}]"), want: "is not supported for"},
		"a fallback for CPU":    {obj: scaled(t, "app", "", "minReplicaCount: 1, fallback: {failureThreshold: 1, replicas: 1}, "+cpu), want: "for the fallback to be enabled"},
		"zero by CPU":           {obj: scaled(t, "app", "", cpu), want: "scale to zero doesn't work"},
		"no request": {
			obj: scaled(t, "app", "", "minReplicaCount: 1, "+cpu), there: []runtime.Object{app},
			want: "the container b doesn't have the cpu request defined",
		},
		"a limit of the container": {
			obj:   scaled(t, "app", "", `minReplicaCount: 1, triggers: [{type: cpu, metadata: {value: "50", containerName: a}}]`),
			there: []runtime.Object{app},
		},
		"no Deployment": {obj: scaled(t, "app", "", "minReplicaCount: 1, "+cpu), want: "not found"},
		"a long name":   {obj: scaled(t, strings.Repeat("a", 55), "", prometheus), want: "HPA name"},
		"a long name with another of its HPA": {obj: scaled(t, strings.Repeat("a", 55), "",
			"advanced: {horizontalPodAutoscalerConfig: {name: app}}, "+prometheus)},
		"another's Deployment": {
			obj: scaled(t, "app", "", prometheus), there: []runtime.Object{scaled(t, "other", "", prometheus)},
			want: "is already managed by the ScaledObject 'other'",
		},
		"an HPA": {obj: scaled(t, "app", "", prometheus), there: []runtime.Object{hpaOf(t, "app", "")}, want: "is already managed by the hpa 'app'"},
		"an HPA that is about to go": {
			obj:   scaled(t, "app", "", prometheus),
			there: []runtime.Object{hpaOf(t, "app", `deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [f]`)}, want: "is already managed by the hpa 'app'",
		},
		"its own HPA": {
			obj:   scaled(t, "app", "", prometheus),
			there: []runtime.Object{hpaOf(t, "keda-hpa-app", "ownerReferences: [{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, name: app, uid: u}]")},
		},
		"an HPA that it takes over": {obj: scaled(t, "app", `scaledobject.keda.sh/transfer-hpa-ownership: "true"`,
			"advanced: {horizontalPodAutoscalerConfig: {name: app}}, "+prometheus), there: []runtime.Object{hpaOf(t, "app", "")}},
	} {
		client := fakeClient(test.there...)
		err := validateScaledObject(t.Context(), client, test.obj, nil)
		if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAFinalizerCanAlwaysGo: KEDA looks at nothing then.
func TestAFinalizerCanAlwaysGo(t *testing.T) {
	before := scaled(t, "app", "", "triggers: []")
	before.SetFinalizers([]string{kedaFinalizer})
	after := before.DeepCopy()
	after.SetFinalizers(nil)
	if err := validateScaledObject(t.Context(), nil, after, before); err != nil {
		t.Error(err)
	}
}

// TestAScaledObjectWaitsForItsDeployment: KEDA tries again while what is to be scaled is not there.
func TestAScaledObjectWaitsForItsDeployment(t *testing.T) {
	obj := scaled(t, "app", "", `triggers: [{type: cron, metadata: {}}]`)
	obj.SetFinalizers([]string{kedaFinalizer})
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		horizontalPodAutoscaler: "HorizontalPodAutoscalerList",
	}, obj)
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	if err := store.Add(obj); err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(roles, func(r role) bool { return r.resource == scaledObjects })
	if err := newTroupe(client).act(t.Context(), roles[at], store, "ns/app"); err == nil {
		t.Error("it is through")
	}
	told, err := client.Resource(scaledObjects).Namespace("ns").Get(t.Context(), "app", metav1.GetOptions{})
	if err != nil || !strings.Contains(fmt.Sprint(told.Object["status"]), "ScaledObjectCheckFailed") {
		t.Errorf("%v, and it says %v", err, told.Object["status"])
	}
}
