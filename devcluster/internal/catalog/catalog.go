// Package catalog holds permissive definitions of the third-party kinds that the
// operator meets, and installs them on request.
//
// They accept any spec and any status: they let the operator's reads, writes and
// watches be exercised without the third party's controllers, and say nothing
// about what the real schemas would refuse.
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
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// All is the name that stands for every definition.
const All = "all"

// served limits the wait for a definition to be established and served.
const served = 30 * time.Second

//go:embed crds/*.yaml
var files embed.FS

// aliases are other names that people try first.
var aliases = map[string]string{
	"isvc": "inferenceservice", "kserve": "inferenceservice", "cert-manager": "certmanager",
	"routes": "route", "servicemonitors": "servicemonitor", "inferenceservices": "inferenceservice",
	"servingruntimes": "servingruntime",
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
	for _, name := range asked {
		name = strings.ToLower(strings.TrimSpace(name))
		if name == All {
			return known, nil
		}
		if real, ok := aliases[name]; ok {
			name = real
		}
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no definition %q; choose from %s, or %s",
				name, strings.Join(known, ", "), All)
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// Load reads the definitions of the named files.
func Load(names []string) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, name := range names {
		file, err := files.Open("crds/" + name + ".yaml")
		if err != nil {
			return nil, err
		}
		decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
		for {
			obj := &unstructured.Unstructured{}
			err := decoder.Decode(&obj.Object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("definition %s: %w", name, err)
			}
			out = append(out, obj)
		}
	}
	return out, nil
}

// Install applies the definitions asked for and returns, with their names, when
// the server serves every version of each.
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
	var installed []string
	for _, crd := range crds {
		_, err := client.Resource(crdResource).Apply(ctx, crd.GetName(), crd,
			metav1.ApplyOptions{FieldManager: "devcluster", Force: true})
		if err != nil {
			return nil, fmt.Errorf("installing %s: %w", crd.GetName(), err)
		}
		installed = append(installed, crd.GetName())
	}
	ctx, cancel := context.WithTimeout(ctx, served)
	defer cancel()
	for _, crd := range crds {
		for _, gvr := range resources(crd) {
			if err := waitServed(ctx, client, gvr); err != nil {
				return nil, err
			}
		}
	}
	return installed, nil
}

// resources lists the API resources that a definition serves.
func resources(crd *unstructured.Unstructured) []schema.GroupVersionResource {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	var out []schema.GroupVersionResource
	for _, v := range versions {
		if m, ok := v.(map[string]any); ok {
			version, _ := m["name"].(string)
			out = append(out, schema.GroupVersionResource{Group: group, Version: version, Resource: plural})
		}
	}
	return out
}

// waitServed asks for the resource itself: the Established condition comes a
// little before the handlers do.
func waitServed(ctx context.Context, client dynamic.Interface, gvr schema.GroupVersionResource) error {
	for {
		_, err := client.Resource(gvr).List(ctx, metav1.ListOptions{Limit: 1})
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
