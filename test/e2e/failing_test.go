package e2e

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/internal/cli"
	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/internal/trustyai"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// failures are the ways in which pods fail, each with what the operator's explain says of a pod and advises.
var failures = []struct{ how, cause, advice string }{
	{"Error", "A container of the Pod fails each time it is started; see its logs.", "kubectl logs --previous"},
	{"ImagePullBackOff", "An image of the Pod cannot be pulled; check its name and the pull Secret.", "Check that the image's name and tag exist"},
	{"Unready", "The Pod is not ready yet.", ""},
}

// TestAServiceWhosePodsFail: the status says what is not ready, explain says why. What there is stays, nobody writes, and the
// service is Ready as soon as its pods are.
func TestAServiceWhosePodsFail(t *testing.T) {
	c := cluster.Shared(t)
	for _, failure := range failures {
		t.Run(failure.how, func(t *testing.T) {
			ns := c.Namespace(t)
			// What other tests leave behind is torn down meanwhile, and must not be counted.
			o := start(t, c, harness.Options{Engine: engine.Options{Namespaces: []string{ns}}})
			end := c.FailPods(t, ns, failure.how)
			c.Apply(t, databaseElsewhere, ns)
			c.Apply(t, databaseSecret("db"), ns)
			c.Apply(t, withDatabase("tas"), ns)
			says(t, c, ns, "tas", "Ready", metav1.ConditionFalse, "ComponentsNotReady", "Deployment", "tas", "Fewer replicas are updated and available")
			says(t, c, ns, "tas", "Available", metav1.ConditionFalse)
			explained(t, c, ns, failure.cause, failure.advice)
			o.Settle(t, time.Minute)
			before := children(t, c, ns)
			quiet(t, c, o, ns, failure.how)
			if after := children(t, c, ns); !maps.Equal(before, after) || len(after) < 4 {
				t.Errorf("there were %v, and there are %v", before, after)
			}
			end()
			condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
			if after := children(t, c, ns); !maps.Equal(before, after) {
				t.Errorf("there were %v, and there are %v", before, after)
			}
		})
	}
}

// TestAServiceWhoseNewPodsFailRunsOn: the pod before serves on while the one of the next template fails, also when the Deployment
// has given up.
func TestAServiceWhoseNewPodsFailRunsOn(t *testing.T) {
	c := cluster.Shared(t)
	for _, failure := range failures {
		t.Run(failure.how, func(t *testing.T) {
			ns := c.Namespace(t)
			o := startWith(t, c, harness.Options{Engine: engine.Options{Namespaces: []string{ns}}}, trustyai.Settings{
				Image: trustyai.DefaultImage, ProxyImage: trustyai.DefaultProxyImage, ProgressDeadline: 10,
			})
			c.Apply(t, databaseSecret("db"), ns)
			c.Apply(t, withDatabase("tas"), ns)
			condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
			old, before := thePod(t, c, ns), children(t, c, ns)
			end := c.FailPods(t, ns, failure.how)
			c.Apply(t, strings.Replace(withDatabase("tas"), "5s", "10s", 1), ns)
			says(t, c, ns, "tas", "Ready", metav1.ConditionFalse, "ComponentsNotReady", "Deployment", "tas")
			explained(t, c, ns, failure.cause, failure.advice)
			says(t, c, ns, "tas", "Ready", metav1.ConditionFalse, "ComponentsNotReady", "The rollout did not progress within its deadline")
			// It still serves, and says so.
			condition(t, c, ns, "tas", "Available", metav1.ConditionTrue)
			condition(t, c, ns, "tas", "DBAvailable", metav1.ConditionTrue)
			o.Settle(t, time.Minute)
			quiet(t, c, o, ns, failure.how)
			if now := c.Get(t, gvkOf("v1", "Pod"), ns, old.Name); now == nil || now.GetUID() != old.UID || now.GetDeletionTimestamp() != nil {
				t.Errorf("the pod that served is %v", now)
			}
			if after := children(t, c, ns); !maps.Equal(before, after) {
				t.Errorf("there were %v, and there are %v", before, after)
			}
			end()
			condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
			if now := thePod(t, c, ns); now.UID == old.UID {
				t.Error("Ready is True although the pod is of the template before")
			}
		})
	}
}

// explained waits until explain names a cause.
func explained(t *testing.T, c *cluster.Cluster, ns, cause, advice string) {
	t.Helper()
	sh := newShell(t, c)
	cluster.Eventually(t, time.Minute, func() error {
		out, status := sh.run(cli.NewExplainCommand, "tas/tas", "-n", ns)
		flat := strings.Join(strings.Fields(out), " ")
		if status != 0 || !strings.Contains(flat, cause) || !strings.Contains(flat, advice) {
			return fmt.Errorf("status %d, and not %q with %q:\n%s", status, cause, advice, out)
		}
		return nil
	})
}

// children are the objects of a service that outlive its pods, with their identities.
func children(t *testing.T, c *cluster.Cluster, ns string) map[string]types.UID {
	t.Helper()
	out := map[string]types.UID{}
	for apiVersion, kinds := range map[string][]string{
		"v1": {"Service", "PersistentVolumeClaim"}, "apps/v1": {"Deployment"}, "route.openshift.io/v1": {"Route"}, "monitoring.coreos.com/v1": {"ServiceMonitor"},
	} {
		for _, kind := range kinds {
			if u := c.Get(t, gvkOf(apiVersion, kind), ns, "tas"); u != nil && u.GetDeletionTimestamp() == nil {
				out[kind] = u.GetUID()
			}
		}
	}
	return out
}

// quiet looks on while pods fail again and again, and fails the test if the operator writes.
func quiet(t *testing.T, c *cluster.Cluster, o *harness.Operator, ns, how string) {
	t.Helper()
	before, restarts := o.Requests.Snapshot(), restarted(t, c, ns)
	if how == "Error" {
		cluster.Eventually(t, time.Minute, func() error {
			if n := restarted(t, c, ns) - restarts; n < 2 {
				return fmt.Errorf("%d restarts", n)
			}
			return nil
		})
	} else {
		cluster.Consistently(t, 2*time.Second, func() error { return nil })
	}
	if since := o.Requests.Since(before); cluster.Sum(since, cluster.Request.Write) > 0 {
		t.Errorf("the operator writes while pods fail:\n%s", cluster.Describe(since))
	}
}

func podsOf(t *testing.T, c *cluster.Cluster, ns string) []corev1.Pod {
	t.Helper()
	pods := &corev1.PodList{}
	if err := c.Client.List(t.Context(), pods, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// restarted is how often the containers of a namespace were started again.
func restarted(t *testing.T, c *cluster.Cluster, ns string) int32 {
	t.Helper()
	sum := int32(0)
	for _, pod := range podsOf(t, c, ns) {
		for i := range pod.Status.ContainerStatuses {
			sum += pod.Status.ContainerStatuses[i].RestartCount
		}
	}
	return sum
}

// thePod waits until a service has one pod.
func thePod(t *testing.T, c *cluster.Cluster, ns string) corev1.Pod {
	t.Helper()
	var out corev1.Pod
	cluster.Eventually(t, time.Minute, func() error {
		pods := podsOf(t, c, ns)
		if len(pods) != 1 || pods[0].DeletionTimestamp != nil {
			return fmt.Errorf("there are %d pods", len(pods))
		}
		out = pods[0]
		return nil
	})
	return out
}
