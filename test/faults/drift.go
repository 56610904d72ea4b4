package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/backoff"
)

const (
	// holder is the finalizer of somebody else who holds a child.
	holder = "faults.test/hold"
	// untouched is how long an addition of somebody else is watched.
	untouched = 300 * time.Millisecond
	// perSeries is how many changes are made one after the other in one namespace.
	perSeries = 20
)

// errNoDrift says that the API server refused a change, or that it changed nothing: there is nothing to repair.
var errNoDrift = errors.New("there is no such drift")

// drifts are C5: every field that MLKeeper manages in every child changed and deleted, additions of others, and what can
// happen to a child as a whole.
func (s *Suite) drifts() []Plan {
	var out []Plan
	s.eachReference(func(k *Kind, w *Workload, ref *reference) {
		if !w.Steady {
			return
		}
		add := func(key string, change Change, path string) {
			resource, name, _ := strings.Cut(key, "/")
			out = append(out, Plan{
				Seed: s.Seed, Kind: k.Name, Workload: w.Name, Campaign: "C5",
				Drift: &Drift{Resource: resource, Name: name, Change: change, Path: path},
			})
		}
		for key, u := range ref.objects {
			if strings.HasPrefix(key, inventories) {
				continue
			}
			for _, f := range managed(u) {
				// What the API server filled in when the child was created is not declared, and nobody restores it. A key with a digest
				// of names is another in each namespace.
				if !declares(ref.declared[key], f) || digested.MatchString(f.path) {
					continue
				}
				add(key, ChangeField, f.path)
				add(key, DeleteField, f.path)
			}
			for _, path := range addable(u) {
				add(key, AddField, path)
			}
			changes := []Change{OrphanChild, RelabelChild}
			// The data of a claim is lost with it, so that nothing could repair its end.
			if !strings.HasPrefix(key, "persistentvolumeclaims/") {
				changes = append(changes, DeleteChild, ReplaceChild, HoldChild)
			}
			for _, c := range changes {
				add(key, c, "")
			}
		}
	})
	return out
}

// drift runs one change in a namespace of its own.
func (r *run) drift(ref *reference) []Finding {
	if err := r.settled(ref); err != nil {
		return []Finding{{Oracle: "H", Text: err.Error()}}
	}
	findings, _ := r.drifted(ref, r.plan)
	return findings
}

// settled brings the workload to its end.
func (r *run) settled(ref *reference) error {
	if err := r.perform(); err != nil {
		return err
	}
	if found := r.converged(ref, rest1); len(found) > 0 {
		return errors.New(found[0].Text)
	}
	r.history.arm()
	r.journal.arm()
	return nil
}

// series runs changes one after the other in one namespace, which is as good as one each as long as every one is
// repaired: the state before the next is that of the reference.
func (s *Suite) series(plans []Plan) {
	k, w := s.find(plans[0])
	ref, err := s.reference(k, w)
	if err != nil {
		return // It was told when it was learned.
	}
	s.awaitCollected()
	for len(plans) > 0 {
		plans = s.someDrifts(k, w, ref, plans)
		s.mu.Lock()
		stopped := s.stopped
		s.mu.Unlock()
		if stopped {
			return
		}
	}
}

// someDrifts runs changes until one is not repaired, or a child was changed so often that the repairs after that may be reported as a fight
// (invariant 18). It returns the plans that are still to run.
func (s *Suite) someDrifts(k *Kind, w *Workload, ref *reference, plans []Plan) []Plan {
	r := s.newRun(k, w, plans[0])
	defer r.close()
	if err := r.settled(ref); err != nil {
		s.save(r, []Finding{{Oracle: "H", Text: err.Error()}})
		s.tell(outcome{plan: plans[0], findings: []Finding{{Oracle: "H", Text: err.Error()}}})
		return plans[1:]
	}
	changed := map[string]int{}
	for i, p := range plans {
		child := p.Drift.Resource + "/" + p.Drift.Name
		if changed[child] == backoff.TakenBack.Free-1 {
			return plans[i:]
		}
		changed[child]++
		began := time.Now()
		r.plan = p
		r.history.arm()
		r.journal.arm()
		findings, happened := r.drifted(ref, p)
		s.tell(outcome{plan: p, findings: findings, missed: !happened, took: time.Since(began)})
		if len(findings) > 0 {
			s.save(r, findings)
			return plans[i+1:]
		}
	}
	return nil
}

// drifted makes one change, waits for what is due, and judges it. It says whether there was anything to judge.
func (r *run) drifted(ref *reference, p Plan) ([]Finding, bool) {
	d := p.Drift
	u := r.child(d)
	if u == nil {
		return []Finding{{Oracle: "H", Text: "there is no " + d.Resource + " " + d.Name}}, true
	}
	r.note("drift: %s", p)
	before := r.fields(d)
	err := r.inflict(d, u.DeepCopy())
	if errors.Is(err, errNoDrift) {
		return nil, false
	}
	if err != nil {
		return []Finding{{Oracle: "O3", Text: err.Error()}}, true
	}
	findings := r.repaired(d, before)
	if len(findings) == 0 {
		findings = r.converged(ref, rest1)
	}
	o := r.observe()
	findings = append(findings, r.counted(r.steadied(ref), o)...)
	findings = append(findings, r.bounded(r.steadied(ref))...)
	findings = append(findings, r.safe(ref, o)...)
	findings = append(findings, r.honest(ref)...)
	r.mu.Lock()
	findings = append(findings, r.failures...)
	r.mu.Unlock()
	r.allowed = map[string]tally{}
	return findings, true
}

// fields are those of the child as they must be again. The content of a Secret may be made anew, and its digest with it.
func (r *run) fields(d *Drift) snapshot {
	object := d.Resource + "/" + d.Name
	out := snapshot{object: map[string]string{}}
	for path, value := range r.snapshot()[object] {
		if d.Resource == "secrets" && (strings.HasPrefix(path, "data.") || strings.HasSuffix(path, escape(keeper.AppliedHashAnnotation))) {
			continue
		}
		out[object][path] = value
	}
	return out
}

// repaired waits until a child that was changed, and is still the same object, is as it was: the mask of the reference
// covers what differs from run to run, which is right for the end of a run but hides a change of such a field.
func (r *run) repaired(d *Drift, before snapshot) []Finding {
	switch d.Change {
	case DeleteChild, ReplaceChild, HoldChild:
		return nil
	}
	var diffs []Diff
	err := r.await("the repair", func() error {
		if diffs = slices.DeleteFunc(compare(before, r.fields(d), mask{}), allocated); len(diffs) > 0 {
			return errors.New(diffs[0].String())
		}
		return nil
	})
	if err != nil {
		return r.diverging(diffs)
	}
	return nil
}

// steadied is the reference of what may happen once the workload is at its end: nothing but that the status tells of a
// child that is not ready, in each step of a rollout and back.
func (r *run) steadied(ref *reference) *reference {
	out := &reference{size: ref.size, names: ref.names, updates: map[string]int{}}
	for _, cr := range r.history.all(r.kind.Resource) {
		out.updates[r.kind.Resource+"/"+lasting(cr.GetName(), r.world.Namespace)] = statusSteps
	}
	return out
}

// statusSteps is how often the status may tell of the steps of a rollout and its undoing.
const statusSteps = 8

// child finds the object of a drift.
func (r *run) child(d *Drift) *unstructured.Unstructured {
	for _, u := range r.history.all(d.Resource) {
		if lasting(u.GetName(), r.world.Namespace) == d.Name {
			return u
		}
	}
	return nil
}

// inflict makes a change. Changes that hold for a while are watched and taken back here.
func (r *run) inflict(d *Drift, u *unstructured.Unstructured) error {
	lasts := d.Resource + "/" + d.Name
	switch d.Change {
	case ChangeField, DeleteField:
		return r.changeField(d, u)
	case AddField:
		return r.addField(d, u)
	case OrphanChild:
		if len(u.GetOwnerReferences()) == 0 {
			return errNoDrift
		}
		return r.jsonPatch(u, jsonOp{"remove", "/metadata/ownerReferences", nil})
	case RelabelChild:
		return r.jsonPatch(u, jsonOp{"replace", "/metadata/labels/" + pointer(keeper.ControllerLabel), "another"})
	case DeleteChild:
		r.allowed[lasts] = tally{1, 1}
		if err := r.suite.cluster.Client.Delete(r.ctx, u.DeepCopy()); err != nil {
			return err
		}
		// Until the deletion is seen, everything looks as if it had been repaired.
		return r.await("the deletion to be seen", func() error {
			if now := r.child(d); now != nil && now.GetUID() == u.GetUID() && now.GetDeletionTimestamp() == nil {
				return errors.New("it was not told yet")
			}
			return nil
		})
	case ReplaceChild:
		r.allowed[lasts] = tally{2, 2}
		return r.replaceChild(u)
	case HoldChild:
		r.allowed[lasts] = tally{1, 1}
		return r.holdChild(u)
	}
	return fmt.Errorf("there is no change %q", d.Change)
}

// jsonOp is one operation of a JSON patch.
type jsonOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// jsonPatch changes an object as somebody else, a new one for each change, since one who takes a field three times is
// left it. A change that the API server refuses, or that changes nothing, is none.
func (r *run) jsonPatch(u *unstructured.Unstructured, ops ...jsonOp) error {
	raw, err := json.Marshal(ops)
	if err != nil {
		return err
	}
	before := u.GetResourceVersion()
	err = r.suite.cluster.Client.Patch(r.ctx, u, client.RawPatch(types.JSONPatchType, raw),
		client.FieldOwner(fmt.Sprintf("%s-%d", user, time.Now().UnixNano())))
	switch {
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err):
		return errNoDrift
	case err != nil:
		return err
	case u.GetResourceVersion() == before:
		return errNoDrift
	}
	return r.world.seen(u)
}

// pointer escapes a key for a JSON pointer.
func pointer(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }

// changeField changes or deletes one managed field.
func (r *run) changeField(d *Drift, u *unstructured.Unstructured) error {
	i := slices.IndexFunc(managed(u), func(f field) bool { return f.path == d.Path })
	if i < 0 {
		return fmt.Errorf("MLKeeper does not manage %s of %s", d.Path, u.GetName())
	}
	f := managed(u)[i]
	if d.Change == DeleteField {
		return r.jsonPatch(u, jsonOp{Op: "remove", Path: f.pointer})
	}
	for _, other := range others(f.value) {
		if err := r.jsonPatch(u.DeepCopy(), jsonOp{"replace", f.pointer, other}); !errors.Is(err, errNoDrift) {
			return err
		}
	}
	return errNoDrift
}

// addField adds to a map or a keyed list, which is no drift: nothing may be written for it. Then it is taken back.
func (r *run) addField(d *Drift, u *unstructured.Unstructured) error {
	add, away, ok := addition(u, d.Path)
	if !ok {
		return fmt.Errorf("nothing can be added at %s", d.Path)
	}
	for _, op := range []jsonOp{add, away} {
		began := time.Now()
		if err := r.jsonPatch(u, op); err != nil {
			return err
		}
		if err := r.settle(); err != nil {
			return err
		}
		wrote := r.journal.since(func(e entry) bool {
			return e.At.After(began) && e.counted() && e.Resource == d.Resource
		})
		if len(wrote) > 0 {
			return fmt.Errorf("somebody else's addition is no drift, but the operator wrote: %s", wrote[0].request)
		}
		if u = r.child(d).DeepCopy(); u == nil {
			return errors.New("the child is gone")
		}
	}
	return nil
}

// settle gives the operator the time to react to a change to which it must not.
func (r *run) settle() error {
	select {
	case <-r.ctx.Done():
		return r.ctx.Err()
	case <-time.After(untouched):
		return r.still(untouched)
	}
}

// replaceChild puts an object of somebody else in the place of a child. It must be reported and left alone; then it goes
// away again.
func (r *run) replaceChild(u *unstructured.Unstructured) error {
	c := r.suite.cluster.Client
	resource, _ := r.resourceOf(u)
	// The operator is blind meanwhile, or it would be there first.
	r.pause(resource, true)
	err := c.Delete(r.ctx, u.DeepCopy())
	stranger := foreign(u)
	if err == nil {
		err = r.await("the child to be gone", func() error {
			if err := c.Create(r.ctx, stranger.DeepCopy(), client.FieldOwner(user)); err != nil {
				return err
			}
			return nil
		})
	}
	r.pause(resource, false)
	if err != nil {
		return err
	}
	err = r.await("the foreign object to be reported", func() error {
		for _, cr := range r.history.all(r.kind.Resource) {
			if ready := conditionOf(cr, "Ready"); !r.kind.yields(resource, u.GetName()) && (ready == nil || ready["status"] != "False") {
				return fmt.Errorf("%s says %v", cr.GetName(), ready)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := r.settle(); err != nil {
		return err
	}
	return client.IgnoreNotFound(c.Delete(r.ctx, stranger, client.PropagationPolicy(metav1.DeletePropagationBackground)))
}

// holdChild deletes a child that a finalizer of somebody else holds, and lets it go after a while.
func (r *run) holdChild(u *unstructured.Unstructured) error {
	finalizers := append(slices.Clone(u.GetFinalizers()), holder)
	if err := r.jsonPatch(u, jsonOp{"add", "/metadata/finalizers", finalizers}); err != nil {
		return err
	}
	if err := r.settle(); err != nil {
		return err
	}
	if err := r.suite.cluster.Client.Delete(r.ctx, u.DeepCopy()); err != nil {
		return err
	}
	if err := r.settle(); err != nil {
		return err
	}
	free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	return client.IgnoreNotFound(r.suite.cluster.Client.Patch(r.ctx, u, free, client.FieldOwner(user)))
}

// allocated says that a field is filled by the API server, which gives another value once the field that asks for it was
// away: a Service that was of another type for a moment has lost its nodePorts.
func allocated(d Diff) bool { return strings.HasSuffix(d.Path, ".nodePort") }

// foreign is an object of somebody else under the name of a child.
func foreign(u *unstructured.Unstructured) *unstructured.Unstructured {
	out := u.DeepCopy()
	for _, field := range []string{
		"uid", "resourceVersion", "creationTimestamp", "managedFields", "ownerReferences", "annotations", "generation",
		"finalizers", "deletionTimestamp",
	} {
		unstructured.RemoveNestedField(out.Object, "metadata", field)
	}
	delete(out.Object, "status")
	for _, field := range []string{"clusterIP", "clusterIPs"} {
		unstructured.RemoveNestedField(out.Object, "spec", field)
	}
	if out.GetKind() == "PersistentVolumeClaim" {
		// It asks for more than any volume has, so that it takes none away.
		unstructured.RemoveNestedField(out.Object, "spec", "volumeName")
		if resources, ok := out.Object["spec"].(map[string]any); ok {
			resources["resources"] = map[string]any{"requests": map[string]any{"storage": "1Ei"}}
		}
	}
	out.SetLabels(map[string]string{foreignLabel: "true"})
	if data, ok := out.Object["data"].(map[string]any); ok && out.GetKind() == "ConfigMap" {
		for key := range data {
			data[key] = "of somebody else"
		}
	}
	return out
}

// resourceOf is the resource of an object of the run.
func (r *run) resourceOf(u *unstructured.Unstructured) (string, bool) {
	for key, one := range r.history.all("") {
		if one.GetUID() == u.GetUID() {
			resource, _, _ := strings.Cut(key, "/")
			return resource, true
		}
	}
	return "", false
}

// pause holds back the watches of a resource, and lets them go on.
func (r *run) pause(resource string, on bool) {
	until := time.Time{}
	if on {
		until = time.Now().Add(time.Minute)
	}
	r.mu.Lock()
	lines := slices.Clone(r.lines)
	r.mu.Unlock()
	for _, l := range lines {
		l.watches(resource, func(s *stream) {
			if on {
				s.hold(until)
			} else {
				s.release()
			}
		})
	}
}
