// Package image makes container images of one static binary, and of nothing
// else: archives as container runtimes import them.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path"
)

// Spec is what an image is made of.
type Spec struct {
	// Name is the image's name with its tag.
	Name string
	// Arch is the architecture of the binary.
	Arch string
	// Binary is the path of the binary within the image, and Content the binary.
	Binary  string
	Content []byte
	// Args follow the binary in the entry point.
	Args []string
	// User is the numeric user and group that it runs as.
	User string
}

// Archive returns the image: one layer with the binary, its configuration, and
// the list of both. The same input gives the same bytes.
func Archive(s Spec) ([]byte, error) {
	layer, err := archive(file{path.Clean("/" + s.Binary)[1:], 0o755, s.Content})
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": s.Arch, "os": "linux",
		"config": map[string]any{"Entrypoint": append([]string{path.Clean("/" + s.Binary)}, s.Args...), "User": s.User},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(digest[:])}},
	})
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config": "config.json", "RepoTags": []string{s.Name}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return nil, err
	}
	return archive(file{"layer.tar", 0o644, layer}, file{"config.json", 0o644, config}, file{"manifest.json", 0o644, manifest})
}

// file is a member of an archive.
type file struct {
	name    string
	mode    int64
	content []byte
}

func archive(files ...file) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.content))}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
