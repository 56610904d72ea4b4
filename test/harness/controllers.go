package harness

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/internal/cli"
	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/test/cluster"
)

// Register is a controller that an operator runs.
type Register interface {
	add(e *engine.Engine) error
	erased() controller.Any
}

// Controller makes a Register of the definition of a controller and its system.
func Controller[C client.Object, F any](def controller.Definition[C], sys controller.Controller[C, F]) Register {
	return registered[C, F]{def, sys}
}

type registered[C client.Object, F any] struct {
	def controller.Definition[C]
	sys controller.Controller[C, F]
}

// PerOperator is a controller that is made anew for each operator, as each process has its own: what one forgets, another remembers.
func PerOperator(make func() Register) Register { return perOperator(make) }

type perOperator func() Register

func (p perOperator) add(e *engine.Engine) error { return p().add(e) }

func (p perOperator) erased() controller.Any { return p().erased() }

// Trusted is the controller where config/components/trusted is switched on.
func Trusted(r Register) Register { return trusted{r} }

type trusted struct{ Register }

func (r registered[C, F]) add(e *engine.Engine) error { return engine.Register(e, r.def, r.sys) }

func (r registered[C, F]) erased() controller.Any { return controller.Erase(r.def, r.sys) }

// rightsOf are those of an operator that runs the controllers: their shipped roles, or for a controller of the tests the role that
// `mlkeeper rbac` makes for it.
func rightsOf(opts Options, controllers []Register) (cluster.Rights, error) {
	out := cluster.Rights{Least: opts.LeastRights}
	if opts.AllControllers {
		return out, nil
	}
	root, err := cluster.Root()
	if err != nil {
		return out, err
	}
	for _, r := range controllers {
		name := r.erased().Name()
		out.Controllers = append(out.Controllers, name)
		if _, is := r.(trusted); is {
			out.Trusted = true
		}
		if _, err := os.Stat(filepath.Join(root, "config", "rbac", name, "role.yaml")); err == nil {
			continue
		}
		var role bytes.Buffer
		cmd := cli.NewRBACCommand(cli.Environment{Controllers: func() []controller.Any { return []controller.Any{r.erased()} }})
		cmd.SetArgs([]string{"--controller", name})
		cmd.SetOut(&role)
		if err := cmd.Execute(); err != nil {
			return out, fmt.Errorf("the role of controller %s: %w", name, err)
		}
		out.Roles = append(out.Roles, role.String())
	}
	return out, nil
}
