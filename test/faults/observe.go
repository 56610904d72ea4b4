package faults

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// inventories is the resource of MLKeeper's own that owns children.
const inventories = "inventories.keeper.mlkeeper.dev"

// tally counts what happened to one object.
type tally struct{ Created, Deleted int }

// observation is what a run did, in terms that are the same in every run.
type observation struct {
	end snapshot
	// tallies count creations and deletions, updates the writes that changed an object, by object.
	tallies map[string]tally
	updates map[string]int
	// attempts is the number of writes that were tried.
	attempts int
	points   []Point
	// requests are those of the run by verb and resource: from arming on, and what was listed and watched before.
	requests map[Point]bool
	// names are the objects that carried MLKeeper's label at any time.
	names map[string]bool
	// drops are the changes of replicas downwards.
	drops map[string]bool
	// children are the objects that belong to a custom resource at the end, by the name of the custom resource.
	children map[string][]string
	// objects are those that carry MLKeeper's label at the end.
	objects map[string]*unstructured.Unstructured
	// declared are the bodies that objects were created with.
	declared map[string]map[string]any
}

// observe sums up a run.
func (r *run) observe() observation {
	o := observation{
		end: r.snapshot(), tallies: map[string]tally{}, updates: map[string]int{}, requests: r.journal.reads(),
		names: map[string]bool{}, drops: map[string]bool{}, children: map[string][]string{},
		objects: map[string]*unstructured.Unstructured{}, declared: map[string]map[string]any{},
	}
	for key, u := range r.history.all("") {
		if u.GetLabels()[keeper.ControllerLabel] != "" {
			o.objects[r.inSnapshot(key)] = u
		}
	}
	replicas := map[string]int64{}
	for _, e := range r.history.sorted() {
		key := r.key(e)
		if e.Object.GetLabels()[keeper.ControllerLabel] != "" {
			o.names[key] = true
		}
		if n, ok := replicasOf(e.Object); ok {
			if was, known := replicas[key]; known && n < was && e.Type == watch.Modified && e.Version > r.history.armed {
				o.drops[fmt.Sprintf("%s from %d to %d", key, was, n)] = true
			}
			replicas[key] = n
		}
		if e.Version <= r.history.armed {
			continue
		}
		t := o.tallies[key]
		switch e.Type {
		case watch.Added:
			t.Created++
		case watch.Deleted:
			t.Deleted++
		}
		o.tallies[key] = t
	}
	for _, e := range r.journal.since(func(entry) bool { return true }) {
		o.requests[Point{Verb: e.Verb, Resource: e.Resource}] = true
		if !e.counted() {
			continue
		}
		if e.Verb == verbCreate && e.Body != nil {
			o.declared[objectOf(e.Point)] = *e.Body
		}
		o.attempts++
		o.points = append(o.points, e.Point)
		if e.succeeded() && e.Verb != verbCreate && e.Verb != verbDelete {
			o.updates[objectOf(e.Point)]++
		}
	}
	for _, cr := range r.history.all(r.kind.Resource) {
		for key := range r.childrenOf(cr, r.history.all("")) {
			o.children[cr.GetName()] = append(o.children[cr.GetName()], r.inSnapshot(key))
		}
		slices.Sort(o.children[cr.GetName()])
	}
	return o
}

// objectOf is the object that a point is about, without its subresource.
func objectOf(p Point) string {
	resource, _, _ := strings.Cut(p.Resource, "/")
	return resource + "/" + p.Name
}

// key names the object of an event as it is named in every run.
func (r *run) key(e Event) string {
	return e.Resource + "/" + lasting(e.Object.GetName(), r.world.Namespace)
}

// snapshot is the state of the run now.
func (r *run) snapshot() snapshot {
	return take(r.history.all(""), r.world.Namespace, func(resource string) bool {
		return resource == r.kind.Resource || resource == inventories
	})
}

// replicasOf are the replicas that an object declares.
func replicasOf(u *unstructured.Unstructured) (int64, bool) {
	n, found, err := unstructured.NestedInt64(u.Object, "spec", "replicas")
	return n, found && err == nil && u.GetLabels()[keeper.ControllerLabel] != ""
}

// childrenOf picks the objects that a custom resource or an Inventory of it controls.
func (r *run) childrenOf(
	cr *unstructured.Unstructured, objects map[string]*unstructured.Unstructured,
) map[string]*unstructured.Unstructured {
	owners := map[string]bool{string(cr.GetUID()): true}
	for key, u := range objects {
		if owner, _, _ := unstructured.NestedString(u.Object, "spec", "owner", "uid"); strings.HasPrefix(key, inventories) &&
			owner == string(cr.GetUID()) {
			owners[string(u.GetUID())] = true
		}
	}
	out := map[string]*unstructured.Unstructured{}
	for key, u := range objects {
		if ref := metav1.GetControllerOfNoCopy(u); ref != nil && owners[string(ref.UID)] {
			out[key] = u
		}
	}
	return out
}

// leftovers says which object with MLKeeper's label has lost its custom resource. Claims are kept on purpose; nobody
// owns them then.
func leftovers(h *history) error {
	alive := map[string]bool{}
	for key, u := range h.all("") {
		alive[string(u.GetUID())] = true
		if u.GetLabels()[keeper.ControllerLabel] == "" {
			continue
		}
		ref := metav1.GetControllerOfNoCopy(u)
		if strings.HasPrefix(key, "persistentvolumeclaims/") && ref == nil {
			continue
		}
		if strings.HasPrefix(key, inventories) || ref == nil {
			return fmt.Errorf("%s is left", key)
		}
	}
	for key, u := range h.all("") {
		if ref := metav1.GetControllerOfNoCopy(u); ref != nil && !alive[string(ref.UID)] {
			return fmt.Errorf("%s is left without its owner", key)
		}
		if u.GetLabels()[keeper.ControllerLabel] != "" && !strings.HasPrefix(key, "persistentvolumeclaims/") {
			return fmt.Errorf("%s is left", key)
		}
	}
	return nil
}

// reference is what is right: what the runs of a workload without faults have in common.
type reference struct {
	end  snapshot
	mask mask
	// least and most bound the creations and deletions of each object.
	least, most map[string]tally
	updates     map[string]int
	attempts    int
	// points are the writes to crash at; the steady ones came in every run.
	points   []Point
	steady   map[Point]bool
	requests []Point
	names    map[string]bool
	drops    map[string]bool
	children map[string][]string
	objects  map[string]*unstructured.Unstructured
	declared map[string]map[string]any
	// size is the number of objects that MLKeeper makes.
	size int
}

// forgotten is how many writes of the Inventories the ends of objects may cost: each is taken off the list and out of the
// inventory when it is heard of, and how many are heard of at once is a matter of the order between watches, which is none.
func (ref *reference) forgotten() int {
	n := 0
	for key, t := range ref.most {
		if !strings.HasPrefix(key, inventories) {
			n += 2 * t.Deleted
		}
	}
	return n
}

// refer learns from the runs without faults.
func refer(runs []observation) *reference {
	ref := &reference{
		end: runs[0].end, least: map[string]tally{}, most: map[string]tally{}, updates: map[string]int{},
		steady: map[Point]bool{}, names: map[string]bool{}, drops: map[string]bool{}, children: runs[0].children,
		objects: runs[0].objects, declared: runs[0].declared,
	}
	var ends []snapshot
	times := map[Point]int{}
	requests := map[Point]bool{}
	objects := map[string]bool{}
	for _, o := range runs {
		ends = append(ends, o.end)
		ref.attempts = max(ref.attempts, o.attempts)
		for key := range o.tallies {
			objects[key] = true
		}
		for key, n := range o.updates {
			ref.updates[key] = max(ref.updates[key], n)
		}
		for _, p := range o.points {
			if times[p]++; times[p] == 1 {
				ref.points = append(ref.points, p)
			}
		}
		for p := range o.requests {
			requests[p] = true
		}
		for name := range o.names {
			ref.names[name] = true
		}
		for drop := range o.drops {
			ref.drops[drop] = true
		}
	}
	for key := range objects {
		least, most := runs[0].tallies[key], tally{}
		for _, o := range runs {
			t := o.tallies[key]
			least = tally{min(least.Created, t.Created), min(least.Deleted, t.Deleted)}
			most = tally{max(most.Created, t.Created), max(most.Deleted, t.Deleted)}
		}
		ref.least[key], ref.most[key] = least, most
	}
	for p := range requests {
		ref.requests = append(ref.requests, p)
	}
	slices.SortFunc(ref.requests, func(a, b Point) int { return strings.Compare(a.String(), b.String()) })
	for p, n := range times {
		ref.steady[p] = n == len(runs)
	}
	ref.mask, ref.size = learn(ends), len(ref.names)
	return ref
}
