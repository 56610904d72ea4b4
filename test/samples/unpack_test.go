package samples

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
)

// unpack returns the files of an archive.
func unpack(archive []byte) (map[string]string, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for files := tar.NewReader(unzipped); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(files)
		if err != nil {
			return nil, err
		}
		out[header.Name] = string(content)
	}
}
