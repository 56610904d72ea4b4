package manifesttest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"testing/fstest"
)

// Pack packs files as a forge does: into a gzipped tar with one folder at its top.
func Pack(files fstest.MapFS) ([]byte, error) {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	w := tar.NewWriter(zip)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content := files[name].Data
		err := w.WriteHeader(&tar.Header{
			Name: path.Join("manifests", name), Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content)),
		})
		if err == nil {
			_, err = w.Write(content)
		}
		if err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
	}
	err := errors.Join(w.Close(), zip.Close())
	return out.Bytes(), err
}
