package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/test/references"
)

// resolveTimeout is how long what a test has set in motion may take to be complete, or gone, after its last line.
const resolveTimeout = 10 * time.Second

// missing is what workloads refer to although it is missing, by the names of tests.
type missing struct {
	sync.Mutex
	reasons map[string]map[string]string
}

// MissingOnPurpose names what workloads of the test refer to although it is missing, such as "Secret ns/name", with the
// reasons. Every other missing object fails the test at its end, as does an entry that nothing refers to.
func (c *Cluster) MissingOnPurpose(t testing.TB, reasons map[string]string) {
	t.Helper()
	c.missing.Lock()
	defer c.missing.Unlock()
	if c.missing.reasons == nil {
		c.missing.reasons = map[string]map[string]string{}
	}
	c.missing.reasons[t.Name()] = reasons
}

// everyReferenceResolves fails a test that leaves workloads in a namespace whose pods would wait for a missing object for
// ever. Without a namespace it looks at the whole cluster.
func (c *Cluster) everyReferenceResolves(t testing.TB, namespace string) {
	t.Helper()
	if t.Failed() {
		return
	}
	c.missing.Lock()
	reasons := c.missing.reasons[t.Name()]
	c.missing.Unlock()
	Eventually(t, resolveTimeout, func() error {
		problems, err := c.problems(namespace, reasons)
		if err == nil && len(problems) > 0 {
			err = fmt.Errorf("pods wait for ever:\n%s", strings.Join(problems, "\n"))
		}
		return err
	})
}

func (c *Cluster) problems(namespace string, reasons map[string]string) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	objects, err := references.Read(ctx, c.Client, client.InNamespace(namespace))
	if err != nil {
		return nil, err
	}
	namespaces := &corev1.NamespaceList{}
	if err := c.Client.List(ctx, namespaces); err != nil {
		return nil, err
	}
	// What is deleted goes in any order.
	going := map[string]bool{}
	for i := range namespaces.Items {
		going[namespaces.Items[i].Name] = namespaces.Items[i].DeletionTimestamp != nil
	}
	objects = slices.DeleteFunc(objects, func(o client.Object) bool {
		return going[o.GetNamespace()] || o.GetDeletionTimestamp() != nil
	})
	return references.Problems(objects, reasons), nil
}
