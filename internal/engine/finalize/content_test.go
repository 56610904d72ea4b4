package finalize

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// thing is one object of a test, with its owners as "uid" of the Namespace, "Kind:uid" of elsewhere.
func thing(resource, name string, change ...func(*metav1.PartialObjectMetadata)) object {
	c := object{schema.ParseGroupResource(resource), &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(resource + "/" + name)},
	}}
	for _, f := range change {
		f(c.PartialObjectMetadata)
	}
	return c
}

func ownedBy(apiVersion, kind, uid string) func(*metav1.PartialObjectMetadata) {
	return func(o *metav1.PartialObjectMetadata) {
		o.OwnerReferences = append(o.OwnerReferences, metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: "x", UID: types.UID(uid)})
	}
}

func going(o *metav1.PartialObjectMetadata) {
	o.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
}

func ours(o *metav1.PartialObjectMetadata) { o.Labels = map[string]string{"ours": "yes"} }

func TestNamespaceContents(t *testing.T) {
	deployment := thing("deployments.apps", "app", ours, ownedBy("keeper.mlkeeper.dev/v1alpha1", "Inventory", "gone"))
	replicas := thing("replicasets.apps", "app", ownedBy("apps/v1", "Deployment", "deployments.apps/app"))
	pod := thing("pods", "app", ownedBy("apps/v1", "ReplicaSet", "replicasets.apps/app"))
	users := thing("deployments.apps", "user")
	for name, c := range map[string]struct {
		all               []object
		others, undecided string
	}{
		"nothing": {},
		"what Kubernetes puts into each": {all: []object{
			thing("serviceaccounts", "default"), thing("configmaps", "kube-root-ca.crt"), thing("events", "a"), thing("events.events.k8s.io", "a"),
			thing("leases.coordination.k8s.io", "a"), thing("endpoints", "a"),
		}},
		"a Secret called default":       {all: []object{thing("secrets", "default")}, others: "secrets default"},
		"a user's ServiceAccount":       {all: []object{thing("serviceaccounts", "user")}, others: "serviceaccounts user"},
		"events of a kind of that name": {all: []object{thing("events.example.test", "a")}, others: "events.example.test a"},
		"what the stack made":           {all: []object{pod, replicas, deployment}},
		"what a user made":              {all: []object{deployment, users}, others: "deployments.apps user"},
		"what a user's object owns":     {all: []object{thing("pods", "a", ownedBy("apps/v1", "Deployment", "deployments.apps/user")), users}, others: "pods a"},
		"the Inventory of another stack's": {
			all: []object{thing("deployments.apps", "b", ownedBy("keeper.mlkeeper.dev/v1alpha1", "Inventory", "another"))}, others: "deployments.apps b",
		},
		"an ordered element's": {
			all:    []object{thing("inferenceservices.serving.kserve.io", "b", ownedBy("keeper.mlkeeper.dev/v1alpha1", "CompositionElement", "e"))},
			others: "inferenceservices.serving.kserve.io b",
		},
		"two owners, one of them a user's": {
			all: []object{
				thing("configmaps", "a", ownedBy("apps/v1", "Deployment", "deployments.apps/app"), ownedBy("example.test/v1", "Profile", "p")), deployment,
			},
			others: "configmaps a",
		},
		"an owner that is gone":     {all: []object{replicas}, undecided: "replicasets.apps app"},
		"an owner's owner is gone":  {all: []object{pod, replicas}, undecided: "replicasets.apps app"},
		"being deleted":             {all: []object{thing("secrets", "a", going)}},
		"a claim of the stack":      {all: []object{thing("persistentvolumeclaims", "a", ours)}, others: "persistentvolumeclaims a"},
		"a claim with an owner":     {all: []object{thing("persistentvolumeclaims", "a", ownedBy("apps/v1", "Deployment", "deployments.apps/app")), deployment}, others: "persistentvolumeclaims a"},
		"a claim that is going":     {all: []object{thing("persistentvolumeclaims", "a", going)}, undecided: "persistentvolumeclaims a"},
		"what stays, before others": {all: []object{replicas, users}, others: "deployments.apps user"},
		"owners of each other": {
			all: []object{
				thing("configmaps", "a", ownedBy("v1", "ConfigMap", "configmaps/b")), thing("configmaps", "b", ownedBy("v1", "ConfigMap", "configmaps/a")),
			},
			others: "configmaps a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := &namespaceContents{
				objects: c.all,
				ofStack: func(o *metav1.PartialObjectMetadata) bool { return o.Labels["ours"] != "" },
				namespaced: func(gk schema.GroupKind) bool {
					return gk.Group == "apps" || gk == schema.GroupKind{Kind: "ConfigMap"}
				},
			}
			want := content{others: c.others, undecided: c.undecided}
			if got := n.classify(); got != want {
				t.Errorf("%+v; want %+v", got, want)
			}
		})
	}
}
