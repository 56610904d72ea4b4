package kustomize

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"

	"mlkeeper.dev/internal/manifest/bounded"
	"mlkeeper.dev/internal/objectmeta"
)

// stacksApplication is the application whose name switches a KfDef to kfctl's second mode.
const stacksApplication = "kubeflow-apps"

// generated is the folder of what is generated around an application that is the kustomization at its path.
const generated = "/application"

// Stacks says in which of its two modes kfctl rendered a KfDef. In stacks mode each application is the kustomization at its path and
// nothing else; in legacy mode it is merged from a base, overlays and parameters.
func (in Input) Stacks() bool {
	return slices.ContainsFunc(in.Applications, func(a Application) bool { return a.Name == stacksApplication })
}

// renderAt renders one application of a KfDef in this process, which is a worker.
func renderAt(in Input, i int) Rendered {
	if in.second(i) {
		return Rendered{Name: in.Applications[i].Name}
	}
	return renderOne(in, in.Applications[i])
}

// second says that an application has the name of one before it.
func (in Input) second(i int) bool {
	name := in.Applications[i].Name
	return name != "" && slices.ContainsFunc(in.Applications[:i], func(b Application) bool { return b.Name == name })
}

func renderOne(in Input, a Application) (out Rendered) {
	out.Name = a.Name
	// kustomize has panicked on odd YAML before. The other applications are rendered all the same.
	defer func() {
		if cause := recover(); cause != nil {
			out = Rendered{Name: a.Name, Err: fmt.Errorf("application %q: kustomize gave up on its files (%v): "+
				"try kustomize build on them and correct what it names", a.Name, cause)}
		}
	}()
	objects, warnings, err := render(in, a)
	out.Warnings.Add(warnings...)
	if err != nil {
		out.Err = fmt.Errorf("application %q: %w", a.Name, err)
		return out
	}
	out.Objects = objects
	return out
}

func render(in Input, a Application) ([]*unstructured.Unstructured, []string, error) {
	dir, err := locate(in, a)
	if err != nil {
		return nil, nil, err
	}
	p, err := prepare(in, a, dir)
	if err != nil || p.entry == "" {
		return nil, p.warnings, err
	}
	w := &walk{tree: p.tree, exact: in.Rendering == Kustomize, place: p.place, done: map[string]*visit{}}
	if _, err := w.enter(p.entry); err != nil {
		return nil, p.warnings, err
	}
	objects, err := run(p, w.exact)
	if v := w.done[path.Join(mount, dir)]; w.exact && len(objects) == 0 && v != nil && v.k.Kind == types.ComponentKind {
		return nil, p.warnings, fmt.Errorf("the folder %q is a Component, which changes what others render: "+
			"name it in kustomizeConfig.components, and a kustomization in repoRef.path", dir)
	}
	if err == nil {
		objects, err = a.finish(objects)
	} else if len(a.Patches) > 0 {
		err = fmt.Errorf("%w, or correct the patches of the application", err)
	}
	return objects, append(p.warnings, w.warnings...), err
}

// checkIdentity refuses an object that cannot be found again by its kind, namespace and name, and that no Inventory could have in its list,
// and one whose labels or annotations are no texts. YAML and variables may make a number of each, which kustomize lets pass and the API
// server does not.
func checkIdentity(o *unstructured.Unstructured) error {
	metadata, _ := o.Object["metadata"].(map[string]any)
	for _, field := range []struct {
		name  string
		value any
		most  int
	}{
		{"apiVersion", o.Object["apiVersion"], 253},
		{"kind", o.Object["kind"], 63},
		{"metadata.name", metadata["name"], 253},
		{"metadata.namespace", metadata["namespace"], 63},
	} {
		text, isText := field.value.(string)
		absent := field.value == nil || text == "" && isText
		if absent && field.name == "metadata.namespace" {
			continue
		}
		if absent || !isText || len(text) > field.most {
			return fmt.Errorf("its %s is missing, no text or longer than %d bytes: correct it, and write a number in quotes, or with a letter "+
				"where a variable makes it", field.name, field.most)
		}
	}
	return objectmeta.Check(o.Object)
}

// prepare generates what the rendering needs beside the files of an application.
func prepare(in Input, a Application, dir string) (prepared, error) {
	switch {
	case in.Rendering == Kustomize:
		return prepareBuild(in, a, dir)
	case len(a.fields()) > 0:
		return prepared{}, fmt.Errorf("%s need the rendering %s, and this KfDef is rendered as by kfctl: "+
			"remove them, or set spec.rendering", strings.Join(a.fields(), " and "), Kustomize)
	case in.Stacks():
		return prepareStacks(in, a, dir)
	}
	return prepareLegacy(in, a, dir)
}

// prepared is an application whose kustomization is generated.
type prepared struct {
	tree *tree
	// entry is the folder where kustomize begins; empty where there is nothing to render.
	entry    string
	warnings []string
	// told is the folder from which it is told where objects come from; empty where kustomize tells it as it should be, or not at all.
	told string
	// place says which namespace the application is given; nil where none is.
	place *place
}

// locate finds the application's folder in its repository.
func locate(in Input, a Application) (string, error) {
	if err := folderName("the application", a.Name); err != nil {
		return "", err
	}
	switch {
	case !a.HasConfig:
		return "", errors.New("has no kustomizeConfig: add one with the repoRef of its manifests")
	case !a.HasRepoRef:
		return "", errors.New("kustomizeConfig has no repoRef: add one with the name of a repository in spec.repos and a path")
	}
	repo, ok := in.Repos[a.Repo]
	if !ok || repo == nil {
		return "", fmt.Errorf("repository %q is not in spec.repos: add it, or correct repoRef.name", a.Repo)
	}
	dir, err := inside("repoRef.path", strings.TrimSuffix(a.Path, "/"))
	if err != nil {
		return "", err
	}
	if !newTree(repo, ".").IsDir(path.Join(mount, dir)) {
		return "", fmt.Errorf("repository %q has no folder %q: correct repoRef.path or the revision of the repository", a.Repo, dir)
	}
	return dir, nil
}

// prepareLegacy generates a kustomization in the application's folder. Nothing outside of that folder exists for it,
// since kfctl copied only the folder.
func prepareLegacy(in Input, a Application, dir string) (prepared, error) {
	out := prepared{tree: newTree(in.Repos[a.Repo], dir), entry: path.Join(mount, dir)}
	l := &legacy{tree: out.tree, app: a, dir: out.entry, params: newParams(in, a)}
	some, err := l.generate()
	if err != nil || !some {
		out.entry = ""
	}
	out.warnings, out.place = l.warnings, &place{namespace: in.Namespace, flat: l.flat}
	return out, err
}

// kfctlFields are the fields of an application that only kfctl's legacy mode reads.
func kfctlFields(a Application) []string {
	var out []string
	if len(a.Overlays) > 0 {
		out = append(out, "overlays")
	}
	if len(a.Parameters) > 0 {
		out = append(out, "parameters")
	}
	return out
}

// prepareBuild has kustomize begin in the application's folder, as kustomize build does. Only what the KfDef changes itself
// needs a kustomization around it.
func prepareBuild(in Input, a Application, dir string) (prepared, error) {
	if fields := kfctlFields(a); len(fields) > 0 {
		return prepared{}, fmt.Errorf("%s need the rendering %s, and this KfDef is rendered as by kustomize build: "+
			"point repoRef.path at the overlay and remove them, or set spec.rendering", strings.Join(fields, " and "), Kfctl)
	}
	if len(a.Images) > 0 || a.around() {
		return wrap(in, a, dir)
	}
	return prepared{tree: newTree(in.Repos[a.Repo], "."), entry: path.Join(mount, dir)}, nil
}

// prepareStacks sets no namespace, as kfctl did on purpose: the folders name their own.
func prepareStacks(in Input, a Application, dir string) (prepared, error) {
	out, err := wrap(in, a, dir)
	if ignored := kfctlFields(a); err == nil && len(ignored) > 0 {
		out.warnings = append(out.warnings, fmt.Sprintf("%s ignored, as kfctl did: a KfDef with an application %q takes every path "+
			"as it is. Point repoRef.path at the overlay", strings.Join(ignored, " and "), stacksApplication))
	}
	return out, err
}

// wrap generates a kustomization around the application's folder, with all of its repository.
func wrap(in Input, a Application, dir string) (prepared, error) {
	out := prepared{tree: newTree(in.Repos[a.Repo], "."), entry: generated}
	folder := path.Join(mount, dir)
	metadata, err := buildMetadata(out.tree, folder)
	if err != nil {
		return prepared{}, err
	}
	if len(metadata) > 0 {
		out.told = folder
	}
	k := types.Kustomization{
		TypeMeta:      types.TypeMeta{APIVersion: types.KustomizationVersion, Kind: types.KustomizationKind},
		Resources:     []string{path.Join("..", folder)},
		Images:        imagesOf(a),
		BuildMetadata: metadata,
	}
	if err := a.into(&k, out.tree, a.Repo); err != nil {
		return prepared{}, err
	}
	content, err := yaml.Marshal(k)
	if err != nil {
		return prepared{}, err
	}
	out.tree.written[path.Join(generated, kustomizationFile)] = content
	return out, nil
}

// run has kustomize render a prepared tree. exact says that the objects are those of kustomize build.
func run(p prepared, exact bool) ([]*unstructured.Unstructured, error) {
	result, err := build(p.tree, p.entry, krusty.ReorderOptionLegacy)
	if err != nil {
		return nil, fmt.Errorf("kustomize refuses its files: %s: correct them in the repository", repositoryPaths(err))
	}
	if p.told != "" {
		for _, r := range result.Resources() {
			if err := fromFolder(r, p.told); err != nil {
				return nil, err
			}
		}
	}
	if !exact {
		for _, r := range result.Resources() {
			unfold(r.YNode())
		}
	}
	objects, err := collect(result)
	if !exact {
		placeSubjects(objects)
	}
	sortByKind(objects)
	return objects, err
}

func build(t *tree, entry string, order krusty.ReorderOption) (resmap.ResMap, error) {
	options := krusty.MakeDefaultOptions()
	options.Reorder = order
	// Files may lie beside the folder of a kustomization, as in trees of 2020: the tree itself keeps them in the repository.
	options.LoadRestrictions = types.LoadRestrictionsNone
	return krusty.MakeKustomizer(options).Run(t, entry)
}

// repositoryPaths shows the paths of an error of kustomize as the author of the repository knows them.
func repositoryPaths(err error) string {
	text := strings.ReplaceAll(err.Error(), mount+"/", "")
	const most = 1500
	return bounded.Text(strings.Join(strings.Fields(strings.ReplaceAll(text, mount, ".")), " "), most)
}

// collect turns kustomize's result into objects, within the bounds.
func collect(result resmap.ResMap) ([]*unstructured.Unstructured, error) {
	resources := result.Resources()
	if len(resources) > maxObjects {
		return nil, fmt.Errorf("renders %d objects, more than the %d that an application may have: split it",
			len(resources), maxObjects)
	}
	var objects []*unstructured.Unstructured
	for _, r := range resources {
		raw, err := r.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("%s %s cannot be written as JSON (%w): correct its file", r.GetKind(), r.GetName(), err)
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(raw); err != nil {
			return nil, fmt.Errorf("%s %s is no object (%w): correct its file", r.GetKind(), r.GetName(), err)
		}
		if err := checkIdentity(u); err != nil {
			return nil, fmt.Errorf("%s %s: %w", truncate(r.GetKind()), truncate(r.GetName()), err)
		}
		restoreFields(u)
		objects = append(objects, u)
	}
	return objects, nil
}
