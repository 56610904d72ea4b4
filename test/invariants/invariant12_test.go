package invariants

import (
	"net/http"
	"testing"
	"time"
)

func TestInvariant12LateWatchesCauseNoSecondWrite(t *testing.T) {
	var opts options
	opts.Config = delayWatches(time.Second)
	b := open(t, opts)
	other := b.namespace()
	spec := b.staged(other)
	spec.Stages = append(spec.Stages, stage("third", configMap(b.ns, "one", "v"), configMap(b.ns, "goes", "v"),
		deployment(b.ns, "app", false)))
	mark := b.journal.mark()
	b.apply("b", spec)
	b.ready("b")
	b.nudge("b")
	for path, want := range map[string]int{
		b.ns + "/configmaps": 3, other + "/configmaps": 1, "/clusterroles": 1, b.ns + "/deployments": 1, "/inventories": 3,
	} {
		if got := b.journal.writes(mark, http.MethodPost, path); len(got) != want {
			t.Errorf("%d creates at %s, want %d:\n%s", len(got), path, want, lines(got))
		}
	}
	for _, method := range []string{http.MethodPatch, http.MethodDelete} {
		got := b.journal.since(mark, func(r request) bool { return r.method == method && !ofBundle(r) })
		if len(got) > 0 {
			t.Errorf("nothing was changed, but there was:\n%s", lines(got))
		}
	}
	// One change: the managedFields of the POST are migrated, and the change is applied, once each.
	mark = b.journal.mark()
	spec.Stages[2].Objects[0] = configMap(b.ns, "one", "changed")
	spec.Stages[2].Objects = append(spec.Stages[2].Objects[:1], spec.Stages[2].Objects[2:]...)
	b.apply("b", spec)
	b.value("one", "changed")
	b.gone(configMapGVK, b.ns, "goes")
	b.nudge("b")
	b.nudge("b")
	if got := b.journal.writes(mark, "", b.ns+"/configmaps/one"); len(got) != 2 {
		t.Errorf("one change took:\n%s", lines(got))
	}
	if got := b.journal.writes(mark, "", b.ns+"/configmaps/goes"); len(got) != 1 {
		t.Errorf("one deletion took:\n%s", lines(got))
	}
	if got := b.journal.writes(mark, http.MethodPost, ""); len(got) != 0 {
		t.Errorf("nothing new was wanted, but there was:\n%s", lines(got))
	}
}

// ofBundle says that a request is about the custom resource itself, its events or its Inventories.
func ofBundle(r request) bool {
	for _, suffix := range []string{"/status", "/events"} {
		if len(r.path) > len(suffix) && r.path[len(r.path)-len(suffix):] == suffix {
			return true
		}
	}
	return false
}

func TestInvariant12StatusIsWrittenOnceThoughItsEchoIsLate(t *testing.T) {
	var opts options
	opts.Config = delayWatches(time.Second)
	b := open(t, opts)
	mark := b.journal.mark()
	b.apply("b", one(configMap(b.ns, "one", "v")))
	b.ready("b")
	b.nudge("b")
	b.nudge("b")
	// One write for the creation, and one for each nudge.
	if got := b.journal.writes(mark, http.MethodPatch, "/bundles/b/status"); len(got) != 3 {
		t.Errorf("the status took %d writes, want 3:\n%s", len(got), lines(got))
	}
}
