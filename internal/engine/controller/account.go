package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/internal/engine/plan"
)

// Account is a ServiceAccount with whose rights a controller that applies what users bring writes.
type Account struct {
	// Name is the one that the custom resource names; empty for none.
	Name string
	// Default is the one, of its own namespace, of a custom resource that names none; empty for none.
	Default string
	// Trusted has the operator's own rights used where the custom resource names no ServiceAccount.
	Trusted bool
	// DryRun says that nothing is written, so that nobody's rights are needed.
	DryRun bool
	// OperatorNamespace is the namespace of the operator, whose ServiceAccounts nobody acts as; empty where it is not known.
	OperatorNamespace string
}

// systemNamespaces are those of the control plane, with ServiceAccounts that may do everything.
var systemNamespaces = []string{metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}

// The reasons of an account that cannot be used, stable across releases.
const (
	ReasonServiceAccountRequired = "ServiceAccountRequired"
	ReasonServiceAccountNotFound = "ServiceAccountNotFound"
	ReasonServiceAccountRefused  = "ServiceAccountRefused"
)

var serviceAccounts = schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}

// User is the user to write as; empty for the operator itself.
func (a Account) User(ctx context.Context, read Reader, kind string, cr client.Object) (string, error) {
	name, field, namespace := a.Name, "spec.serviceAccountName", cr.GetNamespace()
	if a.DryRun || name == "" && a.Trusted {
		return "", nil
	}
	if name == "" {
		name, field = a.Default, "--default-service-account"
	}
	if name == "" {
		return "", plan.Problem{
			Class: plan.Terminal, Reason: ReasonServiceAccountRequired, Field: "spec.serviceAccountName",
			Message: "no ServiceAccount is named whose rights the objects are written with",
			Remedy: fmt.Sprintf("make one with the rights that the objects need, and name it: %[4]s; "+
				`kubectl patch %[3]s %[2]s -n %[1]s --type=merge -p '{"spec":{"serviceAccountName":"mlkeeper"}}'`,
				namespace, cr.GetName(), strings.ToLower(kind), rolesCommand(kind, cr, "mlkeeper")),
		}
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		// The name is a text of the author of the custom resource, and the remedies below have commands that an administrator runs.
		return "", plan.Problem{
			Class: plan.Terminal, Reason: ReasonServiceAccountNotFound, Field: field, Value: name,
			Message: "there can be no ServiceAccount of this name", Remedy: "name one of namespace " + namespace,
		}
	}
	if slices.Contains(systemNamespaces, namespace) || namespace == a.OperatorNamespace {
		return "", plan.Problem{
			Class: plan.Terminal, Reason: ReasonServiceAccountRefused, Field: field, Value: name,
			Message: "the ServiceAccounts of namespace " + namespace + " belong to the control plane or to MLKeeper, and nothing is applied with their rights",
			Remedy:  "create the " + kind + " in another namespace",
		}
	}
	found, err := read.Referenced(ctx, serviceAccounts, namespace, name)
	if err != nil {
		return "", err
	}
	if found == nil {
		return "", plan.Problem{
			Class: plan.Waiting, Reason: ReasonServiceAccountNotFound, Field: field, Value: name,
			Message: "there is no ServiceAccount of this name in namespace " + namespace,
			Remedy:  "make it with the rights that the objects need: " + rolesCommand(kind, cr, name),
		}
	}
	return "system:serviceaccount:" + namespace + ":" + name, nil
}

// rolesCommand is the command that makes a ServiceAccount with the rights that a custom resource needs.
func rolesCommand(kind string, cr client.Object, account string) string {
	return fmt.Sprintf(`kubectl get %s %s -n %s -o yaml | mlkeeper rbac -f - --service-account %s --context "$(kubectl config current-context)" | kubectl apply -f -`,
		strings.ToLower(kind), cr.GetName(), cr.GetNamespace(), account)
}

// ActingRules are the rights of a controller that acts as ServiceAccounts: kind is that of its custom resources, brings what users
// bring with them, such as applications or charts. The right to watch the kinds of what they bring is granted by label.
func ActingRules(kind, brings string) []Rule {
	read := []string{"get", "list", "watch"}
	return []Rule{
		{
			Group: "", Resources: []string{"serviceaccounts"}, Verbs: []string{"impersonate"}, PerNamespace: true,
			Why: "The " + brings + " are written as a ServiceAccount of the " + kind + "'s namespace.",
		},
		{
			Group: "", Resources: []string{"configmaps", "secrets", "serviceaccounts"}, Verbs: read, PerNamespace: true,
			Why: "What a " + kind + " names is watched, so that changes take effect; its content is read as the ServiceAccount.",
		},
		{
			Group: "", Resources: []string{"namespaces"}, Verbs: []string{"get"},
			Why: "A Namespace of the " + brings + " is deleted with the " + kind + " if nothing of others is in it.",
		},
		{
			Group: "admissionregistration.k8s.io", Resources: []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"},
			Verbs: []string{"list"},
			Why:   "Webhooks that call what the " + brings + " ran are deleted before it, also those that it registered itself.",
		},
	}
}
