package kubeflow

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// patience is for hundreds of objects on two cores.
const patience = 4 * time.Minute

// objects12 are the objects of each application of Kubeflow 1.2, as the reference counts them.
var objects12 = map[string]int32{
	"namespaces": 2, "application": 7, "istio-stack": 117, "cluster-local-gateway": 10, "istio": 11, "cert-manager-crds": 6,
	"cert-manager-kube-system-resources": 6, "cert-manager": 33, "metacontroller": 6, "oidc-authservice": 6, "dex": 11,
	"bootstrap": 6, "spark-operator": 10, "kubeflow-apps": 266, "knative": 57, "kfserving": 21,
}

// TestKubeflow12 applies a KfDef of 2020 with nothing changed but the name it lacks.
func TestKubeflow12(t *testing.T) {
	// No server stands behind the webhooks of these applications here.
	c := cluster.Start(t, cluster.WithWebhookAdmission(false))
	sources := mirror(t)
	o := start(t, c, sources, harness.Options{})
	c.Kubectl(t, "create", "namespace", "kubeflow")
	began := time.Now()
	c.Apply(t, named(t, "kfctl_istio_dex.v1.2.0.yaml", "kubeflow"))
	applied(t, c, objects12)
	t.Logf("575 objects are there %s after the KfDef was applied", time.Since(began).Round(100*time.Millisecond))
	settle(t, o)
	t.Run("Idle", func(t *testing.T) {
		before := o.Requests.Snapshot()
		cluster.Consistently(t, 10*time.Second, func() error {
			if n := cluster.Sum(o.Requests.Since(before), cluster.Request.Write, "leases"); n > 0 {
				return fmt.Errorf("%d writes: %s", n, cluster.Describe(o.Requests.Since(before)))
			}
			return nil
		})
	})
	// From here on there is no network.
	sources.server.Close()
	t.Run("RepairWithoutNetwork", func(t *testing.T) { repairs(t, c) })
	t.Run("DeleteWithoutNetwork", func(t *testing.T) { deletes(t, c) })
}

// named reads a KfDef of a user, and gives it a name as the original's page tells users to.
func named(t *testing.T, file, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(inputs, file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(string(raw), "metadata:\n", "metadata:\n  name: "+name+"\n", 1)
}

// applied waits until every object of every application exists, and asserts how many there are. Some are not healthy
// here, since their controllers, such as that of cert-manager, do not run on simulated nodes.
func applied(t *testing.T, c *cluster.Cluster, want map[string]int32) {
	t.Helper()
	var cr *kubeflowv1.KfDef
	cluster.Eventually(t, patience, func() error {
		cr = get(t, c, "kubeflow", "kubeflow")
		if len(cr.Status.Applications) == 0 {
			return fmt.Errorf("nothing is rendered yet: %+v", cr.Status.Conditions)
		}
		for _, a := range cr.Status.Applications {
			if strings.HasSuffix(a.Message, " to exist") || a.Phase == "Pending" || a.Phase == "Failed" {
				return fmt.Errorf("%s is %s: %s (%s)", a.Name, a.Phase, a.Message, cr.Status.ApplicationsReady)
			}
		}
		return nil
	})
	got := map[string]int32{}
	for _, a := range cr.Status.Applications {
		got[a.Name] = a.Objects
	}
	if !maps.Equal(got, want) {
		t.Errorf("objects %v, want %v", got, want)
	}
}

// settle waits until the operator has written nothing for three seconds.
func settle(t *testing.T, o *harness.Operator) {
	t.Helper()
	last, since, wrote := o.Requests.Snapshot(), time.Now(), ""
	cluster.Eventually(t, patience, func() error {
		if done := o.Requests.Since(last); cluster.Sum(done, cluster.Request.Write, "leases") > 0 {
			last, since, wrote = o.Requests.Snapshot(), time.Now(), cluster.Describe(done)
		}
		if time.Since(since) < 3*time.Second {
			return fmt.Errorf("not quiet for long enough; it wrote last:\n%s", wrote)
		}
		return nil
	})
}

var deployments = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}

// repairs deletes the very Deployment that the original's page has its readers delete.
func repairs(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	before := c.Get(t, deployments, "kubeflow", "tf-job-operator")
	if before == nil {
		t.Fatal("there is no Deployment tf-job-operator")
	}
	c.Kubectl(t, "-n", "kubeflow", "delete", "deployment", "tf-job-operator")
	began := time.Now()
	cluster.Eventually(t, time.Minute, func() error {
		now := c.Get(t, deployments, "kubeflow", "tf-job-operator")
		if now == nil || now.GetUID() == before.GetUID() {
			return fmt.Errorf("it is not back")
		}
		return nil
	})
	t.Logf("back %s after kubectl had returned", time.Since(began).Round(time.Millisecond))
}

// deletes removes the KfDef: what is left are the Namespaces, the definitions, and the claims.
func deletes(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	c.Kubectl(t, "-n", "kubeflow", "delete", "kfdef", "kubeflow", "--timeout=1m")
	began := time.Now()
	cluster.Eventually(t, patience, func() error {
		all, err := c.Everything(t.Context())
		if err != nil {
			return err
		}
		left := map[string]int{}
		for _, o := range all {
			if o.Labels[keeper.RoomLabel] == "" {
				continue
			}
			switch o.Resource {
			case "namespaces", "customresourcedefinitions", "persistentvolumeclaims":
			default:
				left[o.Resource]++
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	})
	t.Logf("all gone %s after kubectl had returned", time.Since(began).Round(100*time.Millisecond))
	if c.Get(t, schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, "", "kubeflow") == nil {
		t.Error("the namespace of the KfDef is gone")
	}
}
