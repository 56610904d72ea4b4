package kustomize

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/types"
	kyaml "sigs.k8s.io/yaml"
)

// place is the namespace that an application in legacy mode is given.
type place struct {
	// namespace is that of the KfDef, which kfctl gave to every application that set none itself.
	namespace string
	// flat says that the application has no base.
	flat bool
}

// setNamespace gives the entry of an application its namespace, where kfctl would have, and names the objects that named another.
//
// An application that no kfctl could have rendered keeps the namespaces that its files name: it was written for kustomize
// build, and no installation knows it otherwise. So does one without a base whose files name several namespaces: they are
// apart on purpose, such as the leader election of cert-manager in kube-system. No KfDef that Kubeflow 1.0 to 1.2 or Open Data
// Hub 1.1 published has an application without a base.
func (p *place) setNamespace(v *visit) []string {
	given := v.k.Namespace
	if given == "" {
		if v.newer != "" || p.flat && v.hasSeveralNamespaces() {
			return nil
		}
		v.k.Namespace, v.changed = p.namespace, true
	} else if p.flat {
		return nil // Its own kustomization says so, and kustomize build does the same.
	}
	var moved []string
	for n := range v.named {
		if n.namespace != v.k.Namespace {
			moved = append(moved, fmt.Sprintf("%s %s of %s", n.kind, n.name, n.namespace))
		}
	}
	if len(moved) == 0 {
		return nil
	}
	slices.Sort(moved)
	return []string{fmt.Sprintf("put into namespace %s, as kfctl did, although the files name another: %s", v.k.Namespace, list(moved))}
}

// named is an object with a namespace of its own.
type named struct{ kind, name, namespace string }

// maxNamed bounds the objects that are remembered of one kustomization, and maxNameLength what a message shows of a name.
const maxNamed, maxNameLength = maxObjects, 80

// name remembers an object that names its namespace.
func (v *visit) name(n named) {
	if n.namespace != "" && len(v.named) < maxNamed {
		v.named[n] = true
	}
}

// nameOf reads the name of an object in a file.
func nameOf(object *yaml.Node) named {
	_, metadata := field(object, "metadata")
	text := func(node *yaml.Node, name string) string {
		_, value := field(node, name)
		if value == nil || value.Kind != yaml.ScalarNode {
			return ""
		}
		return truncate(value.Value)
	}
	return named{kind: text(object, "kind"), name: text(metadata, "name"), namespace: text(metadata, "namespace")}
}

// overrideNamespaces applies the namespace of a kustomization below the entry to what is named below it.
func (v *visit) overrideNamespaces() {
	if v.k.Namespace == "" {
		return
	}
	below := v.named
	v.named = map[named]bool{}
	v.name(named{kind: "the objects", name: "of " + truncate(displayPath(v.file)), namespace: truncate(v.k.Namespace)})
	for n := range below {
		v.name(named{kind: n.kind, name: n.name, namespace: truncate(v.k.Namespace)})
	}
}

// hasSeveralNamespaces says that several namespaces are named.
func (v *visit) hasSeveralNamespaces() bool {
	names := map[string]bool{}
	for n := range v.named {
		names[n.namespace] = true
	}
	return len(names) > 1
}

// fieldsOf320 are the fields of a kustomization in kustomize v3.2.0, which kfctl had within it (pkg/types/kustomization.go and
// fix.go there); it refused every other one (pkg/target/kusttarget.go, DisallowUnknownFields). kfctl itself read metadata.
var fieldsOf320 = []string{
	"apiVersion", "kind", "metadata", "namePrefix", "nameSuffix", "namespace", "commonLabels", "commonAnnotations",
	"patchesStrategicMerge", "patchesJson6902", "patches", "images", "imageTags", "replicas", "vars", "resources", "crds", "bases",
	"configMapGenerator", "secretGenerator", "generatorOptions", "configurations", "generators", "transformers", "inventory",
}

// inKustomize320 says that the kustomize of kfctl knew a field, which it decoded in any case: Kubeflow 1.2 writes nameprefix.
func inKustomize320(name string) bool {
	return slices.ContainsFunc(fieldsOf320, func(known string) bool { return strings.EqualFold(known, name) })
}

// findNewFields notes what the kustomize of kfctl did not know, and what the generators of a kustomization name.
func (v *visit) findNewFields(content []byte) error {
	var raw map[string]any
	if err := kyaml.Unmarshal(content, &raw); err != nil {
		return fmt.Errorf("%s: %s: correct the file", displayPath(v.file), repositoryPaths(err))
	}
	if v.k.Kind == types.ComponentKind {
		v.newer = "kind " + types.ComponentKind
	}
	for _, name := range sortedKeys(raw) {
		if raw[name] != nil && !inKustomize320(name) {
			v.newer = cmp.Or(v.newer, name)
		}
	}
	for _, g := range v.k.ConfigMapGenerator {
		v.name(named{kind: "ConfigMap", name: truncate(g.Name), namespace: truncate(g.Namespace)})
	}
	for _, g := range v.k.SecretGenerator {
		v.name(named{kind: "Secret", name: truncate(g.Name), namespace: truncate(g.Namespace)})
	}
	return nil
}

// truncate is as much of a name as a message shows.
func truncate(name string) string {
	return strings.ToValidUTF8(name[:min(len(name), maxNameLength)], "")
}
