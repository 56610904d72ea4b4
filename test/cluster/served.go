package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// servedTimeout is how long the API server may take until it serves a definition, on a busy machine.
const servedTimeout = 2 * time.Minute

// AwaitServed waits until the API server serves definitions and tells of their kinds. Both follow the condition Established, so that
// kubectl may know no such kind although "kubectl wait" has seen the condition; and while the conditions of a new definition are null,
// that command fails. Without names it waits for all definitions that there are.
func (c *Cluster) AwaitServed(t testing.TB, definitions ...string) {
	t.Helper()
	Eventually(t, servedTimeout, func() error { return c.served(definitions) })
}

// served says which definition is not usable yet.
func (c *Cluster) served(definitions []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	list, err := c.definitions(ctx, definitions)
	if err != nil {
		return err
	}
	var wanted []schema.GroupVersionKind
	for i := range list {
		crd := &list[i]
		if !established(crd) {
			return fmt.Errorf("%s is not Established: %+v", crd.Name, crd.Status.Conditions)
		}
		for _, version := range crd.Spec.Versions {
			if !version.Served {
				continue
			}
			gvk := schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}
			objects := &unstructured.UnstructuredList{}
			objects.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
			if err := c.Client.List(ctx, objects, client.Limit(1)); err != nil {
				return err
			}
			wanted = append(wanted, gvk)
		}
	}
	return c.discovered(wanted)
}

// definitions are those with the names, or all of them.
func (c *Cluster) definitions(ctx context.Context, names []string) ([]apiextensionsv1.CustomResourceDefinition, error) {
	list := apiextensionsv1.CustomResourceDefinitionList{}
	if len(names) == 0 {
		err := c.Client.List(ctx, &list)
		return list.Items, err
	}
	for _, name := range names {
		crd := apiextensionsv1.CustomResourceDefinition{}
		if err := c.Client.Get(ctx, client.ObjectKey{Name: name}, &crd); err != nil {
			return nil, err
		}
		list.Items = append(list.Items, crd)
	}
	return list.Items, nil
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, condition := range crd.Status.Conditions {
		if condition.Type == apiextensionsv1.Established {
			return condition.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

// discovered says which kind the discovery of all groups does not have yet, which is the one that kubectl reads.
func (c *Cluster) discovered(wanted []schema.GroupVersionKind) error {
	disco, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		return err
	}
	// An API that does not answer is no matter of theirs.
	_, lists, err := disco.ServerGroupsAndResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return err
	}
	known := map[schema.GroupVersionKind]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return err
		}
		for i := range list.APIResources {
			known[gv.WithKind(list.APIResources[i].Kind)] = true
		}
	}
	for _, gvk := range wanted {
		if !known[gvk] {
			return fmt.Errorf("the discovery has no %s yet", gvk)
		}
	}
	return nil
}
