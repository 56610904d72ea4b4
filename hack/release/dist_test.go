package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	provenancev1 "github.com/in-toto/attestation/go/predicates/provenance/v1"
	statement "github.com/in-toto/attestation/go/v1"
	spdxjson "github.com/spdx/tools-golang/json"
	"google.golang.org/protobuf/encoding/protojson"
)

// repository is the image's name in the tests.
const repositoryName = "registry.example.com/mlkeeper"

// release has what dist is given: binaries of three platforms, which are this test itself, and the files of the repository.
func release(t *testing.T, work string) distOptions {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, content []byte) {
		path := filepath.Join(work, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"linux-amd64/mlkeeper", "linux-arm64/mlkeeper", "windows-amd64/mlkeeper.exe"} {
		write("binaries/"+name, binary)
	}
	manifest, err := os.ReadFile("../../config/install.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write("manifests/install.yaml", manifest)
	write("completions/mlkeeper.bash", []byte("complete\n"))
	write("help.txt", []byte(`      --trustyai-image string             image of one (default "quay.io/a/b:v1")`+"\n"+
		`      --trustyai-image-generation string  what it is (default "no image")`+"\n"))
	write("key.pem", privateKey(t))
	return distOptions{
		version: "v0.1.0-rc.1", image: repositoryName, source: "https://example.com/mlkeeper", commit: strings.Repeat("a", 40),
		at:   time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC),
		root: "../..", binaries: filepath.Join(work, "binaries"), manifests: filepath.Join(work, "manifests"),
		completions: filepath.Join(work, "completions"), help: filepath.Join(work, "help.txt"), key: filepath.Join(work, "key.pem"),
		output: filepath.Join(work, "out"),
	}
}

func privateKey(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// made is one release for all tests that only read it.
var made struct {
	sync.Once
	options distOptions
}

// finished returns the options of a release that is made, and its files.
func finished(t *testing.T) (distOptions, map[string][]byte) {
	t.Helper()
	made.Do(func() {
		folder, err := os.MkdirTemp("", "release-")
		if err != nil {
			t.Fatal(err)
		}
		o := release(t, folder)
		if err := makeDist(o); err != nil {
			t.Fatal(err)
		}
		made.options = o
	})
	return made.options, files(t, made.options.output)
}

func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.RemoveAll(filepath.Dir(made.options.output))
	os.Exit(code)
}

// files reads everything below a folder.
func files(t *testing.T, folder string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	err := fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		out[name], err = os.ReadFile(filepath.Join(folder, name))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTheSameInputsGiveTheSameRelease makes a release again, in another time zone.
func TestTheSameInputsGiveTheSameRelease(t *testing.T) {
	o, first := finished(t)
	o.output = filepath.Join(t.TempDir(), "again")
	o.at = o.at.In(time.FixedZone("east", 9*60*60))
	if err := makeDist(o); err != nil {
		t.Fatal(err)
	}
	second := files(t, o.output)
	if len(first) < 20 || len(first) != len(second) {
		t.Errorf("%d files and %d", len(first), len(second))
	}
	for name, content := range first {
		if !bytes.Equal(content, second[name]) {
			t.Errorf("%s differs", name)
		}
	}
}

// TestEveryFileHasAChecksum: what is signed by itself, and the signatures, have none.
func TestEveryFileHasAChecksum(t *testing.T) {
	_, all := finished(t)
	covered := map[string]string{}
	for line := range strings.Lines(string(all["checksums.txt"])) {
		fields := strings.Fields(line)
		covered[fields[1]] = fields[0]
	}
	for name, content := range all {
		if strings.HasPrefix(name, imageFolder+"/") || slices.Contains([]string{"checksums.txt", "checksums.txt.sig", "cosign.pub", "provenance.json", "provenance.intoto.jsonl"}, name) {
			continue
		}
		if covered[name] != sha256Hex(content) {
			t.Errorf("%s is not in the checksums", name)
		}
	}
}

// TestTheBillsAreRead reads each bill of materials by the library of its format, and compares both.
func TestTheBillsAreRead(t *testing.T) {
	_, all := finished(t)
	for _, archive := range []string{"mlkeeper_0.1.0-rc.1_linux_amd64.tar.gz", "mlkeeper_0.1.0-rc.1_windows_amd64.zip"} {
		spdx, err := spdxjson.Read(bytes.NewReader(all[archive+".spdx.json"]))
		if err != nil {
			t.Fatal(err)
		}
		bom := cyclonedx.NewBOM()
		if err := cyclonedx.NewBOMDecoder(bytes.NewReader(all[archive+".cdx.json"]), cyclonedx.BOMFileFormatJSON).Decode(bom); err != nil {
			t.Fatal(err)
		}
		var packages, components []string
		for _, p := range spdx.Packages[1:] {
			packages = append(packages, p.PackageExternalReferences[0].Locator)
		}
		for _, c := range *bom.Components {
			components = append(components, c.PackageURL)
		}
		if !slices.Equal(packages, components) || len(packages) < 10 {
			t.Errorf("SPDX has %v, CycloneDX %v", packages, components)
		}
		if !slices.ContainsFunc(packages, func(p string) bool {
			return strings.HasPrefix(p, "pkg:golang/github.com/google/go-containerregistry@v")
		}) {
			t.Errorf("a module is missing: %v", packages)
		}
		if got := spdx.Packages[0].PackageChecksums[0].Value; got != sha256Hex(all[archive]) || (*bom.Metadata.Component.Hashes)[0].Value != got {
			t.Errorf("the bills are of another archive: %s", got)
		}
	}
}

// TestTheProvenanceIsValid reads the statement and its predicate by in-toto's library.
func TestTheProvenanceIsValid(t *testing.T) {
	o, all := finished(t)
	var read statement.Statement
	if err := protojson.Unmarshal(all["provenance.json"], &read); err != nil {
		t.Fatal(err)
	}
	if err := read.Validate(); err != nil {
		t.Error(err)
	}
	predicate, err := protojson.Marshal(read.GetPredicate())
	if err != nil {
		t.Fatal(err)
	}
	var predicateOf provenancev1.Provenance
	if err := protojson.Unmarshal(predicate, &predicateOf); err != nil {
		t.Fatal(err)
	}
	if err := predicateOf.Validate(); err != nil {
		t.Error(err)
	}
	if got := predicateOf.GetBuildDefinition().GetResolvedDependencies()[0].GetDigest()["gitCommit"]; got != o.commit {
		t.Errorf("the commit is %q", got)
	}
	digests := map[string]string{}
	for _, s := range read.GetSubject() {
		digests[s.GetName()] = s.GetDigest()["sha256"]
	}
	if digests["install.yaml"] != sha256Hex(all["install.yaml"]) || len(digests[repositoryName]) != 64 {
		t.Errorf("the subjects are %v", digests)
	}
	var envelope struct{ Payload []byte }
	if err := json.Unmarshal(all["provenance.intoto.jsonl"], &envelope); err != nil || !bytes.Equal(envelope.Payload, all["provenance.json"]) {
		t.Errorf("the envelope has another statement: %v", err)
	}
}

// TestTheImageIsPublished pushes the layout and asks the registry for what users ask for.
func TestTheImageIsPublished(t *testing.T) {
	o, all := finished(t)
	server := httptest.NewServer(registry.New())
	defer server.Close()
	repository := strings.TrimPrefix(server.URL, "http://") + "/mlkeeper"
	if err := dispatch([]string{"push", "-dist", o.output, "-image", repository}); err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(repository + ":v0.1.0-rc.1")
	if err != nil {
		t.Fatal(err)
	}
	images, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := images.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var architectures []string
	for _, one := range manifest.Manifests {
		architectures = append(architectures, one.Platform.Architecture)
	}
	if !slices.Equal(architectures, []string{"amd64", "arm64"}) {
		t.Errorf("the index has %v", architectures)
	}
	digest, err := images.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if list := string(all["images.txt"]); list != repositoryName+":v0.1.0-rc.1@"+digest.String()+"\nquay.io/a/b:v1\n" {
		t.Errorf("images.txt: %s", list)
	}
}

func TestManifestsAndChartNameTheImageByItsDigest(t *testing.T) {
	_, all := finished(t)
	if !bytes.Contains(all["install.yaml"], []byte("image: "+repositoryName+":v0.1.0-rc.1@sha256:")) {
		t.Error("install.yaml does not name the image of the release")
	}
	packed := unpack(t, all["mlkeeper-0.1.0-rc.1.tgz"])
	for name, wanted := range map[string][]string{
		"mlkeeper/Chart.yaml":                {"version: 0.1.0-rc.1\n", "appVersion: v0.1.0-rc.1\n"},
		"mlkeeper/values.yaml":               {"repository: " + repositoryName + "\n", "digest: sha256:"},
		"mlkeeper/templates/deployment.yaml": {"kind: Deployment"},
	} {
		for _, want := range wanted {
			if !bytes.Contains(packed[name], []byte(want)) {
				t.Errorf("%s has no %q:\n%s", name, want, packed[name])
			}
		}
	}
	for name, want := range map[string]string{
		"krew.yaml":   "/releases/download/v0.1.0-rc.1/mlkeeper_0.1.0-rc.1_windows_amd64.zip\n      sha256: " + sha256Hex(all["mlkeeper_0.1.0-rc.1_windows_amd64.zip"]),
		"mlkeeper.rb": "/releases/download/v0.1.0-rc.1/mlkeeper_0.1.0-rc.1_linux_arm64.tar.gz\"\n      sha256 \"" + sha256Hex(all["mlkeeper_0.1.0-rc.1_linux_arm64.tar.gz"]),
	} {
		if !strings.Contains(string(all[name]), want) {
			t.Errorf("%s has no %q:\n%s", name, want, all[name])
		}
	}
}

// TestWhatIsMissingIsSaid leaves something out, and expects nothing to be written.
func TestWhatIsMissingIsSaid(t *testing.T) {
	for _, one := range []struct {
		name   string
		change func(*distOptions) error
		want   string
		// early says that the command check says it, too.
		early bool
	}{
		{"version", func(o *distOptions) error { o.version = "0.1"; return nil }, "not like v0.1.0", true},
		{"changelog", func(o *distOptions) error { o.version = "v9.9.9"; return nil }, "no section [9.9.9]", true},
		{"image", func(o *distOptions) error { o.image = "registry.example.com/MLKeeper"; return nil }, "IMAGE", true},
		{"Linux", func(o *distOptions) error {
			return errors.Join(os.RemoveAll(o.binaries+"/linux-amd64"), os.RemoveAll(o.binaries+"/linux-arm64"))
		}, "no binary for Linux", false},
		{"image in the manifests", func(o *distOptions) error {
			return os.WriteFile(o.manifests+"/install.yaml", []byte("image: another\n"), 0o600)
		}, "0 times, not once", false},
		{"Deployment", func(o *distOptions) error {
			return os.WriteFile(o.manifests+"/install.yaml", []byte("kind: Service\nmetadata: {name: "+development+"}\n"), 0o600)
		}, "0 Deployments", false},
		{"default images", func(o *distOptions) error { return os.WriteFile(o.help, nil, 0o600) }, "names no default image", false},
		{"key", func(o *distOptions) error { return os.WriteFile(o.key, []byte("no key"), 0o600) }, "not PEM", true},
		{"kind of key", func(o *distOptions) error {
			return os.WriteFile(o.key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")}), 0o600)
		}, "openssl genpkey", true},
	} {
		t.Run(one.name, func(t *testing.T) {
			o := release(t, t.TempDir())
			if err := one.change(&o); err != nil {
				t.Fatal(err)
			}
			if err := makeDist(o); err == nil || !strings.Contains(err.Error(), one.want) {
				t.Errorf("%v", err)
			}
			err := runCheck([]string{"-version", o.version, "-image", o.image, "-key", o.key, "-root", o.root})
			if one.early && (err == nil || !strings.Contains(err.Error(), one.want)) || !one.early && err != nil {
				t.Errorf("before anything is compiled: %v", err)
			}
			if _, err := os.Stat(o.output); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("something was written: %v", err)
			}
		})
	}
}

func TestNotesAreOfTheVersion(t *testing.T) {
	const changelog = "# Changelog\n\n## [Unreleased]\n\nnew\n\n## [0.2.0] - 2026-11-01\n\nsecond\n\n## [0.1.0] - 2026-10-01\n\nfirst\n"
	for version, want := range map[string]string{"v0.1.0": "first\n", "v0.2.0": "second\n", "v0.3.0-rc.1": "new\n"} {
		if got, err := notes(changelog, version); err != nil || got != want {
			t.Errorf("%s: %q, %v", version, got, err)
		}
	}
	// Its section is renamed before a release is made, and a test of the release needs notes nevertheless.
	if got, err := notes(strings.Replace(changelog, "new\n\n", "", 1), "v0.2.0-rc.1"); err != nil || got != "second\n" {
		t.Errorf("where nothing is unreleased: %q, %v", got, err)
	}
}
