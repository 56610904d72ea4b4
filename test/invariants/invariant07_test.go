package invariants

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/test/bundle"
	"mlkeeper.dev/test/cluster"
)

// target makes a ConfigMap of somebody else into which bundles put lines.
func (b *bench) target(name, text string) {
	b.Helper()
	b.c.Apply(b, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"labels":{%q:"yes"}},
		"data":{"lines":%q}}`+"\n", name, bundle.WireLabel, text), b.ns)
}

// holds waits until the target has exactly these lines.
func (b *bench) holds(name string, want ...string) {
	b.Helper()
	slices.Sort(want)
	cluster.Eventually(b, patience, func() error {
		text, _, _ := unstructured.NestedString(b.must(configMapGVK, b.ns, name).Object, "data", "lines")
		got := strings.Fields(text)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("%s holds %v, want %v", name, got, want)
		}
		return nil
	})
}

func TestInvariant07EntriesComeAndGoWithTheirCustomResources(t *testing.T) {
	b := open(t, options{})
	b.target("shared", "theirs")
	b.apply("x", bundle.Spec{Wire: "of-x"})
	b.apply("y", bundle.Spec{Wire: "of-y"})
	b.holds("shared", "theirs", "of-x", "of-y")
	if refs := b.must(configMapGVK, b.ns, "shared").GetOwnerReferences(); len(refs) > 0 {
		t.Errorf("an object of another got owner references: %v", refs)
	}
	// An entry that somebody else has already is not ours to take out.
	b.target("before", "of-y")
	b.holds("before", "of-x", "of-y")
	b.delete(bundleGVK, b.ns, "y")
	b.holds("shared", "theirs", "of-x")
	b.holds("before", "of-x", "of-y")
	b.apply("x", bundle.Spec{Wire: "renamed"})
	b.holds("shared", "theirs", "renamed")
	// Taken out by somebody else, it comes back, and a new target gets it too.
	b.patch(configMapGVK, b.ns, "shared", `{"data":{"lines":"theirs\nmore"}}`)
	b.holds("shared", "theirs", "more", "renamed")
	b.target("later", "")
	b.holds("later", "renamed")
	// While the operator is away, its custom resource goes.
	b.op.Stop()
	b.delete(bundleGVK, b.ns, "x")
	b.gone(bundleGVK, b.ns, "x")
	b.restart()
	b.holds("shared", "theirs", "more")
	b.holds("before", "of-y")
	cluster.Eventually(t, patience, func() error {
		for _, name := range []string{"shared", "before", "later"} {
			if got := b.must(configMapGVK, b.ns, name).GetAnnotations()[keeper.WiringAnnotation]; got != "" {
				return fmt.Errorf("%s still records %s", name, got)
			}
		}
		return nil
	})
	b.quiet()
}

func TestInvariant07ConcurrentWritersLoseNothing(t *testing.T) {
	b := open(t, options{})
	b.target("shared", "")
	const writers, each = 4, 10
	var want []string
	var group sync.WaitGroup
	for w := range writers {
		for i := range each {
			want = append(want, fmt.Sprintf("theirs-%d-%d", w, i))
		}
		group.Go(func() {
			for i := range each {
				patient := wait.Backoff{Duration: time.Millisecond, Factor: 1.1, Jitter: 1, Steps: 200}
				err := retry.OnError(patient, func(error) bool { return true }, func() error {
					u := b.c.Get(t, configMapGVK, b.ns, "shared")
					text, _, _ := unstructured.NestedString(u.Object, "data", "lines")
					text = strings.TrimSpace(text + fmt.Sprintf("\ntheirs-%d-%d", w, i))
					if err := unstructured.SetNestedField(u.Object, text, "data", "lines"); err != nil {
						return err
					}
					return b.c.Client.Update(context.Background(), u)
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 8 {
		name := fmt.Sprint("b", i)
		b.apply(name, bundle.Spec{Wire: "of-" + name})
		want = append(want, "of-"+name)
	}
	group.Wait()
	b.holds("shared", want...)
	for _, r := range b.journal.since(0, func(r request) bool { return strings.HasSuffix(r.path, "/configmaps/shared") && r.write() }) {
		if r.method != http.MethodPut {
			t.Errorf("an object of another was written by %s", r.method)
		}
	}
}

func TestInvariant07UndecodableSiblingDoesNotCostEntries(t *testing.T) {
	b := open(t, options{})
	b.target("shared", "theirs")
	b.apply("x", bundle.Spec{Wire: "of-x"})
	b.holds("shared", "theirs", "of-x")
	b.patch(bundleGVK, b.ns, "x", `{"spec":{"stages":"no list"}}`)
	b.condition("x", "Stalled", "True", "InvalidSpec")
	cluster.Consistently(t, while, func() error {
		b.holds("shared", "theirs", "of-x")
		return nil
	})
	b.patch(bundleGVK, b.ns, "x", `{"spec":{"stages":null}}`)
	b.ready("x")
	b.holds("shared", "theirs", "of-x")
}
