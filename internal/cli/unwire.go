package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"mlkeeper.dev/internal/engine/wiring"
)

// NewUnwireCommand returns `mlkeeper unwire`.
func NewUnwireCommand(env Environment) *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:   "unwire",
		Short: "Remove MLKeeper's entries from the objects of others, after the operator was removed",
		Long: `Remove MLKeeper's entries from the objects of others in all namespaces, such as the payload processors of ModelMesh and
the loggers of InferenceServices. It is for a cluster from which the operator was removed before its custom resources
were: a running operator adds the entries again. Entries of others stay. The command can be repeated.`,
		Example: `  mlkeeper unwire --dry-run
  mlkeeper unwire`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := env.Connection.open()
			if err != nil {
				return err
			}
			return runUnwire(cmd, c, wiresOf(env), dry)
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print what would be done; the API server checks it and changes nothing")
	return cmd
}

func wiresOf(env Environment) []wiring.Wire {
	var out []wiring.Wire
	for _, r := range env.Controllers() {
		out = append(out, r.Wires()...)
	}
	return out
}

func runUnwire(cmd *cobra.Command, c *cluster, wires []wiring.Wire, dry bool) error {
	api, prefix := c.dynamic, ""
	if dry {
		api, prefix = dryRun{api}, "dry run: "
	}
	var failed error
	err := wiring.Unwire(cmd.Context(), api, c.mapper(), wires, func(line string) {
		failed = errors.Join(failed, printLines(cmd.OutOrStdout(), prefix+Clean(line)))
	})
	if err != nil {
		return fmt.Errorf("%w\nnot all entries were removed: correct the errors above and run unwire again", err)
	}
	return failed
}

// errDry is the answer to the writes that unwire does not need.
var errDry = errors.New("bug: a dry run can only update and delete")

// dryRun is a client whose writes the API server checks and does not store.
type dryRun struct{ dynamic.Interface }

// Resource implements dynamic.Interface.
func (d dryRun) Resource(gvr schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	api := d.Interface.Resource(gvr)
	return dryKind{dryResource{api}, api}
}

type dryKind struct {
	dryResource
	api dynamic.NamespaceableResourceInterface
}

// Namespace implements dynamic.NamespaceableResourceInterface.
func (d dryKind) Namespace(namespace string) dynamic.ResourceInterface {
	return dryResource{d.api.Namespace(namespace)}
}

// dryResource overrides every write of the client that it holds.
type dryResource struct{ dynamic.ResourceInterface }

func (d dryResource) Update(
	ctx context.Context, u *unstructured.Unstructured, o metav1.UpdateOptions, sub ...string,
) (*unstructured.Unstructured, error) {
	o.DryRun = []string{metav1.DryRunAll}
	return d.ResourceInterface.Update(ctx, u, o, sub...)
}

func (d dryResource) Delete(ctx context.Context, name string, o metav1.DeleteOptions, sub ...string) error {
	o.DryRun = []string{metav1.DryRunAll}
	return d.ResourceInterface.Delete(ctx, name, o, sub...)
}

func (dryResource) Create(
	context.Context, *unstructured.Unstructured, metav1.CreateOptions, ...string,
) (*unstructured.Unstructured, error) {
	return nil, errDry
}

func (dryResource) UpdateStatus(
	context.Context, *unstructured.Unstructured, metav1.UpdateOptions,
) (*unstructured.Unstructured, error) {
	return nil, errDry
}

func (dryResource) DeleteCollection(context.Context, metav1.DeleteOptions, metav1.ListOptions) error {
	return errDry
}

func (dryResource) Patch(
	context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string,
) (*unstructured.Unstructured, error) {
	return nil, errDry
}

func (dryResource) Apply(
	context.Context, string, *unstructured.Unstructured, metav1.ApplyOptions, ...string,
) (*unstructured.Unstructured, error) {
	return nil, errDry
}

func (dryResource) ApplyStatus(
	context.Context, string, *unstructured.Unstructured, metav1.ApplyOptions,
) (*unstructured.Unstructured, error) {
	return nil, errDry
}
