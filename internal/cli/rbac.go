package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/controller"
)

// Verbs of the generated roles. A child is never updated: it is created, applied, and deleted.
var (
	readVerbs   = []string{"get", "list", "watch"}
	childVerbs  = []string{"get", "list", "watch", "create", "patch", "delete"}
	statusVerbs = []string{"patch"}
	watchVerbs  = []string{"list", "watch"}
	wireVerbs   = []string{"get", "list", "watch", "update"}
)

// irregular are the resources whose names cannot be guessed from their kinds.
var irregular = map[schema.GroupKind]string{
	{Kind: "Endpoints"}: "endpoints",
	{Group: "security.openshift.io", Kind: "SecurityContextConstraints"}: "securitycontextconstraints",
}

// NewRBACCommand returns `mlkeeper rbac`.
func NewRBACCommand(env Environment) *cobra.Command {
	var names []string
	var engine, kinds bool
	g := grantee{}
	f := renderFlags{allAPIs: true}
	cmd := &cobra.Command{
		Use:   "rbac",
		Short: "Print the roles that the operator, or the ServiceAccount of a custom resource, needs",
		Long: `Print the ClusterRoles that the operator needs: one for the engine, and one for each controller from what the controller renders
and edits. Without flags all of them are printed. They are bound to the operator's service account by config/rbac, which
also has the Role for leader election.

With --filename, print what an administrator grants for KfDefs and SeldonOperators, from what would be applied: the ServiceAccount whose
rights it is applied with, its roles, and what the operator needs to act as it and to watch what it applied. The sources are fetched for
that, and a cluster is read with --kubeconfig or --context. A role covers what the applications or charts have now; print it again after
a change.

With --namespace alone, print what lets the KfDefs and SeldonOperators of a namespace work whatever they contain: what the operator
needs there, and a ServiceAccount with the role edit in this namespace.`,
		Example: `  mlkeeper rbac
  mlkeeper rbac --engine
  mlkeeper rbac --controller trustyai
  mlkeeper rbac -f kfdef.yaml --context "$(kubectl config current-context)" | kubectl apply -f -
  mlkeeper rbac --namespace team-a --controller kubeflow | kubectl apply -f -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := g.check(cmd.Flags(), len(f.files) > 0 || f.namespace != ""); err != nil {
				return err
			}
			switch {
			case len(f.files) > 0 && (len(names) > 0 || engine || kinds):
				return errFileWithRoles
			case len(f.files) > 0:
				return printAccountRoles(cmd, env, f, g)
			case f.namespace != "" && (engine || kinds):
				return errNamespaceWithRoles
			case f.namespace != "":
				return printNamespaceRoles(cmd, env.Controllers(), names, f.namespace, g)
			case kinds && (engine || len(names) > 0):
				return errKindsWithRoles
			case kinds:
				return printLines(cmd.OutOrStdout(), strings.TrimSuffix(kindsRole(env.Controllers()).text(), "\n"))
			}
			roles, err := rolesFor(env.Controllers(), names, engine)
			if err != nil {
				return err
			}
			var out []string
			for _, r := range roles {
				out = append(out, r.text())
			}
			return printLines(cmd.OutOrStdout(), strings.TrimSuffix(strings.Join(out, "---\n"), "\n"))
		},
	}
	cmd.Flags().StringArrayVar(&names, "controller", nil, "only the role of this controller; repeatable")
	cmd.Flags().BoolVar(&engine, "engine", false, "only the role of the engine")
	cmd.Flags().BoolVar(&kinds, "kinds", false, "only the role that lets the operator watch the kinds of Kubernetes in applications and charts")
	cmd.Flags().StringArrayVarP(&f.files, "filename", "f", nil, "file or folder with KfDefs and SeldonOperators; - is standard input; repeatable")
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", "namespace of resources without a namespace; without a file, the one to print roles for")
	cmd.Flags().StringVar(&g.account, "service-account", "mlkeeper", "ServiceAccount of custom resources that name none")
	cmd.Flags().StringVar(&g.operator, "operator", "mlkeeper-system/mlkeeper-controller-manager", "NAMESPACE/NAME of the operator's ServiceAccount")
	return cmd
}

// role is a ClusterRole with a comment above it and above groups of its rules. Its labels have the value "true".
type role struct {
	why, name string
	labels    []string
	rules     []rule
}

// rule is one rule of a role.
type rule struct {
	why                     string
	group                   string
	resources, names, verbs []string
}

func rolesFor(controllers []controller.Any, names []string, engine bool) ([]role, error) {
	var known []string
	for _, r := range controllers {
		known = append(known, r.Name())
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("--controller %q: there is no such controller; there are %s", name, strings.Join(known, ", "))
		}
	}
	everything := len(names) == 0 && !engine
	var out []role
	if everything || engine {
		out = append(out, engineRole())
	}
	for _, r := range controllers {
		if everything || slices.Contains(names, r.Name()) {
			out = append(out, roleOf(r))
		}
	}
	return out, nil
}

// engineRole is what the engine needs, whatever controllers are switched on.
func engineRole() role {
	return role{
		why: "The rights of the engine, independent of the controllers. Generated by mlkeeper rbac --engine; do not edit.", name: "mlkeeper-engine",
		rules: []rule{
			{why: "To detect the APIs that the cluster serves.", group: "apiextensions.k8s.io", resources: []string{"customresourcedefinitions"}, verbs: readVerbs},
			{group: "apiregistration.k8s.io", resources: []string{"apiservices"}, verbs: watchVerbs},
			{why: "Inventories own the children that a custom resource cannot own.", group: "keeper.mlkeeper.dev", resources: []string{"inventories"}, verbs: []string{"get", "list", "watch", "create", "update", "delete"}},
			{group: "keeper.mlkeeper.dev", resources: []string{"inventories/status"}, verbs: []string{"update"}},
			{why: "Replicas that an autoscaler has written are left to it while it is there.", group: "autoscaling", resources: []string{"horizontalpodautoscalers"}, verbs: []string{"list"}},
			{why: "Events report transitions of Ready.", group: "events.k8s.io", resources: []string{"events"}, verbs: []string{"create", "patch"}},
			{why: "The API server authenticates and authorizes the readers of the metrics.", group: "authentication.k8s.io", resources: []string{"tokenreviews"}, verbs: []string{"create"}},
			{group: "authorization.k8s.io", resources: []string{"subjectaccessreviews"}, verbs: []string{"create"}},
		},
	}
}

// roleOf derives the role of a controller from what it declares.
func roleOf(r controller.Any) role {
	gvk := r.GVK()
	own := r.Resource()
	out := role{
		why: fmt.Sprintf("The rights of the controller of %s. Generated by mlkeeper rbac --controller %s; do not edit.", gvk.Kind, r.Name()),
		// The bindings in config/rbac refer to this name.
		name: "mlkeeper-" + r.Name(),
		rules: []rule{
			{why: "The custom resource; only its status is written.", group: gvk.Group, resources: []string{own}, verbs: readVerbs},
			{group: gvk.Group, resources: []string{own + "/status"}, verbs: statusVerbs},
		},
	}
	children := map[string][]string{}
	for _, child := range r.Children() {
		if name := resourceOf(child); !slices.Contains(children[child.Group], name) {
			children[child.Group] = append(children[child.Group], name)
		}
	}
	why := fmt.Sprintf("The children of a %s.", gvk.Kind)
	for _, group := range sortedKeys(children) {
		slices.Sort(children[group])
		out.rules = append(out.rules, rule{why: why, group: group, resources: children[group], verbs: childVerbs})
		why = ""
	}
	out.rules = append(out.rules, wireRules(r)...)
	for _, extra := range r.Rules() {
		if extra.PerNamespace {
			continue
		}
		out.rules = append(out.rules, rule{
			why: extra.Why, group: extra.Group, resources: extra.Resources, names: extra.Names, verbs: extra.Verbs,
		})
	}
	return out
}

// wireRules are the rights on the objects of others that the controller edits: one rule for each kind.
func wireRules(r controller.Any) []rule {
	type group struct {
		names  []string
		create bool
	}
	kinds := map[schema.GroupResource]*group{}
	var order []schema.GroupResource
	for _, w := range r.Wires() {
		gr := schema.GroupResource{Group: w.GVK.Group, Resource: resourceOf(w.GVK)}
		if kinds[gr] == nil {
			kinds[gr] = &group{}
			order = append(order, gr)
		}
		kinds[gr].names = append(kinds[gr].names, w.Name)
		kinds[gr].create = kinds[gr].create || w.CreateName != ""
	}
	var out []rule
	for _, gr := range order {
		verbs := slices.Clone(wireVerbs)
		if kinds[gr].create {
			// What the controller created it deletes again.
			verbs = append(verbs, "create", "delete")
		}
		out = append(out, rule{
			why:   "Entries in objects of others: " + strings.Join(kinds[gr].names, ", ") + ".",
			group: gr.Group, resources: []string{gr.Resource}, verbs: verbs,
		})
	}
	return out
}

// resourceOf is the resource of a kind.
func resourceOf(gvk schema.GroupVersionKind) string {
	if name, found := irregular[gvk.GroupKind()]; found {
		return name
	}
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	return plural.Resource
}

// text prints a role as YAML with comments, which no encoder keeps.
func (r role) text() string {
	var out strings.Builder
	comment(&out, "", r.why)
	out.WriteString("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: " + quoted(r.name) + "\n")
	for i, label := range r.labels {
		if i == 0 {
			out.WriteString("  labels:\n")
		}
		out.WriteString("    " + label + ": \"true\"\n")
	}
	out.WriteString("rules:\n")
	for _, rule := range r.rules {
		comment(&out, "  ", rule.why)
		out.WriteString("  - apiGroups: " + flow([]string{rule.group}) + "\n")
		out.WriteString("    resources: " + flow(rule.resources) + "\n")
		if len(rule.names) > 0 {
			out.WriteString("    resourceNames: " + flow(rule.names) + "\n")
		}
		out.WriteString("    verbs: " + flow(rule.verbs) + "\n")
	}
	return out.String()
}

// comment writes text as comment lines of at most 120 characters.
func comment(out *strings.Builder, indent, text string) {
	const width = 120
	line := ""
	for _, word := range strings.Fields(Clean(text)) {
		if line != "" && len(indent)+2+len(line)+1+len(word) > width {
			out.WriteString(indent + "# " + line + "\n")
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		out.WriteString(indent + "# " + line + "\n")
	}
}

// flow prints a list in brackets.
func flow(items []string) string {
	out := make([]string, 0, len(items))
	for _, item := range items {
		out = append(out, quoted(item))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// quoted quotes what would not be plain text in YAML.
func quoted(s string) string {
	plain := s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789.-/") == "" && s[0] >= 'a' && s[0] <= 'z'
	if plain {
		return s
	}
	return fmt.Sprintf("%q", s)
}
