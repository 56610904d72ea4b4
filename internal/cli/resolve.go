package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/wiring"
)

// servedKind is a kind that the cluster serves, with every name that people call it by.
type servedKind struct {
	schema.GroupKind
	names []string
	// content says that a Namespace with an object of the kind is not empty.
	content bool
}

// kindsOf reads the kinds out of what discovery answered; each once, whatever its versions.
func kindsOf(lists []*metav1.APIResourceList) []servedKind {
	var out []servedKind
	seen := map[schema.GroupKind]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for i := range list.APIResources {
			r := &list.APIResources[i]
			gk := schema.GroupKind{Group: gv.Group, Kind: r.Kind}
			// A name with a slash is a subresource.
			if strings.Contains(r.Name, "/") || seen[gk] {
				continue
			}
			seen[gk] = true
			names := append([]string{r.Kind, r.Name, r.SingularName}, r.ShortNames...)
			for _, name := range slices.Clone(names) {
				if gk.Group != "" && name != "" {
					names = append(names, name+"."+gk.Group)
				}
			}
			content := r.Namespaced && gv.Group != "metrics.k8s.io" && slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "delete")
			out = append(out, servedKind{gk, names, content})
		}
	}
	return out
}

// reference is KIND/NAME as it was given.
type reference struct{ kind, name string }

// parseReference reads KIND/NAME.
func parseReference(text string) (reference, error) {
	kind, name, found := strings.Cut(text, "/")
	if !found || kind == "" || name == "" || strings.Contains(name, "/") {
		return reference{}, fmt.Errorf("%q: name one resource as KIND/NAME, such as trustyaiservice/my-service", text)
	}
	return reference{kind, name}, nil
}

// argument is the one custom resource that the arguments of a command name, as KIND/NAME or as KIND NAME.
func argument(args []string) (string, error) {
	if len(args) == 2 && !strings.Contains(args[0]+args[1], "/") {
		return args[0] + "/" + args[1], nil
	}
	if len(args) != 1 {
		return "", fmt.Errorf("%q: name one resource as KIND/NAME or KIND NAME, such as trustyaiservice/my-service", strings.Join(args, " "))
	}
	return args[0], nil
}

// resolve finds the custom resource that the arguments of a command name in a namespace. Where one of its objects was named it says so,
// and one that does not exist is an error unless absence is what is asked for.
func resolve(cmd *cobra.Command, env Environment, args []string, namespace string, mayBeAbsent bool) (*resolver, *subject, error) {
	name, err := argument(args)
	if err != nil {
		return nil, nil, err
	}
	in, err := namespaceOf(env, namespace, false)
	if err != nil {
		return nil, nil, err
	}
	r, err := newResolver(env)
	if err != nil {
		return nil, nil, err
	}
	s, err := r.find(cmd.Context(), name, in)
	if err != nil {
		return nil, nil, err
	}
	if s.live == nil && !mayBeAbsent {
		return nil, nil, absent(s)
	}
	return r, s, printOwner(cmd, s)
}

// subject is the custom resource that a command is about.
type subject struct {
	controller controller.Any
	mapping    *meta.RESTMapping
	// namespace is empty for a cluster-scoped kind.
	namespace, name string
	// live is nil while the custom resource does not exist.
	live *unstructured.Unstructured
	// through is the object that was named instead of the custom resource it belongs to; empty when none was.
	through string
}

// key is the identity of the custom resource.
func (s *subject) key() plan.Key {
	return plan.Key{GroupKind: s.controller.GVK().GroupKind(), Namespace: s.namespace, Name: s.name}
}

// argument is how the custom resource is named in a further command.
func (s *subject) argument() string {
	out := strings.ToLower(s.controller.GVK().Kind) + "/" + s.name
	if s.namespace != "" {
		out += " -n " + s.namespace
	}
	return out
}

// stack is what MLKeeper knows the custom resource as.
func (s *subject) stack() plan.Stack {
	out := plan.Stack{Controller: s.controller.Name(), GVK: s.controller.GVK(), Namespace: s.namespace, Name: s.name}
	if s.live != nil {
		out.UID = s.live.GetUID()
	}
	return out
}

// resolver finds the custom resource that somebody means.
type resolver struct {
	*cluster
	controllers []controller.Any
	known       definitions
}

// newResolver connects and knows the kinds.
func newResolver(env Environment) (*resolver, error) {
	known, err := loadDefinitions(env.Definitions)
	if err != nil {
		return nil, err
	}
	return known.connect(env)
}

// connect connects where the kinds are known.
func (d definitions) connect(env Environment) (*resolver, error) {
	c, err := env.Connection.open()
	if err != nil {
		return nil, err
	}
	return &resolver{cluster: c, controllers: env.Controllers(), known: d}, nil
}

// find resolves KIND/NAME in a namespace: the kind by discovery, so that every name is understood that kubectl
// understands, and an object that MLKeeper made to the custom resource that it belongs to.
func (r *resolver) find(ctx context.Context, text, namespace string) (*subject, error) {
	ref, err := parseReference(text)
	if err != nil {
		return nil, err
	}
	gk, err := r.kind(ref.kind)
	if err != nil {
		return nil, err
	}
	s, err := r.read(ctx, gk, namespace, ref.name)
	if err != nil || s.live == nil || r.isController(gk) {
		return s, err
	}
	owner := s.live.GetAnnotations()[keeper.OwnerAnnotation]
	if gk == inventoryKind.GroupKind() || owner == "" {
		return s, r.mustBeKept(ctx, s)
	}
	ownerKind, ownerNamespace, ownerName, ok := parseOwner(owner)
	if !ok {
		return nil, fmt.Errorf("%s carries the annotation %s=%q, which names no custom resource: correct or remove it",
			s.key(), keeper.OwnerAnnotation, owner)
	}
	through := s.key().String()
	s, err = r.read(ctx, ownerKind, ownerNamespace, ownerName)
	if err != nil {
		return nil, fmt.Errorf("%s belongs to %s: %w", through, owner, err)
	}
	s.through = through
	return s, nil
}

// parseOwner reads the value of the owner annotation, "<Kind>.<group>/<namespace>/<name>".
func parseOwner(text string) (gk schema.GroupKind, namespace, name string, ok bool) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 || parts[0] == "" || parts[2] == "" {
		return gk, "", "", false
	}
	return schema.ParseGroupKind(parts[0]), parts[1], parts[2], true
}

func (r *resolver) isController(gk schema.GroupKind) bool {
	return slices.ContainsFunc(r.controllers, func(a controller.Any) bool { return a.GVK().GroupKind() == gk })
}

// mustBeKept refuses an object that is neither a custom resource that MLKeeper keeps nor one of its children.
func (r *resolver) mustBeKept(ctx context.Context, s *subject) error {
	if _, hasInventory, _ := unstructured.NestedSlice(s.live.Object, "status", "inventory", "entries"); hasInventory {
		return nil
	}
	if mapping, err := r.lookup(inventoryKind); err == nil && mapping != nil {
		all, err := r.list(ctx, mapping, "", metav1.ListOptions{LabelSelector: keeper.StackLabel + "=" + s.stack().Hash()})
		if err == nil && len(all) > 0 {
			return nil
		}
	}
	return fmt.Errorf("%s exists, but MLKeeper neither manages nor created it; it manages %s", s.key(), r.kindsText())
}

func (r *resolver) kindsText() string {
	var out []string
	for _, a := range r.controllers {
		out = append(out, a.GVK().Kind)
	}
	return strings.Join(out, ", ")
}

// kind finds the kind of a name. The kinds of the controllers come first, where several groups have one of the same name.
func (r *resolver) kind(name string) (schema.GroupKind, error) {
	var found []schema.GroupKind
	for _, k := range r.kinds() {
		if slices.ContainsFunc(k.names, func(n string) bool { return strings.EqualFold(n, name) }) {
			found = append(found, k.GroupKind)
		}
	}
	for _, gk := range found {
		if r.isController(gk) {
			return gk, nil
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		for _, a := range r.controllers {
			if named(r.known, a, name) {
				return schema.GroupKind{}, fmt.Errorf("the cluster does not serve %s: install the CustomResourceDefinitions "+
					"with `make install` or `kubectl apply --server-side -k config/crd`", a.GVK().GroupKind())
			}
		}
		return schema.GroupKind{}, fmt.Errorf("the cluster serves no kind %q; MLKeeper manages %s", name, r.kindsText())
	}
	// Core kinds are meant by their bare names, as in kubectl.
	for _, gk := range found {
		if gk.Group == "" {
			return gk, nil
		}
	}
	var names []string
	for _, gk := range found {
		names = append(names, gk.String())
	}
	return schema.GroupKind{}, fmt.Errorf("several kinds are called %q: name one of %s", name, strings.Join(names, ", "))
}

// read reads one object of a kind, in the version of its controller where it has one.
func (r *resolver) read(ctx context.Context, gk schema.GroupKind, namespace, name string) (*subject, error) {
	var versions []string
	s := &subject{namespace: namespace, name: name}
	for _, a := range r.controllers {
		if a.GVK().GroupKind() == gk {
			s.controller, versions = a, []string{a.GVK().Version}
		}
	}
	mapping, err := r.mapper().RESTMapping(gk, versions...)
	if err != nil {
		return nil, fmt.Errorf("the cluster does not serve %s: %w", gk, err)
	}
	s.mapping = mapping
	if s.controller == nil {
		s.controller = uncontrolled{mapping.GroupVersionKind}
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		s.namespace = ""
	}
	s.live, err = r.resource(mapping, s.namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		s.live = nil
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("read %s: %w; request the right to get it", s.key(), err)
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", s.key(), err)
	}
	return s, nil
}

// absent is the failure of a command whose custom resource does not exist.
func absent(s *subject) error {
	where := ""
	if s.namespace != "" {
		where = fmt.Sprintf(" in namespace %q", s.namespace)
	}
	return fmt.Errorf("there is no %s %q%s; `mlkeeper status -A` lists all", s.controller.GVK().Kind, s.name, where)
}

// errNoController says that a kind cannot be rendered.
var errNoController = errors.New("this binary has no controller for the kind, so it cannot render it")

// uncontrolled stands for the controller of a kind that this binary does not know, such as one of a newer release: what belongs
// to it is found by MLKeeper's labels, inventory and Inventories alone.
type uncontrolled struct{ gvk schema.GroupVersionKind }

func (uncontrolled) Name() string                        { return "" }
func (r uncontrolled) GVK() schema.GroupVersionKind      { return r.gvk }
func (r uncontrolled) Resource() string                  { return resourceOf(r.gvk) }
func (uncontrolled) Children() []schema.GroupVersionKind { return nil }
func (uncontrolled) Wires() []wiring.Wire                { return nil }
func (uncontrolled) Rules() []controller.Rule            { return nil }
func (uncontrolled) RendersAnswers() bool                { return false }
func (uncontrolled) DefaultName() string                 { return "" }
func (uncontrolled) Previous() controller.Previous       { return controller.Previous{} }

// Render implements controller.Any.
func (uncontrolled) Render(
	context.Context, func(client.Object) controller.Reader, *unstructured.Unstructured,
) (plan.Plan, error) {
	return plan.Plan{}, errNoController
}

// namespaceOf is the namespace that a command works in: the one asked for, else that of the context; empty for all.
func namespaceOf(env Environment, asked string, all bool) (string, error) {
	switch {
	case all && asked != "":
		return "", errors.New("--all-namespaces and --namespace exclude each other")
	case all:
		return "", nil
	case asked != "":
		return asked, nil
	}
	return env.Connection.namespace(), nil
}
