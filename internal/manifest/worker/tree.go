package worker

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The methods by which a worker reads the trees of its parent.
const methodList, methodRead = "list", "read"

// chunk is how much of a file is sent at once, in bytes, so that the parent never holds a whole one.
const chunk = 256 << 10

// place is a folder, or a part of a file, of one of several trees.
type place struct {
	Tree, Path string
	At         int64
}

// listing is what a folder holds; Found says that there is one.
type listing struct {
	Found   bool
	Entries []entry
}

// entry is a file or a folder. It is its own fs.FileInfo and fs.DirEntry.
type entry struct {
	Named  string
	Folder bool
	Bytes  int64
}

var _ fs.DirEntry = entry{}

func (e entry) Name() string               { return e.Named }
func (e entry) Size() int64                { return e.Bytes }
func (e entry) IsDir() bool                { return e.Folder }
func (e entry) ModTime() time.Time         { return time.Time{} }
func (e entry) Sys() any                   { return nil }
func (e entry) Type() fs.FileMode          { return e.Mode().Type() }
func (e entry) Info() (fs.FileInfo, error) { return e, nil }

// Mode implements fs.FileInfo.
func (e entry) Mode() fs.FileMode {
	if e.Folder {
		return fs.ModeDir | 0o555
	}
	return 0o444
}

// Trees has a worker read trees by their names.
func Trees(trees map[string]fs.FS, handlers map[string]Handler) {
	handlers[methodList] = Handle(func(_ *Run, p place) (listing, error) { return list(trees[p.Tree], p.Path) })
	handlers[methodRead] = Handle(func(_ *Run, p place) ([]byte, error) { return read(trees[p.Tree], p.Path, p.At) })
}

// list lists a folder. Whatever is neither a file nor a folder is nothing.
func list(tree fs.FS, name string) (listing, error) {
	if tree == nil {
		return listing{}, nil
	}
	entries, err := fs.ReadDir(tree, name)
	if diskFails(err) {
		return listing{}, unavailable(err)
	}
	if err != nil {
		return listing{}, nil // There is no such folder.
	}
	out := listing{Found: true}
	for _, e := range entries {
		info, err := e.Info()
		if diskFails(err) {
			return listing{}, unavailable(err)
		}
		if err != nil || !info.IsDir() && !info.Mode().IsRegular() {
			continue
		}
		out.Entries = append(out.Entries, entry{Named: e.Name(), Folder: e.IsDir(), Bytes: info.Size()})
	}
	return out, nil
}

// read reads a part of a file.
func read(tree fs.FS, name string, at int64) ([]byte, error) {
	if tree == nil {
		return nil, fs.ErrNotExist
	}
	file, err := tree.Open(name)
	if diskFails(err) {
		return nil, unavailable(err)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	from, ok := file.(io.ReaderAt)
	if !ok {
		return nil, fmt.Errorf("bug: %s cannot be read in parts", name)
	}
	out := make([]byte, chunk)
	n, err := from.ReadAt(out, at)
	if diskFails(err) {
		return nil, unavailable(err)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return out[:n], err
}

// diskFails says that an error is the disk's, or the machine's, and says nothing of what is on it: an answer would be kept as a fault of who
// wrote the files, or as the rendering that they need.
func diskFails(err error) bool {
	var number syscall.Errno
	if !errors.As(err, &number) {
		return false
	}
	switch number {
	case syscall.EIO, syscall.ESTALE, syscall.ETIMEDOUT, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EINTR, syscall.EAGAIN,
		syscall.ENODEV, syscall.ENXIO, syscall.ENOTCONN:
		return true
	}
	return false
}

// Tree is one of the parent's trees, which is read as it is needed.
func (c *Parent) Tree(name string) fs.FS {
	return &tree{parent: c, name: name, folders: map[string]map[string]entry{}}
}

// tree is a tree of the parent. What its folders hold is asked for once.
type tree struct {
	parent  *Parent
	name    string
	folders map[string]map[string]entry
}

var (
	_ fs.ReadFileFS = (*tree)(nil)
	_ fs.ReadDirFS  = (*tree)(nil)
	_ fs.StatFS     = (*tree)(nil)
)

// folder is what a folder holds; nil where there is none.
func (t *tree) folder(name string) map[string]entry {
	if known, asked := t.folders[name]; asked {
		return known
	}
	// What is below no folder is nothing.
	if name != "." {
		if e, there := t.folder(path.Dir(name))[path.Base(name)]; !there || !e.Folder {
			return nil
		}
	}
	l, err := Call[listing](t.parent, methodList, place{Tree: t.name, Path: name})
	var out map[string]entry
	if err == nil && l.Found {
		out = make(map[string]entry, len(l.Entries))
		for _, e := range l.Entries {
			out[e.Named] = e
		}
	}
	t.folders[name] = out
	return out
}

// find finds a file or a folder.
func (t *tree) find(op, name string) (entry, error) {
	if !fs.ValidPath(name) {
		return entry{}, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	if name == "." {
		return entry{Named: ".", Folder: true}, nil
	}
	e, there := t.folder(path.Dir(name))[path.Base(name)]
	if !there {
		return entry{}, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return e, nil
}

// Stat implements fs.StatFS.
func (t *tree) Stat(name string) (fs.FileInfo, error) {
	e, err := t.find("stat", name)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// ReadDir implements fs.ReadDirFS.
func (t *tree) ReadDir(name string) ([]fs.DirEntry, error) {
	e, err := t.find("read", name)
	if err == nil && !e.Folder {
		err = &fs.PathError{Op: "read", Path: name, Err: errors.New("is no folder")}
	}
	if err != nil {
		return nil, err
	}
	var out []fs.DirEntry
	for _, inner := range t.folder(name) {
		out = append(out, inner)
	}
	slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return out, nil
}

// ReadFile implements fs.ReadFileFS.
func (t *tree) ReadFile(name string) ([]byte, error) {
	e, err := t.find("read", name)
	if err == nil && e.Folder {
		err = &fs.PathError{Op: "read", Path: name, Err: errors.New("is a folder")}
	}
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, e.Bytes)
	for int64(len(out)) < e.Bytes {
		part, err := Call[[]byte](t.parent, methodRead, place{Tree: t.name, Path: name, At: int64(len(out))})
		if err == nil && len(part) == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: name, Err: err}
		}
		out = append(out, part...)
	}
	return out, nil
}

// Open is there for the interface alone: files are read whole, and folders are listed.
func (t *tree) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: errors.ErrUnsupported}
}
