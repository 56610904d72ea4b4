package tfserving

import (
	"net/http"
	"strings"
	"testing"
	"time"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
)

// givenItsShare is a canary whose servers have its version, so that the routes give them its share.
func givenItsShare(t *testing.T) *tracks {
	t.Helper()
	s := bothTracks(t)
	s.write()
	s.runs("tfs-canary", 2)
	s.say("canary: ", map[string]http.HandlerFunc{"10.0.0.1": says("42 AVAILABLE")})
	if got := weights(t, s.write()); got != shared {
		t.Fatalf("the weights are %s", got)
	}
	return s
}

// sharing is a canary that gets its share by routes that a Gateway has accepted.
func sharing(t *testing.T) *tracks {
	t.Helper()
	s := givenItsShare(t)
	for k := range s.Children {
		entry := keeper.InventoryEntry{ObjectReference: keeper.ObjectReference{Group: k.Group, Kind: k.Kind, Namespace: k.Namespace, Name: k.Name}}
		s.cr.Status.Inventory.Entries = append(s.cr.Status.Inventory.Entries, entry)
		if k.Group == gvkHTTPRoute.Group {
			s.accept(k.Kind, "True", "Accepted")
		}
	}
	return s
}

// generation has the routes be of a generation, of which a Gateway has accepted the first.
func (s *tracks) generation(n int64) {
	for k := range s.Children {
		if k.Group == gvkHTTPRoute.Group {
			s.Children[k].SetGeneration(n)
			s.accept(k.Kind, "True", "Accepted")
		}
	}
}

// TestACanaryThatEndsIsKeptUntilTheRoutesWithoutItAreRead: until then the Gateways send it its share, and answer with 500 where its Service is gone. One
// that reads them no more keeps nothing for long.
func TestACanaryThatEndsIsKeptUntilTheRoutesWithoutItAreRead(t *testing.T) {
	for name, end := range map[string]func(*v1alpha1.Tfserv){
		"taken out": func(cr *v1alpha1.Tfserv) { cr.Spec.Canary = nil },
		"aborted":   func(cr *v1alpha1.Tfserv) { cr.Spec.Canary.State = v1alpha1.CanaryAborted },
	} {
		t.Run(name, func(t *testing.T) {
			s, sys := sharing(t), testSystem()
			pass := func(what string, kept bool) plan.Plan {
				t.Helper()
				facts, err := sys.Gather(t.Context(), s.Cluster, s.cr)
				if err != nil {
					t.Fatal(err)
				}
				p := sys.Render(s.cr, facts)
				if got := weights(t, p); got != alone {
					t.Errorf("%s: the weights are %s", what, got)
				}
				var names []string
				for _, k := range p.Keep {
					names = append(names, k.Kind+" "+k.Name)
				}
				text := strings.Join(names, ", ")
				all := strings.Contains(text, "Deployment tfs-canary") && strings.Contains(text, "Service tfs-canary-service") &&
					strings.Contains(text, "ConfigMap tfs-canary-config-") && len(p.Keep) == 3
				if kept && !all || !kept && len(p.Keep) > 0 {
					t.Errorf("%s: kept are %q", what, text)
				}
				if want := testNow.Add(time.Minute); kept != p.WakeAt.Equal(want) || !kept && !p.WakeAt.IsZero() {
					t.Errorf("%s: the next look is at %s", what, p.WakeAt)
				}
				return p
			}
			end(s.cr)
			p := pass("the routes have it", true)
			s.Written(p, ownerOf(s.cr))
			s.generation(2)
			pass("the routes are written", true)
			s.Time = testNow.Add(59 * time.Second)
			pass("nobody has read them", true)
			s.Time = testNow.Add(time.Minute)
			pass("nobody reads them", false)
			s.Time = testNow.Add(time.Second)
			s.generation(1)
			pass("they are read", false)
		})
	}
}

// TestACanaryThatNoGatewayHasIsNotKept.
func TestACanaryThatNoGatewayHasIsNotKept(t *testing.T) {
	for name, change := range map[string]func(*tracks){
		"no route is accepted": func(s *tracks) {
			s.accept("HTTPRoute", "False", "NotAllowedByListeners")
			s.accept("GRPCRoute", "False", "NotAllowedByListeners")
		},
		"there is no route": func(s *tracks) {
			for k := range s.Children {
				if k.Group == gvkHTTPRoute.Group {
					s.Remove(k)
				}
			}
		},
	} {
		s := sharing(t)
		change(s)
		s.cr.Spec.Canary = nil
		if _, p := gatherAndRender(t, s.Cluster, s.cr); len(p.Keep) > 0 || !p.WakeAt.IsZero() {
			t.Errorf("%s: kept are %v until %s", name, p.Keep, p.WakeAt)
		}
	}
}

// TestAWeightIsInEffectWhenAGatewayHasReadIt: until then it is the one before.
func TestAWeightIsInEffectWhenAGatewayHasReadIt(t *testing.T) {
	s := sharing(t)
	project(t, s.Cluster, s.cr)
	weight := int32(50)
	s.cr.Spec.Canary.Weight = &weight
	facts, p := gatherAndRender(t, s.Cluster, s.cr)
	s.generation(2) // The write of this pass.
	projected(s.Cluster, s.cr, facts, p, false)
	if c := s.cr.Status.Canary; c.Weight != 10 || !strings.Contains(c.Message, "50 % when a Gateway has read the routes") {
		t.Errorf("as it is written: %+v", c)
	}
	project(t, s.Cluster, s.cr)
	if c := s.cr.Status.Canary; c.Weight != 10 || !strings.Contains(c.Message, "50 % when a Gateway has read the routes") {
		t.Errorf("before: %+v", c)
	}
	s.generation(1)
	project(t, s.Cluster, s.cr)
	if c := s.cr.Status.Canary; c.Weight != 50 || !strings.Contains(c.Message, "50 % of the requests go there") {
		t.Errorf("after: %+v", c)
	}
}

// TestAPromotedCanaryDoesNotComeBackAfterARestart: its servers are kept for a while, and the others have not answered yet.
func TestAPromotedCanaryDoesNotComeBackAfterARestart(t *testing.T) {
	s := sharing(t)
	s.cr.Spec.Canary.State = v1alpha1.CanaryPromoted
	if _, p := gatherAndRender(t, s.Cluster, s.cr); weights(t, p) != shared {
		t.Fatalf("before it is promoted the weights are %s", weights(t, p))
	}
	spec := s.cr.Spec.Canary
	s.cr.Status.Canary = &v1alpha1.CanaryStatus{Model: spec.Model, Version: spec.Version, State: v1alpha1.CanaryPromoted}
	if _, p := gatherAndRender(t, s.Cluster, s.cr); weights(t, p) != alone {
		t.Errorf("the weights are %s", weights(t, p))
	}
}
