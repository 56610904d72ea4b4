package cli

import (
	"io/fs"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/version"
)

// Environment is what the commands work with.
type Environment struct {
	// Connection tells which cluster is meant.
	Connection *Connection
	// Controllers returns the controllers; it is called after the flags are parsed.
	Controllers func() []controller.Any
	// Definitions holds the CustomResourceDefinitions of the controllers as bases/*.yaml.
	Definitions fs.FS
	// Manifests holds config/, for the commands that print and that check an installation.
	Manifests fs.FS
	// Terminal says how to print; nil stands for the defaults.
	Terminal *Terminal
	// Now is the clock.
	Now func() time.Time
}

// NewVersionCommand returns `mlkeeper version`.
func NewVersionCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report := &VersionReport{Version: version.Version, GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
			if err := checkOutput(output, report, "text"); err != nil {
				return err
			}
			if printed, err := printReport(cmd.OutOrStdout(), output, report); printed || err != nil {
				return err
			}
			return printLines(cmd.OutOrStdout(), report.Version)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, yaml, json or jsonpath=TEMPLATE")
	return cmd
}

// VersionReport is what `mlkeeper version -o json` prints. Fields are only ever added.
type VersionReport struct {
	Version   string `json:"version"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}
