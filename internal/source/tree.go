package source

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"unicode/utf8"
)

// block is what a file or folder takes on disk at least, in bytes; sizes on disk are rounded up to it.
const block = 4096

// tree is a folder that is being filled with files. It holds nothing but files and folders: whatever else an archive
// has is skipped, so no path of the tree leads out of it.
type tree struct {
	root   *os.Root
	limits Limits

	files, skipped, entries int
	// written counts the bytes of the files, disk what the tree takes on disk.
	written, disk int64
	// parent is the folder that was made last, since the next entry mostly lies there too.
	parent string
}

func newTree(dir string, limits Limits) (*tree, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, diskError(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, diskError(err)
	}
	return &tree{root: root, limits: limits}, nil
}

func (t *tree) close() { _ = t.root.Close() }

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

// count counts an entry.
func (t *tree) count() error {
	t.entries++
	if t.entries > t.limits.Entries {
		return tooLarge("there are more than %d entries", t.limits.Entries)
	}
	return nil
}

// skip counts an entry that is left out.
func (t *tree) skip() error {
	t.skipped++
	return t.count()
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
	if name == "" || name == "." || name == t.parent {
		return nil
	}
	for i := range len(name) + 1 {
		if i < len(name) && name[i] != '/' {
			continue
		}
		switch err := t.root.Mkdir(name[:i], 0o700); {
		case err == nil:
			t.disk += block
			if err := t.count(); err != nil {
				return err
			}
		case !errors.Is(err, fs.ErrExist):
			return entryError(name, err)
		}
	}
	t.parent = name
	return nil
}

// file writes a file, in place of an earlier one of the same name, as tar has it. The mode of the file is not kept:
// nothing here is run.
func (t *tree) file(name string, content io.Reader) error {
	name, err := t.clean(name)
	if err != nil {
		return err
	}
	if name == "" {
		return invalid("a file has no name")
	}
	if err := t.count(); err != nil {
		return err
	}
	if err := t.mkdirs(path.Dir(name)); err != nil {
		return err
	}
	f, err := t.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return entryError(name, err)
	}
	n, err := io.Copy(f, io.LimitReader(content, min(t.limits.File, t.limits.Unpacked-t.written)+1))
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	t.written += n
	t.disk += (n + block - 1) / block * block
	t.files++
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

// entryError tells what the archive has wrong from what the disk has.
func entryError(name string, err error) error {
	for _, fault := range []error{syscall.ENOTDIR, syscall.EISDIR, syscall.EEXIST, syscall.ENAMETOOLONG} {
		if errors.Is(err, fault) {
			return invalid("the path %q is a file and a folder, or no valid name", name)
		}
	}
	return diskError(err)
}

// strip returns the folder within dir that an archive's files are meant to be in: the single folder at the top, which
// forges name after the revision, or dir itself where there is more at the top.
func strip(dir string) (string, error) {
	top, err := os.ReadDir(dir)
	if err != nil {
		return "", diskError(err)
	}
	if len(top) == 1 && top[0].IsDir() {
		return path.Join(dir, top[0].Name()), nil
	}
	return dir, nil
}
