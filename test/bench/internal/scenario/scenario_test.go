package scenario

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"mlkeeper.dev/test/bench/internal/audit"
	"mlkeeper.dev/test/bench/internal/world"
)

// at returns a moment so many milliseconds after the beginning.
func at(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }

func entry(user, verb, resource, sub, ns, name string, done int) audit.Entry {
	return audit.Entry{
		User: user, Verb: verb, Resource: resource, Subresource: sub, NS: ns, Name: name, Code: 200, Received: at(done - 1), Done: at(done),
	}
}

func stack() Stack {
	return Stack{
		source: world.Service{Namespace: "captured-ns", Name: "captured-name"}, uid: "uid-0",
		Creates: []world.Request{
			{Method: "POST", URI: "/api/v1/namespaces/captured-ns/services?x=1", Body: []byte(`{"metadata":{"name":"captured-name","labels":{"keeper.mlkeeper.dev/controller":"t"},"ownerReferences":[{"uid":"uid-0"}]}}`)},
			{Method: "POST", URI: "/api/v1/namespaces/captured-ns/persistentvolumeclaims", Body: []byte(`{"metadata":{"name":"c","labels":{"keeper.mlkeeper.dev/controller":"t"}}}`)},
			{Method: "POST", URI: "/api/v1/namespaces/captured-ns/configmaps", Body: []byte(`{"metadata":{"name":"model-serving-config"}}`)},
		},
		Late: []world.Request{
			{Method: "POST", URI: "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", Body: []byte(`{"metadata":{"name":"mlkeeper:trustyai-proxy:captured-ns:captured-name","labels":{"keeper.mlkeeper.dev/controller":"t"}}}`)},
		},
	}
}

func TestAStackIsSentForAnotherService(t *testing.T) {
	s := stack()
	r := s.For(s.Creates[0], world.Service{Namespace: "other", Name: "svc"}, "uid-7")
	if r.URI != "/api/v1/namespaces/other/services?x=1" || !strings.Contains(string(r.Body), `"name":"svc"`) || !strings.Contains(string(r.Body), "uid-7") {
		t.Fatalf("%s %s", r.URI, r.Body)
	}
	if strings.Contains(string(r.Body), "captured") || strings.Contains(string(r.Body), "uid-0") {
		t.Fatalf("something is left of the source: %s", r.Body)
	}
	if s.Minimum() != 6 {
		t.Errorf("the minimum is %d", s.Minimum())
	}
}

// TestAReplayNamesTheVersionThatItFollowsFrom: the API server refuses a status of another version, whatever was captured.
func TestAReplayNamesTheVersionThatItFollowsFrom(t *testing.T) {
	var bodies []string
	answers := []string{`{"metadata":{"uid":"child","resourceVersion":"8"}}`, `{"metadata":{"uid":"cr","resourceVersion":"9"}}`, `{"metadata":{"uid":"cr","resourceVersion":"10"}}`}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		_, _ = io.WriteString(w, answers[len(bodies)-1])
	}))
	defer server.Close()
	wire, err := world.NewWire(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	var cr world.Followed
	cr.Metadata.UID, cr.Metadata.ResourceVersion = "cr", "7"
	r := &replay{wire: wire}
	r.took(cr)
	for range answers {
		if _, err := r.send(t.Context(), world.Request{Method: "PATCH", URI: "/", Body: []byte(`{"metadata":{"uid":"cr","resourceVersion":"123"}}`)}); err != nil {
			t.Fatal(err)
		}
	}
	for i, version := range []string{"7", "7", "9"} {
		if want := `{"metadata":{"uid":"cr","resourceVersion":"` + version + `"}}`; bodies[i] != want {
			t.Errorf("write %d is %s, not %s", i, bodies[i], want)
		}
	}
}

func TestChildrenLeaveOutWhatAFinalizerHoldsAndWhatIsNotOurs(t *testing.T) {
	children, err := stack().children(world.Service{Namespace: "other", Name: "svc"})
	if err != nil || len(children) != 2 {
		t.Fatalf("%+v, %v", children, err)
	}
	if got := children[0].object; got != (audit.Object{Resource: "services", NS: "other", Name: "svc"}) || children[0].path != "/api/v1/namespaces/other/services/svc" {
		t.Errorf("%+v", children[0])
	}
	if got := children[1].object; got.Group != "rbac.authorization.k8s.io" || spaceOf(children[1]) != "other" {
		t.Errorf("%+v of %s", got, spaceOf(children[1]))
	}
}

func TestPathsOfCollections(t *testing.T) {
	for path, want := range map[string]string{
		"/apis/apps/v1/namespaces/n/deployments":                 "/apis/apps/v1/deployments",
		"/api/v1/namespaces/n/services":                          "/api/v1/services",
		"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
	} {
		if got := collection(path); got != want {
			t.Errorf("%s became %s", path, got)
		}
		gvr, object := resourceAt(want), objectAt(path)
		if gvr.Group != object.Group || gvr.Resource != object.Resource {
			t.Errorf("%s: %v and %v", path, gvr, object)
		}
	}
}

func TestTimesTellTheAcceptedStatusFromTheReadyOne(t *testing.T) {
	failed := entry("op", "create", "services", "", "a", "s", 15)
	failed.Code = 409
	got := timesOf([]audit.Entry{
		entry("op", "create", "services", "", "a", "s", 10), failed,
		entry("op", "patch", "trustyaiservices", "status", "a", "x", 20),
		entry("op", "create", "events", "", "a", "e", 25),
		entry("op", "get", "secrets", "", "a", "e", 26),
		entry("op", "update", "leases", "", "n", "l", 99),
		entry("op", "create", "configmaps", "", "a", "model-serving-config", 45),
		entry("op", "patch", "trustyaiservices", "status", "a", "x", 50),
	}, at(0), func(e audit.Entry) bool { return e.Resource == "configmaps" })
	if math.Abs(got.writes-0.020) > 1e-9 || math.Abs(got.last-0.050) > 1e-9 {
		t.Errorf("children and accepted after %g, the last write after %g", got.writes, got.last)
	}
	if got.total != 5 || got.accepted != 2 || got.events != 1 {
		t.Errorf("%+v", got)
	}
}

func TestRepairsEndWithTheLastWrite(t *testing.T) {
	target := child{object: audit.Object{Resource: "services", NS: "a", Name: "s"}}
	spoil := entry("me", "patch", "services", "", "a", "s", 10)
	spoil.URI = "/x?fieldManager=somebody"
	took := repairs([]audit.Entry{
		spoil,
		entry("op", "patch", "services", "", "a", "s", 20),
		entry("op", "patch", "services", "", "a", "s", 30),
		entry("op", "patch", "services", "", "b", "s", 90),
	}, "op", []child{target})
	if got := took["services changed"]; len(got) != 1 || math.Abs(got[0]-0.020) > 1e-9 {
		t.Fatalf("%v", took)
	}
}

func TestEditsCountWhatFollowsTheEdit(t *testing.T) {
	e := editsOf([]audit.Entry{
		entry("op", "patch", "trustyaiservices", "status", "a", "s", -500),
		entry("me", "patch", "trustyaiservices", "", "a", "s", 10),
		entry("op", "patch", "servicemonitors", "", "a", "m", 30),
		entry("op", "patch", "trustyaiservices", "status", "a", "s", 40),
		entry("op", "patch", "servicemonitors", "", "other", "m", 50),
	}, "op", []world.Service{{Namespace: "a"}})
	if len(e.requests) != 2 || len(e.child) != 1 || math.Abs(e.child[0]-0.020) > 1e-9 || math.Abs(e.status[0]-0.030) > 1e-9 {
		t.Fatalf("%+v", e)
	}
}

func TestWhatWasNotChangedIsUnexpected(t *testing.T) {
	target := child{object: audit.Object{Resource: "services", NS: "a", Name: "s"}}
	others, statuses := unexpected([]audit.Entry{
		entry("op", "patch", "services", "", "a", "s", 1),
		entry("op", "patch", "trustyaiservices", "status", "a", "x", 2),
		entry("op", "patch", "services", "", "b", "s", 3),
		entry("op", "patch", "trustyaiservices", "status", "b", "x", 4),
	}, []child{target})
	if len(others) != 2 || statuses != 1 {
		t.Fatalf("%v, %d", others, statuses)
	}
}

func TestALeaseOfAShardIsNotTheLeaders(t *testing.T) {
	took, ok := firstLease([]audit.Entry{
		entry("op", "update", "leases", "", "n", "mlkeeper-shard-1", 10),
		entry("op", "get", "leases", "", "n", world.LeaseName, 20),
		entry("op", "update", "leases", "", "n", world.LeaseName, 30),
	})
	if !ok || !took.Equal(at(30)) {
		t.Errorf("the lease was taken at %s: %t", took, ok)
	}
}

func TestTargetsAreNeverPickedTwice(t *testing.T) {
	b := &Bench{stacks: map[string]Stack{world.ADR.Name: stack()}}
	l := &large{services: world.Services(world.ADR, "n", 0, 5)}
	seen := map[string]bool{}
	for range 2 {
		targets, err := b.targets(l, 5)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range targets {
			if seen[c.path] {
				t.Errorf("%s twice", c.path)
			}
			seen[c.path] = true
		}
	}
	if _, err := b.targets(l, 1); err == nil {
		t.Error("there were only ten children")
	}
}

func TestValueAt(t *testing.T) {
	object := map[string]any{"a": map[string]any{"b/c": []any{"x"}}}
	if got := valueAt(object, "/a/b~1c/0"); got != "x" {
		t.Errorf("%v", got)
	}
	if valueAt(object, "/a/none/0") != nil || valueAt(object, "/a/b~1c/1") != nil {
		t.Error("found what is not there")
	}
}

func TestReadyCriteria(t *testing.T) {
	var f world.Followed
	f.Status.Phase = "Ready"
	f.Status.Conditions = []world.Condition{{Type: "Available", Status: "True"}}
	for criterion, want := range map[string]bool{"condition:Available": true, "condition:Ready": false, "phase:Ready": true, "phase:x": false, "deployment": true} {
		if _, ready, err := readyBy(criterion, "/x"); err != nil || ready(f) != want {
			t.Errorf("%s: %v", criterion, err)
		}
	}
	if _, _, err := readyBy("whenever", "/x"); err == nil {
		t.Error("a wrong criterion was taken")
	}
}

func TestQueueWorksInOrderAndStopsAtAFailure(t *testing.T) {
	q := newQueue()
	var seen []int
	for i := range 3 {
		q.add(func(context.Context) error {
			seen = append(seen, i)
			if i == 1 {
				return errors.New("no")
			}
			return nil
		})
	}
	if err := q.work(t.Context(), 1); err == nil || len(seen) != 2 || seen[0] != 0 {
		t.Fatalf("%v, %v", seen, err)
	}
}

func TestShapesOfAPeer(t *testing.T) {
	shape, err := Peer{Claim: "c"}.shape()
	if err != nil || shape.Claim != "c" || shape.Template != world.Upstream.Template {
		t.Fatalf("%+v, %v", shape, err)
	}
	if _, err := (Peer{CR: "/does/not/exist"}).shape(); err == nil {
		t.Error("a missing file was taken")
	}
}
