package kubeflow

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/test/cluster"
)

// leavesDrift changes values of an application that leaves them with a warning, takes them back when that ends, and keeps what is ignored.
func leavesDrift(t *testing.T, c *cluster.Cluster) {
	ns := c.Namespace(t)
	grant(t, c, ns)
	object := func(version string) string {
		return `{apiVersion: v1, kind: ConfigMap, metadata: {name: cm}, data: {watched: declared, ignored: declared, version: "` + version + `"}}`
	}
	archive(t, c, ns, "kf", application("one", object("1")))
	const ignore = "ignore: [{paths: [/data/ignored], target: {kind: ConfigMap, name: cm}}]"
	apply(t, c, ns, "kf", "", "one {driftDetection: {mode: warn, "+ignore+"}}")
	cluster.Eventually(t, time.Minute, func() error { return ready(get(t, c, ns, "kf")) })
	c.Kubectl(t, "-n", ns, "patch", "configmap", "cm", "--type=merge", "-p", `{"data":{"watched":"theirs","ignored":"theirs"}}`)
	values := func(watched, ignored, version string) error {
		got, _, _ := unstructured.NestedStringMap(c.Get(t, configMaps, ns, "cm").Object, "data")
		if got["watched"] != watched || got["ignored"] != ignored || got["version"] != version {
			return fmt.Errorf("%v", got)
		}
		return nil
	}
	warned := func() error {
		w := strings.Join(get(t, c, ns, "kf").Status.Warnings, "\n")
		if strings.Count(w, "drift: ") != 1 || !strings.Contains(w, "drift: data.watched is left as kubectl-patch has set it") {
			return fmt.Errorf("warnings %q", w)
		}
		return nil
	}
	cluster.Eventually(t, time.Minute, warned)
	cluster.Consistently(t, 2*time.Second, func() error { return values("theirs", "theirs", "1") })
	if err := ready(get(t, c, ns, "kf")); err != nil {
		t.Error(err)
	}
	apply(t, c, ns, "kf", "", "one {driftDetection: {"+ignore+"}}")
	cluster.Eventually(t, time.Minute, func() error { return values("declared", "theirs", "1") })
	archive(t, c, ns, "kf", application("one", object("2")))
	cluster.Eventually(t, time.Minute, func() error { return values("declared", "theirs", "2") })
	cluster.Eventually(t, time.Minute, func() error {
		if w := get(t, c, ns, "kf").Status.Warnings; len(w) > 0 {
			return fmt.Errorf("warnings %q", w)
		}
		return nil
	})
	apply(t, c, ns, "kf", "", "one")
	cluster.Eventually(t, time.Minute, func() error { return values("declared", "declared", "2") })
	if out, err := c.TryKubectl("-n", ns, "patch", "kfdef", "kf", "--type=json", "-p",
		`[{"op":"add","path":"/spec/applications/0/driftDetection","value":{"ignore":[{"paths":["spec.replicas"]}]}}]`); err == nil {
		t.Errorf("a path may be no JSON pointer: %s", out)
	}
}

// tellsHealth has an expression tell when a custom resource is current whose conditions mean nothing to kstatus.
func tellsHealth(t *testing.T, c *cluster.Cluster) {
	ns := c.Namespace(t)
	grant(t, c, ns)
	archive(t, c, ns, "kf", application("one", `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: oddities.health.example}
spec:
  group: health.example
  scope: Namespaced
  names: {kind: Oddity, listKind: OddityList, plural: oddities, singular: oddity}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
{apiVersion: health.example/v1, kind: Oddity, metadata: {name: a}}`))
	apply(t, c, ns, "kf", "", "one {healthCheckExprs: [{apiVersion: health.example/v1, kind: Oddity, "+
		`current: "status.conditions.exists(c, c.type == 'Odd' && c.status == 'Done')"}]}`)
	cluster.Eventually(t, time.Minute, func() error {
		return reason(get(t, c, ns, "kf"), "Progressing", "its expression current cannot be evaluated")
	})
	c.Kubectl(t, "-n", ns, "patch", "oddity", "a", "--type=merge", "-p", `{"status":{"conditions":[{"type":"Odd","status":"Done"}]}}`)
	cluster.Eventually(t, time.Minute, func() error { return ready(get(t, c, ns, "kf")) })
}
