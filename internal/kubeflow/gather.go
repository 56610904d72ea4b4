package kubeflow

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
)

// The reasons of problems, stable across releases.
const (
	reasonFetching          = "Fetching"
	reasonApplicationFailed = "ApplicationFailed"
)

// fetching is said while there is no answer.
const fetching = "the repositories are being fetched and rendered"

// Gather has the repositories fetched and rendered in the background, and looks up which kinds are in namespaces.
func (s *system) Gather(ctx context.Context, read controller.Reader, cr *kubeflowv1.KfDef) (Facts, error) {
	user, err := s.account(cr).User(ctx, read, "KfDef", cr)
	if err != nil {
		return Facts{}, err
	}
	from, err := reposOf(ctx, read, cr)
	if err != nil {
		return Facts{}, err
	}
	answer, pending := s.answer(read, cr, from)
	if answer == nil || pending && answer.Inputs == "" {
		return Facts{}, plan.Problem{
			Class: plan.Waiting, Reason: reasonFetching, Message: fetching, Remedy: "nothing to do", Brief: true,
		}
	}
	facts := Facts{Answer: answer, Pending: pending, ActAs: user, Namespaced: map[schema.GroupKind]bool{}}
	for _, a := range answer.Applications {
		for _, o := range a.Objects {
			gvk := o.GroupVersionKind()
			if namespaced, served := read.Namespaced(gvk); served {
				facts.Namespaced[gvk.GroupKind()] = namespaced
			}
		}
	}
	scopes(answer, facts.Namespaced)
	return facts, nil
}

// account is the ServiceAccount with whose rights the objects of a KfDef are written.
func (s *system) account(cr *kubeflowv1.KfDef) controller.Account {
	return controller.Account{
		Name: cr.Spec.ServiceAccountName, Default: s.settings.DefaultServiceAccount,
		Trusted: s.settings.Trusted, Printed: s.settings.Printed,
	}
}

// answer asks once for each spec, each content of what it refers to, and each wish to reconcile now, and at the interval of
// the spec; after a failure the engine asks again. It asks anew when the cluster serves other APIs of those that the objects
// were converted from and to, as after an upgrade. Until there is an answer, the one before stands, which is pending where it is
// to another spec.
func (s *system) answer(read controller.Reader, cr *kubeflowv1.KfDef, from []repo) (answer *Answer, pending bool) {
	q := asked{uid: cr.UID, inputs: inputsOf(cr)}
	q.wish = strings.Join([]string{"rendered", q.inputs, versionsOf(from), cr.Annotations[keeper.ReconcileAtAnnotation]}, " ")
	q.name = q.wish
	before, last := s.before(cr)
	if before != nil && last.wish == q.wish {
		q.name = last.name
		if then, now := before.depends(read.Serves); then != now {
			q.name = q.wish + " " + digest(then, now)
		}
	}
	every := controller.Once
	if i := cr.Spec.Interval; i != nil {
		every = i.Duration
	}
	if answer, _ := read.Probe(q.name, every, s.question(cr.DeepCopy(), from, q, read.Serves)).(*Answer); answer != nil {
		return answer, false
	}
	return before, before != nil && before.Inputs != q.inputs
}

// inputsOf tells apart what is rendered: another spec is another input.
func inputsOf(cr *kubeflowv1.KfDef) string {
	return digest(cr.Spec.Repos, cr.Spec.Applications, cr.Name, cr.Namespace, cr.UID)
}

// versionsOf tells apart the contents of the objects that a spec refers to.
func versionsOf(from []repo) string {
	var versions []any
	for _, o := range from {
		versions = append(versions, o.Versions)
	}
	return digest(versions...)
}

func digest(parts ...any) string {
	raw, err := json.Marshal(parts)
	if err != nil {
		panic(fmt.Sprintf("bug: the spec of a KfDef does not encode: %v", err))
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}
