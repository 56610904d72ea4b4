package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/test/cluster"
)

// calm is how long nothing may happen after a verdict, so that a snapshot shows what the verdict is of; patientCalm is for what
// another one was found to differ from.
const calm, patientCalm = 400 * time.Millisecond, 12 * time.Second

// waiting is how long nothing may happen until a custom resource that is neither Ready nor Stalled counts as one that waits for a
// user: on a busy machine the controllers of Kubernetes, and the operator, take long.
const waiting = 20 * time.Second

// verdict is what a custom resource tells when it has settled.
type verdict struct {
	// Ready and Stalled are the statuses of the conditions.
	Ready, Stalled  string
	Reason, Message string
	// Refused says that the API server refused the spec, with the message, and Suspended that nothing is done for it.
	Refused, Suspended bool
}

func (v verdict) ready() bool   { return v.Ready == "True" && !v.Suspended }
func (v verdict) stalled() bool { return v.Stalled == "True" }

// kind says in one word how the custom resource answered, or that it was not waited for.
func (v verdict) kind(hasty bool) string {
	switch {
	case hasty:
		return "hasty"
	case v.Refused:
		return "refused"
	case v.Suspended:
		return "suspended"
	case v.ready():
		return "ready"
	case v.stalled():
		return "stalled"
	}
	return "waiting"
}

// String prints the verdict in one line.
func (v verdict) String() string {
	if v.Refused || v.Suspended {
		return v.kind(false) + ": " + v.Message
	}
	return fmt.Sprintf("Ready %s, Stalled %s, %s: %s", v.Ready, v.Stalled, v.Reason, v.Message)
}

// newMisrun prepares a run that shares the operator.
func (s *Suite) newMisrun(k *Kind, b *Base, p Plan) *run {
	r := s.newRun(k, &Workload{Name: b.Name}, p)
	r.calm = calm
	r.cancel()
	r.ctx, r.cancel = context.WithTimeout(context.Background(), time.Duration(2+len(p.Operations))*s.Patience)
	return r
}

// create makes the namespace of a run with a custom resource of a spec, of which the shared operator takes care, and waits until it has
// settled.
func (r *run) create(b *Base, spec map[string]any) (verdict, error) {
	if err := r.suite.shared.join(r); err != nil {
		return verdict{}, err
	}
	return r.place(b, spec)
}

// place does the same with whatever operator there is.
func (r *run) place(b *Base, spec map[string]any) (verdict, error) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.world.Namespace, Labels: map[string]string{
		keeper.CompositionsLabel: keeper.CompositionsAllowed,
	}}}
	if err := r.suite.cluster.Client.Create(r.ctx, ns); err != nil {
		return verdict{}, fmt.Errorf("create the namespace: %w", err)
	}
	return r.fill(b, spec)
}

// fill makes what the custom resource refers to, and the custom resource, and waits until that has settled.
func (r *run) fill(b *Base, spec map[string]any) (verdict, error) {
	if b.Prepare != nil {
		if err := b.Prepare(r.world); err != nil {
			return verdict{}, fmt.Errorf("prepare %s: %w", b.Name, err)
		}
	}
	return r.submit(b, spec)
}

// submit creates the custom resource, whose namespace has what it refers to, and waits until it has settled.
func (r *run) submit(b *Base, spec map[string]any) (verdict, error) {
	cr, err := b.resource(spec, r.world.Namespace)
	if err != nil {
		return verdict{}, err
	}
	if err := r.suite.cluster.SetNamespace(cr, r.world.Namespace); err != nil {
		return verdict{}, err
	}
	r.note("create %s", r.plan.Workload)
	err = r.suite.cluster.Client.Create(r.ctx, cr, &client.CreateOptions{
		FieldManager: user, FieldValidation: metav1.FieldValidationStrict,
	})
	return r.verdictOn(cr, err)
}

// replace gives the custom resource another spec, and waits until it has settled unless the next change follows at once.
func (r *run) replace(b *Base, spec map[string]any, hasty bool) (verdict, error) {
	cr, err := b.resource(spec, r.world.Namespace)
	if err != nil {
		return verdict{}, err
	}
	if err := r.suite.cluster.SetNamespace(cr, r.world.Namespace); err != nil {
		return verdict{}, err
	}
	body, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec", "value": cr.Object["spec"]}})
	if err != nil {
		return verdict{}, fmt.Errorf("encode the spec: %w", err)
	}
	r.acted = time.Now()
	err = r.suite.cluster.Client.Patch(r.ctx, cr, client.RawPatch(types.JSONPatchType, body), &client.PatchOptions{
		FieldManager: user, FieldValidation: metav1.FieldValidationStrict,
	})
	if err == nil && hasty {
		return verdict{}, nil
	}
	return r.verdictOn(cr, err)
}

// verdictOn waits for the verdict on what a user wrote, which the API server may have refused.
func (r *run) verdictOn(cr *unstructured.Unstructured, err error) (verdict, error) {
	switch {
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		return verdict{Refused: true, Message: err.Error()}, nil
	case err != nil:
		return verdict{}, fmt.Errorf("write %s: %w", cr.GetName(), err)
	}
	if err := r.world.seen(cr); err != nil {
		return verdict{}, err
	}
	var out verdict
	err = r.await("the custom resource to settle", func() error {
		out, err = r.told(cr)
		return err
	})
	return out, err
}

// told says what the custom resource tells of its generation, or why that is not final yet. A custom resource that is neither
// Ready nor Stalled waits for something, and is told to wait when nothing has happened for as long as progress may be kept back.
func (r *run) told(cr *unstructured.Unstructured) (verdict, error) {
	u := r.history.get(r.kind.Resource, cr.GetName())
	if u == nil {
		return verdict{}, errors.New("it is not there")
	}
	out := verdict{}
	if c := conditionOf(u, "Suspended"); c != nil && c["status"] == "True" && c["observedGeneration"] == u.GetGeneration() && r.idle() > r.calm {
		out.Suspended, out.Message = true, fmt.Sprint(c["message"])
		return out, nil
	}
	if !observed(u) || u.GetGeneration() < cr.GetGeneration() {
		return out, fmt.Errorf("generation %d was not observed yet", u.GetGeneration())
	}
	if c := conditionOf(u, "Ready"); c != nil {
		out.Ready, out.Reason, out.Message = fmt.Sprint(c["status"]), fmt.Sprint(c["reason"]), fmt.Sprint(c["message"])
	}
	if out.Ready == "" {
		return out, errors.New("it has no condition Ready")
	}
	if c := conditionOf(u, "Stalled"); c != nil {
		out.Stalled = fmt.Sprint(c["status"])
	}
	quiet := r.calm
	if c := conditionOf(u, "Reconciling"); c != nil && c["status"] == "True" && out.ready() {
		quiet = max(quiet, progress)
	}
	if !out.ready() && !out.stalled() {
		quiet = waiting
	}
	if since := r.idle(); since < quiet {
		return out, fmt.Errorf("something happened %s ago", since)
	}
	return out, nil
}

// idle is for how long nothing was written or changed.
func (r *run) idle() time.Duration {
	last := r.journal.lastWrite()
	if at := r.history.last(); at.After(last) {
		last = at
	}
	return time.Since(last)
}

// spec is the spec of the base's custom resource.
func (b *Base) spec() (map[string]any, error) {
	objects, err := cluster.Parse(b.Manifest)
	if err != nil {
		return nil, err
	}
	spec, _, err := unstructured.NestedMap(objects[0].Object, "spec")
	return spec, err
}

// resource is the custom resource with a spec, in a namespace.
func (b *Base) resource(spec map[string]any, namespace string) (*unstructured.Unstructured, error) {
	objects, err := cluster.Parse(b.Manifest)
	if err != nil {
		return nil, err
	}
	cr := objects[0]
	cr.Object["spec"] = runtime.DeepCopyJSON(spec)
	if b.Stamp != nil {
		b.Stamp(cr.Object["spec"].(map[string]any)) //nolint:forcetypeassert // It was one in the line before.
	}
	raw, err := json.Marshal(cr.Object)
	if err != nil {
		return nil, fmt.Errorf("encode the custom resource: %w", err)
	}
	out := &unstructured.Unstructured{}
	return out, out.UnmarshalJSON([]byte(namespaceToken.ReplaceAllString(string(raw), namespace)))
}

// namespaceToken is what stands for the namespace in the manifest of a base.
var namespaceToken = regexp.MustCompile(`\bNS\b`)
