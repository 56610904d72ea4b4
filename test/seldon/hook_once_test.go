package seldon

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	counted "mlkeeper.dev/internal/requests"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// learns is a chart with a hook that is deleted once it has completed, whose manifest changes with the APIs of the cluster.
const learns = `
apiVersion: batch/v1
kind: Job
metadata: {name: migrate, annotations: {helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-delete-policy: hook-succeeded}}
spec:
  template:
    metadata: {annotations: {learns: '{{ .Capabilities.APIVersions.Has "once.example.test/v1" }}'}}
    spec: {restartPolicy: Never, containers: [{name: c, image: c}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: after}
data: {learns: 'RELEASE {{ .Capabilities.APIVersions.Has "once.example.test/v1" }}'}
`

// TestAHookRunsOnceForItsRevision: a hook that is gone, since it was deleted when it had completed, is not run again when its manifest changes within
// its revision, nor by the next manager where the one that has deleted it dies before it writes anything else.
func TestAHookRunsOnceForItsRevision(t *testing.T) {
	c := cluster.Start(t)
	ns := c.Namespace(t)
	jobs := schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}
	release := func(name string) {
		t.Helper()
		chartMap(t, c, ns, map[string]string{"core": strings.ReplaceAll(learns, "RELEASE", name)})
	}
	done := func(data string) {
		t.Helper()
		cluster.Eventually(t, patience, func() error {
			if after := c.Get(t, configMaps, ns, "after"); after == nil || fmt.Sprint(after.Object["data"]) != "map[learns:"+data+"]" {
				return fmt.Errorf("the ConfigMap is %v", after)
			}
			return errors.Join(ready(get(t, c, ns, "stack")), c.Gone(t, jobs, ns, "migrate"))
		})
	}
	ran := func(o *harness.Operator, since map[cluster.Request]int) int {
		return cluster.Sum(o.Requests.Since(since), func(r cluster.Request) bool { return r.Verb == "CREATE" && r.Resource == "jobs" })
	}
	dies := func() (*harness.Operator, *atomic.Bool) {
		dead := &atomic.Bool{}
		return start(t, c, repository(t).URL, harness.Options{Config: func(cfg *rest.Config) { cfg.Wrap(diesAfterTheDeletion(dead)) }}), dead
	}
	for i, revision := range []string{"one", "two"} {
		o, dead := dies()
		release(revision)
		if i == 0 {
			apply(t, c, ns, `{core: {chart: {repository: "configmap:charts/core.tgz"}}}`)
		}
		cluster.Eventually(t, patience, func() error {
			if !dead.Load() {
				return errors.New("the hook was not deleted")
			}
			return c.Gone(t, jobs, ns, "migrate")
		})
		if n := ran(o, nil); n != 1 {
			t.Errorf("revision %s: the hook has run %d times", revision, n)
		}
		o.Stop()
		o = start(t, c, repository(t).URL, harness.Options{})
		done(revision + " false")
		o.Settle(t, time.Minute)
		if n := ran(o, nil); n > 0 {
			t.Errorf("revision %s: after the manager has died the hook has run %d times", revision, n)
		}
		o.Stop()
	}
	o := start(t, c, repository(t).URL, harness.Options{})
	done("two false")
	c.Apply(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: onces.once.example.test}
spec:
  group: once.example.test
  scope: Namespaced
  names: {kind: Once, plural: onces}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`, "")
	done("two true")
	if n := ran(o, nil); n > 0 {
		t.Errorf("the hook whose manifest has changed within its revision has run %d times", n)
	}
	before := o.Requests.Snapshot()
	release("three")
	done("three true")
	if n := ran(o, before); n != 1 {
		t.Errorf("for another revision the hook has run %d times", n)
	}
}

// diesAfterTheDeletion refuses what is written once a Job was deleted, as if the process had ended then.
func diesAfterTheDeletion(dead *atomic.Bool) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return counted.RoundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet && dead.Load() {
				return nil, errors.New("the process has ended")
			}
			response, err := next.RoundTrip(r)
			if err == nil && response.StatusCode == http.StatusOK && r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/jobs/") {
				dead.Store(true)
			}
			return response, err
		})
	}
}
