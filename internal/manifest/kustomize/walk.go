package kustomize

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
	kyaml "sigs.k8s.io/yaml"
)

// walk goes through every kustomization that kustomize is going to enter, before it does. It refuses what would be
// fetched, and changes what today's kustomize does not take.
type walk struct {
	tree *tree
	// exact says that kustomize gets the files as they are: nothing is changed in them.
	exact bool
	// place says which namespace the application is given, in its folder alone; nil where none is, and all of the repository is seen.
	place *place
	// search looks for what kfctl could not render; nil where that does not matter.
	search   *search
	done     map[string]*visit
	stack    []string
	warnings []string
}

// visit is what is known of a kustomization and everything below it.
type visit struct {
	// namespaces says that something below looks like a Namespace object.
	namespaces bool
	// namespaceNames are the names that the Namespaces here and below have.
	namespaceNames map[string]bool
	// named are the objects here and below that have a namespace before the kustomization above gives them its own.
	named map[named]bool
	// newer is what the kustomize of kfctl refused here or below; empty for nothing.
	newer string
	// specs are the field specifications for namespaces that configurations below add.
	specs []types.FieldSpec
	// file and k are the kustomization itself; changed says that k is no longer what the file holds.
	file    string
	k       types.Kustomization
	changed bool
}

// located is an error that already names its file.
type located struct{ error }

// enter goes through the kustomization of a folder and everything below it.
func (w *walk) enter(dir string) (*visit, error) {
	if v := w.done[dir]; v != nil {
		return v, nil
	}
	switch {
	case slices.Contains(w.stack, dir):
		return nil, located{fmt.Errorf("the kustomization in %q comes back to itself: remove it from the resources of its bases",
			displayPath(dir))}
	case len(w.stack) >= maxDepth:
		return nil, located{fmt.Errorf("kustomizations are nested more than %d deep at %q: flatten them", maxDepth, displayPath(dir))}
	}
	w.stack = append(w.stack, dir)
	defer func() { w.stack = w.stack[:len(w.stack)-1] }()
	v, err := w.load(dir)
	if err == nil {
		err = w.search.kustomization(v, len(w.stack))
	}
	if err != nil {
		return nil, located{err}
	}
	for _, step := range []func(string, *visit) error{w.refuse, w.bases, w.configure, w.sources, w.patch, w.plugins} {
		if err := step(dir, v); errors.As(err, &located{}) {
			return nil, err
		} else if err != nil {
			return nil, located{fmt.Errorf("%s: %w", displayPath(v.file), err)}
		}
	}
	if len(w.stack) > 1 {
		v.overrideNamespaces()
	} else if w.place != nil {
		w.warnings = append(w.warnings, w.place.setNamespace(v)...)
	}
	if !w.exact {
		keepNamespaces(v)
		if err := affixNamespaces(v); err != nil {
			return nil, located{fmt.Errorf("%s: %w", displayPath(v.file), err)}
		}
	}
	if v.changed {
		content, err := kyaml.Marshal(v.k)
		if err != nil {
			return nil, err
		}
		w.tree.written[v.file] = content
	}
	w.done[dir] = v
	return v, nil
}

// load reads the kustomization of a folder exactly as kustomize does, so that both see the same fields.
func (w *walk) load(dir string) (*visit, error) {
	v := &visit{named: map[named]bool{}, namespaceNames: map[string]bool{}}
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		file := path.Join(dir, name)
		if w.tree.IsDir(file) || !w.tree.Exists(file) {
			continue
		}
		if v.file != "" {
			return nil, fmt.Errorf("%q has both %s and %s: remove one", displayPath(dir), path.Base(v.file), name)
		}
		v.file = file
	}
	if v.file == "" {
		return nil, fmt.Errorf("%q has no %s: add one, or correct the path that leads there", displayPath(dir), kustomizationFile)
	}
	content, err := w.tree.ReadFile(v.file)
	if err != nil {
		return nil, err
	}
	if content, err = w.search.known(content, len(w.stack)); err != nil {
		return nil, fmt.Errorf("%s: %s: correct the file", displayPath(v.file), repositoryPaths(err))
	}
	if err := v.k.Unmarshal(content); err != nil {
		return nil, fmt.Errorf("%s: %s: correct the file", displayPath(v.file), repositoryPaths(err))
	}
	v.k.FixKustomization()
	return v, v.findNewFields(content)
}

// refuse stops at fields that reach beyond the tree. An OpenAPI schema is kept by kustomize for the whole process, so
// that one KfDef's would change how another's patches are merged.
func (w *walk) refuse(_ string, v *visit) error {
	switch {
	case len(v.k.HelmCharts) > 0, len(v.k.HelmChartInflationGenerator) > 0, v.k.HelmGlobals != nil:
		return errors.New("helmCharts are not rendered: render the chart and list its objects as resources")
	case len(v.k.OpenAPI) > 0:
		return errors.New("openapi is not supported: remove it, and patch lists with JSON patches")
	}
	return nil
}

// bases goes through the resources and components.
func (w *walk) bases(dir string, v *visit) error {
	for _, p := range v.k.Resources {
		target, isDir, err := w.find(dir, p)
		if err != nil {
			return fmt.Errorf("resource %w", err)
		}
		if isDir {
			err = w.descend(v, target)
		} else {
			err = w.addObjects(v, target)
		}
		if err != nil {
			return err
		}
	}
	for _, p := range v.k.Components {
		target, isDir, err := w.find(dir, p)
		if err == nil && !isDir {
			err = fmt.Errorf("%q is a file: name the folder of the component", p)
		}
		if err != nil {
			return fmt.Errorf("component %w", err)
		}
		if err := w.descend(v, target); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) descend(v *visit, dir string) error {
	below, err := w.enter(dir)
	if err != nil {
		return err
	}
	v.namespaces = v.namespaces || below.namespaces
	v.newer = cmp.Or(v.newer, below.newer)
	for n := range below.named {
		v.name(n)
	}
	maps.Copy(v.namespaceNames, below.namespaceNames)
	v.specs = append(v.specs, below.specs...)
	return nil
}

// find resolves a path that a kustomization names.
func (w *walk) find(dir, p string) (string, bool, error) {
	if IsRemote(p) {
		return "", false, fmt.Errorf("%q %w", p, errRemote)
	}
	target := path.Join(dir, p)
	if path.IsAbs(p) {
		target = path.Clean(p)
	}
	switch {
	case w.tree.IsDir(target):
		return target, true, w.search.path(dir, p, target)
	case w.tree.Exists(target):
		return target, false, w.search.path(dir, p, target)
	case w.place != nil:
		return "", false, fmt.Errorf("%q is not in the application's folder, the only one that an application sees: "+
			"correct the path, point repoRef.path at a folder that holds both, or set spec.rendering to %s", p, Kustomize)
	}
	return "", false, fmt.Errorf("%q is not in the repository: correct the path", p)
}
