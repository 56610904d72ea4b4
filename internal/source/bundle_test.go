package source

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

// TestABundleIsAFileSystem has the standard library's own test look at a tree.
func TestABundleIsAFileSystem(t *testing.T) {
	s := open(t, nil)
	a, err := s.Unpack(t.Context(), "x", tarball(t, folder("m/empty/"), file("m/a", "one"), file("m/b/c/d", "two"), file("m/b/e", ""), file("m/a", "three")))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := fstest.TestFS(a.FS(), "a", "b/c/d", "b/e", "empty"); err != nil {
		t.Error(err)
	}
	wantContents(t, a, map[string]string{"a": "three", "b/c/d": "two", "b/e": ""})
}

func TestDamagedLists(t *testing.T) {
	for name, list := range map[string]string{
		"no JSON":                 `{`,
		"beyond the contents":     `{"files":[{"p":"a","a":5,"s":6}]}`,
		"before the contents":     `{"files":[{"p":"a","a":-1,"s":1}]}`,
		"of a size that is none":  `{"files":[{"p":"a","a":0,"s":-1}]}`,
		"of a size that is large": `{"files":[{"p":"a","a":9223372036854775807,"s":9223372036854775807}]}`,
		"outside":                 `{"files":[{"p":"../a","a":0,"s":1}]}`,
		"absolute":                `{"folders":["/a"]}`,
		"twice":                   `{"files":[{"p":"a","a":0,"s":1},{"p":"a","a":0,"s":1}]}`,
		"a file in a file":        `{"files":[{"p":"a","a":0,"s":1},{"p":"a/b","a":0,"s":1}]}`,
		"a file and a folder":     `{"folders":["a"],"files":[{"p":"a","a":0,"s":1}]}`,
	} {
		if _, err := unlist([]byte(list), strings.NewReader("0123456789"), 10); !errors.Is(err, errDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzUnlist reads lists that somebody has changed on disk.
func FuzzUnlist(f *testing.F) {
	f.Add(`{"folders":["a"],"files":[{"p":"a/b","a":0,"s":4}]}`)
	f.Fuzz(func(_ *testing.T, list string) {
		tree, err := unlist([]byte(list), strings.NewReader("0123456789"), 10)
		if err != nil {
			return
		}
		_ = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				_, err = fs.ReadFile(tree, name)
			}
			return err
		})
	})
}
