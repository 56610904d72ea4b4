package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// failAnnotation makes a pod fail, as the package comment of devcluster/internal/simkubelet says.
const failAnnotation = "devcluster.mlkeeper.dev/fail"

// failingPolicy annotates every new pod of a namespace; what makes the pods may have no field for annotations. VERSION is the one that
// the release of Kubernetes serves.
const failingPolicy = `
apiVersion: VERSION
kind: MutatingAdmissionPolicy
metadata: {name: failing-NS}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NS}}
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: >-
        (has(object.metadata.annotations) ? [] : [JSONPatch{op: "add", path: "/metadata/annotations", value: {}}]) + [
        JSONPatch{op: "add", path: "/metadata/annotations/" + jsonpatch.escapeKey("ANNOTATION"), value: "HOW"}]
---
apiVersion: VERSION
kind: MutatingAdmissionPolicyBinding
metadata: {name: failing-NS}
spec: {policyName: failing-NS}
`

// FailPods has every new pod of a namespace fail: how is Error, ImagePullBackOff or Unready. The pods that are there run on. The
// function that it returns ends that, for pods that have failed so far too.
func (c *Cluster) FailPods(t testing.TB, namespace, how string) (end func()) {
	t.Helper()
	served, err := c.Client.RESTMapper().RESTMapping(schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicy"})
	if err != nil {
		t.Fatal(err)
	}
	version := served.GroupVersionKind.GroupVersion().String()
	c.Apply(t, strings.NewReplacer("VERSION", version, "NS", namespace, "ANNOTATION", failAnnotation, "HOW", how).Replace(failingPolicy))
	remove := func() {
		for _, kind := range []string{"mutatingadmissionpolicybinding", "mutatingadmissionpolicy"} {
			if out, err := c.TryKubectl("delete", kind, "failing-"+namespace, "--ignore-not-found"); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		}
	}
	t.Cleanup(remove)
	c.awaitFailing(t, namespace, how)
	return func() {
		t.Helper()
		remove()
		c.awaitFailing(t, namespace, "")
		if err := c.mendPods(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
	}
}

// awaitFailing waits until the API server, which reads policies from a watch, makes new pods of a namespace fail in a way.
func (c *Cluster) awaitFailing(t testing.TB, namespace, how string) {
	t.Helper()
	Eventually(t, time.Minute, func() error {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "probe"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}},
		}
		if err := c.Client.Create(t.Context(), pod, client.DryRunAll); err != nil {
			return err
		}
		if got := pod.Annotations[failAnnotation]; got != how {
			return fmt.Errorf("a new pod is annotated with %q and not yet with %q", got, how)
		}
		return nil
	})
}

// mendPods takes the annotation off the pods of a namespace.
func (c *Cluster) mendPods(ctx context.Context, namespace string) error {
	pods := &corev1.PodList{}
	if err := c.Client.List(ctx, pods, client.InNamespace(namespace)); err != nil {
		return err
	}
	off := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+failAnnotation+`":null}}}`))
	var failed error
	for i := range pods.Items {
		failed = errors.Join(failed, client.IgnoreNotFound(c.Client.Patch(ctx, &pods.Items[i], off)))
	}
	return failed
}
