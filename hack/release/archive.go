package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"time"
)

// file is one entry of an archive.
type file struct {
	name    string
	mode    int64
	content []byte
}

// targz packs files as tar.gz. All of them have the time of the release, and the first owner.
func targz(files []file, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	var entries []entry
	for _, f := range files {
		entries = append(entries, entry{tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Format: tar.FormatUSTAR}, f.content})
	}
	if err := writeTar(compressed, entries, at); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// entry is one entry of a tar, whose size and time are set when it is written.
type entry struct {
	header  tar.Header
	content []byte
}

// writeTar writes entries, all of one time.
func writeTar(to io.Writer, entries []entry, at time.Time) error {
	w := tar.NewWriter(to)
	for _, e := range entries {
		e.header.ModTime = at
		e.header.Size = int64(len(e.content))
		if err := w.WriteHeader(&e.header); err != nil {
			return err
		}
		if _, err := w.Write(e.content); err != nil {
			return err
		}
	}
	return w.Close()
}

// zipped packs files as zip, which Windows opens by itself. Such an archive has the time on the clock as well, which is that of one time zone
// wherever it is made.
func zipped(files []file, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range files {
		entry, err := w.CreateHeader(&zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at.UTC()})
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
