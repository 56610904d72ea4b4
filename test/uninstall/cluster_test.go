package uninstall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/test/cluster"
)

// allGone is when a removal counts as hanging. The promise is 60 s, and the tests print what it took, most of it the
// garbage collector's: it pauses while it learns which kinds there are, every 30 s, and once more for up to 30 s each
// time a CRD goes meanwhile. So a bound of the promise itself would test the collector's luck.
const allGone = 3 * time.Minute

// definitions are MLKeeper's CustomResourceDefinitions.
var definitions = []string{"inventories.keeper.mlkeeper.dev", "trustyaiservices.trustyai.opendatahub.io"}

// poll calls check every half second until it returns nil; it returns its last error after the timeout.
func poll(t *testing.T, timeout time.Duration, check func(context.Context) error) error {
	t.Helper()
	err := errors.New("not checked")
	waited := wait.PollUntilContextTimeout(t.Context(), 500*time.Millisecond, timeout, true,
		func(context.Context) (bool, error) {
			// Not the context with the timeout, whose end would be the last error.
			err = check(t.Context())
			return err == nil, nil
		})
	if waited == nil {
		return nil
	}
	return err
}

// awaitGarbageCollector waits until the garbage collector watches Inventories, which it does up to 30 s after their
// definition was installed. Until then it would see neither them nor their end.
func awaitGarbageCollector(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	ns := c.Namespace(t)
	err := poll(t, 90*time.Second, func(ctx context.Context) error {
		owner := &keeper.Inventory{
			ObjectMeta: metav1.ObjectMeta{Name: "probe-" + rand.String(6)},
			Spec: keeper.InventorySpec{Owner: keeper.InventoryOwner{
				Group: "probe.test", Kind: "Probe", Namespace: ns, Name: "probe", UID: "probe",
			}},
		}
		if err := c.Client.Create(ctx, owner); err != nil {
			return err
		}
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: owner.Name, OwnerReferences: []metav1.OwnerReference{{
				APIVersion: keeper.GroupVersion.String(), Kind: "Inventory", Name: owner.Name, UID: owner.UID,
			}},
		}}
		if err := c.Client.Create(ctx, probe); err != nil {
			return err
		}
		// A collector that has just learned the name of the kind asks for the owner once, and must find it.
		cluster.Consistently(t, time.Second, func() error { return c.Client.Get(ctx, client.ObjectKeyFromObject(probe), probe) })
		if err := c.Client.Delete(ctx, owner); err != nil {
			return err
		}
		return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 2*time.Second, true,
			func(ctx context.Context) (bool, error) {
				err := c.Client.Get(ctx, client.ObjectKeyFromObject(probe), probe)
				return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
			})
	})
	if err != nil {
		t.Fatalf("the garbage collector does not watch Inventories: %v", err)
	}
}

// object is one object of the cluster.
type object struct {
	schema.GroupVersionResource
	namespace, name string
	labels          map[string]string
}

// String prints "resource.group namespace/name".
func (o object) String() string {
	return fmt.Sprintf("%s %s/%s", o.GroupResource(), o.namespace, o.name)
}

// isOurs says that MLKeeper made the object.
func (o object) isOurs() bool {
	return o.labels[keeper.RoomLabel] != "" || o.Group == keeper.GroupVersion.Group
}

// transitory are resources that nobody uninstalls: they expire, or mirror others.
var transitory = []string{"events", "endpoints", "componentstatuses"}

// everything lists all objects of all kinds that the cluster serves, but for those of transitory resources.
func everything(ctx context.Context, c *cluster.Cluster) ([]object, error) {
	disco, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	lists, err := disco.ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	api, err := metadata.NewForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	var out []object
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || slices.Contains(transitory, r.Name) {
				continue
			}
			gvr := gv.WithResource(r.Name)
			items, err := api.Resource(gvr).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", gvr, err)
			}
			for i := range items.Items {
				m := &items.Items[i]
				out = append(out, object{gvr, m.Namespace, m.Name, m.Labels})
			}
		}
	}
	return out, nil
}

// definitionsGone says which of MLKeeper's CustomResourceDefinitions is still there.
func definitionsGone(ctx context.Context, c *cluster.Cluster) error {
	for _, name := range definitions {
		crd := &metav1.PartialObjectMetadata{}
		crd.SetGroupVersionKind(crdGVK)
		err := c.Client.Get(ctx, client.ObjectKey{Name: name}, crd)
		if err == nil {
			return fmt.Errorf("the definition %s is still there", name)
		}
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("read the definition %s: %w", name, err)
		}
	}
	return nil
}

var crdGVK = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

var claimGVK = schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}
