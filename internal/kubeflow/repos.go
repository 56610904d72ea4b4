package kubeflow

import (
	"context"
	"fmt"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/origin"
	"mlkeeper.dev/internal/rendering"
	"mlkeeper.dev/internal/source"
)

// reposOf reads what the repositories of a KfDef refer to in its namespace, with the rights of a user.
func reposOf(ctx context.Context, read controller.Reader, cr *kubeflowv1.KfDef, user string) ([]rendering.Source, error) {
	out := make([]rendering.Source, 0, len(cr.Spec.Repos))
	for i, r := range cr.Spec.Repos {
		field := fmt.Sprintf("spec.repos[%d]", i)
		one := rendering.Source{Name: r.Name, Origin: origin.Origin{
			Field: field + ".uri", User: user, Request: source.Request{URI: r.URI, Before: true},
		}}
		if err := one.ReadArchive(ctx, read, cr.Namespace, one.Field, r.URI); err != nil {
			return nil, err
		}
		if err := one.ReadSecret(ctx, read, cr.Namespace, field+".secretName", r.SecretName); err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}
