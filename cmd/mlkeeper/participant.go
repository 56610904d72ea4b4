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

// newParticipantCommand is `mlkeeper participant`: a manager with one room, which an ACM runtime gives orders.
func newParticipantCommand(connect connection) *cobra.Command {
	cmd := newManagerCommand(connect)
	cmd.Use, cmd.Short = "participant --config application.yaml", "Run the KServe participant of an ONAP ACM runtime"
	flags := cmd.Flags()
	file := flags.String("config", "", "application.yaml of the participant, as ONAP's has it")
	_ = cmd.MarkFlagRequired("config")
	_ = flags.MarkHidden("participant-config")
	rooms := flags.Lookup("rooms")
	rooms.DefValue = "[" + kserve.RoomName + "]"
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if !rooms.Changed {
			if err := flags.Set("rooms", kserve.RoomName); err != nil {
				return err
			}
		}
		return flags.Set("participant-config", *file)
	}
	return cmd
}

// addParticipant makes the manager the participant that a file describes, and is nothing else if it has no other room.
func addParticipant(mgr manager.Manager, e *engine.Engine, path string, rooms []string) error {
	text, err := os.ReadFile(path)
	if err == nil && !slices.Contains(rooms, kserve.RoomName) {
		err = fmt.Errorf("its orders are carried out by the room %s, which is not among --rooms: add it", kserve.RoomName)
	}
	if err == nil {
		err = participant.Add(mgr, text, participant.Options{
			Version: version.Version, Alone: slices.Equal(rooms, []string{kserve.RoomName}),
			Elements: engine.ResourcesOf(e, kserve.Room()),
			Missing:  func() error { return kserve.Missing(e.Serves) },
		})
	}
	if err != nil {
		return fmt.Errorf("--participant-config %s: %w", path, err)
	}
	return nil
}
