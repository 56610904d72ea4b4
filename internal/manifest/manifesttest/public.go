package manifesttest

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/Masterminds/semver/v3"
	chartarchive "helm.sh/helm/v4/pkg/chart/loader/archive"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// HelmCommand builds Helm's own command, or finds it in Go's cache. Helm as a library would bring its registry client and its databases into
// the go.mod of the product.
func HelmCommand(t testing.TB) string {
	t.Helper()
	cmd := exec.Command("go", "tool", "-n", "helm")
	cmd.Dir = above(t, filepath.Join("hack", "tools", "helm"))
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("build Helm's command: %v\n%s", err, problems.String())
	}
	return strings.TrimSpace(string(out))
}

// HelmTemplate renders a chart with Helm's command and returns the objects, without the Lists that they are in. Nothing of a user's counts.
func HelmTemplate(t testing.TB, command string, values []byte, args ...string) []*unstructured.Unstructured {
	t.Helper()
	home := t.TempDir()
	file := filepath.Join(home, "given.yaml")
	if err := os.WriteFile(file, values, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(command, append([]string{"template", "--values", file}, args...)...)
	cmd.Env = []string{"HOME=" + home, "KUBECONFIG=" + filepath.Join(home, "none")}
	var printed, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &problems
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, problems.String())
	}
	var out []*unstructured.Unstructured
	for decoder := utilyaml.NewYAMLOrJSONDecoder(&printed, 4096); ; {
		u := &unstructured.Unstructured{}
		err := decoder.Decode(u)
		switch {
		case errors.Is(err, io.EOF):
			return out
		case err != nil:
			t.Fatal(err)
		case len(u.Object) == 0:
		case u.IsList():
			list, err := u.ToList()
			if err != nil {
				t.Fatal(err)
			}
			for i := range list.Items {
				out = append(out, &list.Items[i])
			}
		default:
			out = append(out, u)
		}
	}
}

// PublicChart is a chart in several versions, the oldest one first.
type PublicChart struct {
	Name string
	// Values is the file values.yaml beside the versions; empty where there is none.
	Values   []byte
	Versions []ChartVersion
}

// ChartVersion is a version of a chart, packed as the file Archive and as its Files. Values are those that its authors test it with, files
// ci/NAME-values.yaml of its folder, by NAME.
type ChartVersion struct {
	Version, Archive string
	Files            fstest.MapFS
	Values           map[string][]byte
}

// PublicCharts reads the charts of a folder, in which NAME/VERSION is the folder of a chart, or NAME/VERSION.tgz an archive. Helm's command
// packs the former, which leaves out what .helmignore names.
func PublicCharts(t testing.TB, command, folder string) []PublicChart {
	t.Helper()
	var out []PublicChart
	names, err := filepath.Glob(filepath.Join(folder, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names { // in the order of their names
		path := name
		switch info, err := os.Stat(name); {
		case err != nil:
			t.Fatal(err)
		case info.IsDir():
			path = packed(t, command, name)
		case filepath.Ext(name) != ".tgz":
			continue
		}
		chart := filepath.Base(filepath.Dir(name))
		if len(out) == 0 || out[len(out)-1].Name != chart {
			values, err := os.ReadFile(filepath.Join(filepath.Dir(name), "values.yaml"))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			out = append(out, PublicChart{Name: chart, Values: values})
		}
		version := unpacked(t, path)
		version.Values = testedValues(t, name)
		last := &out[len(out)-1]
		last.Versions = append(last.Versions, version)
	}
	for _, chart := range out {
		if len(chart.Versions) < 2 {
			t.Fatalf("%s has %d version of the chart %s: add another one, for the upgrade", folder, len(chart.Versions), chart.Name)
		}
		slices.SortFunc(chart.Versions, func(a, b ChartVersion) int {
			return semver.MustParse(a.Version).Compare(semver.MustParse(b.Version))
		})
	}
	if len(out) == 0 {
		t.Fatalf("%s has no charts in folders NAME/VERSION", folder)
	}
	return out
}

// testedValues reads the values that the folder of a chart has for its tests.
func testedValues(t testing.TB, folder string) map[string][]byte {
	t.Helper()
	const suffix = "-values.yaml"
	files, err := filepath.Glob(filepath.Join(folder, "ci", "*"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, file := range files {
		if out[strings.TrimSuffix(filepath.Base(file), suffix)], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// packed packs a chart with Helm's command, and returns the path of the archive.
func packed(t testing.TB, command, folder string) string {
	t.Helper()
	home := t.TempDir()
	cmd := exec.Command(command, "package", folder, "--destination", home)
	cmd.Env = []string{"HOME=" + home}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	archives, err := filepath.Glob(filepath.Join(home, "*.tgz"))
	if err != nil || len(archives) != 1 {
		t.Fatalf("%v packs %v, %v", cmd.Args, archives, err)
	}
	return archives[0]
}

// unpacked reads a packed chart.
func unpacked(t testing.TB, path string) ChartVersion {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files, err := chartarchive.LoadArchiveFiles(bytes.NewReader(raw))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	out := ChartVersion{Archive: path, Files: fstest.MapFS{}}
	for _, f := range files {
		out.Files[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	var metadata struct{ Version string }
	if err := yaml.Unmarshal(out.Files["Chart.yaml"].Data, &metadata); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	out.Version = metadata.Version
	return out
}
