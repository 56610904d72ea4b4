package tfserv

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
	"mlkeeper.dev/test/tfserver"
)

// TestServersThatFail: the first pods of a Tfserv fail, and later those of another template. The status says what it waits for and
// what it does not know, those before serve on, nothing is written again and again, and it is Ready when the pods are.
func TestServersThatFail(t *testing.T) {
	c := cluster.Shared(t)
	for _, how := range []string{"Error", "ImagePullBackOff", "Unready"} {
		t.Run(how, func(t *testing.T) {
			ns := c.Namespace(t)
			o := start(t, c, harness.Options{Engine: engine.Options{Namespaces: []string{ns}}}, serving(t, &tfserver.Memory{}, 1538687457))
			end := c.FailPods(t, ns, how)
			c.Apply(t, seedFile, ns)
			failing(t, c, o, ns, how)
			condition(t, c, ns, sample, "ModelsAvailable", metav1.ConditionUnknown, "EndpointUnreachable")
			before := c.Get(t, deployment, ns, sample)
			end()
			condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
			condition(t, c, ns, sample, "ModelsAvailable", metav1.ConditionTrue, "ModelsAvailable")

			old := pods(t, c, ns)
			end = c.FailPods(t, ns, how)
			patch(t, c, tfserv, ns, sample, `{"spec":{"imagePullPolicy":"Always"}}`)
			failing(t, c, o, ns, how)
			// Those before serve, and what they said of their models stands.
			if cr := get(t, c, ns, sample); int(cr.Status.ReadyReplicas) != len(old) {
				t.Errorf("%d servers are ready, not %d", cr.Status.ReadyReplicas, len(old))
			}
			condition(t, c, ns, sample, "ModelsAvailable", metav1.ConditionTrue, "ModelsAvailable")
			now := pods(t, c, ns)
			for uid, name := range old {
				if now[uid] == "" {
					t.Errorf("%s, which served, is gone", name)
				}
			}
			end()
			condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
			if after := c.Get(t, deployment, ns, sample); after.GetUID() != before.GetUID() {
				t.Error("the Deployment was made again")
			}
		})
	}
}

// told is the reason of Ready for what the pods do.
var told = map[string]string{"Error": "CrashLoopBackOff", "ImagePullBackOff": "ImagePullBackOff", "Unready": "ModelsUnavailable"}

// failing waits until a Tfserv says why its pods are not ready, and fails the test if the operator goes on writing then.
func failing(t *testing.T, c *cluster.Cluster, o *harness.Operator, ns, how string) {
	t.Helper()
	cluster.Eventually(t, time.Minute, func() error {
		got := condition(t, c, ns, sample, "Ready", metav1.ConditionFalse, told[how])
		if !strings.Contains(got.Message, sample) || !strings.Contains(got.Message, "Fewer replicas are updated and available than declared") {
			return fmt.Errorf("the message is %s", got.Message)
		}
		return nil
	})
	condition(t, c, ns, sample, "Progressing", metav1.ConditionTrue, "RollingOut")
	o.Settle(t, time.Minute)
	before := o.Requests.Snapshot()
	cluster.Consistently(t, 2*time.Second, func() error {
		if since := o.Requests.Since(before); cluster.Sum(since, cluster.Request.Write) > 0 {
			return fmt.Errorf("the operator writes while pods fail:\n%s", cluster.Describe(since))
		}
		return nil
	})
}

// TestAQuotaThatRefusesTheNextPodIsTold: those before are all ready, and of the one that is refused there is nothing to look at.
func TestAQuotaThatRefusesTheNextPodIsTold(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t)
	start(t, c, harness.Options{Engine: engine.Options{Namespaces: []string{ns}}}, serving(t, &tfserver.Memory{}, 1538687457))
	c.Apply(t, seedFile, ns)
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	c.Kubectl(t, "-n", ns, "create", "quota", "small", "--hard=pods=3")
	cluster.Eventually(t, time.Minute, func() error {
		if used := c.Kubectl(t, "-n", ns, "get", "quota", "small", "-o", "jsonpath={.status.used.pods}"); used != "3" {
			return fmt.Errorf("the quota counts %q pods", used)
		}
		return nil
	})
	patch(t, c, tfserv, ns, sample, `{"spec":{"imagePullPolicy":"Always"}}`)
	if got := condition(t, c, ns, sample, "Ready", metav1.ConditionFalse, "FailedCreate"); !strings.Contains(got.Message, "exceeded quota: small") {
		t.Errorf("the message is %s", got.Message)
	}
	c.Kubectl(t, "-n", ns, "delete", "quota", "small")
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
}

// pods are the names of those of a Tfserv, by their identities.
func pods(t *testing.T, c *cluster.Cluster, ns string) map[types.UID]string {
	t.Helper()
	list := &corev1.PodList{}
	if err := c.Client.List(t.Context(), list, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	out := map[types.UID]string{}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			out[list.Items[i].UID] = list.Items[i].Name
		}
	}
	return out
}
