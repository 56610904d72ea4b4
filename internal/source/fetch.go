package source

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"mlkeeper.dev/internal/limit"
)

// Fetch brings what a URI names and unpacks it, or finds that it is there already. Content that is pinned, by a digest
// or as a commit, is asked for once; what may move is asked for every time, but is not sent or unpacked again while it
// stays the same. Callers of a namespace that ask for the same at the same time share one fetch. The caller closes the artifact. Errors
// are *Error.
func (s *Store) Fetch(ctx context.Context, r Request) (*Artifact, error) {
	u, err := s.locate(r)
	if err != nil {
		return nil, describe(err)
	}
	key := s.sourceKey(u, r.Auth, r.verify)
	if r.Fixed {
		// What a branch gave is no answer to this request.
		key += " fixed"
	}
	if m, e := s.known(key); e != nil && pinned(u, m) {
		if a, err := s.artifact(ctx, e, m); !gone(err) {
			return a, err
		}
		// What is gone from the disk is fetched again.
	} else if e != nil {
		s.unpin(e)
	}
	return s.fetch(ctx, r, u, key, true)
}

// fetch asks for what may have changed, or is not there. Where it is the same as before, but gone from the disk, it asks once again.
func (s *Store) fetch(ctx context.Context, r Request, u URI, key string, again bool) (*Artifact, error) {
	// Two requests for one archive with two digests are not the same: one of them fails. Nor are those of two namespaces: what a fetch takes
	// counts for one, which may have to wait for space.
	f, leave := s.join(ctx, limit.NamespaceOf(ctx)+" "+key+" "+u.Digest, &flight{uri: u, key: key, auth: r.Auth, fixed: r.Fixed, verify: r.verify})
	defer leave()
	select {
	case <-ctx.Done():
		return s.before(ctx, r, u.tree(), key, describe(ctx.Err()).at(u.String()))
	case <-f.done:
		if f.err != nil {
			return s.before(ctx, r, u.tree(), key, describe(f.err).at(u.String()))
		}
		m := f.gave
		e := s.pin(m.ID)
		if e == nil {
			return nil, transient(ReasonStoreFull, "give the operator's store of sources more space",
				"%s: the tree was dropped before it was used", u)
		}
		a, err := s.artifact(ctx, e, m)
		if gone(err) && again {
			return s.fetch(ctx, r, u, key, false)
		}
		return a, err
	}
}

// before returns what a source gave the last time, where the request allows it, whatever the failure is: a server that refuses
// today what it gave yesterday says nothing about what is deployed. Content that is pinned by a digest is never another.
func (s *Store) before(ctx context.Context, r Request, tree, key string, failure *Error) (*Artifact, error) {
	if !r.Before {
		return nil, failure
	}
	m, e := s.known(key)
	if e == nil {
		return nil, failure
	}
	if tree != "" && tree != m.ID {
		s.unpin(e)
		return nil, failure
	}
	artifact, err := s.artifact(ctx, e, m)
	if err != nil {
		return nil, failure
	}
	artifact.Stale = failure
	return artifact, nil
}

// locate turns a request into the URI to ask for, if the policy allows it.
func (s *Store) locate(r Request) (URI, error) {
	u, mapped, err := s.resolve(r)
	if err != nil {
		return URI{}, err
	}
	return u, s.options.Policy.check(u, u.pinned(), mapped)
}

// resolve turns a request into the URI to ask for, and says whether a mapping led there.
func (s *Store) resolve(r Request) (out URI, mapped bool, err error) {
	u, err := ParseURI(r.URI)
	if err != nil {
		return URI{}, false, err
	}
	if r.Digest != "" {
		digest := strings.ToLower(strings.TrimPrefix(r.Digest, "sha256:"))
		switch {
		case !sha256Hex.MatchString(digest) || u.Kind == KindGit:
			return URI{}, false, uriError("give the sha256 of an archive, in 64 hexadecimal digits", "the digest is not valid")
		case u.Digest != "" && u.Digest != digest:
			return URI{}, false, uriError("leave one of them out", "the URI and the digest beside it pin different content")
		}
		u.Digest = digest
	}
	out, mapped, err = rewrite(s.options.Map, u)
	if err != nil {
		return URI{}, false, err
	}
	if out.Kind == KindGit && out.Digest != "" {
		return URI{}, false, uriError("map it to an archive", "the URI is pinned as an archive, but mapped to a git repository")
	}
	if r.File {
		if out.Kind != KindArchive {
			return URI{}, false, uriError("write the https address of the file, or map it to one", "the URI names no file over HTTP")
		}
		out.Kind = KindFile
	}
	if r.verify != nil && out.Kind != KindOCI {
		e := uriError("map the registry to another registry", "the signature of the chart is in a registry, which is mapped to something else")
		e.Field = FieldVerify
		return URI{}, false, e
	}
	// Behind a proxy nothing else sees the address of the host.
	return out, mapped, s.guard.checkHost(out.address.Hostname())
}

// pinned says that what a source gave the last time is what it must give again.
func pinned(u URI, m meta) bool {
	switch {
	case u.Kind == KindGit:
		return commitHash.MatchString(u.Ref) && u.Ref == m.Digest
	case u.Digest != "":
		return u.tree() == m.ID
	}
	return u.Kind == KindOCI && u.Ref == m.Digest
}

// fetchArchive asks for an archive or a file over HTTP, unless it is the one there is, by its digest or as the server says.
func (s *Store) fetchArchive(ctx context.Context, f *flight) (meta, error) {
	last, e := s.known(f.key)
	if e != nil {
		defer s.unpin(e)
		if pinned(f.uri, last) {
			return last, nil
		}
	}
	client, err := s.newSession(ctx, &f.uri.address, f.auth)
	if err != nil {
		return meta{}, err
	}
	defer client.close()
	client.gate.authorization = authorization(f.auth)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, f.uri.address.String(), http.NoBody)
	if err != nil {
		return meta{}, uriError("check the URI", "the URI cannot be asked for")
	}
	if e != nil && last.ETag != "" && f.uri.Digest == "" {
		r.Header.Set("If-None-Match", last.ETag)
	}
	res, err := client.Do(r)
	if err != nil {
		return meta{}, client.failure(err)
	}
	defer func() { _ = res.Body.Close() }()
	switch {
	case res.StatusCode == http.StatusNotModified && r.Header.Get("If-None-Match") != "":
		return last, nil
	case res.StatusCode != http.StatusOK:
		return meta{}, status(res.StatusCode, res.Header)
	case res.ContentLength > s.options.Limits.Archive:
		return meta{}, tooLarge("the archive has %d bytes, more than %d", res.ContentLength, s.options.Limits.Archive)
	}
	etag := res.Header.Get("ETag")
	spaceOf(ctx).there = s.gave(f.key, func(m meta) bool { return pinned(f.uri, m) || f.uri.Digest == "" && etag != "" && m.ETag == etag })
	keep := s.keepArchive
	if f.uri.Kind == KindFile {
		keep = s.keepFile
	}
	kept, err := keep(ctx, f.work, res.Body, f.uri.Digest)
	if err != nil {
		return meta{}, err
	}
	defer s.unpin(kept)
	return meta{ID: kept.ID, Digest: kept.Digest, Revision: kept.Revision, ETag: etag}, nil
}

// keepArchive saves an archive, compares it with the pinned digest before anything of it is read, and unpacks it unless
// that was done before. The caller unpins the entry.
func (s *Store) keepArchive(ctx context.Context, work string, content io.Reader, want string) (*entryState, error) {
	limit := s.options.Limits.Archive
	file, size, id, err := download(ctx, work, content, limit, tooLarge("the archive has more than %d bytes", limit), want)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	r := record{ID: id, Digest: digestPrefix + id, Revision: digestPrefix + id}
	return s.keep(ctx, work, r, true, func(to *tree) error { return unpack(ctx, file, size, to) })
}

// download saves what a server sends, and compares it with the pinned digest before anything of it is read. The caller closes the file,
// which is at its beginning.
func download(
	ctx context.Context, work string, content io.Reader, limit int64, tooLong *Error, want string,
) (file *os.File, size int64, id string, err error) {
	file, err = os.OpenFile(filepath.Join(work, "archive"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, 0, "", diskError(err)
	}
	defer func() {
		if err != nil {
			_ = file.Close()
		}
	}()
	hash := sha256.New()
	size, err = io.Copy(io.MultiWriter(counted{ctx: ctx, to: file}, hash), &bounded{ctx: ctx, r: content, left: limit, err: tooLong})
	if err != nil {
		return nil, 0, "", describe(err)
	}
	id = hex.EncodeToString(hash.Sum(nil))
	if want != "" && id != want {
		return nil, 0, "", terminal(ReasonDigestMismatch, "correct the digest, or find out who changed the content",
			"the content has the sha256 %s, not %s", id, want)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, 0, "", diskError(err)
	}
	return file, size, id, nil
}

// keep fills a tree and makes it an entry, or finds the entry that is there. The caller unpins it.
func (s *Store) keep(ctx context.Context, work string, r record, stripTop bool, fill func(*tree) error) (*entryState, error) {
	if e := s.pin(r.ID); e != nil {
		return e, nil
	}
	folder := filepath.Join(work, "entry")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, diskError(err)
	}
	to, err := newTree(filepath.Join(folder, contentName), s.options.Limits)
	if err != nil {
		return nil, err
	}
	defer func() { _ = to.close() }()
	to.space = func(n int64) error { return spaceOf(ctx).take(ctx, n) }
	if err := fill(to); err != nil {
		return nil, err
	}
	if err := to.close(); err != nil {
		return nil, err
	}
	files := to.list(stripTop)
	list, err := json.Marshal(files)
	if err != nil {
		return nil, diskError(err)
	}
	if err := os.WriteFile(filepath.Join(folder, listName), list, 0o600); err != nil {
		return nil, diskError(err)
	}
	r.Files, r.Skipped, r.Bytes, r.Size, r.List = len(to.files), to.skipped, to.written, to.disk(), sumOf(list)
	if room := spaceOf(ctx); room != nil {
		room.kept()
	}
	return s.publish(folder, r, files)
}

// Unpack unpacks an archive that came inline, such as the binaryData of a ConfigMap, within the same limits. The name
// says in errors what it is; it must hold no secret. The caller closes the artifact. Errors are *Error.
func (s *Store) Unpack(ctx context.Context, name string, data []byte) (*Artifact, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.running.Done()
	ctx, cancel := limit.WithTimeout(ctx, s.options.Limits.Total, nil)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	ctx, room := s.withSpace(ctx)
	defer room.end()
	work, err := os.MkdirTemp(s.options.Dir, temporary)
	if err != nil {
		return nil, diskError(err)
	}
	defer s.remove([]string{work})
	e, err := s.keepArchive(ctx, work, bytes.NewReader(data), "")
	if err != nil {
		return nil, describe(err).at(name)
	}
	return s.artifact(ctx, e, meta{Digest: e.Digest, Revision: e.Revision})
}
