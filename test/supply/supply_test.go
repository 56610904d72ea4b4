package supply

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"mlkeeper.dev/internal/tfserving"
	"mlkeeper.dev/internal/trustyai"
)

const root = "../.."

// TestEveryModuleIsUpdated: a module that is in no list of the dependency updates stays as it is, known vulnerabilities included.
func TestEveryModuleIsUpdated(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, ".github/dependabot.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Updates []struct {
			PackageEcosystem string   `json:"package-ecosystem"`
			Directory        string   `json:"directory"`
			Directories      []string `json:"directories"`
		}
	}
	if err := yaml.Unmarshal(raw, &config); err != nil {
		t.Fatal(err)
	}
	ecosystems := map[string]string{"go.mod": "gomod", "pom.xml": "maven", "requirements.txt": "pip"}
	found := 0
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "bin" || d.Name() == "testdata" || d.Name() == ".git") {
			return fs.SkipDir
		}
		ecosystem, known := ecosystems[d.Name()]
		if !known {
			return nil
		}
		found++
		folder := path.Clean("/" + strings.TrimPrefix(filepath.ToSlash(filepath.Dir(name)), root))
		for _, u := range config.Updates {
			for _, pattern := range append(u.Directories, u.Directory) {
				if matches, err := path.Match(pattern, folder); err != nil {
					return err
				} else if matches && u.PackageEcosystem == ecosystem {
					return nil
				}
			}
		}
		t.Errorf("%s is in no %s entry of .github/dependabot.yml", folder, ecosystem)
		return nil
	})
	if err != nil || found < 10 {
		t.Errorf("%d modules: %v", found, err)
	}
}

// pinned are references that do not move: by a digest, or by the tag of a release, which the registries of these images do not move.
var pinned = regexp.MustCompile(`@sha256:[0-9a-f]{64}$|:v?\d+\.\d+\.\d+(-gpu)?$`)

// TestDefaultImagesDoNotMove: an image that moves changes what runs without a rollout, and cannot be rolled back. The proxy decides who may
// reach a Secured service, so its digest is named.
func TestDefaultImagesDoNotMove(t *testing.T) {
	for _, image := range []string{trustyai.DefaultImage, trustyai.DefaultProxyImage, tfserving.DefaultImage, tfserving.DefaultGPUImage} {
		if !pinned.MatchString(image) {
			t.Errorf("%s can change", image)
		}
	}
	if !strings.Contains(trustyai.DefaultProxyImage, ":odh-stable@sha256:") {
		t.Errorf("%s names no digest, or no tag that tells a reader what it is", trustyai.DefaultProxyImage)
	}
}

// TestTheManifestsNameNoImageOfOthers: until an administrator names one, the manifests have an image that cannot be pulled from anywhere.
func TestTheManifestsNameNoImageOfOthers(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, "config/install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	images := regexp.MustCompile(`(?m)^\s+image: (\S+)$`).FindAllStringSubmatch(string(raw), -1)
	if len(images) != 1 || !strings.HasPrefix(images[0][1], "registry.invalid/") {
		t.Errorf("config/install.yaml runs %q", images)
	}
}

// TestVulncheckSaysWhatItDidNotDo runs hack/vulncheck.sh with stand-ins for govulncheck.
func TestVulncheckSaysWhatItDidNotDo(t *testing.T) {
	const unreachable = `govulncheck: fetching vulnerabilities: Get "https://vuln.go.dev/index/modules.json.gz": dial tcp: no such host`
	for _, c := range []struct {
		name, says string
		exits      int
		env, want  string
		fails      bool
	}{
		{"nothing is known", "No vulnerabilities found.", 0, "", "no known vulnerability", false},
		{"a vulnerability", "Vulnerability #1: GO-2026-0001", 3, "", "GO-2026-0001", true},
		{"no network", unreachable, 1, "", "NOT RUN", false},
		{"no network, where a machine must have it all", unreachable, 1, "REQUIRE=1", "NOT RUN", false},
		{"no network, where somebody reads the result", unreachable, 1, "REQUIRE_VULNDB=1", "NOT RUN", true},
		{"another database", strings.ReplaceAll(unreachable, "vuln.go.dev", "db.example"), 1, "GOVULNDB=https://db.example", "NOT RUN", false},
		{"code that does not compile", "govulncheck: loading packages: there are errors", 1, "", "loading packages", true},
	} {
		program := filepath.Join(t.TempDir(), "govulncheck")
		if err := os.WriteFile(program, fmt.Appendf(nil, "#!/bin/sh\necho '%s'\nexit %d\n", c.says, c.exits), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(root, "hack/vulncheck.sh"), program)
		cmd.Env = append(slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "REQUIRE") || strings.HasPrefix(e, "GOVULNDB") }), c.env)
		out, err := cmd.CombinedOutput()
		if (err != nil) != c.fails || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v\n%s", c.name, err, out)
		}
	}
}
