package helm

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"sigs.k8s.io/yaml"

	"mlkeeper.dev/internal/manifest/bounded"
)

const (
	// maxChart bounds the files of a chart together, those of packed charts within it unpacked, in bytes. Helm's own bound is
	// the same for one archive.
	maxChart = 100 << 20
	// maxFiles bounds the files of a chart.
	maxFiles = 5000
	// maxPacked is how deep charts may be packed within charts.
	maxPacked = 4
	// maxChartfile bounds Chart.yaml, in bytes.
	maxChartfile = 1 << 20
)

// largestChartfile is what Chart.yaml may become once it is decoded, which the manager does.
var largestChartfile = bounded.Size{Values: 1 << 16, Bytes: maxChartfile}

// Chart is a chart whose metadata was read.
type Chart struct {
	tree fs.FS
	// Name and Version are those of Chart.yaml.
	Name, Version string
}

// Load reads Chart.yaml of an unpacked archive. What else is in the chart is read by the worker that renders it.
func Load(tree fs.FS) (*Chart, error) {
	info, err := fs.Stat(tree, chartutil.ChartfileName)
	if err != nil {
		return nil, fmt.Errorf("the chart cannot be read: it has no %s", chartutil.ChartfileName)
	}
	if info.Size() > maxChartfile {
		return nil, fmt.Errorf("the chart cannot be read: its %s has %d bytes, more than %d", chartutil.ChartfileName, info.Size(), maxChartfile)
	}
	content, err := fs.ReadFile(tree, chartutil.ChartfileName)
	if err != nil {
		return nil, fmt.Errorf("the chart cannot be read: %w", err)
	}
	content = bytes.TrimPrefix(content, mark)
	if err := bounded.YAML(content, largestChartfile); err != nil {
		return nil, fmt.Errorf("the chart cannot be read: %s: %w", chartutil.ChartfileName, err)
	}
	var metadata chartv2.Metadata
	if err := yaml.Unmarshal(content, &metadata); err != nil {
		return nil, fmt.Errorf("the chart cannot be read: %s: %w", chartutil.ChartfileName, err)
	}
	if kind := metadata.Type; kind != "" && kind != "application" {
		return nil, fmt.Errorf("the chart is of type %q, which installs nothing: name the chart that uses it", kind)
	}
	return &Chart{tree: tree, Name: metadata.Name, Version: metadata.Version}, nil
}

// mark is what some editors put at the beginning of a file.
var mark = []byte("\xef\xbb\xbf")

// parse reads the files of the chart, and makes Helm's chart of them.
func (c *Chart) parse() (*chartv2.Chart, error) {
	var files []*archive.BufferedFile
	left := int64(maxChart)
	err := fs.WalkDir(c.tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if len(files) == maxFiles {
			return fmt.Errorf("the chart has more than %d files: split it", maxFiles)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if left -= info.Size(); left < 0 {
			return tooLarge()
		}
		data, err := fs.ReadFile(c.tree, name)
		if err != nil {
			return err
		}
		if isPacked(name) {
			if err := countUnpacked(data, &left, 1); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		files = append(files, &archive.BufferedFile{Name: name, Data: bytes.TrimPrefix(data, mark)})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", c.Name, err)
	}
	out, err := loader.LoadFiles(files)
	if err != nil {
		return nil, fmt.Errorf("the chart cannot be read: %w", err)
	}
	return out, nil
}

// UnfitError says that a chart is not to be installed, whatever its values.
type UnfitError struct{ Why, Remedy string }

// Error implements error.
func (e *UnfitError) Error() string { return e.Why + ": " + e.Remedy }

// checkDependencies refuses a chart without one that it depends on (pkg/action, CheckDependencies). Helm looks before it knows what is on.
func checkDependencies(c *chartv2.Chart) *UnfitError {
	var missing []string
	for _, declared := range c.Metadata.Dependencies {
		if !slices.ContainsFunc(c.Dependencies(), func(inner *chartv2.Chart) bool { return inner.Name() == declared.Name }) {
			missing = append(missing, declared.Name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return &UnfitError{
		Why: oneLine(fmt.Errorf("chart %s: an error occurred while checking for chart dependencies. You may need to run 'helm dependency build' "+
			"to fetch missing dependencies: found in Chart.yaml, but missing in charts/ directory: %s", c.Name(), strings.Join(missing, ", "))),
		Remedy: "run helm dependency build on the chart and package it anew, or take another version of it",
	}
}

// checkKubeVersion refuses a chart for other versions of Kubernetes (pkg/action, renderResources).
func checkKubeVersion(c *chartv2.Chart, of kubeVersion) *UnfitError {
	if wants := c.Metadata.KubeVersion; wants != "" && !chartutil.IsCompatibleRange(wants, of.Version) {
		return &UnfitError{
			Why:    oneLine(fmt.Errorf("chart %s: chart requires kubeVersion: %s which is incompatible with Kubernetes %s", c.Name(), wants, of.Version)),
			Remedy: "take a version of the chart for this version of Kubernetes",
		}
	}
	return nil
}

// isPacked says that a file is a chart within the chart, which the loader unpacks.
func isPacked(name string) bool {
	return path.Ext(name) == ".tgz" && path.Base(path.Dir(name)) == "charts"
}

func tooLarge() error { return fmt.Errorf("the chart has more than %d bytes: split it", maxChart) }

// countUnpacked counts what a packed chart unpacks to, before the loader holds it in memory.
func countUnpacked(data []byte, left *int64, depth int) error {
	if depth > maxPacked {
		return fmt.Errorf("charts are packed more than %d deep: unpack them", maxPacked)
	}
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return errors.New("it is not gzipped: package it anew")
	}
	n, err := io.Copy(io.Discard, io.LimitReader(zip, *left+1))
	if *left -= n; *left < 0 {
		return tooLarge()
	}
	if err != nil {
		return errors.New("it ends too early: package it anew")
	}
	files, err := archive.LoadArchiveFiles(bytes.NewReader(data))
	if err != nil {
		return err
	}
	for _, f := range files {
		if isPacked(f.Name) {
			if err := countUnpacked(f.Data, left, depth+1); err != nil {
				return fmt.Errorf("%s: %w", f.Name, err)
			}
		}
	}
	return nil
}

// isNotes says that a rendered file is for people.
func isNotes(name string) bool { return strings.HasSuffix(name, "NOTES.txt") }
