package kubeflow

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/engine/room"
	"mlkeeper.dev/internal/manifest/convert"
	"mlkeeper.dev/internal/manifest/kustomize"
	"mlkeeper.dev/internal/source"
)

// question fetches the repositories, renders the applications, and converts what the cluster does not serve.
func (s *system) question(cr *kubeflowv1.KfDef, serves func(schema.GroupVersionKind) bool) room.Question {
	return func(ctx context.Context, _ room.Live) any {
		out := &Answer{}
		trees := map[string]fs.FS{}
		for i, r := range cr.Spec.Repos {
			artifact, err := s.settings.Sources.Fetch(ctx, source.Request{URI: r.URI})
			if err != nil {
				return &Answer{Failure: failureOf(fmt.Sprintf("spec.repos[%d].uri", i), r.Name, err)}
			}
			defer artifact.Close()
			trees[r.Name] = artifact.FS()
			out.Repos = append(out.Repos, Repo{Name: r.Name, Digest: artifact.Digest})
		}
		converter := convert.Converter{Served: serves}
		for _, rendered := range kustomize.Render(inputOf(cr, trees)) {
			out.Applications = append(out.Applications, applicationOf(converter, rendered))
		}
		return out
	}
}

// failureOf tells why a repository could not be fetched.
func failureOf(field, name string, err error) *Failure {
	f := &Failure{Transient: true, Reason: source.ReasonUnreachable, Field: field, Value: name, Message: err.Error()}
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

// applicationOf converts what was rendered. An object that cannot be converted is left out with a warning, since the
// others do not depend on it more than on any that waits.
func applicationOf(converter convert.Converter, rendered kustomize.Rendered) Application {
	out := Application{Name: rendered.Name, Warnings: rendered.Warnings}
	if rendered.Err != nil {
		out.Error = rendered.Err.Error()
		return out
	}
	for _, o := range rendered.Objects {
		converted, warnings, err := converter.Convert(o)
		if err != nil {
			out.Warnings = append(out.Warnings, fmt.Sprintf("%s %s is left out: %v", o.GetKind(), o.GetName(), err))
			continue
		}
		out.Warnings = append(out.Warnings, warnings...)
		if converted != nil {
			out.Objects = append(out.Objects, converted)
		}
	}
	return out
}

// definitions is the kind of a CustomResourceDefinition.
var definitions = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// scopes adds what the CustomResourceDefinitions of the applications say of kinds that are not served yet.
func scopes(answer *Answer, namespaced map[schema.GroupKind]bool) {
	for _, a := range answer.Applications {
		for _, o := range a.Objects {
			if o.GroupVersionKind().GroupKind() != definitions {
				continue
			}
			group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
			scope, _, _ := unstructured.NestedString(o.Object, "spec", "scope")
			gk := schema.GroupKind{Group: group, Kind: kind}
			if _, known := namespaced[gk]; !known {
				namespaced[gk] = scope == "Namespaced"
			}
		}
	}
}
