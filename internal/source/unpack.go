package source

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strings"
)

// bounded ends with an error where a reader goes on beyond a limit, or the context ends.
type bounded struct {
	ctx  context.Context //nolint:containedctx // a reader has no other way to learn of it
	r    io.Reader
	left int64
	err  *Error
	// broke is the error that the reader itself ended with, which decoders on top of it may lose.
	broke error
}

func (b *bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, describe(err)
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		b.broke = b.err
		return 0, b.err
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.broke = err
	}
	return n, err
}

// unpack writes the files of a gzipped tar of a size to a tree.
func unpack(ctx context.Context, archive io.Reader, size int64, to *tree) error {
	in := bufio.NewReader(archive)
	head, _ := in.Peek(512)
	if len(head) < 2 || head[0] != 0x1f || head[1] != 0x8b {
		return noGzip(head)
	}
	zip, err := gzip.NewReader(in)
	if err != nil {
		return archiveError(err)
	}
	limit := to.limits.unpacked(size)
	// A sparse file is larger than what is sent of it, so the files are held to the same limit as the stream.
	to.limits.Unpacked = limit
	stream := &bounded{
		ctx: ctx, r: zip, left: limit,
		err: tooLarge("the archive of %d bytes unpacks to more than %d bytes", size, limit),
	}
	for entries := tar.NewReader(stream); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		// The paths are checked below, whatever Go's setting for them.
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			return archiveError(err)
		}
		if err := entry(header, entries, to); err != nil {
			return archiveError(err)
		}
	}
	// What comes behind the last entry is checked and bounded too: the checksum of gzip is at the very end.
	if _, err := io.Copy(io.Discard, stream); err != nil {
		return archiveError(err)
	}
	if len(to.files) == 0 {
		return invalid("the archive holds no file")
	}
	return nil
}

func entry(header *tar.Header, content io.Reader, to *tree) error {
	switch header.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		return to.add(header.Name, content)
	case tar.TypeDir:
		return to.folder(header.Name)
	case tar.TypeXGlobalHeader:
		// The commit that an archive was made of; it is no entry, but must not come without end.
		return to.count("")
	}
	// A link would lead out of the tree, or be opened in place of what it names; devices and pipes are no manifests.
	if _, err := to.clean(header.Name); err != nil {
		return err
	}
	return to.skip()
}

// noGzip says what came in place of an archive.
func noGzip(head []byte) *Error {
	switch kind := http.DetectContentType(head); {
	case len(head) == 0:
		return invalid("the archive is empty")
	case strings.HasPrefix(kind, "text/html"):
		return terminal(ReasonArchiveInvalid, "check the URI, and whether it needs credentials",
			"the server sent a page in place of an archive")
	case kind == "application/zip":
		return invalid("the archive is a zip")
	}
	return invalid("the archive is not gzipped")
}

// archiveError tells the errors of an archive from those of limits, the context and the disk.
func archiveError(err error) error {
	var known *Error
	var disk *fs.PathError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &disk):
		return diskError(err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return invalid("the archive ends too early")
	}
	return invalid("the archive is no valid gzipped tar")
}
