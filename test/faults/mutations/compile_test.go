package mutations

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mlkeeper.dev/test/cluster"
)

// TestEveryBugStillCompiles checks the packages of every bug with its patch. A bug that does not compile is caught by nothing, and a
// run of the mutation tests is where that would be seen otherwise.
func TestEveryBugStillCompiles(t *testing.T) {
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := Copy(t.Context(), root, filepath.Join(t.TempDir(), "tree"))
	if err != nil {
		t.Fatal(err)
	}
	bugs := load(t)
	packages := map[string][]string{".": {"./cmd/mlkeeper"}}
	for _, folder := range folders(bugs...) {
		module, pkg := moduleOf(root, folder)
		packages[module] = append(packages[module], pkg)
	}
	compilers := map[string]*compiler{}
	for module, packages := range packages {
		if compilers[module], err = newCompiler(t.Context(), filepath.Join(root, module), packages); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range bugs {
		if err := tree.Apply(t.Context(), b); err != nil {
			t.Errorf("%s: %v", b.Name, err)
			continue
		}
		for _, folder := range folders(b) {
			module, _ := moduleOf(root, folder)
			if err := compilers[module].check(filepath.Join(tree.dir, folder)); err != nil {
				t.Errorf("%s does not compile: make the same mistake in the code as it is now, see README.md: %v", b.Name, err)
			}
		}
		if err := tree.Revert(); err != nil {
			t.Fatal(err)
		}
	}
}

// folders are those of the Go packages that bugs change.
func folders(bugs ...Mutation) []string {
	out := map[string]bool{}
	for _, b := range bugs {
		for _, file := range b.Files() {
			if path.Ext(file) == ".go" {
				out[path.Dir(file)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// compiler checks the types of packages whose imports are compiled already.
type compiler struct {
	// exports are the files that go build has made of the imports.
	exports map[string]string
}

// newCompiler compiles all that packages of a module import.
func newCompiler(ctx context.Context, module string, packages []string) (*compiler, error) {
	args := append([]string{"list", "-export", "-deps", "-f", "{{if .Export}}{{.ImportPath}}\t{{.Export}}{{end}}"}, packages...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stderr = module, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list -export: %w", err)
	}
	c := &compiler{exports: map[string]string{}}
	for line := range strings.Lines(string(out)) {
		if name, file, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			c.exports[name] = file
		}
	}
	return c, nil
}

// check says whether the package in a folder compiles.
func (c *compiler) check(folder string) error {
	pkg, err := build.ImportDir(folder, 0)
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range pkg.GoFiles {
		file, err := parser.ParseFile(files, filepath.Join(folder, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		parsed = append(parsed, file)
	}
	var found []error
	config := types.Config{Importer: importer.ForCompiler(files, "gc", c.open), Error: func(err error) { found = append(found, err) }}
	// Error has the same errors, and all of them.
	_, _ = config.Check(pkg.Name, files, parsed, nil)
	return errors.Join(found...)
}

func (c *compiler) open(name string) (io.ReadCloser, error) {
	file, ok := c.exports[name]
	if !ok {
		return nil, fmt.Errorf("no package of mlkeeper imports %q", name)
	}
	return os.Open(file)
}
