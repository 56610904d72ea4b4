package faults

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
)

// standingAtOnce is how many times more plans of this campaign run at once than of others.
const standingAtOnce = 4

// standings are the plans of the campaign "standing": every cause that can stand on a child, on every child of every steady
// workload; every cause that can stand on an API, once for every resource of the children of a kind; and every cause that can stand on a
// server, for every workload with one. The short form takes one child for each cause.
func (s *Suite) standings() []Plan {
	var out []Plan
	apis := map[string]bool{}
	s.eachWorkload(func(k *Kind, w *Workload) {
		ref, err := s.reference(k, w)
		if err != nil || !w.Steady && w.Server == "" {
			return
		}
		for i := range causes {
			c := &causes[i]
			for _, one := range s.targets(c, k, w, ref) {
				api := fmt.Sprintf("%s %s %s", k.Name, c.name, one.Resource)
				if c.on == onAPI && apis[api] {
					continue
				}
				apis[api] = true
				for _, early := range c.moments(one.Resource) {
					p := s.plan("standing", k, w, Fault{})
					t := one
					t.Early = early
					p.Fault, p.Standing = nil, &t
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

// targets are what a cause can stand on in a workload. Two sorts of objects are no children. An Inventory is MLKeeper's own list of children,
// which no user is to write: what is wrong in one, or with writing it, test/invariants tries. And an object of others that is only wired has
// no label of MLKeeper's: nobody creates it in place of its owner, so that most causes cannot stand on it.
func (s *Suite) targets(c *cause, k *Kind, w *Workload, ref *reference) []Standing {
	if c.on == onServer {
		if w.Server == "" || c.name == ServerUntrusted && w.Plain {
			return nil
		}
		return []Standing{{Resource: servers, Name: w.Server, Cause: c.name}}
	}
	if w.Server != "" {
		return nil
	}
	var out []Standing
	alike := map[*Child]bool{}
	for _, key := range slices.Sorted(maps.Keys(ref.objects)) {
		resource, name, _ := strings.Cut(key, "/")
		child := k.makes(key)
		if resource == inventories || w.Stands != nil && !w.Stands.MatchString(key) || alike[child] || !c.concerns(resource, ref.objects[key]) {
			continue
		}
		if none := k.Without[c.name]; none != nil && none.MatchString(key) {
			continue
		}
		taken := slices.ContainsFunc(out, func(t Standing) bool { return t.Resource == resource })
		if c.on == onAPI && (taken || !s.defined(resource) || !s.alterable(c, resource, ref.objects[key])) {
			continue
		}
		alike[child] = child != nil && child.Alike
		out = append(out, Standing{Resource: resource, Name: name, Cause: c.name})
	}
	return out
}

// changesAPI says that the cause stands in all namespaces.
func (t *Standing) changesAPI() bool {
	c := causeOf(t.Cause)
	return c != nil && c.on == onAPI
}

// oneOfEach samples a plan for each cause, by the seed; the kinds take turns.
func (s *Suite) oneOfEach(plans []Plan) []Plan {
	slices.SortStableFunc(plans, func(a, b Plan) int { return strings.Compare(a.String(), b.String()) })
	random := rand.New(rand.NewPCG(uint64(s.Seed), 1)) //nolint:gosec // A sample needs no cryptographic randomness.
	turn := random.IntN(len(s.kinds))
	var out []Plan
	for i := range causes {
		if causes[i].on == onAPI {
			continue // They run one after the other.
		}
		for _, early := range []bool{false, true} {
			if causes[i].on == onServer && early == (i%2 == 0) {
				continue // Half of them stand from the beginning.
			}
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
	return append(out, apart(plans, random)...)
}

// apart samples a plan for each cause that stands on an API, each with another kind or resource than the one before, so that some run at once.
func apart(plans []Plan, random *rand.Rand) []Plan {
	plans = slices.DeleteFunc(slices.Clone(plans), func(p Plan) bool { return !p.Standing.changesAPI() })
	random.Shuffle(len(plans), func(i, j int) { plans[i], plans[j] = plans[j], plans[i] })
	var out []Plan
	for i := range causes {
		some := slices.DeleteFunc(slices.Clone(plans), func(p Plan) bool { return p.Standing.Cause != causes[i].name })
		if len(some) == 0 {
			continue
		}
		chosen := some[0]
		for _, p := range some {
			if n := len(out); n == 0 || p.Kind != out[n-1].Kind && p.Standing.Resource != out[n-1].Standing.Resource {
				chosen = p
				break
			}
		}
		out = append(out, chosen)
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
		if end != nil {
			err = errors.Join(err, end())
		}
		if errors.Is(err, errNoDrift) {
			return nil, true
		}
		return []Finding{{Oracle: "H", Text: err.Error()}}, false
	}
	findings = append(findings, r.reported(c)...)
	findings = append(findings, r.watched(c, began)...)
	if c.on == onAPI && r.world.Ready() != nil {
		r.note("no other namespace can become Ready either")
	} else if err := r.neighbour(other); err != nil {
		findings = append(findings, Finding{Oracle: "O3", Text: "while the cause stands, another namespace: " + err.Error()})
	}
	findings = append(findings, r.spoken(c)...)
	findings = append(findings, r.sparesPods(before)...)
	findings = append(findings, r.overdone(ref, c, began)...)
	if t.Early {
		// What was made while the cause stood is due no second time.
		if before, err = r.childState(); err != nil {
			findings = append(findings, Finding{Oracle: "H", Text: err.Error()})
		}
	}
	findings = append(findings, r.recovered(ref, c, before, began, r.promptness(other), end)...)
	findings = append(findings, r.remade(ref)...)
	findings = append(findings, r.absolute()...)
	findings = append(findings, r.honest(&reference{})...)
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
		if c.on == onServer {
			u = &unstructured.Unstructured{}
		}
		if u == nil {
			return nil, fmt.Errorf("there is no %s %s", t.Resource, t.Name)
		}
		r.note("cause: %s begins", c.name)
		return c.begin(r, u.DeepCopy())
	}
	if c.on == onAPI {
		// The operator starts without the API.
		r.note("cause: %s begins", c.name)
		if end, err = c.begin(r, nil); err != nil {
			return end, err
		}
	}
	if err := r.open(); err != nil {
		return end, err
	}
	if err := r.await("the operator is ready", r.operatorReady); err != nil {
		return end, err
	}
	if c.on != onAPI {
		r.note("cause: %s begins", c.name)
		if end, err = c.begin(r, r.unborn(ref)); err != nil {
			return end, err
		}
	}
	if err := r.arm(); err != nil {
		return end, err
	}
	for _, s := range r.workload.Steps {
		r.note("step: %s", s.Name)
		if err := s.Do(r.world); err != nil {
			return end, fmt.Errorf("step %s: %w", s.Name, err)
		}
	}
	return end, nil
}

// unborn is the child as it will be created in this run.
func (r *run) unborn(ref *reference) *unstructured.Unstructured {
	t := r.plan.Standing
	if ref.objects[t.Resource+"/"+t.Name] == nil {
		return nil // It stands on a server.
	}
	was := ref.objects[t.Resource+"/"+t.Name]
	u := foreign(was)
	if u.GetNamespace() != "" {
		u.SetNamespace(r.world.Namespace)
	}
	u.SetName(strings.ReplaceAll(t.Name, "NS", r.world.Namespace))
	labels := maps.Clone(was.GetLabels())
	// The mark of the custom resource that it is for follows from the namespace.
	owner := strings.Split(ofRun.ReplaceAllString(was.GetAnnotations()[keeper.OwnerAnnotation], r.world.Namespace), "/")
	if len(owner) == 3 {
		labels[keeper.StackLabel] = plan.Stack{GVK: r.kind.GVK, Namespace: owner[1], Name: owner[2]}.Hash()
	}
	u.SetLabels(labels)
	return u
}

// neighbour runs the workload in the namespace of another run, with the operator of this one.
func (r *run) neighbour(other *run) error {
	r.note("a neighbour begins")
	if err := other.createNamespace(); err != nil {
		return err
	}
	steps := slices.Clone(other.workload.Steps)
	if r.kind.Asking != nil && r.server != nil {
		// The operator asks one server for all pods. What does not answer keeps nobody from being Ready.
		steps[len(steps)-1].Until = (*World).Ready
	}
	return other.steps(steps)
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
