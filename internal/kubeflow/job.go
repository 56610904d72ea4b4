package kubeflow

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/bounded"
	"mlkeeper.dev/internal/manifest/kustomize"
	"mlkeeper.dev/internal/manifest/worker"
	"mlkeeper.dev/internal/rendering"
)

// jobOf renders a KfDef: once for each spec, content of what it refers to and request to reconcile now, and at the interval of the
// spec.
func (s *system) jobOf(cr *kubeflowv1.KfDef, from []rendering.Source, values variables) rendering.Job[Content] {
	every := controller.Once
	if i := cr.Spec.Interval; i != nil {
		every = i.Duration
	}
	cr = cr.DeepCopy()
	return rendering.Job[Content]{
		Subject: subjectOf(cr),
		Inputs:  inputsOf(cr, values), Trigger: versionsOf(from) + " " + cr.Annotations[keeper.ReconcileAtAnnotation],
		Every: every, Sources: from,
		Resolve: func(ctx context.Context, run *rendering.Run[Content]) *plan.Problem {
			return resolving{bases: s.settings.RemoteBases, values: values, run: run, workers: s.settings.Workers}.resolve(ctx, cr)
		},
		Render: func(ctx context.Context, run rendering.Run[Content]) *plan.Problem {
			return s.render(ctx, cr, values, run)
		},
	}
}

// subjectOf is a KfDef as what is rendered.
func subjectOf(cr *kubeflowv1.KfDef) rendering.Subject {
	return rendering.Subject{NamespacedName: client.ObjectKeyFromObject(cr), UID: cr.UID}
}

// render renders the applications whose addresses were resolved. Of one that fails, what was rendered before stands.
func (s *system) render(ctx context.Context, cr *kubeflowv1.KfDef, values variables, run rendering.Run[Content]) *plan.Problem {
	out := &run.Result.Content
	out.Spec = cr.Spec.Applications
	in := inputOf(cr, values, treesOf(&run), s.settings.Workers)
	in.Rendering = kustomize.Rendering(out.Rendering)
	all, err := kustomize.Render(ctx, in)
	if err != nil {
		return notRendered(err)
	}
	told := bounded.Share{}
	for i, rendered := range all {
		one := Application{Name: rendered.Name, Namespace: out.Spec[i].Namespace, Health: rendering.HealthOf(out.Spec[i].Observation)}
		if problem, bad := out.Unresolved[i]; bad {
			problem.Field = ""
			rendered.Err = problem
		}
		objects, warnings, err := rendered.Objects, bounded.Warnings{}, rendered.Err
		if err == nil {
			objects, warnings, err = run.ConvertAll(objects)
		}
		if err != nil {
			before := standing(run.Last, rendered.Name)
			objects, one.Namespace = before.Objects, before.Namespace
			one.Error, run.Result.Incomplete = err.Error(), true
			noteLimit(run.Result, err)
		}
		rendered.Warnings.Join(warnings)
		one.Objects, one.Warnings = objects, told.Take(rendered.Warnings)
		out.Applications = append(out.Applications, one)
		run.Result.Bytes += worker.InMemory(objects) + bounded.InMemoryOfTexts(one.Warnings.Texts...) + bounded.InMemoryOfTexts(one.Error)
	}
	return nil
}

// noteLimit has the retry of a result render anew where a bound on time or memory ended an application: on a machine that is less busy, the
// same inputs may render.
func noteLimit(result *Result, err error) {
	if errors.As(err, new(*worker.LimitError)) {
		result.Volatile = true
	}
}

// notRendered is the problem of a KfDef that nobody could render now.
func notRendered(err error) *plan.Problem {
	out := &plan.Problem{
		Class: plan.Waiting, Reason: plan.ReasonFetching, Field: "spec.applications", Message: err.Error(), Remedy: "nothing to do",
	}
	if errors.As(err, new(*worker.KilledError)) {
		out.Remedy = worker.KilledRemedy
	}
	return out
}

// standing is an application as a result has it; empty where it has none of that name.
func standing(result *Result, application string) Application {
	if result != nil {
		for _, a := range result.Content.Applications {
			if a.Name == application {
				return a
			}
		}
	}
	return Application{}
}

// inputOf is what the rendering of a KfDef depends on.
func inputOf(cr *kubeflowv1.KfDef, values variables, trees map[string]fs.FS, workers *worker.Pool) kustomize.Input {
	in := kustomize.Input{
		Name: cr.Name, Namespace: cr.Namespace, UID: string(cr.UID), Repos: trees, KfctlRan: slices.Contains(cr.Finalizers, finalizer),
		Workers: workers,
	}
	for i, a := range cr.Spec.Applications {
		one := kustomize.Application{Name: a.Name, Adjustments: adjustmentsOf(a, values[i])}
		for _, i := range a.Images {
			one.Images = append(one.Images, kustomize.Image{Name: i.Name, NewName: i.NewName, NewTag: i.NewTag, Digest: i.Digest})
		}
		if c := a.KustomizeConfig; c != nil {
			one.HasConfig, one.Overlays = true, c.Overlays
			for _, p := range c.Parameters {
				one.Parameters = append(one.Parameters, kustomize.Parameter{Name: p.Name, Value: p.Value})
			}
			if c.RepoRef != nil {
				one.HasRepoRef, one.Repo, one.Path = true, c.RepoRef.Name, c.RepoRef.Path
			}
		}
		in.Applications = append(in.Applications, one)
	}
	return in
}

// definitions is the kind of a CustomResourceDefinition.
var definitions = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// SamePlan implements controller.PlanCache.
func (s *system) SamePlan(before, now Facts) bool {
	return before.Result == now.Result && before.Pending == now.Pending && before.Current == now.Current && before.Problem == now.Problem &&
		before.ActAs == now.ActAs && before.Awaited == now.Awaited && maps.Equal(before.Namespaced, now.Namespaced)
}

// scopes adds what the CustomResourceDefinitions of the applications say of kinds that are not served yet.
func scopes(result *Result, namespaced map[schema.GroupKind]bool) {
	for _, a := range result.Content.Applications {
		for _, o := range a.Objects {
			if o.GroupVersionKind().GroupKind() != definitions {
				continue
			}
			scope, _, _ := unstructured.NestedString(o.Object, "spec", "scope")
			gk := plan.DefinedBy(o)
			if _, known := namespaced[gk]; !known {
				namespaced[gk] = scope == "Namespaced"
			}
		}
	}
}
