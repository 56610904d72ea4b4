package kubeflow

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/convert"
	"mlkeeper.dev/internal/manifest/kustomize"
	"mlkeeper.dev/internal/source"
)

// question fetches the repositories, renders the applications, and converts what the cluster does not serve. What was rendered
// before stands where that fails, and where the repositories give the same for the same inputs.
func (s *system) question(
	cr *kubeflowv1.KfDef, from []repo, q asked, serves func(schema.GroupVersionKind) bool,
) controller.Question {
	return func(ctx context.Context, _ controller.Live) any {
		answer := s.ask(ctx, cr, from, q.inputs, serves)
		s.last.Put(ctx, client.ObjectKeyFromObject(cr), q, answer)
		return answer
	}
}

func (s *system) ask(
	ctx context.Context, cr *kubeflowv1.KfDef, from []repo, inputs string, serves func(schema.GroupVersionKind) bool,
) *Answer {
	before, _ := s.before(cr)
	out := &Answer{Inputs: inputs, Spec: cr.Spec.Applications}
	trees := map[string]fs.FS{}
	for _, o := range from {
		artifact, err := o.Fetch(ctx, s.settings.Sources)
		if err != nil {
			return before.with(failureOf(o, err))
		}
		defer artifact.Close()
		trees[o.name] = artifact.FS()
		out.Repos = append(out.Repos, Repo{Name: o.name, Digest: artifact.Digest})
		if artifact.Stale != nil {
			out.Failure = failureOf(o, artifact.Stale)
		}
	}
	if before != nil && before.Inputs == inputs && slices.Equal(before.Repos, out.Repos) && !before.outdated(serves) {
		return before.with(out.Failure)
	}
	for _, rendered := range kustomize.Render(inputOf(cr, trees)) {
		out.Applications = append(out.Applications, applicationOf(serves, rendered))
	}
	out.keep(before)
	return out
}

// before is the last answer for a KfDef, to whatever spec, and what it was asked with; nil where there is none.
func (s *system) before(cr *kubeflowv1.KfDef) (*Answer, asked) {
	before, note := s.last.Get(client.ObjectKeyFromObject(cr))
	if note.uid != cr.UID {
		return nil, asked{}
	}
	return before, note
}

// Forget implements controller.Forgetful.
func (s *system) Forget(key types.NamespacedName) {
	s.last.Forget(func(of types.NamespacedName) bool { return of == key })
}

// failureOf tells why a repository could not be fetched.
func failureOf(o repo, err error) *Failure {
	f := &Failure{Transient: true, Reason: source.ReasonUnreachable, Field: o.Field + ".uri", Value: o.name, Message: err.Error()}
	var fetch *source.Error
	if errors.As(err, &fetch) {
		f.Transient = fetch.Class == source.Transient
		f.Reason, f.Message, f.Remedy = fetch.Reason, fetch.Message, fetch.Remedy
	}
	return f
}

// inputOf is what the rendering of a KfDef depends on.
func inputOf(cr *kubeflowv1.KfDef, trees map[string]fs.FS) kustomize.Input {
	in := kustomize.Input{Name: cr.Name, Namespace: cr.Namespace, UID: string(cr.UID), Repos: trees}
	for _, a := range cr.Spec.Applications {
		one := kustomize.Application{Name: a.Name}
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

// applicationOf converts what was rendered.
func applicationOf(serves func(schema.GroupVersionKind) bool, rendered kustomize.Rendered) Application {
	out := Application{Name: rendered.Name, Warnings: rendered.Warnings, Depends: convert.Depends{}}
	if rendered.Err != nil {
		out.Error = rendered.Err.Error()
		return out
	}
	converter := convert.Converter{Served: out.Depends.Record(serves)}
	objects, warnings := converter.ConvertAll(rendered.Objects)
	out.Objects, out.Warnings = objects, append(out.Warnings, warnings...)
	return out
}

// definitions is the kind of a CustomResourceDefinition.
var definitions = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// SamePlan implements controller.Steady.
func (s *system) SamePlan(before, now Facts) bool {
	return before.Answer == now.Answer && before.Pending == now.Pending && before.ActAs == now.ActAs && maps.Equal(before.Namespaced, now.Namespaced)
}

// scopes adds what the CustomResourceDefinitions of the applications say of kinds that are not served yet.
func scopes(answer *Answer, namespaced map[schema.GroupKind]bool) {
	for _, a := range answer.Applications {
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
