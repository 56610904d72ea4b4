//go:build realnode

package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/test/cluster"
)

// objects lists every object of a namespace, and those of the whole cluster that have MLKeeper's label, as "resource
// name".
func objects(t *testing.T, c *cluster.Cluster, ns string) ([]string, error) {
	t.Helper()
	all, err := c.Everything(t.Context())
	var out []string
	for _, o := range all {
		// Pods of an object of others (ModelMesh, KServe's predictor) have another name after each change of it, and the slices of
		// Endpoints too.
		if strings.HasPrefix(o.Name, meshName+"-") || strings.HasPrefix(o.Name, "model-predictor-") || o.Resource == "endpointslices" {
			continue
		}
		if o.Namespace == ns || o.Namespace == "" && o.Labels[keeper.ControllerLabel] != "" {
			out = append(out, o.Resource+" "+o.Name)
		}
	}
	slices.Sort(out)
	return out, err
}

// onlyLeft waits until nothing is there but what was there before and what is kept on purpose.
func onlyLeft(t *testing.T, c *cluster.Cluster, ns string, before []string, kept ...string) {
	t.Helper()
	want := append(slices.Clone(before), kept...)
	slices.Sort(want)
	cluster.Eventually(t, patience, func() error {
		got, err := objects(t, c, ns)
		if err != nil {
			return err
		}
		var errs []error
		for _, o := range got {
			if !slices.Contains(want, o) {
				errs = append(errs, fmt.Errorf("%s is left", o))
			}
		}
		for _, o := range want {
			if !slices.Contains(got, o) {
				errs = append(errs, fmt.Errorf("%s is gone", o))
			}
		}
		return errors.Join(errs...)
	})
	t.Logf("after the deletion nothing is left but what was there before, and what is kept: %s", strings.Join(kept, ", "))
}
