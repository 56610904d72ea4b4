package engine

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// thing is one object of a test, with its owners as "uid" of the Namespace, "Kind:uid" of elsewhere.
func thing(resource, name string, change ...func(*metav1.PartialObjectMetadata)) occupant {
	c := occupant{schema.ParseGroupResource(resource), &metav1.PartialObjectMetadata{
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

func TestWhatHoldsANamespace(t *testing.T) {
	deployment := thing("deployments.apps", "app", ours, ownedBy("keeper.mlkeeper.dev/v1alpha1", "Inventory", "gone"))
	replicas := thing("replicasets.apps", "app", ownedBy("apps/v1", "Deployment", "deployments.apps/app"))
	pod := thing("pods", "app", ownedBy("apps/v1", "ReplicaSet", "replicasets.apps/app"))
	users := thing("deployments.apps", "user")
	for name, c := range map[string]struct {
		all              []occupant
		stays, unsettled string
	}{
		"nothing": {},
		"what Kubernetes puts into each": {all: []occupant{
			thing("serviceaccounts", "default"), thing("configmaps", "kube-root-ca.crt"), thing("events", "a"), thing("events.events.k8s.io", "a"),
			thing("leases.coordination.k8s.io", "a"), thing("endpoints", "a"),
		}},
		"a Secret called default":       {all: []occupant{thing("secrets", "default")}, stays: "secrets default"},
		"a user's ServiceAccount":       {all: []occupant{thing("serviceaccounts", "user")}, stays: "serviceaccounts user"},
		"events of a kind of that name": {all: []occupant{thing("events.example.test", "a")}, stays: "events.example.test a"},
		"what the stack made":           {all: []occupant{pod, replicas, deployment}},
		"what a user made":              {all: []occupant{deployment, users}, stays: "deployments.apps user"},
		"what a user's object owns":     {all: []occupant{thing("pods", "a", ownedBy("apps/v1", "Deployment", "deployments.apps/user")), users}, stays: "pods a"},
		"the Inventory of another stack's": {
			all: []occupant{thing("deployments.apps", "b", ownedBy("keeper.mlkeeper.dev/v1alpha1", "Inventory", "another"))}, stays: "deployments.apps b",
		},
		"an ordered element's": {
			all:   []occupant{thing("inferenceservices.serving.kserve.io", "b", ownedBy("keeper.mlkeeper.dev/v1alpha1", "CompositionElement", "e"))},
			stays: "inferenceservices.serving.kserve.io b",
		},
		"two owners, one of them a user's": {
			all: []occupant{
				thing("configmaps", "a", ownedBy("apps/v1", "Deployment", "deployments.apps/app"), ownedBy("example.test/v1", "Profile", "p")), deployment,
			},
			stays: "configmaps a",
		},
		"an owner that is gone":     {all: []occupant{replicas}, unsettled: "replicasets.apps app"},
		"an owner's owner is gone":  {all: []occupant{pod, replicas}, unsettled: "replicasets.apps app"},
		"being deleted":             {all: []occupant{thing("secrets", "a", going)}},
		"a claim of the stack":      {all: []occupant{thing("persistentvolumeclaims", "a", ours)}, stays: "persistentvolumeclaims a"},
		"a claim with an owner":     {all: []occupant{thing("persistentvolumeclaims", "a", ownedBy("apps/v1", "Deployment", "deployments.apps/app")), deployment}, stays: "persistentvolumeclaims a"},
		"a claim that is going":     {all: []occupant{thing("persistentvolumeclaims", "a", going)}, unsettled: "persistentvolumeclaims a"},
		"what stays, before others": {all: []occupant{replicas, users}, stays: "deployments.apps user"},
		"owners of each other": {
			all: []occupant{
				thing("configmaps", "a", ownedBy("v1", "ConfigMap", "configmaps/b")), thing("configmaps", "b", ownedBy("v1", "ConfigMap", "configmaps/a")),
			},
			stays: "configmaps a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := &namespaceContents{
				all: c.all,
				own: func(o *metav1.PartialObjectMetadata) bool { return o.Labels["ours"] != "" },
				namespaced: func(gk schema.GroupKind) bool {
					return gk.Group == "apps" || gk == schema.GroupKind{Kind: "ConfigMap"}
				},
			}
			stays, unsettled := n.judge()
			if stays != c.stays || unsettled != c.unsettled {
				t.Errorf("%q stays, %q is not settled; want %q, %q", stays, unsettled, c.stays, c.unsettled)
			}
		})
	}
}
