package laws

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/test/bundle"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

func TestMain(m *testing.M) { cluster.Main(m, cluster.WithCRDs("servicemonitor")) }

// children are the kinds that the laws are tested with.
var children = []schema.GroupVersionKind{
	{Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Service"}, {Version: "v1", Kind: "Secret"},
	{Version: "v1", Kind: "PersistentVolumeClaim"}, {Version: "v1", Kind: "Namespace"},
	{Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "batch", Version: "v1", Kind: "Job"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	{Group: "monitoring.coreos.com", Version: "v1", Kind: "ServiceMonitor"},
	{Group: "late.test", Version: "v1", Kind: "Late"},
}

// start runs an operator with the bundle room.
func start(t *testing.T, c *cluster.Cluster, opts harness.Options) *harness.Operator {
	t.Helper()
	c.InstallCRDs(t)
	c.Apply(t, bundle.CRD)
	opts.Verbose = testing.Verbose()
	return harness.Start(t, c, opts, func(e *engine.Engine) error {
		return engine.Register(e, bundle.Definition(children), &bundle.System{})
	})
}

// object makes one object of a bundle from YAML-like JSON.
func object(manifest string) bundle.Object {
	return bundle.Object{Manifest: &runtime.RawExtension{Raw: []byte(manifest)}}
}

// configMap is a ConfigMap of a bundle.
func configMap(ns, name, value string) bundle.Object {
	return object(fmt.Sprintf(
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":%q},"data":{"k":%q}}`, ns, name, value))
}

// apply writes a bundle's spec.
func apply(t *testing.T, c *cluster.Cluster, ns, name string, spec bundle.Spec) {
	t.Helper()
	raw, err := json.Marshal(&bundle.Bundle{
		TypeMeta:   metav1.TypeMeta{APIVersion: bundle.GVK.GroupVersion().String(), Kind: bundle.GVK.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: spec,
	})
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &u.Object); err != nil {
		t.Fatal(err)
	}
	delete(u.Object, "status")
	raw, err = json.Marshal(u.Object)
	if err != nil {
		t.Fatal(err)
	}
	c.Apply(t, string(raw)+"\n")
}

// status reads a bundle back.
func status(t *testing.T, c *cluster.Cluster, ns, name string) *bundle.Bundle {
	t.Helper()
	u := c.Get(t, bundle.GVK, ns, name)
	if u == nil {
		return nil
	}
	b := &bundle.Bundle{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, b); err != nil {
		t.Fatal(err)
	}
	return b
}

// condition waits until a condition of a bundle has a status, for the current generation.
func condition(t *testing.T, c *cluster.Cluster, ns, name, kind string, want metav1.ConditionStatus) metav1.Condition {
	t.Helper()
	var got metav1.Condition
	cluster.Eventually(t, 30*time.Second, func() error {
		b := status(t, c, ns, name)
		if b == nil {
			return fmt.Errorf("bundle %s/%s does not exist", ns, name)
		}
		found := meta.FindStatusCondition(b.Status.Conditions, kind)
		if found == nil || found.Status != want || b.Status.ObservedGeneration != b.Generation {
			return fmt.Errorf("%s is %+v at generation %d of %d", kind, found, b.Status.ObservedGeneration, b.Generation)
		}
		got = *found
		return nil
	})
	return got
}
