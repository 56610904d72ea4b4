package invariants

import (
	"net/http"
	"strings"
	"testing"

	"mlkeeper.dev/internal/engine/digestkey"
	"mlkeeper.dev/test/bundle"
)

// ordinary is a bundle of a few kinds.
func (b *bench) ordinary() bundle.Spec {
	return bundle.Spec{Stages: []bundle.Stage{
		stage("first", object(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":"one",
			"labels":{"ours":"yes"}},"data":{"k":"v"}}`, b.ns), secret(b.ns, "two", "v"),
			object(`{"apiVersion":"v1","kind":"Service","metadata":{"namespace":%q,"name":"three"},
			"spec":{"selector":{"app":"four"},"ports":[{"name":"http","port":80}]}}`, b.ns)),
		stage("second", deployment(b.ns, "four", false)),
	}}
}

func TestInvariant09WhatOthersWriteIsNoDrift(t *testing.T) {
	b := open(t, options{})
	b.apply("b", b.ordinary())
	b.ready("b")
	before := b.op.Requests.Snapshot()
	b.patchStatus(deploymentGVK, b.ns, "four", `{"status":{"collisionCount":7}}`)
	b.patchStatus(serviceGVK, b.ns, "three", `{"status":{"conditions":[{"type":"Theirs","status":"True","reason":"R",
		"message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
	b.patch(configMapGVK, b.ns, "one", `{"metadata":{"labels":{"theirs":"yes"}},"data":{"theirs":"yes"}}`)
	b.patch(serviceGVK, b.ns, "three", `{"spec":{"ports":[{"name":"http","port":80},{"name":"theirs","port":81}]}}`)
	// An apply that changes nothing.
	b.c.Kubectl(t, "apply", "--server-side", "--field-manager=somebody", "-f", b.file(`{"apiVersion":"v1","kind":"Secret",
		"metadata":{"namespace":"`+b.ns+`","name":"two"}}`))
	b.quiet()
	b.nudge("b")
	b.quiet()
	b.untouched(before)
	b.field(configMapGVK, b.ns, "one", "yes", "data", "theirs")
}

func TestInvariant09WhatWeOwnIsRepaired(t *testing.T) {
	b := open(t, options{})
	b.apply("b", b.ordinary())
	b.ready("b")
	b.patch(configMapGVK, b.ns, "one", `{"data":{"k":"changed"}}`)
	b.field(configMapGVK, b.ns, "one", "v", "data", "k")
	b.patch(configMapGVK, b.ns, "one", `{"metadata":{"labels":{"ours":"changed"}}}`)
	b.field(configMapGVK, b.ns, "one", "yes", "metadata", "labels", "ours")
	b.patch(configMapGVK, b.ns, "one", `{"data":{"k":null}}`)
	b.field(configMapGVK, b.ns, "one", "v", "data", "k")
	b.patch(serviceGVK, b.ns, "three", `{"spec":{"selector":{"app":"changed"}}}`)
	b.field(serviceGVK, b.ns, "three", "map[app:four]", "spec", "selector")
	b.delete(secretGVK, b.ns, "two")
	b.field(secretGVK, b.ns, "two", "dg==", "data", "k")
	b.ready("b")
	b.quiet()
}

func TestInvariant09RestartVerifiesWithoutReadOrWrite(t *testing.T) {
	b := open(t, options{})
	b.apply("b", b.ordinary())
	b.apply("wide", b.staged(b.namespace()))
	b.ready("b")
	b.ready("wide")
	b.quiet()
	b.op.Stop()
	version := b.bundle("b").ResourceVersion
	mark := b.journal.mark()
	b.restart()
	b.nudge("wide")
	b.quiet()
	// What a start costs besides informers: discovery, and one read of the key of the digests. What is streamed counts as a watch.
	key := func(r request) bool { return strings.HasSuffix(r.path, "/secrets/"+digestkey.Name) }
	if got := b.journal.since(mark, key); len(got) != 1 {
		t.Errorf("the key of the digests was read %d times", len(got))
	}
	calls := b.journal.since(mark, func(r request) bool {
		return !key(r) && !strings.HasSuffix(r.path, "/bundles/wide/status") &&
			(r.write() || r.method == http.MethodGet && !strings.Contains(r.query, "watch=true") && named(r.path))
	})
	if len(calls) > 0 {
		t.Fatalf("a restart asked for:\n%s", lines(calls))
	}
	if got := b.bundle("b").ResourceVersion; got != version {
		t.Errorf("the restart wrote the status")
	}
	b.op.Stop()
	b.patch(configMapGVK, b.ns, "one", `{"data":{"k":"changed meanwhile"}}`)
	b.restart()
	b.field(configMapGVK, b.ns, "one", "v", "data", "k")
}

// named says that a path is that of one object.
func named(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch parts[0] {
	case "api":
		parts = parts[min(2, len(parts)):]
	case "apis":
		parts = parts[min(3, len(parts)):]
	default:
		return false
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	return len(parts) >= 2
}
