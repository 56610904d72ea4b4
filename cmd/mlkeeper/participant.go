package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/internal/kserve"
	"mlkeeper.dev/internal/participant"
	"mlkeeper.dev/internal/version"
)

// newParticipantCommand is `mlkeeper participant`: a manager with one controller, which an ACM runtime gives orders.
func newParticipantCommand(connect connection) *cobra.Command {
	cmd := newManagerCommand(connect)
	cmd.Use, cmd.Short = "participant --config application.yaml", "Run the KServe participant of an ONAP ACM runtime"
	flags := cmd.Flags()
	file := flags.String("config", "", "application.yaml of the participant, as ONAP's has it")
	_ = cmd.MarkFlagRequired("config")
	_ = flags.MarkHidden("participant-config")
	controllers := flags.Lookup("controllers")
	controllers.DefValue = "[" + kserve.ControllerName + "]"
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if !controllers.Changed {
			if err := flags.Set("controllers", kserve.ControllerName); err != nil {
				return err
			}
		}
		return flags.Set("participant-config", *file)
	}
	return cmd
}

// addParticipant makes the manager the participant that a file describes, and is nothing else if it has no other controller.
func addParticipant(mgr manager.Manager, e *engine.Engine, path string, controllers []string) error {
	text, err := os.ReadFile(path)
	if err == nil && !slices.Contains(controllers, kserve.ControllerName) {
		err = fmt.Errorf("its orders are carried out by the controller %s, which is not among --controllers: add it", kserve.ControllerName)
	}
	if err == nil {
		err = participant.Add(mgr, text, participant.Options{
			Version: version.Version, Alone: slices.Equal(controllers, []string{kserve.ControllerName}),
			Elements:  engine.ResourcesOf(e, kserve.Definition()),
			Missing:   func() error { return kserve.Missing(e.Serves) },
			Namespace: e.OperatorNamespace, Key: e.DigestKey,
		})
	}
	if err != nil {
		return fmt.Errorf("--participant-config %s: %w", path, err)
	}
	return nil
}
