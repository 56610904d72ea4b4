package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// TestImageIsPushedAsBuilt builds an image, pushes the tarball to a registry and reads it back.
func TestImageIsPushedAsBuilt(t *testing.T) {
	server := httptest.NewServer(registry.New())
	defer server.Close()
	image := strings.TrimPrefix(server.URL, "http://") + "/team/mlkeeper:v1"
	o := inputs(t, image)
	if err := run(o); err != nil {
		t.Fatal(err)
	}
	if err := run(options{input: o.output, image: image, push: true}); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(image)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Image(tag)
	if err != nil {
		t.Fatal(err)
	}
	config, err := pulled.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != user || config.Architecture != "arm64" || config.Config.Entrypoint[0] != "/mlkeeper" {
		t.Errorf("the image has user %q, architecture %q and entrypoint %q", config.Config.User, config.Architecture, config.Config.Entrypoint)
	}
	if _, err := mutate.Extract(pulled).Read(make([]byte, 1)); err != nil {
		t.Errorf("the layer cannot be read: %v", err)
	}
}

// TestSameBinarySameImage builds twice: the digest must not depend on when or where.
func TestSameBinarySameImage(t *testing.T) {
	var digests [2]string
	for i := range digests {
		o := inputs(t, "mlkeeper:dev")
		if err := run(o); err != nil {
			t.Fatal(err)
		}
		image, err := tarball.ImageFromPath(o.output, nil)
		if err != nil {
			t.Fatal(err)
		}
		digest, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		digests[i] = digest.String()
	}
	if digests[0] != digests[1] {
		t.Errorf("two builds of one binary have the digests %s and %s", digests[0], digests[1])
	}
}

// inputs writes a binary and certificates into a new folder.
func inputs(t *testing.T, image string) options {
	t.Helper()
	folder := t.TempDir()
	o := options{
		binary:       filepath.Join(folder, "binary"),
		certificates: filepath.Join(folder, "ca.pem"),
		output:       filepath.Join(folder, "image.tar"),
		image:        image, arch: "arm64", version: "v1",
	}
	for _, file := range []string{o.binary, o.certificates} {
		if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return o
}
