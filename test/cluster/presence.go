package cluster

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// There is an error unless an object is there, for Eventually and Consistently.
func (c *Cluster) There(t testing.TB, gvk schema.GroupVersionKind, namespace, name string) error {
	t.Helper()
	if c.Get(t, gvk, namespace, name) == nil {
		return fmt.Errorf("%s %s is not there", gvk.Kind, name)
	}
	return nil
}

// Gone is an error while an object is there.
func (c *Cluster) Gone(t testing.TB, gvk schema.GroupVersionKind, namespace, name string) error {
	t.Helper()
	if c.Get(t, gvk, namespace, name) != nil {
		return fmt.Errorf("%s %s is there", gvk.Kind, name)
	}
	return nil
}
