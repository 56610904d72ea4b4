//go:build realnode

package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/test/cluster"
)

// transitory are resources of which nobody is told: they expire, or mirror others.
var transitory = []string{"events", "endpoints", "endpointslices", "componentstatuses"}

// objects lists every object of a namespace, and those of the whole cluster that have MLKeeper's label, as "resource
// name".
func objects(t *testing.T, c *cluster.Cluster, ns string) ([]string, error) {
	t.Helper()
	disco, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	lists, err := disco.ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	api, err := metadata.NewForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || slices.Contains(transitory, r.Name) {
				continue
			}
			items, err := api.Resource(gv.WithResource(r.Name)).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			for i := range items.Items {
				m := &items.Items[i]
				if strings.HasPrefix(m.Name, meshName+"-") {
					// Pods of an object of others have another name after each change of it.
					continue
				}
				if m.Namespace == ns || (m.Namespace == "" && m.Labels[keeper.RoomLabel] != "") {
					out = append(out, r.Name+" "+m.Name)
				}
			}
		}
	}
	slices.Sort(out)
	return out, nil
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
