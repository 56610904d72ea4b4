package main

import (
	"archive/tar"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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

// TestGivenCertificatesAreTrustedBesideThePublicOnes reads the bundle of an image: Go looks at no others where there is one,
// not at those in the binary either.
func TestGivenCertificatesAreTrustedBesideThePublicOnes(t *testing.T) {
	o := inputs(t, "mlkeeper:dev")
	if err := run(o); err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(o.output, nil)
	if err != nil {
		t.Fatal(err)
	}
	files := mutate.Extract(image)
	defer func() { _ = files.Close() }()
	reader := tar.NewReader(files)
	for {
		header, err := reader.Next()
		if err != nil {
			t.Fatalf("no %s: %v", certificates, err)
		}
		if header.Name == certificates {
			break
		}
	}
	text, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	var subjects []string
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		subjects = append(subjects, certificate.Subject.CommonName)
	}
	for _, want := range []string{"our own CA", "ISRG Root X1", "DigiCert Global Root G2"} {
		if !slices.Contains(subjects, want) {
			t.Errorf("%q is not among the %d certificates of the image", want, len(subjects))
		}
	}
}

// TestFileWithoutCertificatesIsRefused gives a file that would leave the image with nobody else's trust.
func TestFileWithoutCertificatesIsRefused(t *testing.T) {
	o := inputs(t, "mlkeeper:dev")
	o.certificates = o.binary
	if err := run(o); err == nil || !strings.Contains(err.Error(), "holds no certificate in PEM") {
		t.Errorf("%v", err)
	}
}

// TestTheImageTrustsWhomTheBinaryTrusts compares the version of the public roots here with that of the product.
func TestTheImageTrustsWhomTheBinaryTrusts(t *testing.T) {
	var versions []string
	for _, file := range []string{"go.mod", "../../go.mod"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, regexp.MustCompile(`x509roots/fallback v\S+`).FindString(string(raw)))
	}
	if versions[0] == "" || versions[0] != versions[1] {
		t.Errorf("the image is made with %q, the binary with %q", versions[0], versions[1])
	}
}

// ownCA is a certificate that no public bundle has, the same for all tests.
var ownCA = sync.OnceValues(func() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "our own CA"}, NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
})

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
	own, err := ownCA()
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{o.binary: []byte("content"), o.certificates: own} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return o
}
