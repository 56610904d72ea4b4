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

// Chart is a chart that was read.
type Chart struct {
	files []*archive.BufferedFile
	// Name and Version are those of Chart.yaml.
	Name, Version string
}

// Load reads a chart from its unpacked archive.
func Load(tree fs.FS) (*Chart, error) {
	out := &Chart{}
	left := int64(maxChart)
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if len(out.files) == maxFiles {
			return fmt.Errorf("the chart has more than %d files: split it", maxFiles)
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		if left -= int64(len(data)); left < 0 {
			return tooLarge()
		}
		if isPacked(name) {
			if err := countUnpacked(data, &left, 1); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		out.files = append(out.files, &archive.BufferedFile{Name: name, Data: bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, out.readMetadata()
}

// readMetadata reads Chart.yaml alone: what else is in a chart is read by the worker that renders it.
func (c *Chart) readMetadata() error {
	i := slices.IndexFunc(c.files, func(f *archive.BufferedFile) bool { return f.Name == chartutil.ChartfileName })
	if i < 0 {
		return fmt.Errorf("the chart cannot be read: it has no %s", chartutil.ChartfileName)
	}
	if size := len(c.files[i].Data); size > maxChartfile {
		return fmt.Errorf("the chart cannot be read: its %s has %d bytes, more than %d", chartutil.ChartfileName, size, maxChartfile)
	}
	var metadata chartv2.Metadata
	if err := yaml.Unmarshal(c.files[i].Data, &metadata); err != nil {
		return fmt.Errorf("the chart cannot be read: %s: %w", chartutil.ChartfileName, err)
	}
	if kind := metadata.Type; kind != "" && kind != "application" {
		return fmt.Errorf("the chart is of type %q, which installs nothing: name the chart that uses it", kind)
	}
	c.Name, c.Version = metadata.Name, metadata.Version
	return nil
}

// parse makes Helm's chart anew, since rendering changes it.
func (c *Chart) parse() (*chartv2.Chart, error) {
	files := make([]*archive.BufferedFile, 0, len(c.files))
	for _, f := range c.files {
		one := *f // The loader shortens the names.
		files = append(files, &one)
	}
	out, err := loader.LoadFiles(files)
	if err != nil {
		return nil, fmt.Errorf("the chart cannot be read: %w", err)
	}
	return out, nil
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
