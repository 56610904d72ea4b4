package kubeflow

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/kubeflow"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

var cronJobs = schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "CronJob"}

// watchOfCronJobs matches what the API server counts of the open watches on CronJobs.
var watchOfCronJobs = regexp.MustCompile(`(?m)^apiserver_longrunning_requests\{.*resource="cronjobs".*verb="WATCH".*\} (\d+)$`)

func cronJob(name string) string {
	return "{apiVersion: batch/v1, kind: CronJob, metadata: {name: " + name + `}, spec: {schedule: "0 0 1 1 *", suspend: true,
		jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}}`
}

// endsWatches has two KfDefs with a kind that no other one has, of which the second has Inventories. The API server has one more watch on it while one of them does: until the
// kind left the first plan and the second KfDef was torn down. Another KfDef begins the watch again, which reports what happens to its child.
func endsWatches(t *testing.T, c *cluster.Cluster) {
	ns := c.Namespace(t)
	grant(t, c, ns)
	before := watches(t, c)
	for name, rest := range map[string]string{
		"first": configMap("rest"), "second": "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: " + ns + "}, rules: []}",
	} {
		files := application("job", cronJob(name))
		merge(files, application("rest", rest))
		archive(t, c, ns, name, files)
		apply(t, c, ns, name, "", "job", "rest")
	}
	for _, name := range []string{"first", "second"} {
		cluster.Eventually(t, time.Minute, func() error { return ready(get(t, c, ns, name)) })
	}
	expectWatches(t, c, before+1)
	apply(t, c, ns, "first", "", "rest")
	cluster.Eventually(t, time.Minute, func() error { return c.Gone(t, cronJobs, ns, "first") })
	cluster.Consistently(t, 2*time.Second, func() error { return watchesAre(t, c, before+1) })
	remove(t, c, ns, "second")
	cluster.Eventually(t, time.Minute, func() error { return c.Gone(t, cronJobs, ns, "second") })
	expectWatches(t, c, before)
	if err := ready(get(t, c, ns, "first")); err != nil {
		t.Error(err)
	}

	apply(t, c, ns, "second", "", "job", "rest")
	cluster.Eventually(t, time.Minute, func() error { return ready(get(t, c, ns, "second")) })
	expectWatches(t, c, before+1)
	c.Kubectl(t, "-n", ns, "delete", "cronjob", "second")
	cluster.Eventually(t, time.Minute, func() error { return c.There(t, cronJobs, ns, "second") })
	remove(t, c, ns, "first")
	remove(t, c, ns, "second")
	expectWatches(t, c, before)
}

// tearsDownAfterRestart deletes a KfDef while no operator runs. The operator that starts has not seen its children, and yet the first stage
// waits until the objects of the second are gone.
func tearsDownAfterRestart(t *testing.T, c *cluster.Cluster, a archives) {
	ns := c.Namespace(t)
	grant(t, c, ns)
	o := start(t, c, a.again(t), harness.Options{}, kubeflow.Settings{})
	files := application("one", "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: "+ns+"}, rules: []}")
	merge(files, application("two", cronJob("held")))
	archive(t, c, ns, "kf", files)
	apply(t, c, ns, "kf", "", "one", "two")
	cluster.Eventually(t, time.Minute, func() error { return ready(get(t, c, ns, "kf")) })
	hold := func(finalizers string) {
		c.Kubectl(t, "-n", ns, "patch", "cronjob", "held", "--type=merge", "-p", `{"metadata":{"finalizers":`+finalizers+`}}`)
	}
	hold(`["example.com/held"]`)
	o.Settle(t, patience)
	o.Stop()
	remove(t, c, ns, "kf")
	start(t, c, a.again(t), harness.Options{}, kubeflow.Settings{})
	cluster.Eventually(t, time.Minute, func() error {
		if u := c.Get(t, cronJobs, ns, "held"); u == nil || u.GetDeletionTimestamp() == nil {
			return errors.New("the second stage is not deleted")
		}
		return nil
	})
	clusterRoles := schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}
	cluster.Consistently(t, 3*time.Second, func() error { return c.There(t, clusterRoles, "", ns) })
	hold("null")
	cluster.Eventually(t, time.Minute, func() error { return c.Gone(t, clusterRoles, "", ns) })
}

func expectWatches(t *testing.T, c *cluster.Cluster, want int) {
	t.Helper()
	cluster.Eventually(t, time.Minute, func() error { return watchesAre(t, c, want) })
}

func watchesAre(t *testing.T, c *cluster.Cluster, want int) error {
	t.Helper()
	if n := watches(t, c); n != want {
		return fmt.Errorf("the API server has %d watches on CronJobs, want %d", n, want)
	}
	return nil
}

// watches returns how many watches on CronJobs the API server has.
func watches(t *testing.T, c *cluster.Cluster) int {
	t.Helper()
	sum := 0
	for _, match := range watchOfCronJobs.FindAllStringSubmatch(c.Kubectl(t, "get", "--raw", "/metrics"), -1) {
		n, err := strconv.Atoi(match[1])
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}
