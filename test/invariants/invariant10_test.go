package invariants

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"mlkeeper.dev/test/bundle"
)

func TestInvariant10NoDryRunAndNoWriteInAPassWithoutChange(t *testing.T) {
	b := open(t, options{})
	b.apply("b", b.ordinary())
	b.apply("wide", b.staged(b.namespace()))
	b.ready("b")
	b.ready("wide")
	b.patch(configMapGVK, b.ns, "one", `{"data":{"k":"changed"}}`)
	b.field(configMapGVK, b.ns, "one", "v", "data", "k")
	b.quiet()
	b.settle() // The event of the repair follows it.
	mark := b.journal.mark()
	for range 5 {
		b.nudge("b")
		b.nudge("wide")
	}
	if got := b.journal.since(mark, func(r request) bool {
		return r.write() && !strings.Contains(r.path, "/bundles/") || strings.Contains(r.path, "/configmaps/")
	}); len(got) > 0 {
		t.Errorf("passes without a change asked for:\n%s", lines(got))
	}
	if got := b.journal.since(0, func(r request) bool { return strings.Contains(r.query, "dryRun") }); len(got) > 0 {
		t.Errorf("dry runs:\n%s", lines(got))
	}
}

func TestInvariant10DefinitionsHaveWorkersOfTheirOwn(t *testing.T) {
	b := open(t, options{})
	group := b.ns + ".test"
	var mu sync.Mutex
	running, most := 0, 0
	b.journal.hook(func(r *http.Request) *http.Response {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/customresourcedefinitions") {
			return nil
		}
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		<-time.After(50 * time.Millisecond)
		mu.Lock()
		running--
		mu.Unlock()
		return nil
	})
	for i, name := range []string{"x", "y"} {
		var spec bundle.Spec
		var first bundle.Stage
		first.Name = "first"
		for j := range 9 {
			kind := string([]byte{"ABCDEFGHIJ"[i], "abcdefghij"[j]})
			first.Objects = append(first.Objects, definition(group, kind))
			crd := strings.ToLower(kind) + "s." + group
			b.Cleanup(func() { b.delete(definitionGVK, "", crd) })
		}
		spec.Stages = []bundle.Stage{first}
		b.apply(name, spec)
	}
	b.ready("x")
	b.ready("y")
	mu.Lock()
	defer mu.Unlock()
	if most != 2 {
		t.Errorf("%d definitions were written at once, want 2", most)
	}
}
