package manifesttest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing/fstest"
	"time"
)

// Folder reads the files of a folder.
func Folder(name string) (fstest.MapFS, error) {
	out, root := fstest.MapFS{}, os.DirFS(name)
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, name)
		out[name] = &fstest.MapFile{Data: data}
		return err
	})
	return out, err
}

// Chart is a packed chart.
type Chart struct {
	Name, Version string
	Archive       []byte
}

// ChartRepository serves charts as a chart repository does.
func ChartRepository(charts ...Chart) http.Handler {
	mux := http.NewServeMux()
	entries := map[string]string{}
	for _, c := range charts {
		name, sum := c.Name+"-"+c.Version+".tgz", sha256.Sum256(c.Archive)
		entries[c.Name] += fmt.Sprintf("  - {name: %s, version: %s, digest: %s, urls: [%s]}\n", c.Name, c.Version, hex.EncodeToString(sum[:]), name)
		mux.HandleFunc("/"+name, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(c.Archive) })
	}
	index := "apiVersion: v1\nentries:\n"
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		index += "  " + name + ":\n" + entries[name]
	}
	mux.HandleFunc("/index.yaml", func(w http.ResponseWriter, r *http.Request) {
		// As the hosts of static files do where charts are, such as those of Seldon and of GitHub's pages.
		w.Header().Set("ETag", fmt.Sprintf("%q", fmt.Sprintf("%x", sha256.Sum256([]byte(index)))))
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(index))
	})
	return mux
}
