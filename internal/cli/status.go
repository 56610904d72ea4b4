package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mlkeeper.dev/internal/engine/controller"
)

// statusFlags are the flags of `mlkeeper status`.
type statusFlags struct {
	namespace string
	all       bool
	kinds     []string
	output    string
	exitCode  bool
}

// StatusReport is what `mlkeeper status -o json` prints. Fields are only ever added.
type StatusReport struct {
	// Stacks are the custom resources, by kind, namespace and name.
	Stacks []StackStatus `json:"stacks"`
	// Warnings say what could not be read.
	Warnings []string `json:"warnings"`
	// refused says that the custom resources of a kind could not be listed.
	refused bool
}

// StackStatus is one custom resource with what belongs to it.
type StackStatus struct {
	Controller string `json:"controller"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Namespace is empty for a cluster-scoped custom resource.
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       string    `json:"uid"`
	Created   time.Time `json:"created"`
	// Ready is the status of the condition Ready: True, False or Unknown.
	Ready   string `json:"ready"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Observed says that the status is of the latest generation.
	Observed bool `json:"observed"`
	// Stalled says that only a change of the input helps.
	Stalled bool `json:"stalled"`
	// Suspended says that keeper.mlkeeper.dev/suspend stops every write.
	Suspended bool `json:"suspended"`
	// Deleting says that the custom resource is being deleted.
	Deleting bool `json:"deleting"`
	// Objects are what belongs to the custom resource, by kind, namespace and name.
	Objects []ObjectStatus `json:"objects"`
}

// ObjectStatus is one object of a custom resource.
type ObjectStatus struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Namespace is empty for a cluster-scoped object.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Health is Current, InProgress, Failed, Terminating or Unknown, or Missing for an object that MLKeeper wrote and
	// that is not there.
	Health  string `json:"health"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// NewStatusCommand returns `mlkeeper status`.
func NewStatusCommand(env Environment) *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show every custom resource, its objects, their health, and the reason",
		Long: `Show every custom resource of MLKeeper, the objects that belong to it, their health as of now, and the reason. The
cluster is read and never written, and the values of Secrets are not read. The exit status is 0 whatever the health, and with --exit-code
1 unless all are Ready and all kinds can be listed.`,
		Example: `  mlkeeper status -A
  mlkeeper status -n models --kind TrustyAIService -o wide
  mlkeeper status -A -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runStatus(cmd, env, f)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace; default: that of the context")
	flags.BoolVarP(&f.all, "all-namespaces", "A", false, "all namespaces")
	flags.StringSliceVar(&f.kinds, "kind", nil, "only these kinds, by kind, plural or short name")
	flags.StringVarP(&f.output, "output", "o", "table", "table, wide, yaml, json, name or jsonpath=TEMPLATE")
	flags.BoolVar(&f.exitCode, "exit-code", false, "exit with status 1 unless every custom resource is Ready")
	return cmd
}

func runStatus(cmd *cobra.Command, env Environment, f statusFlags) error {
	if err := checkOutput(f.output, &StatusReport{}, "table", "wide"); err != nil {
		return err
	}
	if f.all && f.namespace != "" {
		return errors.New("--all-namespaces and --namespace exclude each other")
	}
	known, err := loadDefinitions(env.Definitions)
	if err != nil {
		return err
	}
	controllers, err := controllersOf(env.Controllers(), known, f.kinds)
	if err != nil {
		return err
	}
	c, err := env.Connection.open()
	if err != nil {
		return err
	}
	collector := &collector{cluster: c, namespace: f.namespace}
	if f.namespace == "" && !f.all {
		collector.namespace = env.Connection.namespace()
	}
	report, err := collector.collect(cmd.Context(), controllers)
	if err != nil {
		return err
	}
	if printed, err := printReport(cmd.OutOrStdout(), f.output, report); printed || err != nil {
		return errors.Join(err, tellWarnings(cmd, f.output, report.Warnings), report.exit(f.exitCode))
	}
	where := "in any namespace"
	if collector.namespace != "" {
		where = fmt.Sprintf("in namespace %q; -A shows all", collector.namespace)
	}
	err = printStatus(cmd.OutOrStdout(), cmd.ErrOrStderr(), report, f.output == "wide", where, env.Now())
	if err != nil {
		return err
	}
	return report.exit(f.exitCode)
}

// exit is the exit status of --exit-code: 1 where a custom resource is not Ready, or may be one of a kind that could not be listed.
func (r *StatusReport) exit(asked bool) error {
	if asked && r.refused {
		return &Exit{Status: 1}
	}
	for i := range r.Stacks {
		if s := &r.Stacks[i]; asked && (s.Ready != "True" || !s.Observed) {
			return &Exit{Status: 1}
		}
	}
	return nil
}

// controllersOf restricts the controllers to the kinds that are asked for.
func controllersOf(controllers []controller.Any, known definitions, kinds []string) ([]controller.Any, error) {
	if len(kinds) == 0 {
		return controllers, nil
	}
	var out []controller.Any
	for _, kind := range kinds {
		var names []string
		found := false
		for _, r := range controllers {
			names = append(names, r.GVK().Kind)
			if named(known, r, kind) {
				out, found = append(out, r), true
			}
		}
		if !found {
			return nil, fmt.Errorf("--kind %q: there is no such kind; there are %s", kind, strings.Join(names, ", "))
		}
	}
	return out, nil
}

// named says that a kind is meant by a name, as kubectl would understand it.
func named(known definitions, r controller.Any, name string) bool {
	gvk := r.GVK()
	names := []string{gvk.Kind, gvk.GroupKind().String(), r.Resource(), r.Resource() + "." + gvk.Group}
	if crd := known[gvk.GroupKind()]; crd != nil {
		names = append(names, crd.Spec.Names.ShortNames...)
	}
	for _, n := range names {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}
