package tfserv

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/harness"
	"mlkeeper.dev/test/tfserver"
)

const withGPU = `
apiVersion: servapi.dev-state.com/v1alpha1
kind: Tfserv
metadata: {name: ` + sample + `}
spec:
  models: [{name: resnet, basePath: /models/resnet}]
  image: tensorflow/serving:rocm
  resources: {limits: {amd.com/gpu: 1}}
`

// TestARolloutEndsWithOneGPU: there is one GPU, which the old pod has; without one the scheduler's reason is told.
func TestARolloutEndsWithOneGPU(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{}, fixture.Nobody{})
	ns := c.Namespace(t)
	c.Apply(t, withGPU, ns)
	got := condition(t, c, ns, sample, "Ready", metav1.ConditionFalse, "Unschedulable")
	if !strings.Contains(got.Message, "Insufficient amd.com/gpu") {
		t.Errorf("message %q", got.Message)
	}
	node, _, _ := strings.Cut(strings.TrimSpace(c.Kubectl(t, "get", "nodes", "-o", "jsonpath={.items[*].metadata.name}")), " ")
	gpus := func(n string) {
		c.Kubectl(t, "patch", "node", node, "--subresource=status", "--type=merge", "-p",
			`{"status":{"capacity":{"amd.com/gpu":`+n+`},"allocatable":{"amd.com/gpu":`+n+`}}}`)
	}
	gpus(`"1"`)
	t.Cleanup(func() { gpus("null") })
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	patch(t, c, tfserv, ns, sample, `{"spec":{"imagePullPolicy":"Always"}}`)
	cluster.Eventually(t, time.Minute, func() error {
		u := c.Get(t, deployment, ns, sample)
		if updated := field(t, u, "status", "updatedReplicas"); u.GetGeneration() < 2 || field(t, u, "status", "observedGeneration") != u.GetGeneration() || updated != int64(1) {
			return fmt.Errorf("generation %d, %v updated", u.GetGeneration(), updated)
		}
		return nil
	})
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
}

const reloading = `
apiVersion: servapi.dev-state.com/v1alpha1
kind: Tfserv
metadata: {name: ` + sample + `}
spec:
  configReload: Poll
  restPort: 8500
  grpcPort: 9000
  models:
    - {name: resnet, basePath: /models/resnet, versionPolicy: {specific: {versions: [41]}}, versionLabels: {stable: 41}}
`

// TestALabelMovesWithoutARestart: servers that run load another version, get the label when they have it, and drop the old one.
func TestALabelMovesWithoutARestart(t *testing.T) {
	c, store := cluster.Shared(t), &tfserver.Memory{}
	ns := c.Namespace(t)
	startAsking(t, c, ns, serving(t, store, 41))
	c.Apply(t, reloading, ns)
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	condition(t, c, ns, sample, "ModelsAvailable", metav1.ConditionTrue)
	template, were := field(t, c.Get(t, deployment, ns, sample), "spec", "template"), pods(t, c, ns)
	reads := func(want string) {
		t.Helper()
		cluster.Eventually(t, time.Minute, func() error {
			got := plain(fmt.Sprint(field(t, c.Get(t, configMap, ns, sample+"-config-live"), "data")))
			if !strings.Contains(got, want) {
				return fmt.Errorf("the servers read %s", got)
			}
			return nil
		})
	}
	reads(`value: 41`)
	patch(t, c, tfserv, ns, sample, `{"spec":{"models":[{"name":"resnet","basePath":"/models/resnet","versionPolicy":{"specific":{"versions":[42]}},"versionLabels":{"stable":42}}]}}`)
	reads(`versions: 42 versions: 41 } } version_labels { key: "stable" value: 41 }`)
	cluster.Eventually(t, time.Minute, func() error {
		// Once the servers were asked, another one says that they do not know version 42.
		got := get(t, c, ns, sample).Status.Warnings
		if !slices.ContainsFunc(got, func(w string) bool { return strings.Contains(w, "stays at version 41") }) {
			return fmt.Errorf("warnings %q", got)
		}
		return nil
	})
	store.Put(storedModel, 42)
	reads(`specific { versions: 42 } } version_labels { key: "stable" value: 42 }`)
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	if now := field(t, c.Get(t, deployment, ns, sample), "spec", "template"); !reflect.DeepEqual(now, template) || !reflect.DeepEqual(pods(t, c, ns), were) {
		t.Error("the pods were replaced")
	}
}
