package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/digest"
	"mlkeeper.dev/internal/engine/plan"
)

// exitPending is the exit status of `mlkeeper render` when something could not be rendered yet.
const exitPending = 3

// renderFlags are the flags of `mlkeeper render`.
type renderFlags struct {
	files       []string
	namespace   string
	offline     bool
	apis        []string
	allAPIs     bool
	output      string
	showSecrets bool
}

// NewRenderCommand returns `mlkeeper render`.
func NewRenderCommand(env Environment) *cobra.Command {
	var f renderFlags
	cmd := &cobra.Command{
		Use:   "render -f FILE",
		Short: "Print what would be applied for the custom resources of a file",
		Long: `Print what would be applied for the custom resources of a file, after the checks and the defaults of the API server.

Without --kubeconfig and --context no cluster is read: every API counts as served (see --api and --all-apis) and no
object exists. What the custom resource would wait for is reported as pending and is not an error. With one of them, the
cluster is read and never written. Owner references and digests depend on the cluster and are left out.
Objects of other kinds in the file, such as ConfigMaps and Secrets, are what the custom resources refer to; with a cluster, those of the
cluster count. Problems and warnings go to standard error. The exit status is 1 when there is a problem, and 3 when something could not be
rendered yet, such as an application whose repository is not reachable.`,
		Example: `  mlkeeper render -f service.yaml
  mlkeeper render -f service.yaml --all-apis=false --api route.openshift.io/v1/Route
  mlkeeper render -f service.yaml --kubeconfig ~/.kube/config -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// One API that is named leaves out the others, unless all are asked for as well.
			if len(f.apis) > 0 && !cmd.Flags().Changed("all-apis") {
				f.allAPIs = false
			}
			return runRender(cmd, env, f)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.files, "filename", "f", nil, "file or folder with the custom resources, and what they refer to; - is standard input; repeatable")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace of resources without a namespace")
	flags.BoolVar(&f.offline, "offline", false, "read no cluster; the default without --kubeconfig and --context")
	flags.StringArrayVar(&f.apis, "api", nil, "optional API that counts as served offline, as GROUP/VERSION/KIND; repeatable")
	flags.BoolVar(&f.allAPIs, "all-apis", true, "offline, every optional API counts as served; off when --api is given")
	flags.StringVarP(&f.output, "output", "o", "yaml", "yaml or json")
	flags.BoolVar(&f.showSecrets, "show-secrets", false, "print the values of Secrets instead of ***")
	// The flag was defined above, so marking it cannot fail.
	_ = cmd.MarkFlagRequired("filename")
	return cmd
}

// rendered is one custom resource with its plan.
type rendered struct {
	stack plan.Stack
	plan  plan.Plan
	// skipped are the optional objects whose API is not served.
	skipped map[plan.Key]string
	// warnings are those of admission.
	warnings []string
	// acts says that the objects are written with the rights of a ServiceAccount; account is the one that the custom resource names, and
	// referenced are the objects that are read with its rights.
	acts       bool
	account    string
	referenced []plan.Key
	// rules are those of the controller.
	rules []controller.Rule
	// partial says that sources which could not be fetched keep objects out of the plan.
	partial bool
}

// target is one custom resource to be rendered.
type target struct {
	controller controller.Any
	// given is the object as the file has it, admitted the object after admission, in the stored version.
	given, admitted *unstructured.Unstructured
	warnings        []string
	// adopted says that MLKeeper does not manage the custom resource yet, which exists.
	adopted bool
}

func (t *target) String() string { return plan.KeyOf(t.given).String() }

// world is where a rendering reads from: nothing at all, or a cluster.
type world interface {
	// live returns the custom resource as it is, or nil.
	live(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
	// reader returns the reader of one custom resource; failed returns what went wrong in reads that cannot say so.
	reader(ctx context.Context, r controller.Any, all []*target) (read func(client.Object) controller.Reader, failed func() error)
	// serves says whether a kind is served.
	serves(gvk schema.GroupVersionKind) (bool, error)
	// refer takes objects of other kinds, which the custom resources may refer to, in a namespace where they name none.
	refer(objects []*unstructured.Unstructured, namespace string) error
	// exists says that objects can be found in it, so that what is waited for is a problem.
	exists() bool
	// namespacedKinds are the resources that Namespaces can contain, as far as they are known.
	namespacedKinds() []schema.GroupResource
	// namespace is the namespace of objects that name none.
	namespace() string
}

func runRender(cmd *cobra.Command, env Environment, f renderFlags) error {
	if f.output != "yaml" && f.output != "json" {
		return fmt.Errorf("--output %q: use yaml or json", f.output)
	}
	all, w, err := renderAll(cmd, env, f)
	if err != nil {
		return err
	}
	if err := printRendered(cmd.OutOrStdout(), all, f); err != nil {
		return err
	}
	return printMessages(cmd.ErrOrStderr(), all, w.exists())
}

// renderAll renders the custom resources of a file.
func renderAll(cmd *cobra.Command, env Environment, f renderFlags) ([]rendered, world, error) {
	w, err := newWorld(env, f)
	if err != nil {
		return nil, nil, err
	}
	objects, err := readObjects(f.files, cmd.InOrStdin())
	if err != nil {
		return nil, nil, err
	}
	targets, err := admitAll(cmd.Context(), env, w, f, objects)
	if err != nil {
		return nil, nil, err
	}
	var all []rendered
	for _, t := range targets {
		r, err := renderOne(cmd.Context(), w, t, targets)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", t, err)
		}
		all = append(all, r)
	}
	return all, w, nil
}

func newWorld(env Environment, f renderFlags) (world, error) {
	if !env.Connection.given() || f.offline {
		return newNoCluster(env.Now(), f.apis, f.allAPIs)
	}
	c, err := env.Connection.open()
	if err != nil {
		return nil, err
	}
	return &somewhere{cluster: c, now: env.Now(), context: env.Connection.namespace()}, nil
}

// admitAll finds the controller of every object, and does to it what the API server would. It names every object that is
// refused, and not only the first.
func admitAll(
	ctx context.Context, env Environment, w world, f renderFlags, objects []*unstructured.Unstructured,
) ([]*target, error) {
	known, err := loadDefinitions(env.Definitions)
	if err != nil {
		return nil, err
	}
	controllers := env.Controllers()
	objects, others := custom(controllers, objects)
	if err := w.refer(others, f.namespace); err != nil {
		return nil, err
	}
	var out []*target
	var failures []error
	seen := map[plan.Key]bool{}
	for i, u := range objects {
		t, err := admitOne(ctx, controllers, known, w, f, u)
		if err == nil && seen[plan.KeyOf(u)] {
			err = errors.New("the input contains it twice: remove one of them")
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", plan.KeyOf(u), err))
			continue
		}
		seen[plan.KeyOf(u)] = true
		identify(t.admitted, i, env.Now())
		out = append(out, t)
	}
	return out, errors.Join(failures...)
}

// custom parts the objects of a file into those of the groups of the controllers, which are custom resources or mistakes, and what these may
// refer to. Where no object is of these groups, all are looked for a controller, so that the first is named that has none.
func custom(controllers []controller.Any, objects []*unstructured.Unstructured) (resources, others []*unstructured.Unstructured) {
	for _, u := range objects {
		group := u.GroupVersionKind().Group
		if slices.ContainsFunc(controllers, func(c controller.Any) bool { return c.GVK().Group == group }) {
			resources = append(resources, u)
		} else {
			others = append(others, u)
		}
	}
	if len(resources) == 0 {
		return objects, nil
	}
	return resources, others
}

func admitOne(
	ctx context.Context, controllers []controller.Any, known definitions, w world, f renderFlags, u *unstructured.Unstructured,
) (*target, error) {
	r, err := controllerOf(controllers, known, u.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	if u.GetName() == "" && u.GetGenerateName() == "" && r.DefaultName() != "" {
		u.SetName(r.DefaultName())
	}
	if err := setNamespace(u, f.namespace, w.namespace(), known.clusterScoped(r.GVK().GroupKind())); err != nil {
		return nil, err
	}
	t := &target{controller: r, given: u, admitted: u.DeepCopy()}
	live, err := w.live(ctx, r.GVK(), u.GetNamespace(), u.GetName())
	if err != nil {
		return nil, err
	}
	keep(t.admitted, live)
	g, err := known.gate(u.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	if g != nil {
		warnings, errs := g.admit(ctx, t.admitted, live)
		if len(errs) > 0 {
			return nil, refusal(errs)
		}
		t.warnings = warnings
	}
	if live != nil && live.Object["status"] != nil {
		t.admitted.Object["status"] = live.Object["status"]
	}
	// Both versions share one schema, so that conversion changes the version alone.
	t.admitted.SetGroupVersionKind(r.GVK())
	return t, nil
}

// refusal prints what admission refuses, one field a line.
func refusal(errs field.ErrorList) error {
	var out strings.Builder
	out.WriteString("the API server would refuse it:")
	for _, err := range errs {
		// A rule of the whole object has no field.
		out.WriteString("\n  " + Clean(strings.TrimPrefix(err.Error(), "<nil>: ")))
	}
	return errors.New(out.String())
}

// controllerOf finds the controller of a kind, in any version that is served.
func controllerOf(controllers []controller.Any, known definitions, gvk schema.GroupVersionKind) (controller.Any, error) {
	var supported []string
	for _, r := range controllers {
		served := known.served(r.GVK())
		if r.GVK().GroupKind() == gvk.GroupKind() && slices.Contains(served, gvk.Version) {
			return r, nil
		}
		for _, version := range served {
			supported = append(supported, fmt.Sprintf("%s (%s/%s)", r.GVK().Kind, r.GVK().Group, version))
		}
	}
	apiVersion, kind := gvk.ToAPIVersionAndKind()
	return nil, fmt.Errorf("MLKeeper has no controller for kind %q of apiVersion %q; supported: %s", kind, apiVersion,
		strings.Join(supported, ", "))
}

// setNamespace fills in the namespace of an object that names none.
func setNamespace(u *unstructured.Unstructured, asked, fallback string, clusterScoped bool) error {
	switch {
	case clusterScoped:
		u.SetNamespace("")
	case u.GetNamespace() == "" && asked != "":
		u.SetNamespace(asked)
	case u.GetNamespace() == "":
		u.SetNamespace(fallback)
	case asked != "" && u.GetNamespace() != asked:
		return fmt.Errorf("metadata.namespace is %q and --namespace is %q: leave one of them out", u.GetNamespace(), asked)
	}
	return nil
}

// keep takes over what the API server keeps of a live object; without one, nothing that only it may set is left.
func keep(u, live *unstructured.Unstructured) {
	for _, field := range []string{"uid", "creationTimestamp", "resourceVersion", "generation", "managedFields"} {
		unstructured.RemoveNestedField(u.Object, "metadata", field)
	}
	if live != nil {
		u.SetUID(live.GetUID())
		u.SetCreationTimestamp(live.GetCreationTimestamp())
		u.SetResourceVersion(live.GetResourceVersion())
		u.SetGeneration(live.GetGeneration())
	}
}

// clockSkew is how far the clock of a cluster may be ahead of ours.
const clockSkew = time.Minute

// identify gives an object that does not exist yet an identity: younger than what is in the cluster, and in the order of
// the file, so that of two that exclude each other the older one wins, as it would when the file is applied.
func identify(u *unstructured.Unstructured, place int, now time.Time) {
	if u.GetUID() != "" {
		return
	}
	u.SetUID(types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", place+1)))
	u.SetCreationTimestamp(metav1.NewTime(now.Truncate(time.Second).Add(clockSkew + time.Duration(place)*time.Second)))
	u.SetGeneration(1)
}

func renderOne(ctx context.Context, w world, t *target, all []*target) (rendered, error) {
	out := rendered{skipped: map[plan.Key]string{}, warnings: t.warnings, stack: plan.Stack{
		Controller: t.controller.Name(), GVK: t.controller.GVK(), Namespace: t.admitted.GetNamespace(), Name: t.admitted.GetName(),
		UID: t.admitted.GetUID(),
	}}
	out.acts, out.rules = actsAsServiceAccount(t.controller), t.controller.Rules()
	out.account, _, _ = unstructured.NestedString(t.admitted.Object, "spec", "serviceAccountName")
	read, failed := w.reader(ctx, t.controller, all)
	p, err := t.controller.Render(ctx, func(cr client.Object) controller.Reader {
		return noting{Reader: read(cr), keys: &out.referenced}
	}, t.admitted.DeepCopy())
	if err := errors.Join(err, failed()); err != nil {
		return rendered{}, err
	}
	out.partial = slices.ContainsFunc(p.Problems, func(p plan.Problem) bool {
		_, fetched := sourceAdvice[p.Reason]
		return p.Class == plan.Waiting && fetched
	})
	for _, stage := range p.Stages {
		for _, o := range stage.Objects {
			if !o.Optional {
				continue
			}
			gvk := o.Desired.GroupVersionKind()
			served, err := w.serves(gvk)
			if err != nil {
				return rendered{}, err
			}
			if !served {
				out.skipped[o.Key()] = gvk.GroupVersion().String()
			}
		}
	}
	out.plan = p
	return out, nil
}

// marked returns the object with the engine's marks, but for those that depend on what the cluster answers.
func marked(o plan.Object, stack plan.Stack) (*unstructured.Unstructured, error) {
	stamped, err := plan.Stamp(digest.Key{}, o, stack, plan.Owner{}, 0)
	if err != nil {
		return nil, err
	}
	u := stamped.Desired
	u.SetOwnerReferences(nil)
	annotations := u.GetAnnotations()
	delete(annotations, keeper.AppliedHashAnnotation)
	u.SetAnnotations(annotations)
	return u, nil
}

// printMessages prints problems and warnings, and fails when there is a problem.
func printMessages(w io.Writer, all []rendered, exists bool) error {
	problems, partial := 0, false
	for _, r := range all {
		partial = partial || r.partial && !exists
		who := plan.Key{GroupKind: r.stack.GVK.GroupKind(), Namespace: r.stack.Namespace, Name: r.stack.Name}.String()
		var lines []string
		say := func(what, text string) { lines = append(lines, Clean(what+": "+who+": "+text)) }
		for _, warning := range append(slices.Clone(r.warnings), r.plan.Warnings...) {
			say("warning", warning)
		}
		for _, note := range r.plan.Notes {
			say("note", note)
		}
		for _, stage := range r.plan.Stages {
			for _, o := range stage.Objects {
				if api, found := r.skipped[o.Key()]; found {
					say("skipped", fmt.Sprintf("%s, since %s is not served", o.Key(), api))
				}
			}
		}
		for _, p := range r.plan.Problems {
			if p.Class == plan.Waiting && !exists {
				say("pending", p.Reason+": "+p.Error())
				continue
			}
			say("problem", p.Reason+": "+p.Error())
			problems++
		}
		if err := printLines(w, lines...); err != nil {
			return err
		}
	}
	switch problems {
	case 0:
		if partial {
			return &Exit{Status: exitPending, Err: errors.New("something could not be rendered yet: mend what is pending, and render again")}
		}
		return nil
	case 1:
		return errors.New("there is 1 problem")
	default:
		return fmt.Errorf("there are %d problems", problems)
	}
}
