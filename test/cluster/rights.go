package cluster

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

// The operator in config/install.yaml.
const (
	// OperatorNamespace is where it runs.
	OperatorNamespace = "mlkeeper-system"
	// OperatorAccount is the name of its ServiceAccount, and of its Deployment.
	OperatorAccount = "mlkeeper-controller-manager"
)

// effectiveTimeout is how long the API server may take until roles and bindings are in effect, on a busy machine.
const effectiveTimeout = 2 * time.Minute

// Rights say which of the roles that config/ ships an operator has.
type Rights struct {
	// Controllers name the controllers whose roles it has beside the engine's, as where the roles of other controllers are left out. With none
	// of them it is the operator of config/install.yaml, with the bindings that are there.
	Controllers []string
	// Trusted switches config/components/trusted on.
	Trusted bool
	// Least leaves out what an administrator grants for KfDefs and SeldonOperators: to act as the ServiceAccounts of every namespace, and to
	// watch every kind. An operator without it shares no cluster with one that has it, since both have the roles for kinds.
	Least bool
	// Roles are the ClusterRoles, each as YAML, of controllers that are not shipped.
	Roles []string
}

// Account is the name of the ServiceAccount of an operator with these rights.
func (r Rights) Account() string {
	parts := append([]string{OperatorAccount}, r.Controllers...)
	if r.Trusted {
		parts = append(parts, "trusted")
	}
	if r.Least {
		parts = append(parts, "least")
	}
	if len(r.Roles) > 0 {
		sum := fnv.New32a()
		_, _ = sum.Write([]byte(strings.Join(r.Roles, "\n---\n")))
		parts = append(parts, fmt.Sprintf("%08x", sum.Sum32()))
	}
	return strings.Join(parts, "-")
}

// Operator returns a configuration that reaches the cluster as the operator's ServiceAccount, with the rights that it is
// shipped with and no others. Operators with the same rights share a ServiceAccount.
func (c *Cluster) Operator(rights Rights) (*rest.Config, error) {
	c.operators.Lock()
	defer c.operators.Unlock()
	account := rights.Account()
	config, known := c.operators.configs[account]
	if !known {
		token, err := c.install(account, rights)
		if err != nil {
			return nil, fmt.Errorf("give the operator %s the rights of config/: %w", account, err)
		}
		config = rest.AnonymousClientConfig(c.Config)
		config.BearerToken, config.QPS = token, -1
		if c.operators.configs == nil {
			c.operators.configs, c.operators.rights = map[string]*rest.Config{}, map[string]Rights{}
		}
		c.operators.configs[account], c.operators.rights[account] = config, rights
	}
	return rest.CopyConfig(config), nil
}

// install applies what config/ grants an operator, and returns a token of its ServiceAccount once the rights are in effect.
func (c *Cluster) install(account string, rights Rights) (string, error) {
	objects, err := shipped(account, rights)
	if err != nil {
		return "", err
	}
	for _, u := range objects {
		if err := c.applyOne(u, OperatorNamespace); err != nil {
			return "", fmt.Errorf("apply %s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), effectiveTimeout)
	defer cancel()
	if err := c.effective(ctx, account, objects); err != nil {
		return "", err
	}
	if rights.acts() && !rights.Least {
		// The control plane adds these to the roles for kinds.
		for _, what := range []*authorizationv1.ResourceAttributes{
			{Group: "*", Resource: "*", Verb: "watch"}, {Resource: "serviceaccounts", Verb: "impersonate"}, {Resource: "secrets", Verb: "get"},
		} {
			if err := c.allowed(ctx, account, what); err != nil {
				return "", fmt.Errorf("the roles for kinds are not in effect: %w", err)
			}
		}
	}
	return c.token(ctx, OperatorNamespace, account)
}

// token asks for a token of a ServiceAccount that is valid for a day.
func (c *Cluster) token(ctx context.Context, namespace, account string) (string, error) {
	day := int64(24 * time.Hour / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day}}
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}
	err := c.Client.SubResource("token").Create(ctx, sa, request)
	return request.Status.Token, err
}

// anyKind lets an operator watch the kinds that tests bring, as an administrator does for the definitions that are in a cluster.
const anyKind = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: kinds-of-tests
  labels: {keeper.mlkeeper.dev/aggregate-to-kubeflow: "true", keeper.mlkeeper.dev/aggregate-to-seldon: "true"}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: [list, watch]}]
`

// acts says that one of the controllers applies what users bring.
func (r Rights) acts() bool {
	return slices.Contains(r.Controllers, "kubeflow") || slices.Contains(r.Controllers, "seldon")
}

// files are those of config/ with the rights of an operator.
func (r Rights) files() []string {
	out := []string{"install.yaml"}
	if slices.Contains(r.Controllers, "kserve") {
		out = append(out, "rbac/kserve/role.yaml", "rbac/kserve/binding.yaml", "rbac/kserve/payload_role.yaml")
	}
	if r.Trusted {
		out = append(out, "components/trusted/cluster_admin.yaml")
	}
	if r.acts() && !r.Least {
		out = append(out, "components/manifests/role.yaml", "components/every-namespace/role.yaml")
	}
	return out
}

// shipped are the ServiceAccount, the roles and the bindings of an operator: those of config/install.yaml and
// config/components, where the bindings of a part of the controllers name a ServiceAccount of their own.
func shipped(account string, rights Rights) ([]*unstructured.Unstructured, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	var all, out []*unstructured.Unstructured
	for _, file := range rights.files() {
		text, err := os.ReadFile(filepath.Join(root, "config", filepath.FromSlash(file)))
		if err != nil {
			return nil, err
		}
		objects, err := Parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, objects...)
	}
	if rights.acts() && !rights.Least {
		objects, err := Parse(anyKind)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	wanted := []string{"mlkeeper-leader-election", "mlkeeper-digest-key", "mlkeeper-engine", "cluster-admin"}
	for _, controller := range rights.Controllers {
		wanted = append(wanted, "mlkeeper-"+controller, "mlkeeper-"+controller+"-kinds", "mlkeeper-"+controller+"-payloads")
	}
	own, err := ownRoles(account, rights.Roles)
	if err != nil {
		return nil, err
	}
	for _, u := range own {
		wanted = append(wanted, u.GetName())
	}
	for _, u := range append(all, own...) {
		if u.GetNamespace() == "system" {
			u.SetNamespace(OperatorNamespace) // A kustomization sets it otherwise.
		}
		switch u.GetKind() {
		case "Namespace", "Role", "ClusterRole":
		case "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
			if rights.Trusted || len(rights.Roles) > 0 {
				continue
			}
			if err := policyFor(u, account); err != nil {
				return nil, err
			}
		case "ServiceAccount":
			u.SetName(account)
		case "RoleBinding", "ClusterRoleBinding":
			if account == OperatorAccount {
				break
			}
			role, _, _ := unstructured.NestedString(u.Object, "roleRef", "name")
			if len(rights.Controllers) > 0 && !slices.Contains(wanted, role) {
				continue
			}
			u.SetName(account + "-" + role)
			subject := map[string]any{"kind": "ServiceAccount", "namespace": OperatorNamespace, "name": account}
			if err := unstructured.SetNestedSlice(u.Object, []any{subject}, "subjects"); err != nil {
				return nil, err
			}
		default:
			continue
		}
		out = append(out, u)
	}
	return out, nil
}

// policyFor makes a policy of config/admission, or its binding, one for an operator with a ServiceAccount of its own.
func policyFor(u *unstructured.Unstructured, account string) error {
	if account == OperatorAccount {
		return nil
	}
	raw, err := u.MarshalJSON()
	if err != nil {
		return err
	}
	if err := u.UnmarshalJSON(bytes.ReplaceAll(raw, []byte(":"+OperatorAccount+"'"), []byte(":"+account+"'"))); err != nil {
		return err
	}
	name := strings.Replace(account, OperatorAccount, u.GetName(), 1)
	if _, found, _ := unstructured.NestedString(u.Object, "spec", "policyName"); found {
		if err := unstructured.SetNestedField(u.Object, name, "spec", "policyName"); err != nil {
			return err
		}
	}
	u.SetName(name)
	return nil
}

// ownRoles are the roles of controllers that are not shipped, under names of their own, with their bindings.
func ownRoles(account string, texts []string) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for n, text := range texts {
		objects, err := Parse(text)
		if err != nil {
			return nil, fmt.Errorf("parse a role: %w\n%s", err, text)
		}
		if len(objects) != 1 || objects[0].GetKind() != "ClusterRole" {
			return nil, fmt.Errorf("want one ClusterRole:\n%s", text)
		}
		name := fmt.Sprintf("%s-%d", account, n)
		objects[0].SetName(name)
		out = append(out, objects[0], &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": rbacv1.SchemeGroupVersion.String(), "kind": "ClusterRoleBinding", "metadata": map[string]any{},
			"roleRef": map[string]any{"apiGroup": rbacv1.GroupName, "kind": "ClusterRole", "name": name},
		}})
	}
	return out, nil
}

// effective waits until the API server knows the roles and bindings, which its authorizer reads from a watch: it asks for the
// last right of each bound role that no other role is likely to give too.
func (c *Cluster) effective(ctx context.Context, account string, objects []*unstructured.Unstructured) error {
	for _, role := range objects {
		name := role.GetName()
		if kind := role.GetKind(); kind != "Role" && kind != "ClusterRole" || !bound(objects, name) {
			continue
		}
		var known rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(role.Object, &known); err != nil {
			return err
		}
		for _, rule := range known.Rules {
			verbs := slices.DeleteFunc(slices.Clone(rule.Verbs), func(v string) bool { return v == "get" || v == "list" || v == "watch" })
			if len(verbs) == 0 || len(rule.ResourceNames) > 0 {
				continue
			}
			resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
			if err := c.allowed(ctx, account, &authorizationv1.ResourceAttributes{
				Namespace: role.GetNamespace(), Group: rule.APIGroups[0], Resource: resource, Subresource: subresource, Verb: verbs[0],
			}); err != nil {
				return fmt.Errorf("%s is not in effect: %w", name, err)
			}
		}
	}
	if bound(objects, "cluster-admin") {
		return c.allowed(ctx, account, &authorizationv1.ResourceAttributes{Group: "*", Resource: "*", Verb: "*"})
	}
	return nil
}

// bound says that a binding refers to a role.
func bound(objects []*unstructured.Unstructured, role string) bool {
	return slices.ContainsFunc(objects, func(u *unstructured.Unstructured) bool {
		name, _, _ := unstructured.NestedString(u.Object, "roleRef", "name")
		return name == role
	})
}

// allowed waits until the API server allows the operator's ServiceAccount something.
func (c *Cluster) allowed(ctx context.Context, account string, what *authorizationv1.ResourceAttributes) error {
	return c.allowedTo(ctx, userOf(account), what)
}

// AwaitAllowed waits until the API server, which reads roles and bindings from watches, allows the ServiceAccount of a namespace something.
func (c *Cluster) AwaitAllowed(t testing.TB, namespace, account string, what authorizationv1.ResourceAttributes) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), effectiveTimeout)
	defer cancel()
	if err := c.allowedTo(ctx, "system:serviceaccount:"+namespace+":"+account, &what); err != nil {
		t.Fatalf("%s/%s may not yet %+v: %v", namespace, account, what, err)
	}
}

func (c *Cluster) allowedTo(ctx context.Context, user string, what *authorizationv1.ResourceAttributes) error {
	return wait.PollUntilContextCancel(ctx, pollEvery, true, func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, ResourceAttributes: what,
		}}
		err := c.Client.Create(ctx, review)
		return review.Status.Allowed, err
	})
}

// userOf is the user name of a ServiceAccount of the operator's namespace.
func userOf(account string) string {
	return "system:serviceaccount:" + OperatorNamespace + ":" + account
}
