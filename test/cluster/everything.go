package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
)

// Object is one object of the cluster.
type Object struct {
	schema.GroupVersionResource
	Namespace, Name string
	Labels          map[string]string
}

// String prints "resource.group namespace/name".
func (o Object) String() string {
	return fmt.Sprintf("%s %s/%s", o.GroupResource(), o.Namespace, o.Name)
}

// transitory are resources that nobody deletes: they expire, or mirror others.
var transitory = []string{"events", "endpoints", "componentstatuses"}

// devclusterSuffix ends the names of the policies that devcluster installs with the definitions of third parties.
const devclusterSuffix = ".devcluster.mlkeeper.dev"

// Everything lists all objects of all kinds that the cluster serves, but for those of transitory resources and devcluster's own.
func (c *Cluster) Everything(ctx context.Context) ([]Object, error) {
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
	var out []Object
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || slices.Contains(transitory, r.Name) {
				continue
			}
			gvr := gv.WithResource(r.Name)
			items, err := api.Resource(gvr).List(ctx, metav1.ListOptions{})
			if notServed(err) {
				continue // Its definition went after the discovery, and its objects with it.
			}
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", gvr, err)
			}
			for i := range items.Items {
				m := &items.Items[i]
				if strings.HasSuffix(m.Name, devclusterSuffix) {
					continue
				}
				out = append(out, Object{gvr, m.Namespace, m.Name, m.Labels})
			}
		}
	}
	return out, nil
}
