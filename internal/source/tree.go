package source

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// block is what a file or folder takes on disk at least, in bytes; sizes on disk are rounded up to it.
	block = 4096
	// overhead is what an entry of a tree takes in its list, in bytes, about.
	overhead = 256
	// maxPaths bounds the paths of a tree together, in bytes: they are in memory while it is filled, and while it is open. A hundred
	// thousand files of a large repository have about 8 MiB.
	maxPaths = 16 << 20
)

// tree is a tree that is being filled with files. It holds nothing but files and folders: whatever else an archive has is
// skipped, so no path of the tree leads out of it.
type tree struct {
	file   *os.File
	out    *bufio.Writer
	limits Limits
	// space takes what is written of the disk; nil takes whatever there is.
	space func(int64) error

	files   map[string]span
	folders map[string]bool
	// skipped and entries count what was left out, and all there was, and paths the bytes of their paths.
	skipped, entries, paths int
	// written counts the bytes of the files.
	written int64
}

func newTree(content string, limits Limits) (*tree, error) {
	file, err := os.OpenFile(content, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, diskError(err)
	}
	return &tree{
		file: file, out: bufio.NewWriterSize(file, 1<<20), limits: limits, files: map[string]span{}, folders: map[string]bool{},
	}, nil
}

// close ends the writing of contents. It may be called more than once.
func (t *tree) close() error {
	if err := t.out.Flush(); err != nil {
		_ = t.file.Close()
		return diskError(err)
	}
	if err := t.file.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
		return diskError(err)
	}
	return nil
}

// disk is what the tree takes on disk, about: its contents, its list, and its record in a folder.
func (t *tree) disk() int64 {
	return blocks(t.written) + blocks(int64(len(t.files)+len(t.folders))*overhead) + 2*block
}

func blocks(bytes int64) int64 { return (bytes + block - 1) / block * block }

// clean returns the path of an entry within the tree, which is empty for the tree itself.
func (t *tree) clean(name string) (string, error) {
	switch {
	case len(name) > t.limits.Path:
		return "", tooLarge("a path has more than %d bytes", t.limits.Path)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", invalid("a path is not valid UTF-8, or holds control characters")
	case strings.HasPrefix(name, "/"):
		return "", invalid("the path %q is absolute", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." || len(part) > maxName {
			return "", invalid("the path %q leaves the archive, or has a part of more than %d bytes", name, maxName)
		}
	}
	out := path.Clean(name)
	if out == "." {
		return "", nil
	}
	if strings.Count(out, "/") >= maxDepth {
		return "", tooLarge("a path goes deeper than %d folders", maxDepth)
	}
	return out, nil
}

// count counts an entry with its path, which is empty for one that is not kept.
func (t *tree) count(name string) error {
	t.entries++
	t.paths += len(name)
	switch {
	case t.entries > t.limits.Entries:
		return tooManyEntries(t.limits)
	case t.paths > maxPaths:
		return tooLarge("the paths have more than %d bytes together", maxPaths)
	}
	return nil
}

func tooManyEntries(l Limits) error { return tooLarge("there are more than %d entries", l.Entries) }

// skip counts an entry that is left out.
func (t *tree) skip() error {
	t.skipped++
	return t.count("")
}

// folder makes a folder with the folders it lies in, each of which counts as an entry.
func (t *tree) folder(name string) error {
	name, err := t.clean(name)
	if err != nil {
		return err
	}
	return t.mkdirs(name)
}

func (t *tree) mkdirs(name string) error {
	if name == "" || name == "." || t.folders[name] {
		return nil
	}
	for i := range len(name) + 1 {
		if i < len(name) && name[i] != '/' {
			continue
		}
		if _, isFile := t.files[name[:i]]; isFile {
			return bothError(name)
		}
		if t.folders[name[:i]] {
			continue
		}
		t.folders[name[:i]] = true
		if err := t.count(name[:i]); err != nil {
			return err
		}
	}
	return nil
}

// add writes a file, in place of an earlier one of the same name, as tar has it. The mode of the file is not kept:
// nothing here is run.
func (t *tree) add(name string, content io.Reader) error {
	name, err := t.clean(name)
	if err != nil {
		return err
	}
	if name == "" {
		return invalid("a file has no name")
	}
	if err := t.count(name); err != nil {
		return err
	}
	if err := t.mkdirs(path.Dir(name)); err != nil {
		return err
	}
	if t.folders[name] {
		return bothError(name)
	}
	n, err := io.Copy(t.out, io.LimitReader(content, min(t.limits.File, t.limits.Unpacked-t.written)+1))
	t.files[name] = span{Path: name, At: t.written, Size: n}
	t.written += n
	if err == nil && t.space != nil {
		err = t.space(n)
	}
	switch {
	case err != nil:
		return err
	case n > t.limits.File:
		return tooLarge("the file %q has more than %d bytes", name, t.limits.File)
	case t.written > t.limits.Unpacked:
		return tooLarge("the files have more than %d bytes", t.limits.Unpacked)
	}
	return nil
}

func bothError(name string) error {
	return invalid("the path %q is a file and a folder, or no valid name", name)
}

// list is the list of the tree. With strip it is that of the folder that an archive's files are meant to be in: the single
// folder at the top, which forges name after the revision, or the whole tree where there is more at the top.
func (t *tree) list(strip bool) listing {
	var out listing
	top := ""
	if strip {
		top = t.top()
	}
	for _, name := range slices.Sorted(maps.Keys(t.folders)) {
		if rest, below := strings.CutPrefix(name, top); below && rest != "" {
			out.Folders = append(out.Folders, rest)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.files)) {
		f := t.files[name]
		f.Path = strings.TrimPrefix(name, top)
		out.Files = append(out.Files, f)
	}
	return out
}

// top is the single folder at the top with a slash behind it; empty where there is more.
func (t *tree) top() string {
	top := ""
	for name := range t.folders {
		first, _, _ := strings.Cut(name, "/")
		if top != "" && first != top {
			return ""
		}
		top = first
	}
	for name := range t.files {
		if !strings.Contains(name, "/") {
			return ""
		}
	}
	return top + "/"
}
