package kubeflow

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/kustomize"
	"mlkeeper.dev/internal/origin"
	"mlkeeper.dev/internal/rendering"
)

// variables are the values that post-build substitution takes from objects, by the place of the application.
type variables map[int]map[string]string

// maxVariables bounds the names and values that a KfDef reads, in bytes, those of an object once for each application that names it: so
// often they are in the manager's memory.
const maxVariables = 8 << 20

// variablesOf reads the ConfigMaps and Secrets that the applications name, with the rights of a user.
func variablesOf(ctx context.Context, read controller.Reader, cr *kubeflowv1.KfDef, user string) (variables, error) {
	out, size := variables{}, 0
	for i, a := range cr.Spec.Applications {
		if a.PostBuild == nil {
			continue
		}
		out[i] = map[string]string{}
		for j, from := range a.PostBuild.SubstituteFrom {
			field := fmt.Sprintf("spec.applications[%d].postBuild.substituteFrom[%d]", i, j)
			gvk := schema.GroupVersionKind{Version: "v1", Kind: from.Kind}
			object, err := (&origin.Origin{User: user}).Referenced(ctx, read, gvk, cr.Namespace, from.Name, field)
			var problem plan.Problem
			if from.Optional && errors.As(err, &problem) && problem.Reason == from.Kind+"NotFound" {
				continue
			}
			if err != nil {
				return nil, err
			}
			data, _, _ := unstructured.NestedMap(object.Object, "data")
			for key := range data {
				if value, is := origin.Text(object, key); is {
					out[i][key] = value
					size += len(key) + len(value)
				}
			}
			if size > maxVariables {
				return nil, plan.Problem{
					Class: plan.Terminal, Reason: reasonApplicationFailed, Field: field, Value: from.Name,
					Message: fmt.Sprintf("with it, what the applications read has more than %d MiB, an object counted once for each of them",
						maxVariables>>20),
					Remedy: "name objects that have the variables alone",
				}
			}
		}
		maps.Copy(out[i], a.PostBuild.Substitute)
	}
	return out, nil
}

// adjustmentsOf is what a KfDef changes in what an application renders.
func adjustmentsOf(a kubeflowv1.Application, substitute map[string]string) kustomize.Adjustments {
	out := rendering.AdjustmentsOf(a.Patches, a.CommonMetadata)
	out.TargetNamespace, out.NamePrefix, out.NameSuffix, out.Substitute = a.TargetNamespace, a.NamePrefix, a.NameSuffix, substitute
	if a.KustomizeConfig != nil {
		out.Components = a.KustomizeConfig.Components
	}
	return out
}
