package seldon

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// hooked is a chart with a hook that comes before a ConfigMap, and one that comes after it.
const hooked = `
apiVersion: batch/v1
kind: Job
metadata: {name: before, annotations: {helm.sh/hook: pre-install}}
spec:
  backoffLimit: 0
  template:
    metadata: {annotations: {BEFORE}}
    spec: {restartPolicy: Never, containers: [{name: c, image: c}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: between}
---
apiVersion: batch/v1
kind: Job
metadata: {name: after, annotations: {helm.sh/hook: post-install}}
spec:
  backoffLimit: 0
  template:
    metadata: {annotations: {AFTER}}
    spec: {restartPolicy: Never, containers: [{name: c, image: c}]}
`

// TestAHookThatFails: the status names the Job of a hook that fails and says why. It is not run again until its chart changes, and
// what comes after it waits.
func TestAHookThatFails(t *testing.T) {
	c := cluster.Start(t)
	o := start(t, c, repository(t).URL, harness.Options{})
	ns := c.Namespace(t)
	jobs := schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}
	release := func(before, after string) {
		t.Helper()
		annotation := func(how string) string {
			if how == "" {
				return ""
			}
			return "devcluster.mlkeeper.dev/fail: " + how
		}
		chartMap(t, c, ns, map[string]string{"core": strings.NewReplacer("BEFORE", annotation(before), "AFTER", annotation(after)).Replace(hooked)})
	}
	// fails waits until the status tells of a Job, and fails the test if that is run or anything written again.
	fails := func(job string) {
		t.Helper()
		cluster.Eventually(t, patience, func() error {
			cr := get(t, c, ns, "stack")
			for _, part := range cr.Status.Components {
				if part.Name == "core" && !strings.Contains(part.Message, "Job has reached the specified backoff limit") {
					return fmt.Errorf("the component says %q", part.Message)
				}
			}
			return reason(cr, "Progressing", "waiting for Job "+ns+"/"+job+": Job has reached the specified backoff limit")
		})
		was := c.Get(t, jobs, ns, job)
		o.Settle(t, time.Minute)
		before := o.Requests.Snapshot()
		cluster.Consistently(t, 3*time.Second, func() error {
			if since := o.Requests.Since(before); cluster.Sum(since, cluster.Request.Write) > 0 {
				return fmt.Errorf("the operator writes:\n%s", cluster.Describe(since))
			}
			return nil
		})
		if now := c.Get(t, jobs, ns, job); now == nil || now.GetUID() != was.GetUID() {
			t.Errorf("the Job is run again: it was %v and is %v", was, now)
		}
		if n := strings.Count(c.Kubectl(t, "-n", ns, "get", "pods", "-l", "batch.kubernetes.io/job-name="+job, "-o", "name"), "pod/"); n != 1 {
			t.Errorf("the Job has run %d times", n)
		}
	}
	release("Error", "Error")
	apply(t, c, ns, `{core: {chart: {repository: "configmap:charts/core.tgz"}}}`)
	fails("before")
	if c.Get(t, configMaps, ns, "between") != nil || c.Get(t, jobs, ns, "after") != nil {
		t.Error("what comes after the hook does not wait for it")
	}
	release("", "Error")
	cluster.Eventually(t, patience, func() error { return c.There(t, configMaps, ns, "between") })
	fails("after")
	between := c.Get(t, configMaps, ns, "between")
	release("", "")
	cluster.Eventually(t, patience, func() error { return ready(get(t, c, ns, "stack")) })
	if now := c.Get(t, configMaps, ns, "between"); now == nil || now.GetUID() != between.GetUID() {
		t.Error("what runs was made again because of a hook")
	}
}
