package seldon

import (
	"errors"
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
			return reason(cr, "HookFailed", "Job ("+ns+"/"+job+"): the hook has failed (Job has reached the specified backoff limit")
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
	var history []string
	for _, part := range get(t, c, ns, "stack").Status.Components {
		for _, r := range part.History {
			if part.Name == "core" {
				history = append(history, fmt.Sprintf("%d %s", r.Revision, r.Outcome))
			}
		}
	}
	if got := strings.Join(history, ", "); got != "3 Deployed, 2 Failed, 1 Failed" {
		t.Errorf("the history is %q", got)
	}
}

// migrated is a chart with a hook whose Job is removed as soon as it has finished, and an object that comes after it.
const migrated = `
apiVersion: batch/v1
kind: Job
metadata: {name: migrate, annotations: {helm.sh/hook: 'pre-install,pre-upgrade'}}
spec:
  ttlSecondsAfterFinished: 0
  template:
    metadata: {annotations: {release: "RELEASE"}}
    spec: {restartPolicy: Never, NODE containers: [{name: c, image: c}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: after}
data: {release: "RELEASE"}
`

// TestAHookThatFinishedAndIsGone: a Job that its TTL has removed after it completed has done what it declares. It is not run again, not
// by another manager either, until its chart changes; one that is deleted before is.
func TestAHookThatFinishedAndIsGone(t *testing.T) {
	c := cluster.Start(t)
	o := start(t, c, repository(t).URL, harness.Options{})
	ns := c.Namespace(t)
	jobs := schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}
	release := func(name, node string) {
		t.Helper()
		chartMap(t, c, ns, map[string]string{"core": strings.NewReplacer("RELEASE", name, "NODE", node).Replace(migrated)})
	}
	done := func(name string) {
		t.Helper()
		cluster.Eventually(t, patience, func() error {
			if after := c.Get(t, configMaps, ns, "after"); after == nil || fmt.Sprint(after.Object["data"]) != "map[release:"+name+"]" {
				return fmt.Errorf("the ConfigMap is %v", after)
			}
			return errors.Join(ready(get(t, c, ns, "stack")), c.Gone(t, jobs, ns, "migrate"))
		})
	}
	// rests fails the test if the Job is made again, or anything else is written.
	rests := func(o *harness.Operator) {
		t.Helper()
		o.Settle(t, time.Minute)
		before := o.Requests.Snapshot()
		cluster.Consistently(t, 5*time.Second, func() error {
			if since := o.Requests.Since(before); cluster.Sum(since, cluster.Request.Write) > 0 {
				return fmt.Errorf("the operator writes:\n%s", cluster.Describe(since))
			}
			return errors.Join(ready(get(t, c, ns, "stack")), c.Gone(t, jobs, ns, "migrate"))
		})
	}
	release("one", "nodeSelector: {no: node},")
	apply(t, c, ns, `{core: {chart: {repository: "configmap:charts/core.tgz"}}}`)
	cluster.Eventually(t, patience, func() error { return c.There(t, jobs, ns, "migrate") })
	running := c.Get(t, jobs, ns, "migrate").GetUID()
	c.Kubectl(t, "-n", ns, "delete", "job", "migrate", "--wait=false")
	cluster.Eventually(t, patience, func() error {
		if now := c.Get(t, jobs, ns, "migrate"); now == nil || now.GetUID() == running {
			return fmt.Errorf("a Job that was deleted before it completed is %v", now)
		}
		return nil
	})
	release("two", "")
	done("two")
	rests(o)
	o.Stop()
	o = start(t, c, repository(t).URL, harness.Options{})
	rests(o)
	release("three", "")
	done("three")
	rests(o)
}

// upgrades is a chart whose hooks have weights, with an object that an upgrade changes and one that it removes.
const upgrades = `
apiVersion: batch/v1
kind: Job
metadata: {name: second, annotations: {helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-weight: "1"}}
spec:
  backoffLimit: 0
  template:
    metadata: {annotations: {SECOND}}
    spec: {restartPolicy: Never, containers: [{name: c, image: c}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: first, annotations: {helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-weight: "-1", helm.sh/hook-delete-policy: hook-succeeded}}
spec:
  backoffLimit: 0
  template:
    spec: {restartPolicy: Never, containers: [{name: c, image: c}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once, annotations: {helm.sh/hook: pre-install}}
spec:
  template:
    metadata: {annotations: {release: "RELEASE"}}
    spec: {restartPolicy: Never, containers: [{name: c, image: c}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: upgrade, annotations: {helm.sh/hook: post-upgrade}}
spec:
  template:
    metadata: {annotations: {release: "RELEASE"}}
    spec: {restartPolicy: Never, containers: [{name: c, image: c}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kept}
data: {release: "RELEASE {{ .Release.Revision }} {{ .Release.IsUpgrade }}"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: of-RELEASE}
`

// TestHooksOrderAnUpgrade: an upgrade changes and removes nothing before its hooks have completed, one weight after the other; a hook that
// fails leaves everything as it is, and is repaired meanwhile. Hooks of an installation alone do not run again.
func TestHooksOrderAnUpgrade(t *testing.T) {
	c := cluster.Start(t)
	o := start(t, c, repository(t).URL, harness.Options{})
	ns := c.Namespace(t)
	jobs := schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}
	release := func(name, second string) {
		t.Helper()
		chartMap(t, c, ns, map[string]string{"core": strings.NewReplacer("RELEASE", name, "SECOND", second).Replace(upgrades)})
	}
	is := func(want string) error {
		kept := c.Get(t, configMaps, ns, "kept")
		if kept == nil || fmt.Sprint(kept.Object["data"]) != "map[release:"+want+"]" {
			return fmt.Errorf("the ConfigMap is %v, and not of %s", kept, want)
		}
		return nil
	}
	release("one", "")
	apply(t, c, ns, `{core: {chart: {repository: "configmap:charts/core.tgz"}}}`)
	cluster.Eventually(t, patience, func() error {
		return errors.Join(ready(get(t, c, ns, "stack")), is("one 1 false"), c.There(t, jobs, ns, "once"), c.Gone(t, jobs, ns, "upgrade"),
			c.Gone(t, jobs, ns, "first"), c.There(t, configMaps, ns, "of-one"))
	})
	second, once := c.Get(t, jobs, ns, "second"), c.Get(t, jobs, ns, "once").GetUID()
	release("two", "devcluster.mlkeeper.dev/fail: Error")
	cluster.Eventually(t, patience, func() error {
		return reason(get(t, c, ns, "stack"), "HookFailed", "Job ("+ns+"/second): the hook has failed")
	})
	if err := errors.Join(is("one 1 false"), c.There(t, configMaps, ns, "of-one"), c.Gone(t, configMaps, ns, "of-two"), c.Gone(t, jobs, ns, "upgrade")); err != nil {
		t.Errorf("after a hook that failed: %v", err)
	}
	failed := c.Get(t, jobs, ns, "second")
	if failed == nil || failed.GetUID() == second.GetUID() {
		t.Error("the hook was not run for the upgrade")
	}
	o.Settle(t, time.Minute)
	before := o.Requests.Snapshot()
	cluster.Consistently(t, 3*time.Second, func() error {
		if since := o.Requests.Since(before); cluster.Sum(since, cluster.Request.Write) > 0 {
			return fmt.Errorf("the operator writes:\n%s", cluster.Describe(since))
		}
		return nil
	})
	release("three", "")
	cluster.Eventually(t, patience, func() error {
		return errors.Join(ready(get(t, c, ns, "stack")), is("three 3 true"), c.There(t, jobs, ns, "upgrade"), c.Gone(t, jobs, ns, "first"),
			c.Gone(t, configMaps, ns, "of-one"), c.There(t, configMaps, ns, "of-three"))
	})
	if now := c.Get(t, jobs, ns, "once"); now == nil || now.GetUID() != once {
		t.Errorf("the hook of the installation was %s and is %v", once, now)
	}
	// The same chart and values are no other revision, for another manager neither.
	upgraded := c.Get(t, jobs, ns, "second").GetUID()
	o.Stop()
	start(t, c, repository(t).URL, harness.Options{})
	cluster.Consistently(t, 5*time.Second, func() error {
		if now := c.Get(t, jobs, ns, "second"); now == nil || now.GetUID() != upgraded {
			return fmt.Errorf("the hook was %s and is %v", upgraded, now)
		}
		return is("three 3 true")
	})
}
