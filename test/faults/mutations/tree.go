package mutations

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Tree is a copy of the repository's working tree, changes that are not committed included, into which bugs are put. All
// bugs share one tree at one path, so that Go's build cache serves them all and each costs the packages that it changes.
type Tree struct {
	dir string
	// bug is the name of the bug in the tree, or empty; before holds the files that it changed as they were.
	bug    string
	before map[string][]byte
}

// Copy copies what git knows of the repository at root, or would know, into a folder that is emptied before.
func Copy(ctx context.Context, root, dir string) (*Tree, error) {
	listed, err := git(ctx, root, nil, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
	if err != nil {
		return nil, fmt.Errorf("list the files of %s: %w", root, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	for _, file := range strings.Split(strings.TrimSuffix(string(listed), "\x00"), "\x00") {
		if err := copyFile(filepath.Join(root, file), filepath.Join(dir, file)); err != nil {
			return nil, err
		}
	}
	return &Tree{dir: dir}, nil
}

// copyFile copies a regular file; one that is deleted but still in the index is left out, and so are links.
func copyFile(from, to string) error {
	info, err := os.Lstat(from)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil
	}
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, raw, info.Mode().Perm())
}

// Apply puts a bug into the tree.
func (t *Tree) Apply(ctx context.Context, b Mutation) error {
	if t.bug != "" {
		return fmt.Errorf("%s is still in the tree", t.bug)
	}
	before := map[string][]byte{}
	for _, file := range b.Files() {
		raw, err := os.ReadFile(filepath.Join(t.dir, file))
		if err != nil {
			return fmt.Errorf("%s no longer applies: %w", b.Name, err)
		}
		before[file] = raw
	}
	if _, err := git(ctx, t.dir, []byte(b.Diff), "apply", "--whitespace=nowarn", "-"); err != nil {
		return fmt.Errorf("%s no longer applies: %w", b.Name, err)
	}
	t.bug, t.before = b.Name, before
	return nil
}

// Revert takes the bug out again.
func (t *Tree) Revert() error {
	for file, raw := range t.before {
		if err := os.WriteFile(filepath.Join(t.dir, file), raw, 0o644); err != nil {
			return err
		}
	}
	t.bug, t.before = "", nil
	return nil
}

// Build compiles the tests of a package, such as the campaigns, as they are in the tree now.
func (t *Tree) Build(ctx context.Context, folder, binary string) error {
	module, pkg := moduleOf(t.dir, folder)
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-o", binary, pkg)
	cmd.Dir = filepath.Join(t.dir, module)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile the tests of %s: %w\n%s", folder, err, out)
	}
	return nil
}

// moduleOf returns the folder of the Go module that the package in a folder is of, and the package as that module names it.
func moduleOf(root, folder string) (module, pkg string) {
	folder = path.Clean(folder)
	module = folder
	for module != "." {
		if _, err := os.Stat(filepath.Join(root, module, "go.mod")); err == nil {
			break
		}
		module = path.Dir(module)
	}
	if module == folder {
		return module, "."
	}
	if module != "." {
		folder = strings.TrimPrefix(folder, module+"/")
	}
	return module, "./" + folder
}

// Check says whether a bug applies to the tree at root, without changing it.
func Check(ctx context.Context, root string, b Mutation) error {
	if _, err := git(ctx, root, []byte(b.Diff), "apply", "--check", "-"); err != nil {
		return err
	}
	for _, h := range b.hunks() {
		raw, err := os.ReadFile(filepath.Join(root, h.file))
		if err != nil {
			return err
		}
		if n := strings.Count(string(raw), h.before); n != 1 {
			return fmt.Errorf("%s has %d places that look like this, so that the patch may change another: give it more "+
				"context\n%s", h.file, n, h.before)
		}
	}
	return nil
}

// git runs git in a folder, as if that were in no repository but its own, whatever repository the caller works in.
func git(ctx context.Context, dir string, stdin []byte, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(stdin)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "GIT_") })
	cmd.Env = append(cmd.Env, "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "LC_ALL=C")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}
