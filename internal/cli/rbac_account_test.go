package cli

import (
	"context"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
)

// rbacKind is a kind of RBAC.
func rbacKind(kind string) schema.GroupVersionKind { return rbacv1.SchemeGroupVersion.WithKind(kind) }

// actingController applies what its custom resource brings as a ServiceAccount, and reads a Secret with its rights.
func actingController(objects ...*unstructured.Unstructured) fakeController {
	return fakeController{
		rules: controller.ActingRules("TrustyAIService", "objects"),
		render: func(read controller.Reader, cr *v1.TrustyAIService) (plan.Plan, error) {
			if _, err := read.ReferencedAs(context.Background(), "", secretGVK, cr.Namespace, "credentials"); err != nil {
				return plan.Plan{}, err
			}
			stage := plan.Stage{Name: "all"}
			for _, o := range objects {
				stage.Objects = append(stage.Objects, plan.Object{Desired: o})
			}
			return plan.Plan{Stages: []plan.Stage{stage}}, nil
		},
	}
}

// TestRolesOfAServiceAccount: the roles cover what is applied and read, and what the API server asks of those who write roles.
func TestRolesOfAServiceAccount(t *testing.T) {
	get := map[string]any{"apiGroups": []any{""}, "resources": []any{"pods"}, "verbs": []any{"get"}}
	urls := map[string]any{"nonResourceURLs": []any{"/metrics"}, "verbs": []any{"get"}}
	ref := func(kind, name string) map[string]any {
		return map[string]any{"apiGroup": rbacv1.GroupName, "kind": kind, "name": name}
	}
	c := actingController(
		object(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, "", "created", nil),
		object(deployGVK, "models", "server", nil), object(configGVK, "models", "a", nil), object(secretGVK, "models", "b", nil),
		object(configGVK, "created", "a", nil), object(configGVK, "existing", "a", nil),
		object(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, "", "oxen.example.com", map[string]any{
			"spec": map[string]any{"group": "example.com", "names": map[string]any{"kind": "Ox", "plural": "oxen"}},
		}),
		object(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Ox"}, "models", "first", nil),
		object(rbacKind("Role"), "models", "reader", map[string]any{"rules": []any{get}}),
		object(rbacKind("ClusterRole"), "", "scraper", map[string]any{"rules": []any{urls}}),
		object(rbacKind("ClusterRole"), "", "collected", map[string]any{"aggregationRule": map[string]any{"clusterRoleSelectors": []any{}}}),
		object(rbacKind("RoleBinding"), "models", "viewers", map[string]any{"roleRef": ref("ClusterRole", "view")}),
		object(rbacKind("ClusterRoleBinding"), "", "scrapers", map[string]any{"roleRef": ref("ClusterRole", "scraper")}),
	)
	stdout, _, err := run(t, NewRBACCommand(environment(c, nil)), manifest, "-f", "-", "-n", "models")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "rbac-account.golden.yaml", stdout)
	other, _, err := run(t, NewRBACCommand(environment(c, nil)), manifest, "-f", "-", "-n", "models", "--service-account", "deployer")
	want := strings.NewReplacer("name: mlkeeper\n", "name: deployer\n", "  - mlkeeper\n", "  - deployer\n").Replace(stdout)
	if err != nil || other != want {
		t.Errorf("with another ServiceAccount, it prints %v\n%s", err, other)
	}
}

func TestRolesThatCannotBePrinted(t *testing.T) {
	failing := actingController()
	failing.render = func(controller.Reader, *v1.TrustyAIService) (plan.Plan, error) {
		return plan.Plan{}, plan.Problem{Class: plan.Waiting, Reason: "SecretNotFound", Message: "there is no Secret", Remedy: "create it"}
	}
	for name, one := range map[string]struct {
		controller fakeController
		args       []string
		want       string
	}{
		"a kind that the operator writes itself": {fakeController{}, nil, "mlkeeper rbac --controller trustyai"},
		"what cannot be rendered":                {failing, nil, "there is no Secret"},
		"roles of the operator beside it":        {actingController(), []string{"--engine"}, "leave one of them out"},
		"an operator without a namespace":        {actingController(), []string{"--operator", "manager"}, "use NAMESPACE/NAME"},
	} {
		stdout, _, err := run(t, NewRBACCommand(environment(one.controller, nil)), manifest, append([]string{"-f", "-"}, one.args...)...)
		if err == nil || !strings.Contains(err.Error(), one.want) || stdout != "" {
			t.Errorf("%s: %v\n%s", name, err, stdout)
		}
	}
}

// TestRolesForANamespace: without a file, the operator may act as the ServiceAccounts of the namespace, and the tenant's has the role edit
// there.
func TestRolesForANamespace(t *testing.T) {
	stdout, _, err := run(t, NewRBACCommand(environment(actingController(), nil)), "", "--namespace", "team-a", "--operator", "ops/manager")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "rbac-namespace.golden.yaml", stdout)
	for name, one := range map[string]struct {
		controller fakeController
		args       []string
		want       string
	}{
		"a controller that writes itself": {fakeController{}, []string{"--controller", "trustyai"}, "leave --namespace out"},
		"a controller that is not there":  {actingController(), []string{"--controller", "x"}, "there are trustyai"},
		"a role of all namespaces":        {actingController(), []string{"--kinds"}, "leave one of them out"},
	} {
		stdout, _, err := run(t, NewRBACCommand(environment(one.controller, nil)), "", append([]string{"-n", "team-a"}, one.args...)...)
		if err == nil || !strings.Contains(err.Error(), one.want) || stdout != "" {
			t.Errorf("%s: %v\n%s", name, err, stdout)
		}
	}
}

// TestNamesOfPrintedRolesDiffer: two custom resources have roles of their own, also in namespaces whose names and theirs join to the same
// text, and where they use one ServiceAccount.
func TestNamesOfPrintedRolesDiffer(t *testing.T) {
	names := map[string]bool{}
	for _, stack := range []plan.Stack{
		{Controller: "kubeflow", Namespace: "a", Name: "b.c"},
		{Controller: "kubeflow", Namespace: "a-b", Name: "c"},
		{Controller: "kubeflow", Namespace: "a", Name: "b-c"},
		{Controller: "seldon", Namespace: "a", Name: "b-c"},
	} {
		stage := plan.Stage{Objects: []plan.Object{{Desired: object(configGVK, "others", "a", nil)}}}
		r := rendered{stack: stack, plan: plan.Plan{Stages: []plan.Stage{stage}}}
		ofOperator, err := operatorRoles(r, "mlkeeper", serviceAccount{"ops", "manager"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ofAccount, err := accountRoles(r, "mlkeeper")
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range append(ofOperator, ofAccount...) {
			if !strings.HasSuffix(o.GetKind(), "Role") {
				continue
			}
			key := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
			if names[key] {
				t.Errorf("two custom resources have the %s", key)
			}
			names[key] = true
		}
	}
	if len(names) != 8 {
		t.Errorf("the roles are %v", names)
	}
}
