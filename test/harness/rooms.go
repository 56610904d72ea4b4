package harness

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/internal/cli"
	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/internal/engine/room"
	"mlkeeper.dev/test/cluster"
)

// Register is a room that an operator runs.
type Register interface {
	add(e *engine.Engine) error
	erased() room.Any
}

// Room makes a Register of the definition of a room and its system.
func Room[C client.Object, F any](def room.Definition[C], sys room.System[C, F]) Register {
	return registered[C, F]{def, sys}
}

type registered[C client.Object, F any] struct {
	def room.Definition[C]
	sys room.System[C, F]
}

// Trusted is the room where config/components/trusted is switched on.
func Trusted(r Register) Register { return trusted{r} }

type trusted struct{ Register }

func (r registered[C, F]) add(e *engine.Engine) error { return engine.Register(e, r.def, r.sys) }

func (r registered[C, F]) erased() room.Any { return room.Erase(r.def, r.sys) }

// rightsOf are those of an operator that runs the rooms: their shipped roles, or for a room of the tests the role that
// `mlkeeper rbac` makes for it.
func rightsOf(opts Options, rooms []Register) (cluster.Rights, error) {
	var out cluster.Rights
	if opts.AllRooms {
		return out, nil
	}
	root, err := cluster.Root()
	if err != nil {
		return out, err
	}
	for _, r := range rooms {
		name := r.erased().Name()
		out.Rooms = append(out.Rooms, name)
		if _, is := r.(trusted); is {
			out.Trusted = true
		}
		if _, err := os.Stat(filepath.Join(root, "config", "rbac", "role-"+name+".yaml")); err == nil {
			continue
		}
		var role bytes.Buffer
		cmd := cli.NewRBACCommand(cli.Environment{Rooms: func() []room.Any { return []room.Any{r.erased()} }})
		cmd.SetArgs([]string{"--room", name})
		cmd.SetOut(&role)
		if err := cmd.Execute(); err != nil {
			return out, fmt.Errorf("the role of room %s: %w", name, err)
		}
		out.Roles = append(out.Roles, role.String())
	}
	return out, nil
}
