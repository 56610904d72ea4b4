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
	// maxKustomization bounds a kustomization that is looked into, in bytes, and maxRead all of a KfDef.
	maxKustomization, maxRead = 1 << 20, 64 << 20
	// mounted is the folder of the repository in which what was fetched is.
	mounted = ".fetched"
)

// Resolver resolves the addresses of one KfDef.
type Resolver struct {
	// Fetch brings what an address names: the tree of a repository, or a tree with the file under FileName.
	Fetch func(Address) (fs.FS, error)
	// FileName is what a file that was fetched is called in its tree.
	FileName string
	// Moving allows addresses whose content may change, such as branches.
	Moving bool

	fetched map[string]result
	folders int
	read    int64
}

// result is what became of fetching.
type result struct {
	tree fs.FS
	err  error
}

// Tree is a repository whose addresses are being resolved.
type Tree struct {
	of      *Resolver
	files   *overlay
	names   map[string]string
	visited map[string]error
}

// Tree begins with a repository.
func (r *Resolver) Tree(repo fs.FS) *Tree {
	return &Tree{
		of: r, files: &overlay{repo: repo, mounts: map[string]fs.FS{}, written: map[string][]byte{}},
		names: map[string]string{}, visited: map[string]error{},
	}
}

// FS is the repository with paths in place of the addresses that were resolved, and with what these name.
func (t *Tree) FS() fs.FS {
	if len(t.files.written) == 0 {
		return t.files.repo
	}
	return t.files
}

// Resolve resolves the addresses that a folder of the repository reaches. Its error is that of the first which cannot be.
func (t *Tree) Resolve(dir string) error { return t.visit(path.Clean(dir), place{top: "."}) }

// place is where in the trees a kustomization is.
type place struct {
	// top is the folder of the tree that it is in, hops the number of addresses that lead there, and way the folders.
	top  string
	hops int
	way  []string
}

// visit goes through the kustomization of a folder. What is wrong with it otherwise is kustomize's to tell.
func (t *Tree) visit(dir string, at place) error {
	if slices.Contains(at.way, dir) {
		if at.hops == 0 {
			return nil
		}
		return fmt.Errorf("the kustomization in %q comes back to itself by way of an address: remove it from the resources of its bases", dir)
	}
	if err, done := t.visited[dir]; done {
		return err
	}
	if t.of.folders++; t.of.folders > maxFolders || len(at.way) > maxNested {
		return fmt.Errorf("reaches more than %d kustomizations, or nests them more than %d deep at %q: split it", maxFolders, maxNested, dir)
	}
	at.way = append(slices.Clone(at.way), dir)
	err := t.kustomization(dir, at)
	t.visited[dir] = err
	return err
}

// kustomization resolves what the kustomization of a folder refers to.
func (t *Tree) kustomization(dir string, at place) error {
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		file := path.Join(dir, name)
		info, err := t.files.Stat(file)
		if err != nil || info.IsDir() || info.Size() > maxKustomization {
			continue
		}
		if t.of.read += info.Size(); t.of.read > maxRead {
			return fmt.Errorf("the kustomizations that the KfDef reaches have more than %d bytes: split it", maxRead)
		}
		content, err := t.files.ReadFile(file)
		if err != nil {
			return err
		}
		doc := &yaml.Node{}
		if yaml.Unmarshal(content, doc) != nil || len(doc.Content) != 1 {
			return nil
		}
		changed := false
		for _, e := range entries(doc.Content[0]) {
			replaced, err := t.resolve(dir, e, at)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			changed = changed || replaced
		}
		if !changed {
			return nil
		}
		out := &bytes.Buffer{}
		if err := yaml.NewEncoder(out).Encode(doc); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		t.files.written[file] = out.Bytes()
		return nil
	}
	return nil
}

// resolve goes on in the folder that an entry names, or replaces the address that it is by a path; replaced says so.
func (t *Tree) resolve(dir string, e *found, at place) (replaced bool, err error) {
	if !kustomize.IsAddress(e.node.Value) {
		return false, t.local(dir, e, at)
	}
	a, err := parse(e.node.Value, t.of.Moving)
	switch {
	case err == nil && e.node.Anchor != "":
		err = errors.New("has an anchor: write it out where it is used")
	case err == nil && !a.File && !e.folders:
		err = errors.New("names a folder, and a file is needed here: correct it")
	}
	if err != nil {
		return false, fmt.Errorf("%q %w", shown(e.node.Value), err)
	}
	tree, err := t.of.fetch(a, at.hops+1)
	if err != nil {
		return false, fmt.Errorf("%q cannot be fetched: %w", shown(e.node.Value), err)
	}
	if a.File {
		content, err := fs.ReadFile(tree, t.of.FileName)
		if err != nil {
			return false, err
		}
		// Beside the kustomization, where it may name every file.
		sum := sha256.Sum256([]byte(a.URI))
		name := "fetched-" + hex.EncodeToString(sum[:8]) + ".yaml"
		t.files.written[path.Join(dir, name)] = content
		e.set(name)
		return true, nil
	}
	top := t.mount(a, tree)
	target := path.Join(top, a.Dir)
	if info, err := t.files.Stat(target); err != nil || !info.IsDir() {
		return false, fmt.Errorf("%q names the folder %q, which its repository does not have: correct it", shown(e.node.Value), a.Dir)
	}
	e.set(relative(dir, target))
	return true, t.visit(target, place{top: top, hops: at.hops + 1, way: at.way})
}

// local goes on in a folder of the same tree. One of a repository that was fetched must not lead out of it, as with kustomize.
func (t *Tree) local(dir string, e *found, at place) error {
	if !e.folders {
		return nil
	}
	target := path.Join(dir, e.node.Value)
	inside := at.top == "." && fs.ValidPath(target) || target == at.top || strings.HasPrefix(target, at.top+"/")
	switch {
	case path.IsAbs(e.node.Value), !inside && at.top == ".":
		return nil
	case !inside:
		return fmt.Errorf("%q leaves the repository that was fetched: correct it there", e.node.Value)
	}
	if info, err := t.files.Stat(target); err != nil || !info.IsDir() {
		return nil
	}
	return t.visit(target, at)
}

// fetch brings what an address names, once for each.
func (r *Resolver) fetch(a Address, hops int) (fs.FS, error) {
	if known, done := r.fetched[a.URI]; done {
		return known.tree, known.err
	}
	switch {
	case hops > maxHops:
		return nil, fmt.Errorf("more than %d addresses lead to it, one from the other: copy what it names into the repository", maxHops)
	case len(r.fetched) >= maxFetched:
		return nil, fmt.Errorf("the KfDef has more than %d addresses fetched: copy what some name into the repository", maxFetched)
	}
	if r.fetched == nil {
		r.fetched = map[string]result{}
	}
	tree, err := r.Fetch(a)
	r.fetched[a.URI] = result{tree, err}
	return tree, err
}

// mount puts the tree of a repository into the folder of what was fetched.
func (t *Tree) mount(a Address, tree fs.FS) string {
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

// found is an entry of a kustomization that names a file, or a folder where folders says so.
type found struct {
	node    *yaml.Node
	folders bool
}

// set replaces the entry by a path.
func (f *found) set(to string) { f.node.Value, f.node.Style, f.node.Tag = to, 0, "" }

// fields are the fields of a kustomization whose entries are looked at, and whether folders may be among these. kustomize matches the
// names of fields in any case.
var fields = map[string]bool{
	"resources": true, "bases": true, "components": true,
	"patchesstrategicmerge": false, "crds": false, "configurations": false,
	"patches": false, "patchesjson6902": false, "replacements": false,
}

// entries are the paths in a kustomization. Other fields with paths keep them; an address among these is kustomize's caller's to refuse.
func entries(k *yaml.Node) []*found {
	var out []*found
	for name, list := range pairs(k) {
		folders, known := fields[strings.ToLower(name)]
		if list = target(list); !known || list.Kind != yaml.SequenceNode {
			continue
		}
		for _, item := range list.Content {
			if item.Kind == yaml.AliasNode && item.Alias.Kind == yaml.ScalarNode {
				// What else has the anchor keeps its text.
				*item = yaml.Node{Kind: yaml.ScalarNode, Value: item.Alias.Value, Line: item.Line, Column: item.Column}
			}
			switch item.Kind {
			case yaml.MappingNode:
				for name, value := range pairs(item) {
					if strings.EqualFold(name, "path") && value.Kind == yaml.ScalarNode {
						out = append(out, &found{node: value})
					}
				}
			case yaml.ScalarNode:
				out = append(out, &found{node: item, folders: folders})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b *found) int {
		return cmp.Or(a.node.Line-b.node.Line, a.node.Column-b.node.Column)
	})
	return out
}

// pairs are the fields of a mapping.
func pairs(node *yaml.Node) map[string]*yaml.Node {
	out := map[string]*yaml.Node{}
	if node == nil || node.Kind != yaml.MappingNode {
		return out
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		out[node.Content[i].Value] = node.Content[i+1]
	}
	return out
}

// target is what an alias stands for.
func target(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}
