package kustomize

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// mount is where kustomize finds the repository. It is no top folder, so that the folder that is generated for an
// application can lie beside it.
const mount = "/repository"

// tree is the part of a repository that one application sees, with the files that were written over it. kustomize finds
// nothing else, whatever it looks for: there is no disk behind it. It is filled by one goroutine and then only read.
type tree struct {
	repo fs.FS
	// root is the folder of the repository outside of which nothing exists; "." is all of it.
	root string
	// written are the files that were generated or changed, by absolute path.
	written map[string][]byte
}

var _ filesys.FileSystem = (*tree)(nil)

var errReadOnly = errors.New("the tree of an application is read-only")

func newTree(repo fs.FS, root string) *tree {
	return &tree{repo: repo, root: root, written: map[string][]byte{}}
}

// inRepo translates an absolute path; false when it lies outside of what the application sees.
func (t *tree) inRepo(p string) (string, bool) {
	p = path.Clean("/" + p)
	if p != mount && !strings.HasPrefix(p, mount+"/") {
		return "", false
	}
	rel := strings.TrimPrefix(strings.TrimPrefix(p, mount), "/")
	if rel == "" {
		rel = "."
	}
	if t.root != "." && rel != t.root && !strings.HasPrefix(rel, t.root+"/") {
		return "", false
	}
	return rel, fs.ValidPath(rel)
}

// stat says what a path of the repository is; a link and everything else that is no plain file or folder is nothing.
func (t *tree) stat(p string) (dir, ok bool) {
	if _, found := t.written[path.Clean("/"+p)]; found {
		return false, true
	}
	rel, ok := t.inRepo(p)
	if !ok {
		return false, false
	}
	info, err := fs.Stat(t.repo, rel)
	if err != nil || (!info.IsDir() && !info.Mode().IsRegular()) {
		return false, false
	}
	return info.IsDir(), true
}

// isWritten says that a path is a folder of generated files.
func (t *tree) isWritten(p string) bool {
	prefix := strings.TrimSuffix(path.Clean("/"+p), "/") + "/"
	for name := range t.written {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// ReadFile returns a file, as it was written over if it was.
func (t *tree) ReadFile(p string) ([]byte, error) {
	if content, ok := t.written[path.Clean("/"+p)]; ok {
		return slices.Clone(content), nil
	}
	dir, ok := t.stat(p)
	rel, _ := t.inRepo(p)
	switch {
	case !ok:
		return nil, &fs.PathError{Op: "open", Path: displayPath(p), Err: fs.ErrNotExist}
	case dir:
		return nil, &fs.PathError{Op: "open", Path: displayPath(p), Err: errors.New("is a folder")}
	}
	return fs.ReadFile(t.repo, rel)
}

// IsDir says that a path is a folder.
func (t *tree) IsDir(p string) bool {
	dir, ok := t.stat(p)
	return (ok && dir) || t.isWritten(p)
}

// Exists says that a path is a file or a folder.
func (t *tree) Exists(p string) bool {
	_, ok := t.stat(p)
	return ok || t.isWritten(p)
}

// CleanedAbs splits a path into its folder and its file, as kustomize confirms what it was told to enter.
func (t *tree) CleanedAbs(p string) (filesys.ConfirmedDir, string, error) {
	p = path.Clean("/" + p)
	switch {
	case t.IsDir(p):
		return filesys.ConfirmedDir(p), "", nil
	case t.Exists(p):
		return filesys.ConfirmedDir(path.Dir(p)), path.Base(p), nil
	}
	return "", "", &fs.PathError{Op: "open", Path: displayPath(p), Err: fs.ErrNotExist}
}

// ReadDir lists a folder of the repository.
func (t *tree) ReadDir(p string) ([]string, error) {
	rel, ok := t.inRepo(p)
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: displayPath(p), Err: fs.ErrNotExist}
	}
	entries, err := fs.ReadDir(t.repo, rel)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// displayPath is a path as the author of the repository knows it.
func displayPath(p string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path.Clean("/"+p), mount), "/")
}

// The rest of the interface is for commands that edit kustomizations; a rendering needs none of it.

// Create is refused.
func (t *tree) Create(string) (filesys.File, error) { return nil, errReadOnly }

// Mkdir is refused.
func (t *tree) Mkdir(string) error { return errReadOnly }

// MkdirAll is refused.
func (t *tree) MkdirAll(string) error { return errReadOnly }

// RemoveAll is refused.
func (t *tree) RemoveAll(string) error { return errReadOnly }

// Open is refused: files are read whole.
func (t *tree) Open(string) (filesys.File, error) { return nil, errReadOnly }

// Glob finds nothing: no field of a kustomization takes a pattern.
func (t *tree) Glob(string) ([]string, error) { return nil, nil }

// WriteFile is refused to kustomize; what is generated goes into written.
func (t *tree) WriteFile(string, []byte) error { return errReadOnly }

// Walk is refused.
func (t *tree) Walk(string, filepath.WalkFunc) error { return errReadOnly }
