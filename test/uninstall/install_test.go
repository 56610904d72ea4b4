package uninstall

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/harness"
)

// TestInstallManifestDeletedWithLiveServices installs config/install.yaml, runs the operator with the rights that it
// grants and no others, and deletes the file again while the services live. The operator's process is not stopped: all
// that it loses are its rights, its lease and its custom resources.
func TestInstallManifestDeletedWithLiveServices(t *testing.T) {
	c := cluster.Start(t, fixture.CRDs())
	manifest := installManifest(t)
	c.Kubectl(t, "apply", "--server-side", "-f", manifest)
	// Applied above; this waits until they are served.
	c.InstallCRDs(t, "engine", "trustyai", "tfserving", "kubeflow", "seldon")
	informGarbageCollector(t, c)
	harness.Start(t, c, harness.Options{AllControllers: true, Manager: withLease}, fixture.Controller())
	s := &scene{cluster: c}
	for _, shape := range fixture.Shapes {
		s.victims = append(s.victims, &victim{Service: fixture.Create(t, c, shape), order: order{theCRDs, theOperator}})
	}
	for _, v := range s.victims {
		v.AwaitReady(t, c)
	}
	s.victims = append(s.victims, exerciseRights(t, c)...)
	c.ExpectRefusals(t, "its roles are deleted", "")

	began := time.Now()
	if out, err := c.TryKubectl("delete", "-f", manifest, "--wait=true", "--timeout=60s"); err != nil {
		t.Fatalf("kubectl delete: %v\n%s", err, out)
	}
	t.Logf("kubectl delete -f install.yaml took %s", time.Since(began).Round(100*time.Millisecond))
	s.assertGone(t)
	assertNothingOfTheInstallation(t, c)
	for _, v := range s.victims {
		if err := v.WiredOrAsBefore(t, c); err != nil {
			t.Errorf("%s: %v", v, err)
		}
	}
	fixture.Unwire(t, c)
	for _, v := range s.victims {
		if err := v.AsBefore(t, c); err != nil {
			t.Errorf("%s: unwire left an entry: %v", v, err)
		}
	}
}

func installManifest(t *testing.T) string {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "config", "install.yaml")
}

// withLease elects a leader as config/manager does.
func withLease(o *manager.Options) {
	o.LeaderElection, o.LeaderElectionID = true, "mlkeeper.keeper.mlkeeper.dev"
	o.LeaderElectionNamespace, o.LeaderElectionReleaseOnCancel = cluster.OperatorNamespace, true
	// The deletion takes longer than a manager without a lease lives by default, and this one is to see the end of it.
	o.LeaseDuration, o.RenewDeadline = ptr.To(2*time.Minute), ptr.To(90*time.Second)
}

// exerciseRights lets the operator use the rights that a first start does not need: it repairs what is changed and
// deleted, takes its entries out of objects of others, and tears an Inventory down. It returns what it deleted.
func exerciseRights(t *testing.T, c *cluster.Cluster) []*victim {
	t.Helper()
	var out []*victim
	for _, shape := range fixture.Shapes {
		v := &victim{Service: fixture.Create(t, c, shape), order: order{theCR, theCRDs, theOperator}}
		v.AwaitReady(t, c)
		children := v.Children(t, c)
		for _, child := range children {
			c.Kubectl(t, append([]string{"label", "--overwrite"}, argsOf(child, keeper.StackLabel+"=nobody")...)...)
		}
		for _, child := range children {
			cluster.Eventually(t, allGone, func() error {
				if u := c.Get(t, child.GVK, child.Namespace, child.Name); u == nil || u.GetLabels()[keeper.StackLabel] == "nobody" {
					return fmt.Errorf("the label of %s is not repaired", child)
				}
				return nil
			})
			if child.GVK.Kind != "PersistentVolumeClaim" {
				c.Kubectl(t, append([]string{"delete", "--wait=false"}, argsOf(child)...)...)
			}
		}
		v.AwaitReady(t, c)
		c.Kubectl(t, "-n", v.Namespace, "delete", "trustyaiservice", v.Name)
		cluster.Eventually(t, allGone, func() error {
			if n := len(v.Inventories(t, c)); n > 0 {
				return fmt.Errorf("%d Inventories are left", n)
			}
			return v.AsBefore(t, c)
		})
		out = append(out, v)
	}
	return out
}

// argsOf names an object to kubectl.
func argsOf(child fixture.Child, more ...string) []string {
	out := []string{child.GVK.Kind + "." + child.GVK.Version + "." + child.GVK.Group, child.Name}
	if child.Namespace != "" {
		out = append(out, "-n", child.Namespace)
	}
	return append(out, more...)
}

// assertNothingOfTheInstallation asserts that nothing of install.yaml is left, whatever its kind.
func assertNothingOfTheInstallation(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	// What the control plane makes of the definitions goes a moment after them.
	if err := poll(t, allGone, func(ctx context.Context) error {
		all, err := c.Everything(ctx)
		for _, o := range all {
			if o.Namespace == cluster.OperatorNamespace || strings.Contains(o.Name, "mlkeeper") {
				err = errors.Join(err, fmt.Errorf("%s is left of install.yaml", o))
			}
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}
