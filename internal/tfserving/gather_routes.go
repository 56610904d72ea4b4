package tfserving

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mlkeeper.dev/internal/engine/controller"
)

// endingFor is how long the servers of a canary that has ended wait for a Gateway to read the routes without it, which may have gone.
const endingFor = time.Minute

// acceptance is what Gateways say of a route.
type acceptance struct {
	// current says that one has accepted it, and before that one has accepted it as it was before. Who does not say of which generation speaks of
	// the current one.
	current, before bool
	// read says that all that have accepted it say so of its generation.
	read bool
	// refusal is why one has not accepted it; empty where none says so.
	refusal string
}

// accepted says that a Gateway leads requests by the route, be it as it was before.
func (a acceptance) accepted() bool { return a.current || a.before }

// acceptanceOf reads the condition Accepted of each parent of a route.
func acceptanceOf(route *unstructured.Unstructured) acceptance {
	out := acceptance{read: true}
	if route == nil {
		return out
	}
	parents, _, _ := unstructured.NestedSlice(route.Object, "status", "parents")
	for _, parent := range parents {
		m, _ := parent.(map[string]any)
		conditions, _, _ := unstructured.NestedSlice(m, "conditions")
		for _, item := range conditions {
			c, _ := item.(map[string]any)
			of, _ := c["observedGeneration"].(int64)
			switch {
			case c["type"] != "Accepted":
			case c["status"] != "True":
				out.refusal = fmt.Sprintf(" (%s)", controller.Cut(clean(fmt.Sprint(c["reason"])), 64))
			default:
				old := of < route.GetGeneration()
				out.read = out.read && !old
				out.current, out.before = out.current || !old || of == 0, out.before || old
			}
		}
	}
	return out
}

// ending finds out until when the servers of a canary that has ended are kept: a Gateway goes on to send them their share until it has read the routes
// without it, and answers for a Service that is not there with 500 (BackendObjectReference in apis/v1/shared_types.go of the Gateway API).
func (g *gathering) ending() {
	name := serviceName(canaryNamed(g.cr))
	ended := (g.facts.Canary == nil || !g.facts.Canary.There) && g.own(gvkService, name) != nil
	if !ended || !g.routed(name) {
		g.endings.end(g.of)
		return
	}
	if until := g.endings.begin(g.of, g.read.Now()).Add(endingFor); g.read.Now().Before(until) {
		g.facts.Ending = until
	}
}

// routed says that a Gateway may have a route of ours by which a Service gets requests. One that has accepted none, has none.
func (g *gathering) routed(service string) bool {
	return slices.ContainsFunc(routes, func(gvk schema.GroupVersionKind) bool {
		route := g.own(gvk, g.cr.Name)
		if route == nil || route.Stripped() == nil {
			return false
		}
		a := acceptanceOf(route.Stripped())
		return a.accepted() && (!a.read || leadsTo(route.Stripped(), service))
	})
}

// leadsTo says that a route sends requests, or copies of them, to a Service.
func leadsTo(route *unstructured.Unstructured, service string) bool {
	rules, _, _ := unstructured.NestedSlice(route.Object, "spec", "rules")
	return mentions(rules, service)
}

// mentions says that a text is somewhere in a value.
func mentions(value any, text string) bool {
	switch v := value.(type) {
	case string:
		return v == text
	case []any:
		return slices.ContainsFunc(v, func(item any) bool { return mentions(item, text) })
	case map[string]any:
		for _, item := range v {
			if mentions(item, text) {
				return true
			}
		}
	}
	return false
}

// endings remembers since when the canaries end whose servers are kept for the Gateways.
type endings struct {
	mu sync.Mutex
	by map[types.NamespacedName]time.Time
}

// begin returns when the end of a canary was seen first.
func (e *endings) begin(of types.NamespacedName, now time.Time) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.by == nil {
		e.by = map[types.NamespacedName]time.Time{}
	}
	if _, known := e.by[of]; !known {
		e.by[of] = now
	}
	return e.by[of]
}

func (e *endings) end(of types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.by, of)
}
