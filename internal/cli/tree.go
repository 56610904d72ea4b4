package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"mlkeeper.dev/internal/engine/health"
)

// treeFlags are the flags of `mlkeeper tree`.
type treeFlags struct {
	namespace string
	all       bool
	output    string
}

const (
	// healthNotCreated is the health of an object that is declared and not created yet.
	healthNotCreated = "NotCreated"
	// healthSkipped is the health of an optional object whose API is not served.
	healthSkipped = "Skipped"
)

// TreeReport is what `mlkeeper tree -o json` prints. Fields are only ever added.
type TreeReport struct {
	// Stacks are the custom resources, by kind, namespace and name.
	Stacks []StackTree `json:"stacks"`
	// Warnings say what could not be read.
	Warnings []string `json:"warnings"`
}

// StackTree is one custom resource with its objects by stage.
type StackTree struct {
	StackStatus
	// Objects hides the flat list of the status: a tree has the objects in its stages.
	Objects []ObjectStatus `json:"objects,omitempty"`
	// Stages are in the order in which they are applied; last comes what no stage has.
	Stages []StageTree `json:"stages"`
}

// StageTree is one stage of a custom resource.
type StageTree struct {
	// Stage is the place of the stage, from 0; -1 for what belongs to the custom resource and to no stage.
	Stage int `json:"stage"`
	// Name is the name of the stage; empty where it is not known.
	Name string `json:"name"`
	// Objects are by kind, namespace and name.
	Objects []ObjectStatus `json:"objects"`
}

// current counts the objects of a stage that are current.
func (s *StageTree) current() (current, all int) {
	for i := range s.Objects {
		switch s.Objects[i].Health {
		case string(health.Current):
			current++
			all++
		case healthSkipped:
		default:
			all++
		}
	}
	return current, all
}

// NewTreeCommand returns `mlkeeper tree`.
func NewTreeCommand(env Environment) *cobra.Command {
	var f treeFlags
	cmd := &cobra.Command{
		Use:   "tree [KIND/NAME]",
		Short: "Show custom resources as trees: stages, objects, their health, and the reason",
		Long: `Show custom resources as trees: the custom resource, its stages in the order in which they are applied, the objects of
each, their health as of now, and the reason.

KIND is the kind, its plural or a short name; an object that MLKeeper made stands for the custom resource that it belongs
to. With KIND/NAME the custom resource is rendered as well, so that stages have their names and what is declared but not
made yet is shown; for that, what it refers to is read. Without, all of the namespace are shown, or with -A all. The
cluster is never written. The exit status is 0 whatever the health.`,
		Example: `  mlkeeper tree trustyaiservice/my-service -n models
  mlkeeper tree deployment/my-service -n models
  mlkeeper tree -A -o json`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runTree(cmd, env, f, args)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace; default: that of the context")
	flags.BoolVarP(&f.all, "all-namespaces", "A", false, "all namespaces")
	flags.StringVarP(&f.output, "output", "o", "tree", "tree, wide, yaml, json, name or jsonpath=TEMPLATE; wide shows whole messages")
	return cmd
}

func runTree(cmd *cobra.Command, env Environment, f treeFlags, args []string) error {
	if err := checkOutput(f.output, &TreeReport{}, "tree", "wide"); err != nil {
		return err
	}
	paint := env.Terminal.palette(cmd.OutOrStdout())
	if f.all && len(args) > 0 {
		return errors.New("--all-namespaces and KIND/NAME exclude each other: name the namespace with -n")
	}
	namespace, err := namespaceOf(env, f.namespace, f.all)
	if err != nil {
		return err
	}
	r, err := newResolver(env)
	if err != nil {
		return err
	}
	var report *TreeReport
	if len(args) > 0 {
		var name string
		if name, err = argument(args); err != nil {
			return err
		}
		report, err = r.treeOfOne(cmd, env, name, namespace)
	} else {
		report, err = r.treeOfAll(cmd.Context(), namespace)
	}
	if err != nil {
		return err
	}
	if printed, err := printReport(cmd.OutOrStdout(), f.output, report); printed || err != nil {
		return errors.Join(err, tellWarnings(cmd, f.output, report.Warnings))
	}
	if err := printWarnings(cmd.ErrOrStderr(), report.Warnings); err != nil {
		return err
	}
	if len(report.Stacks) == 0 {
		return printLines(cmd.ErrOrStderr(), Clean("MLKeeper manages nothing "+scopeText(namespace)))
	}
	return printTree(cmd.OutOrStdout(), report, paint, f.output == "wide")
}

func scopeText(namespace string) string {
	if namespace == "" {
		return "in any namespace"
	}
	return fmt.Sprintf("in namespace %q; -A shows all", namespace)
}
