package cli

import (
	"io/fs"
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
	// Now is the clock.
	Now func() time.Time
}

// NewVersionCommand returns `mlkeeper version`.
func NewVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printLines(cmd.OutOrStdout(), version.Version)
		},
	}
}
