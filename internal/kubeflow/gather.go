package kubeflow

import (
	"context"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/rendering"
)

// reasonApplicationFailed is the reason of an application that cannot be rendered; stable across releases.
const reasonApplicationFailed = "ApplicationFailed"

// fetching is the message while nothing is rendered yet.
const fetching = "the repositories are being fetched and rendered"

// Gather has the repositories fetched and rendered in the background, and looks up which kinds are in namespaces.
func (s *system) Gather(ctx context.Context, read controller.Reader, cr *kubeflowv1.KfDef) (Facts, error) {
	user, err := s.account(cr).User(ctx, read, "KfDef", cr)
	if err != nil {
		return Facts{}, err
	}
	awaits, err := awaited(ctx, read, cr, user)
	if err != nil {
		return Facts{}, err
	}
	facts := Facts{ActAs: user, Awaited: awaits, Namespaced: map[schema.GroupKind]bool{}}
	if err := s.gatherResult(ctx, read, cr, &facts); err != nil {
		return Facts{}, err
	}
	for _, a := range facts.Result.Content.Applications {
		for _, o := range a.Objects {
			gvk := o.GroupVersionKind()
			if namespaced, served := read.Namespaced(gvk); served {
				facts.Namespaced[gvk.GroupKind()] = namespaced
			}
		}
	}
	scopes(facts.Result, facts.Namespaced)
	return facts, nil
}

// gatherResult asks for what the KfDef renders as it is declared now. While an object is absent or unreadable that it names, what was
// rendered last stays declared (invariant 16).
func (s *system) gatherResult(ctx context.Context, read controller.Reader, cr *kubeflowv1.KfDef, facts *Facts) error {
	job, err := s.request(ctx, read, cr, facts.ActAs)
	if errors.As(err, &facts.Problem) {
		if facts.Result = s.results.Use(subjectOf(cr)); facts.Result.Rendered() {
			return nil
		}
	}
	if err != nil {
		return err
	}
	result, done := s.results.Get(read, job)
	if !done && !result.Rendered() {
		return rendering.Fetching(fetching)
	}
	facts.Result, facts.Current = result, result.Inputs == job.Inputs
	facts.Pending = !done && !facts.Current
	return nil
}

// request reads what a KfDef names, with the rights of a user, and makes the job of it.
func (s *system) request(ctx context.Context, read controller.Reader, cr *kubeflowv1.KfDef, user string) (rendering.Job[Content], error) {
	from, err := reposOf(ctx, read, cr, user)
	if err != nil {
		return rendering.Job[Content]{}, err
	}
	values, err := variablesOf(ctx, read, cr, user)
	if err != nil {
		return rendering.Job[Content]{}, err
	}
	return s.jobOf(cr, from, values), nil
}

// account is the ServiceAccount with whose rights the objects of a KfDef are written.
func (s *system) account(cr *kubeflowv1.KfDef) controller.Account {
	return controller.Account{
		Name: cr.Spec.ServiceAccountName, Default: s.settings.DefaultServiceAccount,
		Trusted: s.settings.Trusted, DryRun: s.settings.DryRun, OperatorNamespace: s.settings.OperatorNamespace,
	}
}

// inputsOf tells apart what is rendered: another spec is another input, and so is another value of a variable.
func inputsOf(cr *kubeflowv1.KfDef, values variables) string {
	return rendering.Digest(string(cr.UID), []any{cr.Spec.Repos, cr.Spec.Applications, cr.Spec.Rendering, cr.Name, cr.Namespace, values})
}

// versionsOf tells apart the contents of the objects that a spec refers to.
func versionsOf(from []rendering.Source) string {
	var out []string
	for _, s := range from {
		out = append(out, s.Versions...)
	}
	return strings.Join(out, " ")
}
