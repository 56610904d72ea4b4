package uninstall

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/test/cluster"
)

// allGone is the promise: a minute after the last delete nothing is left. The garbage collector knows the kinds by then;
// docs/uninstall.md tells what comes of deleting them before it does.
const allGone = time.Minute

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

// informGarbageCollector makes the garbage collector watch the definitions that were installed: it looks for new kinds
// when it starts, and every 30 s. No probe tells that it does. An owner of a kind that it has only heard of, it asks for
// again and again, so that a probe's end is noticed with luck while that of the Inventories is not.
func informGarbageCollector(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	c.StopComponent(t, "kube-controller-manager")
	c.StartComponent(t, "kube-controller-manager")
}

// isOurs says that MLKeeper made the object.
func isOurs(o cluster.Object) bool {
	return o.Labels[keeper.ControllerLabel] != "" || o.Group == keeper.GroupVersion.Group
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
