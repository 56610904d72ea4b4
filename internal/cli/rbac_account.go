package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
)

// accountVerbs are what the operator does as a ServiceAccount with an object that it applies. It watches with its own rights.
var accountVerbs = []string{"create", "delete", "get", "patch"}

// printAccountRoles prints what the ServiceAccounts of the custom resources of a file need, and what the operator needs to use them.
func printAccountRoles(cmd *cobra.Command, env Environment, f renderFlags, g grantee) error {
	operator, err := g.operatorAccount()
	if err != nil {
		return err
	}
	all, w, err := renderAll(cmd, env, f)
	if err != nil {
		return err
	}
	var out []*unstructured.Unstructured
	for _, r := range all {
		if !r.acts {
			return fmt.Errorf("%s %s: MLKeeper writes its children with its own rights, which `mlkeeper rbac --controller %s` prints; "+
				"leave it out", r.stack.GVK.Kind, r.stack.Name, r.stack.Controller)
		}
		if len(r.plan.Stages) == 0 && len(r.plan.Problems) > 0 {
			return fmt.Errorf("%s %s cannot be rendered: %w", r.stack.GVK.Kind, r.stack.Name, r.plan.Problems[0])
		}
		account := cmp.Or(r.account, g.account)
		objects, err := accountRoles(r, account)
		if err != nil {
			return err
		}
		own, err := operatorRoles(r, account, operator, w.namespacedKinds())
		if err != nil {
			return err
		}
		out = append(out, append(objects, own...)...)
	}
	for _, u := range out {
		if err := printDocument(cmd.OutOrStdout(), u, nil); err != nil {
			return err
		}
	}
	return printMessages(cmd.ErrOrStderr(), all, w.exists())
}

// roleName names the roles of one custom resource. No name of a namespace has a dot, so the names of two custom resources differ, and a
// role of one is not written over by that of another, also where both use one ServiceAccount.
func roleName(prefix string, stack plan.Stack) string {
	return prefix + "." + stack.Controller + "." + stack.Namespace + "." + stack.Name
}

// grants collects the rules that a ServiceAccount needs, by namespace; those in none are of the whole cluster.
type grants map[string][]rbacv1.PolicyRule

func (g grants) add(namespace string, rule rbacv1.PolicyRule) {
	if !slices.ContainsFunc(g[namespace], func(other rbacv1.PolicyRule) bool { return reflect.DeepEqual(rule, other) }) {
		g[namespace] = append(g[namespace], rule)
	}
}

// accountRoles are the ServiceAccount of a custom resource with the roles that cover everything it has applied, and their bindings. A
// namespace that the custom resource creates is among them, since a Role can only be in one that exists.
func accountRoles(r rendered, account string) ([]*unstructured.Unstructured, error) {
	given, plurals, created := grants{}, pluralsOf(r.plan), map[string]bool{}
	for _, stage := range r.plan.Stages {
		for _, o := range stage.Objects {
			key := o.Key()
			created[key.Name] = created[key.Name] || key.GroupKind == schema.GroupKind{Kind: "Namespace"}
			given.add(key.Namespace, rbacv1.PolicyRule{
				APIGroups: []string{key.Group}, Resources: []string{plurals.of(o.Desired.GroupVersionKind())}, Verbs: accountVerbs,
			})
			if err := given.cover(o.Desired); err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	for _, key := range r.referenced {
		given.add(key.Namespace, rbacv1.PolicyRule{
			APIGroups: []string{key.Group}, Resources: []string{plurals.of(key.WithVersion(""))}, ResourceNames: []string{key.Name},
			Verbs: []string{"get"},
		})
	}
	var out []*unstructured.Unstructured
	for _, namespace := range sortedKeys(given) {
		if namespace != "" && (created[namespace] || namespace == r.stack.Namespace) {
			out = append(out, kindOf("v1", "Namespace", "", namespace))
		}
	}
	out = append(out, kindOf("v1", "ServiceAccount", r.stack.Namespace, account))
	name, subject := roleName("mlkeeper", r.stack), serviceAccount{r.stack.Namespace, account}
	for _, namespace := range sortedKeys(given) {
		role, err := roleAndBinding(namespace, name, subject, merged(given[namespace]))
		if err != nil {
			return nil, err
		}
		out = append(out, role...)
	}
	return out, nil
}

// cover adds what the API server asks of those who write roles and bindings: the rights that a role grants, and the right to bind the role
// of a binding. A ClusterRole that collects the rules of others can only be written by those who may grant anything.
func (g grants) cover(o *unstructured.Unstructured) error {
	if o.GroupVersionKind().Group != rbacv1.GroupName {
		return nil
	}
	convert := runtime.DefaultUnstructuredConverter
	switch o.GetKind() {
	case "Role", "ClusterRole":
		var role rbacv1.ClusterRole
		if err := convert.FromUnstructured(o.Object, &role); err != nil {
			return err
		}
		if role.AggregationRule != nil {
			g.add("", rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, Verbs: []string{"escalate"}})
			return nil
		}
		for _, rule := range role.Rules {
			g.add(o.GetNamespace(), rule)
		}
	case "RoleBinding", "ClusterRoleBinding":
		var binding rbacv1.ClusterRoleBinding
		if err := convert.FromUnstructured(o.Object, &binding); err != nil {
			return err
		}
		g.add(o.GetNamespace(), rbacv1.PolicyRule{
			APIGroups: []string{rbacv1.GroupName}, Resources: []string{strings.ToLower(binding.RoleRef.Kind) + "s"},
			ResourceNames: []string{binding.RoleRef.Name}, Verbs: []string{"bind"},
		})
	}
	return nil
}

// merged joins the rules on objects of a plan that differ in their group or resource only.
func merged(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for _, rule := range rules {
		at := slices.IndexFunc(out, func(other rbacv1.PolicyRule) bool {
			return len(rule.ResourceNames)+len(other.ResourceNames)+len(rule.NonResourceURLs)+len(other.NonResourceURLs) == 0 &&
				slices.Equal(rule.APIGroups, other.APIGroups) && slices.Equal(rule.Verbs, other.Verbs)
		})
		if at < 0 {
			out = append(out, *rule.DeepCopy())
			continue
		}
		out[at].Resources = append(out[at].Resources, rule.Resources...)
		slices.Sort(out[at].Resources)
		out[at].Resources = slices.Compact(out[at].Resources)
	}
	slices.SortStableFunc(out, func(a, b rbacv1.PolicyRule) int {
		return cmp.Or(slices.Compare(a.APIGroups, b.APIGroups), slices.Compare(a.Resources, b.Resources), slices.Compare(a.Verbs, b.Verbs))
	})
	return out
}

// roleAndBinding are a Role with its RoleBinding, or a ClusterRole with its ClusterRoleBinding where there is no namespace.
func roleAndBinding(namespace, name string, subject serviceAccount, rules []rbacv1.PolicyRule) ([]*unstructured.Unstructured, error) {
	kind := "Role"
	if namespace == "" {
		kind = "ClusterRole"
	}
	role, err := roleWith(kind, namespace, name, rules)
	if err != nil {
		return nil, err
	}
	return []*unstructured.Unstructured{role, bindingTo(kind, name, namespace, name, subject)}, nil
}

// roleWith is a Role or a ClusterRole.
func roleWith(kind, namespace, name string, rules []rbacv1.PolicyRule) (*unstructured.Unstructured, error) {
	role := kindOf(rbacv1.SchemeGroupVersion.String(), kind, namespace, name)
	var list []any
	for i := range rules {
		rule, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&rules[i])
		if err != nil {
			return nil, err
		}
		list = append(list, rule)
	}
	role.Object["rules"] = list
	return role, nil
}

// bindingTo binds a role of a kind in a namespace, or in all where there is none.
func bindingTo(kind, role, namespace, name string, subject serviceAccount) *unstructured.Unstructured {
	bindingKind := "RoleBinding"
	if namespace == "" {
		bindingKind = "ClusterRoleBinding"
	}
	binding := kindOf(rbacv1.SchemeGroupVersion.String(), bindingKind, namespace, name)
	binding.Object["roleRef"] = map[string]any{"apiGroup": rbacv1.GroupName, "kind": kind, "name": role}
	binding.Object["subjects"] = []any{map[string]any{"kind": rbacv1.ServiceAccountKind, "name": subject.name, "namespace": subject.namespace}}
	return binding
}

func kindOf(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// plurals are the resources of the kinds that a plan defines.
type plurals map[schema.GroupKind]string

func pluralsOf(p plan.Plan) plurals {
	out := plurals{}
	for _, stage := range p.Stages {
		for _, o := range stage.Objects {
			if o.Key().Kind != "CustomResourceDefinition" {
				continue
			}
			text := func(fields ...string) string {
				value, _, _ := unstructured.NestedString(o.Desired.Object, fields...)
				return value
			}
			out[schema.GroupKind{Group: text("spec", "group"), Kind: text("spec", "names", "kind")}] = text("spec", "names", "plural")
		}
	}
	return out
}

func (p plurals) of(gvk schema.GroupVersionKind) string {
	return cmp.Or(p[gvk.GroupKind()], resourceOf(gvk))
}

// noting notes what a controller reads with the rights of the ServiceAccount.
type noting struct {
	controller.Reader
	keys *[]plan.Key
}

// ReferencedAs implements controller.Reader.
func (n noting) ReferencedAs(
	ctx context.Context, user string, gvk schema.GroupVersionKind, namespace, name string,
) (*unstructured.Unstructured, error) {
	*n.keys = append(*n.keys, plan.Key{GroupKind: gvk.GroupKind(), Namespace: namespace, Name: name})
	return n.Reader.ReferencedAs(ctx, user, gvk, namespace, name)
}

// actsAsServiceAccount says that a controller writes with the rights of a ServiceAccount that the custom resource names.
func actsAsServiceAccount(r controller.Any) bool {
	return slices.ContainsFunc(r.Rules(), func(rule controller.Rule) bool { return slices.Contains(rule.Verbs, "impersonate") })
}

// errFileWithRoles is returned for flags that exclude each other.
var errFileWithRoles = errors.New("--filename prints what custom resources need, --engine, --controller and --kinds the roles of the operator: leave one of them out")
