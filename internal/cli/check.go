package cli

import (
	"context"
	"fmt"
	"io/fs"
	"slices"

	"github.com/spf13/cobra"
	apiversion "k8s.io/apimachinery/pkg/util/version"

	"mlkeeper.dev/internal/engine/controller"
)

// engineFolder has the definitions that every installation needs.
const engineFolder = "engine"

// oldest and newest are the minor releases of Kubernetes that are supported, with those in between; the tests run on the newest, and make
// test-versions on the oldest, too. Older ones than 1.30 serve no ValidatingAdmissionPolicies as
// admissionregistration.k8s.io/v1, which hold the operator.
var oldest, newest = apiversion.MustParseGeneric("1.34"), apiversion.MustParseGeneric("1.36")

// checkFlags are the flags of `mlkeeper check`.
type checkFlags struct {
	pre         bool
	controllers []string
	output      string
}

// CheckReport is what `mlkeeper check -o json` prints. Fields are only ever added.
type CheckReport struct {
	Checks []Check `json:"checks"`
}

// Check is one thing that was looked at.
type Check struct {
	// State is ok, change for what an installation will change, warning, or problem for what stands in the way.
	State   string `json:"state"`
	Subject string `json:"subject"`
	Message string `json:"message"`
	// Definition is what stands there of a CustomResourceDefinition; nil for other subjects.
	Definition *DefinitionState `json:"definition,omitempty"`
}

// The states of a Check.
const (
	checkOK      = "ok"
	checkChange  = "change"
	checkWarning = "warning"
	checkProblem = "problem"
)

// NewCheckCommand returns `mlkeeper check`.
func NewCheckCommand(env Environment) *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check what an installation will meet, or whether an installation fits this release",
		Long: `Check whether the installation of MLKeeper in a cluster fits this release: the manager runs, the definitions of its controllers are
those of this release, and its ServiceAccount has the rights that they need.

With --pre, check before an installation or an update, with your rights: whether the release of Kubernetes is supported, which of the
CustomResourceDefinitions stand there and whose they are, what make install will change, and which rights you lack. A definition of an
original operator is adopted once that operator no longer runs; its objects stay.

Nothing is written. The exit status is 1 if there is a problem.`,
		Example: `  mlkeeper check --pre
  mlkeeper check --pre --controller trustyai
  mlkeeper check -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runCheck(cmd, env, f) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.pre, "pre", false, "check before an installation or an update")
	flags.StringArrayVar(&f.controllers, "controller", nil, "with --pre, only for this controller; repeatable")
	flags.StringVarP(&f.output, "output", "o", "text", "text, yaml, json or jsonpath=TEMPLATE")
	return cmd
}

// checker looks at a cluster and keeps what it finds.
type checker struct {
	*cluster
	controllers []controller.Any
	// manifests holds config/, whose Roles the manager needs in its own namespace.
	manifests fs.FS
	pre       bool
	report    CheckReport
}

func runCheck(cmd *cobra.Command, env Environment, f checkFlags) error {
	if err := checkOutput(f.output, &CheckReport{}, "text"); err != nil {
		return err
	}
	if !f.pre && len(f.controllers) > 0 {
		return fmt.Errorf("--controller is for --pre: without it, those are checked that the manager runs")
	}
	paint := env.Terminal.palette(cmd.OutOrStdout())
	if _, err := rolesFor(env.Controllers(), f.controllers, true); err != nil {
		return err
	}
	cluster, err := env.Connection.open()
	if err != nil {
		return err
	}
	c := &checker{cluster: cluster, controllers: env.Controllers(), manifests: env.Manifests, pre: f.pre, report: CheckReport{Checks: []Check{}}}
	if err := c.run(cmd.Context(), env, f.controllers); err != nil {
		return err
	}
	printed, err := printReport(cmd.OutOrStdout(), f.output, &c.report)
	if !printed && err == nil {
		err = c.print(cmd, paint)
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(c.report.Checks, func(one Check) bool { return one.State == checkProblem }) {
		return &Exit{Status: 1}
	}
	return nil
}

func (c *checker) run(ctx context.Context, env Environment, names []string) error {
	c.kubernetes(ctx)
	var managers []managerState
	if !c.pre {
		var err error
		if managers, err = c.managers(ctx); err != nil {
			return err
		}
		for _, m := range managers {
			names = append(names, m.controllers...)
		}
		if len(managers) == 0 {
			return nil
		}
	}
	definitions, err := readDefinitions(env.Definitions)
	if err != nil {
		return err
	}
	for _, d := range definitions {
		if d.folder == engineFolder || slices.Contains(names, d.folder) || c.pre && len(names) == 0 {
			if err := c.definition(ctx, d); err != nil {
				return err
			}
		}
	}
	if c.pre {
		if err := c.openDataHub(ctx, names); err != nil {
			return err
		}
		return c.installRights(ctx)
	}
	for _, m := range managers {
		if err := c.managerRights(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) add(state, subject, format string, args ...any) {
	c.report.Checks = append(c.report.Checks, Check{State: state, Subject: subject, Message: fmt.Sprintf(format, args...)})
}

// kubernetes checks the release of the API server.
func (c *checker) kubernetes(ctx context.Context) {
	const subject = "Kubernetes"
	if c.version == nil {
		return
	}
	info, err := c.version(ctx)
	if err != nil {
		c.add(checkProblem, subject, "the API server does not tell its version: %v", err)
		return
	}
	found, err := apiversion.ParseGeneric(info.GitVersion)
	if err != nil {
		c.add(checkWarning, subject, "the version %s cannot be compared with %s to %s, which are supported", info.GitVersion, oldest, newest)
		return
	}
	switch minor := apiversion.MustParseGeneric(fmt.Sprintf("%d.%d", found.Major(), found.Minor())); {
	case minor.LessThan(oldest):
		c.add(checkProblem, subject, "%s is older than %s, the oldest release that this version of MLKeeper supports: update Kubernetes", info.GitVersion, oldest)
	case newest.LessThan(minor):
		c.add(checkProblem, subject, "%s is newer than %s, the newest release that this version of MLKeeper was tested on: use a newer version of MLKeeper",
			info.GitVersion, newest)
	default:
		c.add(checkOK, subject, "%s", info.GitVersion)
	}
}

// print prints a line for each check.
func (c *checker) print(cmd *cobra.Command, paint palette) error {
	styles := map[string]string{checkOK: styleGreen, checkChange: styleYellow, checkWarning: styleYellow, checkProblem: styleRed}
	for _, one := range c.report.Checks {
		line := paint.paint(styles[one.State], fmt.Sprintf("%-8s", one.State)) + Clean(one.Subject+": "+one.Message)
		if err := printLines(cmd.OutOrStdout(), line); err != nil {
			return err
		}
	}
	return nil
}
