package remotes

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// overlay is a repository with other trees mounted in it, and files in place of its own. It implements fs.FS with the interfaces that
// save an open.
type overlay struct {
	repo fs.FS
	// mounts are trees by the path at which each is, of which none lies in another.
	mounts  map[string]fs.FS
	written map[string][]byte
	// linked are files of other trees, which are read when they are needed.
	linked map[string]link
}

// link is a file of a tree.
type link struct {
	tree fs.FS
	name string
	size int64
}

func newOverlay(repo fs.FS) *overlay {
	return &overlay{repo: repo, mounts: map[string]fs.FS{}, written: map[string][]byte{}, linked: map[string]link{}}
}

var (
	_ fs.ReadFileFS = (*overlay)(nil)
	_ fs.ReadDirFS  = (*overlay)(nil)
	_ fs.StatFS     = (*overlay)(nil)
)

// locate finds the tree that a path is in, where that is a written file or a folder on the way to one.
func (o *overlay) locate(op, name string) (fs.FS, string, error) {
	if !fs.ValidPath(name) {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	if l, found := o.linked[name]; found {
		return l.tree, l.name, nil
	}
	for at, tree := range o.mounts {
		if name == at {
			return tree, ".", nil
		}
		if rest, found := strings.CutPrefix(name, at+"/"); found {
			return tree, rest, nil
		}
	}
	return o.repo, name, nil
}

// Open implements fs.FS.
func (o *overlay) Open(name string) (fs.File, error) {
	if content, found := o.written[name]; found {
		return &memory{entry: entry{name: path.Base(name), size: int64(len(content))}, Reader: bytes.NewReader(content)}, nil
	}
	if l, found := o.linked[name]; found {
		file, err := l.tree.Open(l.name)
		return opened{file, entry{name: path.Base(name), size: l.size}}, err
	}
	if info, err := o.Stat(name); err != nil || info.IsDir() {
		list, err := o.ReadDir(name)
		if err != nil {
			return nil, err
		}
		return &folder{entry: entry{name: path.Base(name), dir: true}, list: list}, nil
	}
	tree, at, err := o.locate("open", name)
	if err != nil {
		return nil, err
	}
	return tree.Open(at)
}

// ReadFile implements fs.ReadFileFS.
func (o *overlay) ReadFile(name string) ([]byte, error) {
	if content, found := o.written[name]; found {
		return slices.Clone(content), nil
	}
	tree, at, err := o.locate("open", name)
	if err != nil {
		return nil, err
	}
	return fs.ReadFile(tree, at)
}

// Stat implements fs.StatFS.
func (o *overlay) Stat(name string) (fs.FileInfo, error) {
	if content, found := o.written[name]; found {
		return entry{name: path.Base(name), size: int64(len(content))}, nil
	}
	if l, found := o.linked[name]; found {
		return entry{name: path.Base(name), size: l.size}, nil
	}
	tree, at, err := o.locate("stat", name)
	if err != nil {
		return nil, err
	}
	info, err := fs.Stat(tree, at)
	if _, top := o.mounts[name]; top || err != nil && len(o.below(name)) > 0 {
		return entry{name: path.Base(name), dir: true}, nil
	}
	return info, err
}

// ReadDir implements fs.ReadDirFS.
func (o *overlay) ReadDir(name string) ([]fs.DirEntry, error) {
	tree, at, err := o.locate("open", name)
	if err != nil {
		return nil, err
	}
	added := o.below(name)
	list, err := fs.ReadDir(tree, at)
	if err != nil && (len(added) == 0 || !errors.Is(err, fs.ErrNotExist)) {
		return nil, err
	}
	list = slices.DeleteFunc(slices.Clone(list), func(e fs.DirEntry) bool {
		return slices.ContainsFunc(added, func(a entry) bool { return a.name == e.Name() })
	})
	for _, e := range added {
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

// below is what is mounted or written in a folder.
func (o *overlay) below(name string) []entry {
	prefix := name + "/"
	if name == "." {
		prefix = ""
	}
	found := map[string]entry{}
	for at := range o.mounts {
		if rest, is := strings.CutPrefix(at, prefix); is {
			first, _, _ := strings.Cut(rest, "/")
			found[first] = entry{name: first, dir: true}
		}
	}
	file := func(at string, size int64) {
		if rest, is := strings.CutPrefix(at, prefix); is {
			first, _, deeper := strings.Cut(rest, "/")
			found[first] = entry{name: first, dir: deeper, size: size}
		}
	}
	for at, content := range o.written {
		file(at, int64(len(content)))
	}
	for at, l := range o.linked {
		file(at, l.size)
	}
	var out []entry
	for _, e := range found {
		out = append(out, e)
	}
	return out
}

// entry is a file or a folder that no tree has. It is its own fs.FileInfo and fs.DirEntry.
type entry struct {
	name string
	size int64
	dir  bool
}

func (e entry) Name() string { return e.name }

// Size implements fs.FileInfo.
func (e entry) Size() int64 {
	if e.dir {
		return 0
	}
	return e.size
}

// Mode implements fs.FileInfo.
func (e entry) Mode() fs.FileMode {
	if e.dir {
		return fs.ModeDir | 0o555
	}
	return 0o444
}

func (e entry) Type() fs.FileMode          { return e.Mode().Type() }
func (e entry) ModTime() time.Time         { return time.Time{} }
func (e entry) IsDir() bool                { return e.dir }
func (e entry) Sys() any                   { return nil }
func (e entry) Info() (fs.FileInfo, error) { return e, nil }

// memory is an open file that was written.
type memory struct {
	entry
	*bytes.Reader
}

func (m *memory) Size() int64                { return m.entry.Size() }
func (m *memory) Stat() (fs.FileInfo, error) { return m.entry, nil }
func (m *memory) Close() error               { return nil }

// opened is an open file of another tree, under a name of its own.
type opened struct {
	fs.File
	info entry
}

func (f opened) Stat() (fs.FileInfo, error) { return f.info, nil }

// ReadAt implements io.ReaderAt, as which a worker reads.
func (f opened) ReadAt(p []byte, at int64) (int, error) {
	from, ok := f.File.(io.ReaderAt)
	if !ok {
		return 0, errors.New("bug: it cannot be read in parts")
	}
	return from.ReadAt(p, at)
}

// folder is an open folder.
type folder struct {
	entry
	list []fs.DirEntry
}

func (f *folder) Stat() (fs.FileInfo, error) { return f.entry, nil }
func (f *folder) Close() error               { return nil }

// Read implements fs.File.
func (f *folder) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: f.name, Err: errors.New("is a folder")}
}

// ReadDir implements fs.ReadDirFile.
func (f *folder) ReadDir(n int) ([]fs.DirEntry, error) {
	if n > 0 && len(f.list) == 0 {
		return nil, io.EOF
	}
	if n <= 0 || n > len(f.list) {
		n = len(f.list)
	}
	out := f.list[:n:n]
	f.list = f.list[n:]
	return out, nil
}
