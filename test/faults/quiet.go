package faults

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/test/harness"
)

// Bounds of a cause that stands.
const (
	// perPause is how often a custom resource may be reconciled for each attempt, and a child be written.
	perPause = 2
	// readsPerPause is how many objects may be read for each attempt: the custom resource before a child that was there is created
	// again, the object under the name that is taken or that a quota refuses, and the content of a Secret, which no watch shows.
	readsPerPause = 3
	// perCreation is the same for a child that is deleted after each creation: the creation, the debounce of the status, and the look at
	// whether the child is kept. The events of the child come on top.
	perCreation = 4
	// moreGoroutines is how many more goroutines an operator may have at the end of the window: requests come and go.
	moreGoroutines = 8
	// broughtUp is how long nothing changes once everything is brought up that can be: longer than an operator keeps progress to itself.
	broughtUp = progress + time.Second
	// growth is the least factor by which the time of the next attempt grows, each pause being twice the last one, and up to a
	// quarter longer.
	growth = 1.8
)

// activity is what an operator did in a window of time while a cause stood.
type activity struct {
	kind  string
	cause Cause
	// attempts are the writes of children, changes those that succeeded, statuses and records the writes of MLKeeper's own
	// objects, reads the GETs and LISTs.
	reconciles, attempts, changes, statuses, records, reads int

	window time.Duration
}

// pauses is how many pauses may end in a window that begins a while after the first failure.
func pauses(settle, window time.Duration) int {
	return 1 + int(math.Log(float64(settle+window)/float64(settle))/math.Log(growth))
}

// reported waits until the custom resource reports the cause.
func (r *run) reported(c *cause) []Finding {
	if err := r.await("the cause to be reported", func() error { return r.says(c) }); err != nil {
		return []Finding{{Oracle: "O5", Text: err.Error()}}
	}
	return nil
}

// spoken says what is untrue of the status while the cause still stands.
func (r *run) spoken(c *cause) []Finding {
	if err := r.says(c); err != nil {
		return []Finding{{Oracle: "O5", Text: "the status no longer reports the cause: " + err.Error()}}
	}
	return nil
}

// watched lets the cause stand, and then watches what the operator does for a while.
func (r *run) watched(c *cause, began time.Time) []Finding {
	if err := r.unchanging(); err != nil {
		return []Finding{{Oracle: "O3", Text: err.Error()}}
	}
	if !r.pauseFor(r.suite.Settle) {
		return []Finding{{Oracle: "H", Text: "the run has no time left"}}
	}
	// A slow machine is silent in between, too.
	if err := r.unchanging(); err != nil {
		return []Finding{{Oracle: "O3", Text: err.Error()}}
	}
	r.note("the window begins")
	from, passes, goroutines, asked := time.Now(), r.passes(), r.goroutines(), r.asks()
	for last := passes; time.Since(from) < r.suite.Window; {
		if !r.pauseFor(look) {
			return []Finding{{Oracle: "H", Text: "the run has no time left"}}
		}
		if now := r.passes(); now != last {
			r.note("%d reconciles so far", now-passes)
			last = now
		}
	}
	r.note("the window ends")
	did := r.activity(c, from)
	did.reconciles = r.passes() - passes
	r.suite.mu.Lock()
	r.suite.activities = append(r.suite.activities, did)
	r.suite.mu.Unlock()
	return slices.Concat(r.excess(c, did, from), r.fought(c, began), r.leaked(goroutines), r.pestered(asked))
}

// unchanging waits until everything is brought up that can be beside the cause: that is reported, too, as long as it changes.
func (r *run) unchanging() error {
	return r.await("everything else to be brought up", func() error {
		if since := time.Since(r.history.last()); since < broughtUp {
			return fmt.Errorf("something changed %s ago", since)
		}
		return nil
	})
}

// excess says what an operator did too much of in the window that began at a moment.
func (r *run) excess(c *cause, did activity, from time.Time) []Finding {
	limit := pauses(r.suite.Settle, r.suite.Window)
	// Each change of a child may be looked at once, and read where it is content, too.
	events := r.childEvents(from)
	reconciles, reads, changes := perPause*limit+events, readsPerPause*limit+events, 0
	if c.endless {
		reconciles, changes = perCreation*limit+events, limit
	}
	if r.kind.Asks {
		reconciles += perPause * limit
	}
	var out []Finding
	none := func(entry) bool { return false }
	for _, one := range []struct {
		what      string
		have, due int
		match     func(entry) bool
	}{
		{"reconciles", did.reconciles, reconciles, none},
		{"live reads", did.reads, reads, func(e entry) bool { return e.read() }},
		{"attempted writes", did.attempts, perPause * limit, func(e entry) bool { return e.counted() }},
		{"writes of the status", did.statuses, limit, none},
		{"writes of Inventories", did.records, limit, none},
		{"writes that changed something", did.changes, changes, r.changes},
	} {
		if one.have > one.due {
			out = append(out, Finding{Oracle: "O8", Text: strings.TrimSpace(fmt.Sprintf(
				"while the cause stands, %d %s in %s; at most %d are due %s",
				one.have, one.what, r.suite.Window, one.due, r.named(from, one.match)))})
		}
	}
	return out
}

// fought says that the operator wrote a disputed child more often than it is documented.
func (r *run) fought(c *cause, began time.Time) []Finding {
	t, limit := r.plan.Standing, c.fight
	if limit == 0 {
		return nil
	}
	if c.endless {
		limit += pauses(time.Second, time.Since(began))
	}
	n := len(r.changing(began, func(e entry) bool { return objectOf(e.Point) == t.Resource+"/"+t.Name }))
	if n <= limit {
		return nil
	}
	return []Finding{{Oracle: "O8", Text: fmt.Sprintf("the child was written %d times against another writer; at most %d are due", n, limit)}}
}

// leaked says that the operator has more goroutines than at the beginning of the window.
func (r *run) leaked(before int) []Finding {
	if more := r.goroutines() - before; more > moreGoroutines {
		return []Finding{{Oracle: "O6", Text: fmt.Sprintf("%d more goroutines after %s", more, r.suite.Window)}}
	}
	return nil
}

// activity counts the requests of the operators from a moment on.
func (r *run) activity(c *cause, from time.Time) activity {
	out := activity{kind: r.kind.Name, cause: c.name, window: r.suite.Window, changes: len(r.changing(from, func(entry) bool { return true }))}
	for _, e := range r.journal.since(func(e entry) bool { return e.At.After(from) && e.Resource != "" && !e.event() }) {
		switch {
		case e.read():
			out.reads++
		case !e.write():
		case e.Resource == r.kind.Resource+"/status":
			out.statuses++
		case strings.HasPrefix(e.Resource, inventories):
			out.records++
		default:
			out.attempts++
		}
	}
	return out
}

// childEvents is how often children changed from a moment on.
func (r *run) childEvents(from time.Time) int {
	n := 0
	for _, e := range r.history.sorted() {
		if e.At.After(from) && e.Object.GetLabels()[keeper.ControllerLabel] != "" && e.Resource != inventories {
			n++
		}
	}
	return n
}

// changing are the writes of children from a moment on that succeeded.
func (r *run) changing(from time.Time, match func(entry) bool) []entry {
	return r.journal.since(func(e entry) bool { return e.At.After(from) && r.changes(e) && match(e) })
}

// changes says that a request changed an object that is neither MLKeeper's own nor a guest's.
func (r *run) changes(e entry) bool {
	own := e.Resource == r.kind.Resource+"/status" || strings.HasPrefix(e.Resource, inventories)
	return e.counted() && e.succeeded() && !own && !r.ofGuest(e)
}

// ofGuest says that a request is about what another run has this run's operator do.
func (r *run) ofGuest(e entry) bool {
	return slices.ContainsFunc(r.namespaces[1:], func(n string) bool { return e.Namespace == n || strings.Contains(e.Name, n) })
}

// named names the requests from a moment on that match.
func (r *run) named(from time.Time, match func(entry) bool) string {
	var out []string
	for _, e := range r.journal.since(func(e entry) bool { return e.At.After(from) && match(e) }) {
		out = append(out, e.String())
	}
	if len(out) == 0 {
		return ""
	}
	return "(" + strings.Join(out, ", ") + ")"
}

// passes is how often the custom resource of the run was reconciled.
func (r *run) passes() int {
	n := 0
	for _, cr := range r.history.all(r.kind.Resource) {
		n += harness.Passes(strings.ToLower(r.kind.GVK.Kind), cr.GetNamespace(), cr.GetName())
	}
	return n
}

// counts matches the number of goroutines in a record of the profile.
var counts = regexp.MustCompile(`^(\d+) @ `)

// goroutines is how many goroutines the operators of the run have.
func (r *run) goroutines() int {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return 0
	}
	n := 0
	for record := range strings.SplitSeq(profile.String(), "\n\n") {
		if !strings.Contains(record, r.world.Namespace) {
			continue
		}
		if m := counts.FindStringSubmatch(record); m != nil {
			more, _ := strconv.Atoi(m[1])
			n += more
		}
	}
	return n
}

// sparesPods says which pod of a child is gone that ran before the cause stood, but for those of the affected child if it is another object
// now: whoever deleted it deleted its pods.
func (r *run) sparesPods(before state) []Finding {
	now, err := r.childState()
	if err != nil {
		return []Finding{{Oracle: "H", Text: err.Error()}}
	}
	t := r.plan.Standing
	subject, replaced := t.Resource+"/"+t.Name, true
	if u := r.child(&Drift{Resource: t.Resource, Name: t.Name}); u != nil {
		// By its name: somebody may have taken MLKeeper's label out.
		replaced = string(u.GetUID()) != before.uids[subject]
	}
	var out []Finding
	for uid, of := range before.pods {
		deployment := "deployments.apps/" + of[:max(strings.LastIndex(of, "-"), 0)]
		_, there := now.pods[uid]
		_, child := before.uids[deployment]
		if child && !there && (deployment != subject || !replaced) {
			out = append(out, Finding{Oracle: "O7", Text: "a pod of " + of + " did not survive the cause"})
		}
	}
	return out
}

// recovered ends the cause, waits until the custom resource is Ready again, and counts the writes.
func (r *run) recovered(ref *reference, c *cause, before state, began time.Time, within time.Duration, end func() error) []Finding {
	r.note("cause: %s ends", c.name)
	ended := time.Now()
	// The next attempt may be as far away as the cause stood, and a quarter.
	r.mu.Lock()
	r.stoodUntil = ended.Add(ended.Sub(began) * 3 / 2)
	r.mu.Unlock()
	if err := end(); err != nil {
		return []Finding{{Oracle: "H", Text: "end the cause: " + err.Error()}}
	}
	over := time.Now()
	if c.asks {
		for _, cr := range r.history.all(r.kind.Resource) {
			if err := r.ask(cr); err != nil {
				return []Finding{{Oracle: "H", Text: err.Error()}}
			}
		}
	}
	if c.condition != "" {
		r.sparesCeded(c.condition) // The field stays ceded.
	}
	if c.on == onAPI {
		defer r.suite.recorder.relist(r.ctx, r.plan.Standing.Resource)()
	}
	out := r.converged(ref, rest1)
	now, err := r.childState()
	if err != nil {
		return append(out, Finding{Oracle: "H", Text: err.Error()})
	}
	out = append(out, r.noticed(over, within)...)
	return append(out, r.needed(c, before, now, ended)...)
}

// needed says which child was written without need when the cause had ended: an affected one is the child itself, one that is
// rendered otherwise, and one that is another object. A field that is ceded is left to the other writer.
func (r *run) needed(c *cause, before, now state, ended time.Time) []Finding {
	writes := map[string]int{}
	for _, e := range r.changing(ended, func(entry) bool { return true }) {
		writes[objectOf(e.Point)]++
	}
	var out []Finding
	for key, n := range writes {
		limit := 0
		if _, known := before.uids[key]; !known && r.plan.Standing.Early {
			limit = 1 // A wire is made when the custom resource is Ready.
		}
		if r.affects(key) && c.condition == "" || before.hashes[key] != now.hashes[key] || before.uids[key] != now.uids[key] {
			limit = 2 // It is created, and MLKeeper's managedFields are migrated with the first apply.
		}
		if n > limit {
			out = append(out, Finding{Oracle: "O2", Text: fmt.Sprintf("%s was written %d times after the cause had ended; at most %d are due", key, n, limit)})
		}
	}
	slices.SortFunc(out, func(a, b Finding) int { return compareText(a.Text, b.Text) })
	return out
}

// children are the objects with MLKeeper's label, by resource and lasting name.
func (r *run) children() map[string]*unstructured.Unstructured {
	out := map[string]*unstructured.Unstructured{}
	for key, u := range r.history.all("") {
		if u.GetLabels()[keeper.ControllerLabel] != "" {
			out[r.inSnapshot(key)] = u
		}
	}
	return out
}

func appliedHash(u *unstructured.Unstructured) string {
	return u.GetAnnotations()[keeper.AppliedHashAnnotation]
}

// ownerOfPod is the name of the ReplicaSet of a pod, which begins with that of the Deployment.
func ownerOfPod(pod *metav1.PartialObjectMetadata) string {
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		return ref.Name
	}
	return pod.Name
}
