package remotes

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/konfig"

	"mlkeeper.dev/internal/manifest/kustomize"
)

const (
	// maxFetched is how many addresses a KfDef may have fetched, each counted once. Kubeflow 1.11 needs 2.
	maxFetched = 32
	// maxHops is how often what is fetched may lead to another address.
	maxHops = 4
	// maxNested is how deep kustomizations may be nested, and maxFolders how many a KfDef may reach.
	maxNested, maxFolders = 40, 10_000
	// maxKustomization bounds a kustomization that is looked into, in bytes. maxRead bounds all of a KfDef and the files that they name by
	// address, and maxWritten those that are written anew, which the caller holds until all are rendered.
	maxKustomization, maxRead, maxWritten = 1 << 20, 64 << 20, 2 << 20
	// mounted is the folder of the repository in which what was fetched is.
	mounted = ".fetched"
)

// resolver resolves the addresses of one KfDef, as far as they were fetched.
type resolver struct {
	fileName string
	moving   bool
	// fetched is what became of fetching, by the URI.
	fetched map[string]result
	// missing are the entries that have yet to be fetched, by the URI of each, in their order.
	missing  map[string]bool
	entries  []string
	folders  int
	read     int64
	replaced int64
}

// result is what became of fetching.
type result struct {
	tree fs.FS
	err  error
}

// errMissing says that something has to be fetched first.
var errMissing = errors.New("is yet to be fetched")

// tree is a repository whose addresses are being resolved.
type tree struct {
	of    *resolver
	files *overlay
	// names are the paths at which repositories are mounted, and files those of what was fetched alone, by their URIs.
	names   map[string]string
	linked  map[string]string
	visited map[string]error
}

func (r *resolver) tree(repo fs.FS) *tree {
	return &tree{
		of: r, files: newOverlay(repo),
		names: map[string]string{}, linked: map[string]string{}, visited: map[string]error{},
	}
}

// resolve resolves the addresses that a folder of the repository reaches. Its error is that of the first which cannot be, and errMissing
// where that is yet to be known.
func (t *tree) resolve(dir string) error { return t.visit(path.Clean(dir), location{root: "."}) }

// location is where in the trees a kustomization is.
type location struct {
	// root is that of the tree that it is in, hops the number of addresses that lead there, and path the folders.
	root string
	hops int
	path []string
}

// visit goes through the kustomization of a folder. What is wrong with it otherwise is kustomize's to tell.
func (t *tree) visit(dir string, at location) error {
	if slices.Contains(at.path, dir) {
		if at.hops == 0 {
			return nil
		}
		return fmt.Errorf("the kustomization in %q comes back to itself by way of an address: remove it from the resources of its bases", dir)
	}
	if err, done := t.visited[dir]; done {
		return err
	}
	if t.of.folders++; t.of.folders > maxFolders || len(at.path) > maxNested {
		return fmt.Errorf("reaches more than %d kustomizations, or nests them more than %d deep at %q: split it", maxFolders, maxNested, dir)
	}
	at.path = append(slices.Clone(at.path), dir)
	err := t.kustomization(dir, at)
	t.visited[dir] = err
	return err
}

// kustomization resolves what the kustomization of a folder refers to.
func (t *tree) kustomization(dir string, at location) error {
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		file := path.Join(dir, name)
		info, err := t.files.Stat(file)
		if err != nil || info.IsDir() || info.Size() > maxKustomization {
			continue
		}
		if t.of.read += info.Size(); t.of.read > maxRead {
			return errTooLarge
		}
		content, err := t.files.ReadFile(file)
		if err != nil {
			return err
		}
		doc := &yaml.Node{}
		if yaml.Unmarshal(content, doc) != nil || len(doc.Content) != 1 {
			return nil
		}
		changed, err := t.entries(dir, doc.Content[0], at)
		if err == nil && changed {
			err = t.write(file, doc)
		}
		if err != nil && !errors.Is(err, errMissing) {
			return fmt.Errorf("%s: %w", file, err)
		}
		return err
	}
	return nil
}

// entries resolves the entries of a kustomization. It goes on behind one that is yet to be fetched, so that as much as possible is fetched
// at once.
func (t *tree) entries(dir string, kustomization *yaml.Node, at location) (changed bool, err error) {
	var missing error
	for _, e := range entries(kustomization) {
		replaced, err := t.entry(dir, e, at)
		switch {
		case errors.Is(err, errMissing):
			missing = err
		case err != nil:
			return false, err
		}
		changed = changed || replaced
	}
	return changed, missing
}

// write replaces a kustomization.
func (t *tree) write(file string, doc *yaml.Node) error {
	out := &bytes.Buffer{}
	if err := yaml.NewEncoder(out).Encode(doc); err != nil {
		return err
	}
	if t.of.replaced += int64(out.Len()); t.of.replaced > maxWritten {
		return fmt.Errorf("the kustomizations of the KfDef that name addresses have more than %d bytes: name these in small ones", maxWritten)
	}
	t.files.written[file] = out.Bytes()
	return nil
}

// errTooLarge says that a KfDef reaches too much.
var errTooLarge = fmt.Errorf(
	"the kustomizations that the KfDef reaches, and the files that they name by address, have more than %d bytes: split it", maxRead)

// entry goes on in the folder that an entry names, or replaces the address that it is by a path; replaced says so.
func (t *tree) entry(dir string, e *pathEntry, at location) (replaced bool, err error) {
	if !kustomize.IsRemote(e.node.Value) {
		return false, t.local(dir, e, at)
	}
	a, err := parse(e.node.Value, t.of.moving)
	switch {
	case err == nil && e.node.Anchor != "":
		err = errors.New("has an anchor: write it out where it is used")
	case err == nil && !a.File && !e.folders:
		err = errors.New("names a folder, and a file is needed here: correct it")
	}
	if err != nil {
		return false, fmt.Errorf("%q %w", shown(e.node.Value), err)
	}
	tree, err := t.of.fetch(e.node.Value, a, at.hops+1)
	if errors.Is(err, errMissing) {
		return false, err
	}
	if err != nil {
		return false, fmt.Errorf("%q cannot be fetched: %w", shown(e.node.Value), err)
	}
	if a.File {
		info, err := fs.Stat(tree, t.of.fileName)
		if err != nil {
			return false, err
		}
		if t.of.read += info.Size(); t.of.read > maxRead {
			return false, errTooLarge
		}
		// Beside the kustomization, where it may name every file.
		sum := sha256.Sum256([]byte(a.URI))
		name := "fetched-" + hex.EncodeToString(sum[:8]) + ".yaml"
		t.linked[path.Join(dir, name)] = a.URI
		e.set(name)
		return true, nil
	}
	top := t.mount(a, tree)
	target := path.Join(top, a.Dir)
	if info, err := t.files.Stat(target); err != nil || !info.IsDir() {
		return false, fmt.Errorf("%q names the folder %q, which its repository does not have: correct it", shown(e.node.Value), a.Dir)
	}
	e.set(relative(dir, target))
	return true, t.visit(target, location{root: top, hops: at.hops + 1, path: at.path})
}

// local goes on in a folder of the same tree. One of a repository that was fetched must not lead out of it, as with kustomize.
func (t *tree) local(dir string, e *pathEntry, at location) error {
	if !e.folders {
		return nil
	}
	target := path.Join(dir, e.node.Value)
	inside := at.root == "." && fs.ValidPath(target) || target == at.root || strings.HasPrefix(target, at.root+"/")
	switch {
	case path.IsAbs(e.node.Value), !inside && at.root == ".":
		return nil
	case !inside:
		return fmt.Errorf("%q leaves the repository that was fetched: correct it there", e.node.Value)
	}
	if info, err := t.files.Stat(target); err != nil || !info.IsDir() {
		return nil
	}
	return t.visit(target, at)
}

// fetch is what an address names, or errMissing where that is yet to be fetched.
func (r *resolver) fetch(entry string, a Address, hops int) (fs.FS, error) {
	if known, done := r.fetched[a.URI]; done {
		return known.tree, known.err
	}
	switch {
	case r.missing[a.URI]:
		return nil, errMissing
	case hops > maxHops:
		return nil, fmt.Errorf("more than %d addresses lead to it, one from the other: copy what it names into the repository", maxHops)
	case len(r.fetched)+len(r.missing) >= maxFetched:
		return nil, fmt.Errorf("the KfDef has more than %d addresses fetched: copy what some name into the repository", maxFetched)
	}
	r.missing[a.URI], r.entries = true, append(r.entries, entry)
	return nil, errMissing
}

// mount puts the tree of a repository into the folder of what was fetched.
func (t *tree) mount(a Address, tree fs.FS) string {
	if at, done := t.names[a.URI]; done {
		return at
	}
	at := path.Join(mounted, a.name)
	for t.files.mounts[at] != nil {
		at += "_"
	}
	t.names[a.URI], t.files.mounts[at] = at, tree
	return at
}

// relative is the path from a folder to another.
func relative(from, to string) string {
	if from == "." {
		return to
	}
	return strings.Repeat("../", strings.Count(from, "/")+1) + to
}

// pathEntry is an entry of a kustomization that names a file, or a folder where folders says so.
type pathEntry struct {
	node    *yaml.Node
	folders bool
}

// set replaces the entry by a path.
func (f *pathEntry) set(to string) { f.node.Value, f.node.Style, f.node.Tag = to, 0, "" }

// fields are the fields of a kustomization whose entries are looked at, and whether folders may be among these. kustomize matches the
// names of fields in any case.
var fields = map[string]bool{
	"resources": true, "bases": true, "components": true,
	"patchesstrategicmerge": false, "crds": false, "configurations": false,
	"patches": false, "patchesjson6902": false, "replacements": false,
}

// entries are the paths in a kustomization. Other fields with paths keep them; an address among these is kustomize's caller's to refuse.
func entries(k *yaml.Node) []*pathEntry {
	var out []*pathEntry
	for name, list := range fieldsOf(k) {
		folders, known := fields[strings.ToLower(name)]
		if list = resolveAlias(list); !known || list.Kind != yaml.SequenceNode {
			continue
		}
		for _, item := range list.Content {
			if item.Kind == yaml.AliasNode && item.Alias.Kind == yaml.ScalarNode {
				// What else has the anchor keeps its text.
				*item = yaml.Node{Kind: yaml.ScalarNode, Value: item.Alias.Value, Line: item.Line, Column: item.Column}
			}
			switch item.Kind {
			case yaml.MappingNode:
				for name, value := range fieldsOf(item) {
					if strings.EqualFold(name, "path") && value.Kind == yaml.ScalarNode {
						out = append(out, &pathEntry{node: value})
					}
				}
			case yaml.ScalarNode:
				out = append(out, &pathEntry{node: item, folders: folders})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b *pathEntry) int {
		return cmp.Or(a.node.Line-b.node.Line, a.node.Column-b.node.Column)
	})
	return out
}

// fieldsOf are the fields of a mapping.
func fieldsOf(node *yaml.Node) map[string]*yaml.Node {
	out := map[string]*yaml.Node{}
	if node == nil || node.Kind != yaml.MappingNode {
		return out
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		out[node.Content[i].Value] = node.Content[i+1]
	}
	return out
}

// resolveAlias returns what an alias stands for.
func resolveAlias(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}
