//go:build realnode && realinstall

package node

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mlkeeper.dev/test/cluster"
)

// The folders of two releases, which make test-install makes: the one under test, and the one that is there before it.
const (
	releaseEnv  = "MLKEEPER_RELEASE"
	previousEnv = "MLKEEPER_PREVIOUS"
)

// release is what make release wrote into bin/release of a tree of the repository.
type release struct {
	tree, folder string
	// image is the operator's by its digest, and operands are those that it starts by default.
	image    string
	operands []string
}

// readRelease finds a release and its images.
func readRelease(t *testing.T, env string) *release {
	t.Helper()
	r := &release{folder: os.Getenv(env)}
	r.tree = filepath.Join(r.folder, "..", "..", "..")
	list, err := os.ReadFile(filepath.Join(r.folder, "images.txt"))
	if err != nil {
		t.Fatalf("%s names no release: %v: run make test-install", env, err)
	}
	images := strings.Fields(string(list))
	tagged, digest, _ := strings.Cut(images[0], "@")
	r.image, r.operands = tagged[:strings.LastIndex(tagged, ":")]+"@"+digest, images[1:]
	return r
}

// load puts the operator's image out of the OCI layout of the release into the node, under the name that the manifests have. To containerd,
// a name with tag and digest is that with the digest alone.
func (r *release) load(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	layout := t.TempDir()
	if err := os.CopyFS(layout, os.DirFS(filepath.Join(r.folder, "image"))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(layout, "index.json")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var index struct {
		SchemaVersion int              `json:"schemaVersion"`
		MediaType     string           `json:"mediaType"`
		Manifests     []map[string]any `json:"manifests"`
	}
	if err := json.Unmarshal(content, &index); err != nil {
		t.Fatal(err)
	}
	index.Manifests = slices.DeleteFunc(index.Manifests, func(m map[string]any) bool {
		return !strings.HasSuffix(r.image, fmt.Sprint("@", m["digest"]))
	})
	if len(index.Manifests) != 1 {
		t.Fatalf("the layout has %d images %s", len(index.Manifests), r.image)
	}
	index.Manifests[0]["annotations"] = map[string]any{"io.containerd.image.name": r.image}
	if content, err = json.Marshal(index); err == nil {
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	archive, err := os.Create(filepath.Join(t.TempDir(), "operator.tar"))
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(archive)
	if err := w.AddFS(os.DirFS(layout)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	t.Log(strings.TrimSpace(devcluster(t, "image", "load", "--dir", c.Dir, archive.Name())))
}
