package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"mlkeeper.dev/internal/engine/plan"
)

// Exit statuses of `mlkeeper diff`, which are those of `kubectl diff`.
const (
	exitDifferent = 1
	exitFailed    = 2
)

// diffFlags are the flags of `mlkeeper diff`.
type diffFlags struct {
	files     []string
	namespace string
	output    string
	// adopt compares what MLKeeper would adopt, in all namespaces with all.
	adopt, all bool
}

// DiffReport is what `mlkeeper diff -o json` prints. Fields are only ever added.
type DiffReport struct {
	Objects []Difference `json:"objects"`
	// Warnings say what could not be read or tried.
	Warnings []string `json:"warnings"`
}

// Difference is what would become of one object.
type Difference struct {
	// Stack is the custom resource that the object belongs to, as "Kind namespace/name".
	Stack string `json:"stack"`
	// Action is created, changed, deleted, unchanged, skipped, or conflict for an object of somebody else, which is left
	// alone.
	Action     string `json:"action"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Namespace is empty for a cluster-scoped object.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Reason is the engine's word for why: Missing, Changed, Drift, Unverified, Pruned and so on.
	Reason string `json:"reason"`
	// Note says what else is to be known.
	Note string `json:"note"`
	// Restarts says that the pods of a workload are replaced.
	Restarts bool `json:"restarts"`
	// Released says that the object is no longer deleted with its custom resource, as it was with the previous operator.
	Released bool `json:"released"`
	// Diff is a unified diff of the object's YAML, in which the values of Secrets are masked.
	Diff string `json:"diff"`
}

// The actions of a Difference.
const (
	actionCreated   = "created"
	actionChanged   = "changed"
	actionDeleted   = "deleted"
	actionUnchanged = "unchanged"
	actionSkipped   = "skipped"
	actionConflict  = "conflict"
)

// NewDiffCommand returns `mlkeeper diff`.
func NewDiffCommand(env Environment) *cobra.Command {
	var f diffFlags
	cmd := &cobra.Command{
		Use:   "diff -f FILE | KIND/NAME | --adopt",
		Short: "Show what MLKeeper would change in the cluster for custom resources",
		Long: `Show what MLKeeper would create, change and delete for the custom resources of a file once they are applied, or for one
that exists, as unified diffs of the objects' YAML. Rendering and decisions are those of the
manager, given the same images: by the digests and by the fields that MLKeeper owns. Fields of others are unchanged. Use kubectl diff for the custom
resource itself.

Nothing is written. Where you may update the objects, each change is sent to the API server as a dry run, which needs the right to
update them and appears in its audit log, so that its defaults and admission are in the result. Where you may not, the change is merged locally with the published schema, and
fields that the API server fills in or that would be removed may be missing; a warning says so.

With --adopt, the custom resources are those that MLKeeper does not manage yet, such as those of an original operator. It need not be
installed for that. The last line says how many objects are released, so that they are no longer deleted with their custom resource, and
how many workloads restart.

The exit status is 0 without a difference, 1 with one, and 2 when there is an error or a problem.`,
		Example: `  mlkeeper diff -f service.yaml
  mlkeeper diff trustyaiservice/my-service -n models
  mlkeeper diff --adopt -A -o summary
  mlkeeper diff tas/my-service --trustyai-image quay.io/trustyai/trustyai-service:v0.28.0`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDiff(cmd, env, f, args)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.files, "filename", "f", nil, "file or folder with the custom resources; - is standard input; repeatable")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace of KIND/NAME, or of resources without a namespace")
	flags.StringVarP(&f.output, "output", "o", "diff", "diff, summary, yaml, json or jsonpath=TEMPLATE")
	flags.BoolVar(&f.adopt, "adopt", false, "compare the custom resources that MLKeeper does not manage yet and would adopt")
	flags.BoolVarP(&f.all, "all-namespaces", "A", false, "with --adopt, those of all namespaces")
	failWith(exitFailed, cmd)
	return cmd
}

// check validates the flags together with the arguments.
func (f diffFlags) check(args []string) error {
	if err := checkOutput(f.output, &DiffReport{}, "diff", "summary"); err != nil {
		return err
	}
	named := min(len(args), 1)
	for _, given := range []bool{len(f.files) > 0, f.adopt} {
		if given {
			named++
		}
	}
	if named != 1 || f.all && !f.adopt {
		return errors.New("name either a file with -f or one custom resource as KIND/NAME, or give --adopt, with or without -A")
	}
	return nil
}

func runDiff(cmd *cobra.Command, env Environment, f diffFlags, args []string) error {
	if err := f.check(args); err != nil {
		return err
	}
	paint := env.Terminal.palette(cmd.OutOrStdout())
	r, err := newResolver(env)
	if err != nil {
		return err
	}
	w := &somewhere{cluster: r.cluster, now: env.Now(), context: env.Connection.namespace()}
	targets, err := r.diffTargets(cmd, env, w, f, args)
	if err != nil {
		return err
	}
	d := newDiffer(w)
	report := DiffReport{Objects: []Difference{}}
	var all []rendered
	adopted := 0
	for _, t := range targets {
		if t.adopted {
			adopted++
		}
		one, objects, err := d.diff(cmd.Context(), t, targets)
		if err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		all = append(all, one)
		report.Objects = append(report.Objects, objects...)
	}
	report.Warnings = append([]string{}, d.warnings...)
	printed, err := printReport(cmd.OutOrStdout(), f.output, &report)
	if !printed && err == nil {
		err = printDiff(cmd.OutOrStdout(), cmd.ErrOrStderr(), &report, paint, f.output == "summary")
		if err == nil && (f.adopt || adopted > 0) {
			err = printLines(cmd.OutOrStdout(), report.adoption(adopted))
		}
	}
	if err != nil {
		return err
	}
	if err := errors.Join(printMessages(cmd.ErrOrStderr(), all, true), d.refused()); err != nil {
		return err
	}
	for i := range report.Objects {
		if report.Objects[i].differs() {
			return &Exit{Status: exitDifferent}
		}
	}
	return nil
}

func (d *Difference) differs() bool {
	return d.Action == actionCreated || d.Action == actionChanged || d.Action == actionDeleted
}

// diffTargets are the custom resources of the file, or the one that is named, as it is.
func (r *resolver) diffTargets(
	cmd *cobra.Command, env Environment, w *somewhere, f diffFlags, args []string,
) ([]*target, error) {
	if len(f.files) > 0 {
		objects, err := readObjects(f.files, cmd.InOrStdin())
		if err != nil {
			return nil, err
		}
		return admitAll(cmd.Context(), env, w, renderFlags{namespace: f.namespace}, objects)
	}
	namespace, err := namespaceOf(env, f.namespace, f.all)
	if err != nil {
		return nil, err
	}
	if f.adopt {
		return r.adoptable(cmd.Context(), namespace)
	}
	name, err := argument(args)
	if err != nil {
		return nil, err
	}
	s, err := r.find(cmd.Context(), name, namespace)
	if err != nil {
		return nil, err
	}
	if s.live == nil {
		return nil, absent(s)
	}
	if _, unknown := s.controller.(uncontrolled); unknown {
		return nil, fmt.Errorf("%s: %w: use a release that has it", s.key(), errNoController)
	}
	return []*target{s.target()}, printOwner(cmd, s)
}

// target is the custom resource as it is.
func (s *subject) target() *target {
	return &target{controller: s.controller, given: s.live, admitted: s.live.DeepCopy(), adopted: s.controller.Previous().Has(s.live)}
}

// differ compares what would be declared with what is there.
type differ struct {
	*somewhere
	schemas *schemas
	// local merges changes here, and sends no dry runs.
	local    bool
	warnings []string
	// refusals are what the API server would refuse.
	refusals []error
}

func newDiffer(w *somewhere) *differ {
	return &differ{somewhere: w, schemas: newSchemas(w.openapi)}
}

func (d *differ) warn(text string) {
	for _, told := range d.warnings {
		if told == text {
			return
		}
	}
	d.warnings = append(d.warnings, text)
}

// refused is the failure for what the API server would refuse.
func (d *differ) refused() error { return errors.Join(d.refusals...) }

// diff renders one custom resource and compares all of its objects.
func (d *differ) diff(ctx context.Context, t *target, all []*target) (rendered, []Difference, error) {
	r, err := renderOne(ctx, d.somewhere, t, all)
	if err != nil {
		return rendered{}, nil, err
	}
	j, err := d.judge(ctx, t, r)
	if err != nil {
		return rendered{}, nil, err
	}
	who := plan.Key{GroupKind: r.stack.GVK.GroupKind(), Namespace: r.stack.Namespace, Name: r.stack.Name}.String()
	out, err := d.adopts(t, who)
	if err != nil {
		return rendered{}, nil, err
	}
	for _, a := range j.actions {
		one, err := d.compare(ctx, j, a)
		if err != nil {
			return rendered{}, nil, err
		}
		if one != nil {
			one.Stack = who
			out = append(out, *one)
		}
	}
	return r, out, nil
}
