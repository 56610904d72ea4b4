// Package catalog holds the definitions of the third-party kinds that the
// operator meets, and installs them on request.
//
// They are those that the third parties publish, with every validation, default
// and list type, and without descriptions: make generate takes them from the Go
// modules in hack/catalog/sources.yaml. So the operator's reads, writes and
// watches meet what they meet in life, without the third party's controllers.
package catalog

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// All is the name that stands for every definition.
const All = "all"

// OpenShift is the name that stands for those that make a cluster OpenShift: Routes,
// security context constraints and service-ca.
const OpenShift = "openshift"

// served limits the wait for a definition to be established and served.
const served = 60 * time.Second

//go:embed crds/*.yaml
var files embed.FS

// aliases are other names that people try first.
var aliases = map[string]string{
	"isvc": "inferenceservice", "kserve": "inferenceservice", "cert-manager": "certmanager",
	"routes": "route", "servicemonitors": "servicemonitor", "inferenceservices": "inferenceservice",
	"servingruntimes": "servingruntime", "securitycontextconstraints": "scc",
}

var crdResource = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// Names lists the definitions that can be asked for.
func Names() []string {
	entries, err := files.ReadDir("crds")
	if err != nil {
		// The directory is part of the binary.
		panic(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// Resolve turns what a user asked for into names of the catalog.
func Resolve(asked []string) ([]string, error) {
	known := Names()
	var names []string
	for _, name := range expand(asked) {
		name = strings.ToLower(strings.TrimSpace(name))
		if name == All {
			return known, nil
		}
		if real, ok := aliases[name]; ok {
			name = real
		}
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no definition %q; choose from %s, %s, or %s",
				name, strings.Join(known, ", "), OpenShift, All)
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// expand puts what makes a cluster OpenShift in the place of that name.
func expand(asked []string) []string {
	var out []string
	for _, name := range asked {
		if strings.EqualFold(strings.TrimSpace(name), OpenShift) {
			out = append(out, "route", "scc", "serviceca")
		} else {
			out = append(out, name)
		}
	}
	return out
}

// Load reads the definitions of the named files.
func Load(names []string) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, name := range names {
		file, err := files.Open("crds/" + name + ".yaml")
		if err != nil {
			return nil, err
		}
		found, err := decode(file)
		if err != nil {
			return nil, fmt.Errorf("definition %s: %w", name, err)
		}
		out = append(out, found...)
	}
	return out, nil
}

// decode reads the objects of a YAML file.
func decode(text io.Reader) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(text, 4096)
	for {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, obj)
	}
}

// Install applies the definitions asked for, with the policies that belong to
// them, and returns, with their names, when the server serves every version of each.
func Install(ctx context.Context, config *rest.Config, asked []string) ([]string, error) {
	names, err := Resolve(asked)
	if err != nil {
		return nil, err
	}
	crds, err := Load(names)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	if err := enforce(ctx, client, names); err != nil {
		return nil, err
	}
	var installed []string
	for _, crd := range crds {
		_, err := client.Resource(crdResource).Apply(ctx, crd.GetName(), crd,
			metav1.ApplyOptions{FieldManager: "devcluster", Force: true})
		if err != nil {
			return nil, fmt.Errorf("installing %s: %w", crd.GetName(), err)
		}
		installed = append(installed, crd.GetName())
	}
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, served)
	defer cancel()
	var all []schema.GroupVersionResource
	for _, crd := range crds {
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		for _, gvr := range resources(crd) {
			if err := waitServed(ctx, client, found, gvr, kind); err != nil {
				return nil, err
			}
			all = append(all, gvr)
		}
	}
	return installed, waitListed(ctx, found, all)
}

// waitListed waits until the discovery of all groups, which kubectl reads, has the
// resources: it follows that of the single groups.
func waitListed(ctx context.Context, found discovery.DiscoveryInterface, wanted []schema.GroupVersionResource) error {
	for {
		_, lists, err := found.ServerGroupsAndResources()
		// An API that does not answer is no matter of theirs.
		if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
			return err
		}
		missing := slices.DeleteFunc(slices.Clone(wanted), func(gvr schema.GroupVersionResource) bool {
			return slices.ContainsFunc(lists, func(list *metav1.APIResourceList) bool {
				return list.GroupVersion == gvr.GroupVersion().String() &&
					slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == gvr.Resource })
			})
		})
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%v are installed, and no client finds them: %w", missing, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// resources lists the API resources that a definition serves.
func resources(crd *unstructured.Unstructured) []schema.GroupVersionResource {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	var out []schema.GroupVersionResource
	for _, v := range versions {
		if m, ok := v.(map[string]any); ok && m["served"] == true {
			version, _ := m["name"].(string)
			out = append(out, schema.GroupVersionResource{Group: group, Version: version, Resource: plural})
		}
	}
	return out
}

// discovered says whether discovery names the resource; an error of its own if not yet.
func discovered(found discovery.DiscoveryInterface, gvr schema.GroupVersionResource) error {
	list, err := found.ServerResourcesForGroupVersion(gvr.GroupVersion().String())
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == gvr.Resource }) {
		return apierrors.NewNotFound(gvr.GroupResource(), "")
	}
	return nil
}

// mutable says whether admission knows the schema of the resource, which a policy that
// changes its objects needs and which follows within five seconds; an error of its own if
// not yet. The object is never stored, and what else is wrong with it does not matter.
func mutable(ctx context.Context, client dynamic.Interface, gvr schema.GroupVersionResource, kind string) error {
	empty := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "probe"}}}
	empty.SetAPIVersion(gvr.GroupVersion().String())
	empty.SetKind(kind)
	_, err := client.Resource(gvr).Namespace(metav1.NamespaceDefault).Create(ctx, empty, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if apierrors.IsServiceUnavailable(err) {
		return err
	}
	return nil
}

// waitServed asks for the resource itself and for its discovery: the Established
// condition comes a little before the handlers do, and discovery, without which a
// client does not know the kind, seconds after them.
func waitServed(ctx context.Context, client dynamic.Interface, found discovery.DiscoveryInterface, gvr schema.GroupVersionResource, kind string) error {
	for {
		_, err := client.Resource(gvr).List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil {
			err = discovered(found, gvr)
		}
		if err == nil {
			err = mutable(ctx, client, gvr, kind)
		}
		if err == nil {
			return nil
		}
		if !apierrors.IsNotFound(err) && !apierrors.IsServiceUnavailable(err) && !apierrors.IsTooManyRequests(err) {
			return fmt.Errorf("waiting for %s: %w", gvr, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is installed and not served; see `devcluster kubectl get crd %s -o yaml`: %w",
				gvr, gvr.GroupResource(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
