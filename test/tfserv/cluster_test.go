package tfserv

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/harness"
)

// foreign is a Deployment of somebody else under the name of the tutorial's.
const foreign = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: tfserv-sample, labels: {of: somebody}}
spec:
  replicas: 1
  selector: {matchLabels: {of: somebody}}
  template:
    metadata: {labels: {of: somebody}}
    spec: {containers: [{name: app, image: app:1}]}
`

// Defect 17: a Deployment of others under the same name is not overwritten.
func TestADeploymentOfOthersIsLeftAlone(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{}, fixture.Nobody{})
	ns := c.Namespace(t)
	c.Apply(t, foreign, ns)
	before := field(t, c.Get(t, deployment, ns, sample), "spec")
	c.Apply(t, seedFile, ns)
	got := condition(t, c, ns, sample, "Ready", metav1.ConditionFalse, "ResourceConflict")
	if !strings.Contains(got.Message, sample) {
		t.Errorf("the message does not name the Deployment: %s", got.Message)
	}
	live := c.Get(t, deployment, ns, sample)
	if !reflect.DeepEqual(field(t, live, "spec"), before) || live.GetLabels()["of"] != "somebody" {
		t.Errorf("it was changed: %v", live.Object)
	}
	// Removed by its owner, the name is free.
	c.Kubectl(t, "-n", ns, "delete", "deployment", sample)
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	// A custom resource that is deleted takes its own with it, and not what came under its name.
	c.Kubectl(t, "-n", ns, "delete", "tfserv", sample)
	cluster.Eventually(t, time.Minute, func() error {
		if u := c.Get(t, deployment, ns, sample); u != nil {
			return fmt.Errorf("the Deployment is still there: %v", u.GetDeletionTimestamp())
		}
		return nil
	})
}

// Defect 18: with an autoscaler the replicas are its own, also those of somebody who scales by hand without one.
func TestAnAutoscalerIsNotFought(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t)
	// What other tests leave behind is torn down meanwhile, and must not be counted.
	o := start(t, c, harness.Options{Engine: engine.Options{Namespaces: []string{ns}}}, fixture.Nobody{})
	docs := documents(t)
	c.Apply(t, docs[0], ns)
	c.Apply(t, docs[1], ns)
	c.Apply(t, docs[2]+"\n  autoscaling: {minReplicas: 2, maxReplicas: 6}\n", ns)
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	scale(t, c, ns, "kube-controller-manager", 5)
	cluster.Eventually(t, time.Minute, func() error {
		if cr := get(t, c, ns, sample); cr.Status.ReadyReplicas != 5 {
			return fmt.Errorf("%d replicas are ready", cr.Status.ReadyReplicas)
		}
		return nil
	})
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	// A change of the spec renders the Deployment anew and leaves the replicas.
	patch(t, c, tfserv, ns, sample, `{"spec":{"imagePullPolicy":"Always"}}`)
	cluster.Eventually(t, time.Minute, func() error {
		u := c.Get(t, deployment, ns, sample)
		if text := fmt.Sprint(field(t, u, "spec", "template", "spec", "containers")); !strings.Contains(text, "imagePullPolicy:Always") {
			return fmt.Errorf("not rendered anew: %s", text)
		}
		return nil
	})
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	if got := field(t, c.Get(t, deployment, ns, sample), "spec", "replicas"); got != int64(5) {
		t.Errorf("%v replicas, not the autoscaler's 5", got)
	}
	o.Settle(t, time.Minute)
	// One more look at it writes nothing but that it has looked.
	before, generation := o.Requests.Snapshot(), c.Get(t, deployment, ns, sample).GetGeneration()
	patch(t, c, tfserv, ns, sample, `{"metadata":{"annotations":{"keeper.mlkeeper.dev/reconcile-at":"now"}}}`)
	cluster.Eventually(t, time.Minute, func() error {
		if got := get(t, c, ns, sample).Status.LastHandledReconcileAt; got != "now" {
			return fmt.Errorf("it was looked at last for %q", got)
		}
		return nil
	})
	o.Settle(t, time.Minute)
	if done := o.Requests.Since(before); cluster.Sum(done, cluster.Request.Write, "leases") != 1 {
		t.Errorf("it is settled, and yet the operator wrote\n%s", cluster.Describe(done))
	}
	if got := c.Get(t, deployment, ns, sample).GetGeneration(); got != generation {
		t.Errorf("generation %d of the Deployment, was %d", got, generation)
	}
	// 0 pauses it, although the replicas are its own, and another number resumes.
	for _, n := range []int64{0, 3} {
		patch(t, c, tfserv, ns, sample, fmt.Sprintf(`{"spec":{"replicas":%d}}`, n))
		replicasAre(t, c, ns, n)
		condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	}
}
