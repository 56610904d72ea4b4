package tfserving

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
)

// tracks is a cluster with a Tfserv that has a canary, and what its servers say.
type tracks struct {
	*testing.T
	*controllertest.Cluster
	cr *v1alpha1.Tfserv
}

func bothTracks(t *testing.T) *tracks {
	return &tracks{t, controllertest.New(testNow, gvkServiceMonitor), custom(t, withCanary)}
}

// write gathers, renders and writes everything, and deletes what is in the plan no more, as the engine does.
func (s *tracks) write() plan.Plan {
	s.Helper()
	_, p := gatherAndRender(s, s.Cluster, s.cr)
	before := maps.Clone(s.Children)
	s.Written(p, ownerOf(s.cr))
	for k, was := range before {
		if controllertest.Find(p, k.Kind, k.Name) != nil {
			now := s.Children[k]
			now.SetGeneration(was.GetGeneration())
			now.SetResourceVersion(was.GetResourceVersion())
			if status := was.Object["status"]; status != nil {
				now.Object["status"] = status
			}
		} else if !slices.Contains(p.Keep, k) && len(p.Problems) == 0 {
			s.Remove(k)
		}
	}
	for k := range s.Children {
		if k.Group == gvkHTTPRoute.Group && s.Children[k].Object["status"] == nil {
			s.accept(k.Kind, "True", "Accepted")
		}
	}
	return p
}

// accept has a Gateway say whether it has accepted a route.
func (s *tracks) accept(kind, status, reason string) {
	s.Helper()
	route := plan.Key{GroupKind: schema.GroupKind{Group: gvkHTTPRoute.Group, Kind: kind}, Namespace: "ns", Name: "tfs"}
	s.Children[route].Object["status"] = map[string]any{
		"parents": []any{map[string]any{
			"controllerName": "example.com/gateway", "parentRef": map[string]any{"name": "public"},
			"conditions": []any{map[string]any{"type": "Accepted", "status": status, "reason": reason, "observedGeneration": int64(1)}},
		}},
	}
}

// runs makes a Deployment of the cluster complete, with so many ready pods.
func (s *tracks) runs(name string, ready int64) {
	s.Helper()
	u := s.Children[key("Deployment", name)].DeepCopy()
	u.SetGeneration(1)
	u.SetResourceVersion(strconv.FormatInt(resourceVersions.Add(1), 10))
	u.Object["status"] = map[string]any{
		"observedGeneration": int64(1), "replicas": ready, "updatedReplicas": ready, "readyReplicas": ready, "availableReplicas": ready,
	}
	if err := unstructured.SetNestedField(u.Object, ready, "spec", "replicas"); err != nil {
		s.Fatal(err)
	}
	s.Own(u, ownerOf(s.cr))
}

// say has the servers of a track say what they have. The question is that of the last gathering.
func (s *tracks) say(track string, servers map[string]http.HandlerFunc) {
	s.Helper()
	sys := testSystem()
	sys.settings.HTTP, s.Asked = fleet(servers), nil
	if _, err := sys.Gather(s.Context(), s.Cluster, s.cr); err != nil {
		s.Fatal(err)
	}
	var list pods
	for host := range servers {
		list = append(list, pod(host, true, false))
	}
	for _, a := range s.Asked {
		if strings.HasPrefix(a.Name, track+"models") {
			s.Answers[a.Name] = a.Job(s.Context(), podsOf{list, "tfsName=tfs" + map[string]string{"canary: ": "-canary"}[track]})
			return
		}
	}
	s.Fatalf("%q is not asked: %+v", track, s.Asked)
}

// podsOf are the pods of a track.
type podsOf struct {
	pods
	selector string
}

func (p podsOf) List(_ context.Context, _ schema.GroupVersionKind, _, selector string, _ int64) ([]unstructured.Unstructured, error) {
	if selector != p.selector {
		return nil, fmt.Errorf("asked for the pods of %s", selector)
	}
	return p.pods, nil
}

// remembered are the tracks without servers of which something is remembered after a gathering.
func (s *tracks) remembered() map[string]bool {
	s.Helper()
	sys, out := testSystem(), map[string]bool{}
	track := canaryTrack(client.ObjectKeyFromObject(s.cr))
	sys.hosts.put(s.Context(), track, found{"1", []string{"10.0.0.1"}})
	sys.rolls.run(s.Context(), track, "pods of generation 1")
	if _, err := sys.Gather(s.Context(), s.Cluster, s.cr); err != nil {
		s.Fatal(err)
	}
	for k := range sys.hosts.by {
		out[k.Name] = true
	}
	for k := range sys.rolls.by {
		out[k.Name] = true
	}
	return out
}

// weights are those of the routes: of the HTTPRoute's first rule, and of the GRPCRoute's.
func weights(t *testing.T, p plan.Plan) string {
	t.Helper()
	var out []string
	for _, kind := range []string{"HTTPRoute", "GRPCRoute"} {
		rules, _, _ := unstructured.NestedSlice(controllertest.MustFind(t, p, kind, "tfs").Object, "spec", "rules")
		var parts []string
		for _, ref := range rules[0].(map[string]any)["backendRefs"].([]any) {
			parts = append(parts, fmt.Sprintf("%s %d", ref.(map[string]any)["name"], ref.(map[string]any)["weight"]))
		}
		out = append(out, strings.Join(parts, ", "))
	}
	if out[0] != out[1] {
		t.Errorf("the routes differ: %q", out)
	}
	return out[0]
}
