package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"testing"
)

// unpack returns the members of an archive.
func unpack(t *testing.T, raw []byte) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(raw)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if out[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestArchiveIsAnImage(t *testing.T) {
	spec := Spec{
		Name: "example.test/one:1", Arch: "amd64", Binary: "one", Content: []byte("binary"), Args: []string{"two"}, User: "1:1",
	}
	raw, err := Archive(spec)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Archive(spec)
	if err != nil || !bytes.Equal(raw, again) {
		t.Errorf("the same input gives another image (%v)", err)
	}
	members := unpack(t, raw)
	if got := unpack(t, members["layer.tar"]); string(got["one"]) != "binary" || len(got) != 1 {
		t.Errorf("layer: %v", got)
	}
	var config struct {
		Config struct {
			Entrypoint []string
			User       string
		}
	}
	if err := json.Unmarshal(members["config.json"], &config); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(config.Config.Entrypoint, []string{"/one", "two"}) || config.Config.User != "1:1" {
		t.Errorf("config: %s", members["config.json"])
	}
	var manifest []struct{ RepoTags []string }
	if err := json.Unmarshal(members["manifest.json"], &manifest); err != nil || len(manifest) != 1 || manifest[0].RepoTags[0] != spec.Name {
		t.Errorf("manifest: %s, %v", members["manifest.json"], err)
	}
}
