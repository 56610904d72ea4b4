package source

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// bundle is a tree, read only: its files lie one behind the other in one file, and a list says where each begins. Thousands of
// small files would take the disk longer than everything else that is done with an archive.
//
// It implements fs.FS with the interfaces that save a read.
type bundle struct {
	content io.ReaderAt
	nodes   map[string]*node
}

var (
	_ fs.ReadFileFS = (*bundle)(nil)
	_ fs.ReadDirFS  = (*bundle)(nil)
	_ fs.StatFS     = (*bundle)(nil)
)

// node is a file or a folder. It is its own fs.FileInfo and fs.DirEntry.
type node struct {
	path     string
	at, size int64
	folder   bool
	children []fs.DirEntry
}

func (n *node) Name() string { return path.Base(n.path) }

func (n *node) Size() int64 { return n.size }

// Mode implements fs.FileInfo. Nothing here can be written, nor run.
func (n *node) Mode() fs.FileMode {
	if n.folder {
		return fs.ModeDir | 0o555
	}
	return 0o444
}

func (n *node) Type() fs.FileMode          { return n.Mode().Type() }
func (n *node) ModTime() time.Time         { return time.Time{} }
func (n *node) IsDir() bool                { return n.folder }
func (n *node) Sys() any                   { return nil }
func (n *node) Info() (fs.FileInfo, error) { return n, nil }

// listing is a tree's list as it is on disk.
type listing struct {
	Files   []span   `json:"files"`
	Folders []string `json:"folders,omitempty"`
}

// span is where a file lies.
type span struct {
	Path string `json:"p"`
	At   int64  `json:"a"`
	Size int64  `json:"s"`
}

// errDamaged is the error of a tree that is not the one that was written.
var errDamaged = errors.New("its list of files or their contents are damaged")

// unlist reads a list whose files lie in content of a size.
func unlist(raw []byte, content io.ReaderAt, size int64) (*bundle, error) {
	var l listing
	if err := json.Unmarshal(raw, &l); err != nil {
		return nil, errDamaged
	}
	p := &bundle{content: content, nodes: map[string]*node{".": {path: ".", folder: true}}}
	for _, name := range l.Folders {
		if !fs.ValidPath(name) {
			return nil, errDamaged
		}
		p.folder(name)
	}
	for _, f := range l.Files {
		if !fs.ValidPath(f.Path) || f.Path == "." || f.At < 0 || f.Size < 0 || f.At > size-f.Size || p.nodes[f.Path] != nil {
			return nil, errDamaged
		}
		if !p.folder(path.Dir(f.Path)).folder {
			return nil, errDamaged
		}
		p.add(&node{path: f.Path, at: f.At, size: f.Size})
	}
	for _, n := range p.nodes {
		slices.SortFunc(n.children, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	}
	return p, nil
}

// folder returns a folder, made with those that it lies in.
func (p *bundle) folder(name string) *node {
	if n := p.nodes[name]; n != nil {
		return n
	}
	n := &node{path: name, folder: true}
	p.add(n)
	return n
}

func (p *bundle) add(n *node) {
	p.nodes[n.path] = n
	parent := p.folder(path.Dir(n.path))
	parent.children = append(parent.children, n)
}

func (p *bundle) find(op, name string) (*node, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	n := p.nodes[name]
	if n == nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return n, nil
}

// Open implements fs.FS.
func (p *bundle) Open(name string) (fs.File, error) {
	n, err := p.find("open", name)
	if err != nil {
		return nil, err
	}
	if n.folder {
		return &openFolder{node: n}, nil
	}
	return &openFile{node: n, SectionReader: io.NewSectionReader(p.content, n.at, n.size)}, nil
}

// Stat implements fs.StatFS.
func (p *bundle) Stat(name string) (fs.FileInfo, error) {
	n, err := p.find("stat", name)
	if err != nil {
		return nil, err
	}
	return n, nil
}

// ReadFile implements fs.ReadFileFS.
func (p *bundle) ReadFile(name string) ([]byte, error) {
	n, err := p.find("read", name)
	if err != nil {
		return nil, err
	}
	if n.folder {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("is a folder")}
	}
	out := make([]byte, n.size)
	if _, err := p.content.ReadAt(out, n.at); err != nil && (!errors.Is(err, io.EOF) || n.size > 0) {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return out, nil
}

// ReadDir implements fs.ReadDirFS.
func (p *bundle) ReadDir(name string) ([]fs.DirEntry, error) {
	n, err := p.find("read", name)
	if err != nil {
		return nil, err
	}
	if !n.folder {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("is no folder")}
	}
	return slices.Clone(n.children), nil
}

// openFile is a file that is read.
type openFile struct {
	*io.SectionReader
	node *node
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.node, nil }
func (f *openFile) Close() error               { return nil }

// Size is that of the file; both of its parts have one.
func (f *openFile) Size() int64 { return f.node.size }

// openFolder is a folder that is listed.
type openFolder struct {
	node *node
	next int
}

func (f *openFolder) Stat() (fs.FileInfo, error) { return f.node, nil }
func (f *openFolder) Close() error               { return nil }

// Read is refused.
func (f *openFolder) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: f.node.path, Err: errors.New("is a folder")}
}

// ReadDir implements fs.ReadDirFile.
func (f *openFolder) ReadDir(n int) ([]fs.DirEntry, error) {
	rest := f.node.children[f.next:]
	if n <= 0 {
		f.next = len(f.node.children)
		return slices.Clone(rest), nil
	}
	if len(rest) == 0 {
		return nil, io.EOF
	}
	rest = rest[:min(n, len(rest))]
	f.next += len(rest)
	return slices.Clone(rest), nil
}
