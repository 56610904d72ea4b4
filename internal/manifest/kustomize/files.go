package kustomize

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/types"
)

// addObjects reads a file of objects.
func (w *walk) addObjects(v *visit, file string) error {
	objects, err := w.change(v, file)
	for _, object := range objects {
		one := nameOf(object)
		v.name(one)
		if one.kind == "Namespace" {
			v.namespaceNames[one.name] = true
		}
	}
	return err
}

// addPatchFile reads a file of patches.
func (w *walk) addPatchFile(v *visit, file string) error {
	_, err := w.change(v, file)
	return err
}

// change changes a file of objects or patches as it has to be, and returns its documents with the items of lists. Where kustomize gets the
// files as they are, it looks at none.
func (w *walk) change(v *visit, file string) ([]*yaml.Node, error) {
	if w.exact {
		return nil, nil
	}
	content, err := w.tree.ReadFile(file)
	if err != nil {
		return nil, err
	}
	changed, objects, err := w.read(v, content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: correct the file", displayPath(file), err)
	}
	if changed != nil {
		w.tree.written[file] = changed
	}
	return objects, nil
}

// addFile finds a file that only has to exist.
func (w *walk) addFile(dir, what, p string) (string, error) {
	target, isDir, err := w.find(dir, p)
	if err == nil && isDir {
		err = fmt.Errorf("%q is a folder: name a file", p)
	}
	if err != nil {
		return "", fmt.Errorf("%s %w", what, err)
	}
	return target, nil
}

// read reads a text of objects or patches. It returns the text as it has to be changed, nil when it can stay, and its
// documents with the items of lists.
func (w *walk) read(v *visit, content []byte) ([]byte, []*yaml.Node, error) {
	if w.exact {
		return nil, nil, nil
	}
	docs, err := documents(content)
	if err != nil {
		return nil, nil, err
	}
	v.namespaces = v.namespaces || namespaceKind.Match(content)
	var objects []*yaml.Node
	for _, doc := range docs {
		if len(doc.Content) != 1 {
			continue
		}
		objects = append(objects, doc.Content[0])
		if _, items := field(doc.Content[0], "items"); items != nil {
			objects = append(objects, items.Content...)
		}
	}
	changed, err := hideFields(docs)
	return changed, objects, err
}

// configure takes in the configurations of transformers, cleaned, and the OpenAPI definitions of crds.
func (w *walk) configure(dir string, v *visit) error {
	for _, p := range v.k.Configurations {
		target, err := w.addFile(dir, "configuration", p)
		if err != nil {
			return err
		}
		if w.exact {
			continue
		}
		content, err := w.tree.ReadFile(target)
		if err != nil {
			return err
		}
		cleaned, specs, dropped, err := cleanConfiguration(content)
		if err != nil {
			return fmt.Errorf("configuration %q: %w: correct the file", p, err)
		}
		v.specs = append(v.specs, specs...)
		if len(dropped) > 0 {
			w.tree.written[target] = cleaned
			w.warnings = append(w.warnings, fmt.Sprintf("%s: without effect, as with kfctl: %s", displayPath(target), list(dropped)))
		}
	}
	for _, p := range v.k.Crds {
		if _, err := w.addFile(dir, "crd", p); err != nil {
			return err
		}
	}
	return nil
}

// sources goes through the files of generated ConfigMaps and Secrets.
func (w *walk) sources(dir string, v *visit) error {
	var all []types.KvPairSources
	for _, g := range v.k.ConfigMapGenerator {
		all = append(all, g.KvPairSources)
	}
	for _, g := range v.k.SecretGenerator {
		all = append(all, g.KvPairSources)
	}
	for _, s := range all {
		for _, p := range s.EnvSources {
			if _, err := w.addFile(dir, "env file", p); err != nil {
				return err
			}
		}
		for _, p := range s.FileSources {
			if _, after, ok := strings.Cut(p, "="); ok {
				p = after
			}
			if _, err := w.addFile(dir, "file", p); err != nil {
				return err
			}
		}
	}
	return nil
}

// patch goes through all forms of patches, which are files or text in place.
func (w *walk) patch(dir string, v *visit) error {
	for i, p := range v.k.PatchesStrategicMerge {
		text := string(p)
		if err := w.fileOrText(dir, v, "patch", &text, w.addPatchFile); err != nil {
			return err
		}
		v.k.PatchesStrategicMerge[i] = types.PatchStrategicMerge(text)
	}
	for _, patches := range [][]types.Patch{v.k.Patches, v.k.PatchesJson6902} {
		for i := range patches {
			if p := patches[i].Path; p != "" {
				target, err := w.addFile(dir, "patch", p)
				if err == nil {
					err = w.addPatchFile(v, target)
				}
				if err != nil {
					return err
				}
			}
			changed, _, err := w.read(v, []byte(patches[i].Patch))
			if err != nil {
				return fmt.Errorf("patch %d: %w: correct it", i+1, err)
			}
			if changed != nil {
				patches[i].Patch, v.changed = string(changed), true
			}
		}
	}
	for _, r := range v.k.Replacements {
		if r.Path == "" {
			continue
		}
		if _, err := w.addFile(dir, "replacement", r.Path); err != nil {
			return err
		}
	}
	return nil
}

// fileOrText handles an entry that is the path of a file or the content of one. take is given the file.
func (w *walk) fileOrText(dir string, v *visit, what string, entry *string, take func(*visit, string) error) error {
	target, isDir, err := w.find(dir, *entry)
	switch {
	case errors.Is(err, errRemote):
		return fmt.Errorf("%s %w", what, err)
	case err == nil && isDir:
		return fmt.Errorf("%s %q is a folder: name a file", what, *entry)
	case err == nil:
		return take(v, target)
	case !strings.Contains(*entry, ":"):
		return fmt.Errorf("%s %w", what, err)
	}
	changed, _, err := w.read(v, []byte(*entry))
	if err != nil {
		return fmt.Errorf("%s in place: %w: correct it", what, err)
	}
	if changed != nil {
		*entry, v.changed = string(changed), true
	}
	return nil
}

// plugins goes through the configurations of generators, transformers and validators, which may name files themselves.
// A folder of them is refused: its own patches could put an address where this does not look.
func (w *walk) plugins(dir string, v *visit) error {
	for _, entries := range [][]string{v.k.Generators, v.k.Transformers, v.k.Validators} {
		for _, entry := range entries {
			content := []byte(entry)
			take := func(_ *visit, file string) (err error) {
				content, err = w.tree.ReadFile(file)
				return err
			}
			if err := w.fileOrText(dir, v, "plugin", &entry, take); err != nil {
				return err
			}
			// A generator may make Namespaces of whatever its configuration holds, which this finds too.
			if _, _, err := w.read(v, content); err != nil {
				return fmt.Errorf("plugin %w", err)
			}
			if err := scanPlugin(content); err != nil {
				return fmt.Errorf("plugin %w", err)
			}
		}
	}
	return nil
}
