// Package manifesttest has what tests render: the real KfDefs and repository archives of test/testdata/kubeflow, and charts of the user's.
package manifesttest

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"sigs.k8s.io/yaml"
)

// KfDef is what a rendering needs of a KfDef.
type KfDef struct {
	Metadata struct{ Name, Namespace string }
	Spec     struct {
		Applications []Application
		Repos        []struct{ Name string }
	}
}

// Application is one entry of spec.applications.
type Application struct {
	Name            string
	KustomizeConfig struct {
		RepoRef    struct{ Name, Path string }
		Overlays   []string
		Parameters []struct{ Name, Value string }
	}
}

// Kubeflow is the KfDef of Kubeflow 1.2.0 and its repository.
func Kubeflow(t testing.TB) (KfDef, fstest.MapFS) {
	k := read(t, "kfctl_istio_dex.v1.2.0.yaml")
	// The file has no name: its users insert one.
	k.Metadata.Name = "kubeflow"
	return k, archive(t, "manifests-1.2.0.tar.gz")
}

// OpenDataHub is the KfDef of Open Data Hub 1.1.0 and its repository.
func OpenDataHub(t testing.TB) (KfDef, fstest.MapFS) {
	return read(t, "odh_kfctl_openshift.v1.1.0.yaml"), archive(t, "odh-manifests-1.1.0.tar.gz")
}

// file is the path of a file of the test data.
func file(t testing.TB, name string) string {
	t.Helper()
	return above(t, filepath.Join("test", "testdata", "kubeflow", name))
}

// above is the path of something in the repository, found upwards from the working directory of the test: a binary that is built with
// -trimpath does not know the path of its sources.
func above(t testing.TB, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatalf("there is no %s above the working directory: run the test inside the repository", name)
		}
		dir = parent
	}
}

func read(t testing.TB, name string) KfDef {
	t.Helper()
	content, err := os.ReadFile(file(t, name))
	if err != nil {
		t.Fatal(err)
	}
	var k KfDef
	if err := yaml.Unmarshal(content, &k); err != nil {
		t.Fatal(err)
	}
	return k
}

// archive unpacks an archive without its top folder.
func archive(t testing.TB, name string) fstest.MapFS {
	t.Helper()
	opened, err := os.Open(file(t, name))
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	unzipped, err := gzip.NewReader(opened)
	if err != nil {
		t.Fatal(err)
	}
	out := fstest.MapFS{}
	for reader := tar.NewReader(unzipped); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		_, inner, _ := strings.Cut(path.Clean(header.Name), "/")
		if header.Typeflag != tar.TypeReg || inner == "" {
			continue
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		out[inner] = &fstest.MapFile{Data: content, Mode: 0o644}
	}
}
