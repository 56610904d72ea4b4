package kubeflow

import (
	"context"
	"fmt"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/origin"
	"mlkeeper.dev/internal/source"
)

// repo is a repository and where it comes from.
type repo struct {
	name string
	origin.Origin
}

// reposOf reads what the repositories of a KfDef refer to in its namespace.
func reposOf(ctx context.Context, read controller.Reader, cr *kubeflowv1.KfDef) ([]repo, error) {
	out := make([]repo, 0, len(cr.Spec.Repos))
	for i, r := range cr.Spec.Repos {
		one := repo{name: r.Name, Origin: origin.Origin{
			Field: fmt.Sprintf("spec.repos[%d]", i), Request: source.Request{URI: r.URI, Before: true},
		}}
		if err := one.ReadArchive(ctx, read, cr.Namespace, one.Field+".uri", r.URI); err != nil {
			return nil, err
		}
		if err := one.ReadSecret(ctx, read, cr.Namespace, one.Field+".secretName", r.SecretName); err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}
