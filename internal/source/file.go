package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
)

// FileName is the name of a file that was fetched alone (Request.File) in its tree.
const FileName = "file"

// maxLoneFile bounds a file that is fetched alone, in bytes: manifests of a release are below 2 MiB.
const maxLoneFile = 16 << 20

// digestPrefix is before the digests of contents.
const digestPrefix = "sha256:"

// tree is the name of the tree that a pinned digest stands for; empty where none is pinned.
func (u URI) tree() string {
	if u.Kind == KindFile && u.Digest != "" {
		return treeOfFile(u.Digest)
	}
	return u.Digest
}

// treeOfFile names the tree of a file by its sha256. The same bytes may be an archive, which is another tree.
func treeOfFile(digest string) string {
	name := sha256.Sum256([]byte("file\x00" + digest))
	return hex.EncodeToString(name[:])
}

// keepFile saves a file as a tree of its own. The caller unpins the entry.
func (s *Store) keepFile(ctx context.Context, work string, content io.Reader, want string) (*entryState, error) {
	limit := min(s.options.Limits.File, maxLoneFile)
	file, _, id, err := download(ctx, work, content, limit, tooLarge("the file has more than %d bytes", limit), want)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	r := record{ID: treeOfFile(id), Digest: digestPrefix + id, Revision: digestPrefix + id}
	return s.keep(ctx, work, r, false, func(to *tree) error { return to.add(FileName, file) })
}
