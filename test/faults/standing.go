package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// standingAtOnce is how many times more plans of this campaign run at once than of others.
const standingAtOnce = 2

// standings are the plans of the campaign "standing": every cause that can stand on a child, on every child of every steady
// workload. The short form takes one child for each cause.
func (s *Suite) standings() []Plan {
	var out []Plan
	s.eachReference(func(k *Kind, w *Workload, ref *reference) {
		if !w.Steady {
			return
		}
		for key, u := range ref.objects {
			if strings.HasPrefix(key, inventories) {
				continue
			}
			resource, name, _ := strings.Cut(key, "/")
			for i := range causes {
				c := &causes[i]
				if !c.concerns(resource, u) {
					continue
				}
				p := s.plan("standing", k, w, Fault{})
				p.Fault, p.Standing = nil, &Standing{Resource: resource, Name: name, Cause: c.name}
				out = append(out, p)
				if c.early && (c.late == nil || !c.late.MatchString(resource)) {
					early := *p.Standing
					early.Early = true
					p.Standing = &early
					out = append(out, p)
				}
			}
		}
	})
	if s.Long || s.Workloads != nil {
		return out
	}
	return s.oneOfEach(out)
}

// oneOfEach samples a plan for each cause, by the seed; the kinds take turns.
func (s *Suite) oneOfEach(plans []Plan) []Plan {
	slices.SortStableFunc(plans, func(a, b Plan) int { return strings.Compare(a.String(), b.String()) })
	random := rand.New(rand.NewPCG(uint64(s.Seed), 1)) //nolint:gosec // A sample needs no cryptographic randomness.
	turn := random.IntN(len(s.kinds))
	var out []Plan
	for i := range causes {
		for _, early := range []bool{false, true} {
			for range s.kinds {
				kind := s.kinds[turn%len(s.kinds)].Name
				turn++
				some := slices.DeleteFunc(slices.Clone(plans), func(p Plan) bool {
					return p.Kind != kind || p.Standing.Cause != causes[i].name || p.Standing.Early != early
				})
				if len(some) > 0 {
					out = append(out, some[random.IntN(len(some))])
					break
				}
			}
		}
	}
	return out
}

// stand runs one plan of the campaign: the cause begins, the operator reports it and is watched, a custom resource in another
// namespace becomes Ready, the cause ends, and the custom resource becomes Ready again. It says, too, whether the cause could
// not stand at all.
func (r *run) stand(ref *reference) (findings []Finding, missed bool) {
	t, c := r.plan.Standing, causeOf(r.plan.Standing.Cause)
	if c == nil {
		return []Finding{{Oracle: "H", Text: fmt.Sprintf("there is no cause %q", t.Cause)}}, false
	}
	other := r.suite.newRun(r.kind, r.workload, Plan{Seed: r.plan.Seed, Kind: r.plan.Kind, Workload: r.plan.Workload, Campaign: "guest"})
	defer other.close()
	r.namespaces = append(r.namespaces, other.world.Namespace)
	before, began := state{}, time.Now()
	end, err := r.begin(ref, c, &before)
	if err != nil {
		if errors.Is(err, errNoDrift) {
			return nil, true
		}
		return []Finding{{Oracle: "H", Text: err.Error()}}, false
	}
	findings = append(findings, r.reported(c)...)
	findings = append(findings, r.watched(c, began)...)
	if err := r.neighbour(other); err != nil {
		findings = append(findings, Finding{Oracle: "O3", Text: "while the cause stands, another namespace: " + err.Error()})
	}
	findings = append(findings, r.spoken(c)...)
	findings = append(findings, r.sparesPods(before)...)
	findings = append(findings, r.recovered(ref, c, before, began, end)...)
	findings = append(findings, r.absolute()...)
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(findings, r.failures...), false
}

// begin brings the workload to its end and has the cause stand, or the other way round. The returned function ends it.
func (r *run) begin(ref *reference, c *cause, before *state) (end func() error, err error) {
	t := r.plan.Standing
	if !t.Early {
		if err := r.settled(ref); err != nil {
			return nil, err
		}
		if *before, err = r.childState(); err != nil {
			return nil, err
		}
		u := r.child(&Drift{Resource: t.Resource, Name: t.Name})
		if u == nil {
			return nil, fmt.Errorf("there is no %s %s", t.Resource, t.Name)
		}
		r.note("cause: %s begins", c.name)
		return c.begin(r, u.DeepCopy())
	}
	if err := r.open(); err != nil {
		return nil, err
	}
	if err := r.await("the operator is ready", r.operatorReady); err != nil {
		return nil, err
	}
	r.note("cause: %s begins", c.name)
	if end, err = c.begin(r, r.unborn(ref)); err != nil {
		return nil, err
	}
	if err := r.arm(); err != nil {
		return nil, err
	}
	for _, s := range r.workload.Steps {
		r.note("step: %s", s.Name)
		if err := s.Do(r.world); err != nil {
			return nil, fmt.Errorf("step %s: %w", s.Name, err)
		}
	}
	return end, nil
}

// unborn is the child as it will be created in this run.
func (r *run) unborn(ref *reference) *unstructured.Unstructured {
	t := r.plan.Standing
	u := foreign(ref.objects[t.Resource+"/"+t.Name])
	if u.GetNamespace() != "" {
		u.SetNamespace(r.world.Namespace)
	}
	u.SetName(strings.ReplaceAll(t.Name, "NS", r.world.Namespace))
	return u
}

// neighbour runs the workload in the namespace of another run, with the operator of this one.
func (r *run) neighbour(other *run) error {
	r.note("a neighbour begins")
	if err := other.createNamespace(); err != nil {
		return err
	}
	return other.steps(other.workload.Steps)
}

// state is what a cause must leave as it is.
type state struct {
	// pods are those that run, by UID, with the name of the Deployment that they are of.
	pods map[string]string
	// hashes and uids are those of the children.
	hashes, uids map[string]string
}

// childState takes down the pods and children of the run.
func (r *run) childState() (state, error) {
	out := state{pods: map[string]string{}, hashes: map[string]string{}, uids: map[string]string{}}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := r.suite.cluster.Client.List(r.ctx, list, client.InNamespace(r.world.Namespace)); err != nil {
		return out, err
	}
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			out.pods[string(pod.UID)] = ownerOfPod(&pod)
		}
	}
	for key, u := range r.children() {
		out.hashes[key], out.uids[key] = appliedHash(u), string(u.GetUID())
	}
	return out, nil
}
