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
const resolveTimeout = time.Minute

// missing is what workloads refer to although it is missing, and the namespaces that are still to be looked at, by the names
// of tests.
type missing struct {
	sync.Mutex
	reasons   map[string]map[string]string
	unchecked map[string][]string
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

// checkAtEnd has a namespace looked at when the test ends; an empty one is the whole cluster.
func (c *Cluster) checkAtEnd(t testing.TB, namespace string) {
	t.Helper()
	c.missing.Lock()
	defer c.missing.Unlock()
	if c.missing.unchecked == nil {
		c.missing.unchecked = map[string][]string{}
	}
	c.missing.unchecked[t.Name()] = append(c.missing.unchecked[t.Name()], namespace)
	t.Cleanup(func() { c.EveryReferenceResolves(t) })
}

// EveryReferenceResolves fails a test that leaves workloads whose pods would wait for a missing object for ever. It looks once
// at each namespace that the test has made: while the operators of the test still run, if they do, since what one has in hand
// when it is stopped is never completed.
func (c *Cluster) EveryReferenceResolves(t testing.TB) {
	t.Helper()
	c.missing.Lock()
	namespaces, reasons := c.missing.unchecked[t.Name()], c.missing.reasons[t.Name()]
	delete(c.missing.unchecked, t.Name())
	c.missing.Unlock()
	if t.Failed() || len(namespaces) == 0 {
		return
	}
	Eventually(t, resolveTimeout, func() error {
		problems, err := c.problems(namespaces, reasons)
		if err == nil && len(problems) > 0 {
			err = fmt.Errorf("pods wait for ever:\n%s", strings.Join(problems, "\n"))
		}
		return err
	})
}

func (c *Cluster) problems(of []string, reasons map[string]string) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if slices.Contains(of, "") {
		of = []string{""}
	}
	var objects []client.Object
	for _, namespace := range of {
		some, err := references.Read(ctx, c.Client, client.InNamespace(namespace))
		if err != nil {
			return nil, err
		}
		objects = append(objects, some...)
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
