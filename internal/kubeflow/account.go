package kubeflow

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/room"
)

var serviceAccounts = schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}

// actAs is the user with whose rights the objects of a KfDef are written: a ServiceAccount of its namespace, or nobody but
// the operator where an administrator trusts all authors.
func (s *system) actAs(ctx context.Context, read room.Reader, cr *kubeflowv1.KfDef) (string, error) {
	name, field := cr.Spec.ServiceAccountName, "spec.serviceAccountName"
	if s.settings.Printed || name == "" && s.settings.Trusted {
		return "", nil
	}
	if name == "" {
		name, field = s.settings.DefaultServiceAccount, "--default-service-account"
	}
	if name == "" {
		return "", plan.Problem{
			Class: plan.Terminal, Reason: reasonNotTrusted, Field: "spec.serviceAccountName",
			Message: "no ServiceAccount is named whose rights the applications are written with",
			Remedy: fmt.Sprintf("make one, grant it what the applications need, and name it: kubectl create serviceaccount mlkeeper -n %[1]s; "+
				"kubectl create clusterrolebinding mlkeeper-%[1]s-mlkeeper --clusterrole=cluster-admin --serviceaccount=%[1]s:mlkeeper; "+
				`kubectl patch kfdef %[2]s -n %[1]s --type=merge -p '{"spec":{"serviceAccountName":"mlkeeper"}}'`, cr.Namespace, cr.Name),
		}
	}
	found, err := read.Referenced(ctx, serviceAccounts, cr.Namespace, name)
	if err != nil {
		return "", err
	}
	if found == nil {
		return "", plan.Problem{
			Class: plan.Waiting, Reason: reasonNoAccount, Field: field, Value: name,
			Message: "there is no ServiceAccount of this name in namespace " + cr.Namespace,
			Remedy: fmt.Sprintf("make it and grant it what the applications need: kubectl create serviceaccount %[2]s -n %[1]s; "+
				"kubectl create clusterrolebinding mlkeeper-%[1]s-%[2]s --clusterrole=cluster-admin --serviceaccount=%[1]s:%[2]s", cr.Namespace, name),
		}
	}
	return "system:serviceaccount:" + cr.Namespace + ":" + name, nil
}
