package source

import (
	"cmp"
	"context"
	"errors"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
)

var commitHash = regexp.MustCompile(`^[0-9a-f]{40}$`)

// uploadPack is the server's side of a fetch: first its refs, then a pack.
type uploadPack interface {
	AdvertisedReferencesContext(ctx context.Context) (*packp.AdvRefs, error)
	UploadPack(ctx context.Context, r *packp.UploadPackRequest) (*packp.UploadPackResponse, error)
	Close() error
}

// fetchGit asks a repository for one commit without its history. Git's own transports are used one by one rather than
// through git.Clone: that takes its HTTP client from a registry of the whole process, where the credentials, CA and
// address rules of one custom resource would serve another's fetch; and it holds objects of any size in memory.
func (s *Store) fetchGit(ctx context.Context, f *flight) (meta, error) {
	if f.uri.address.Scheme == "ssh" {
		server, err := s.dialSSH(ctx, f)
		if err != nil {
			return meta{}, err
		}
		return s.clone(ctx, f, server, func(err error) *Error { return sshError(ctx, err) })
	}
	client, err := s.newSession(ctx, &f.uri.address, f.auth)
	if err != nil {
		return meta{}, err
	}
	defer client.close()
	client.gate.authorization = authorization(f.auth)
	client.gate.refs, client.gate.strict = refNames(f.uri.Ref), true
	at, err := transport.NewEndpoint(f.uri.address.String())
	if err != nil {
		return meta{}, uriError("check the URI", "the URI names no repository")
	}
	// The gate sends the credentials, to the origin alone; the endpoint has none.
	server, err := githttp.NewClient(client.Client).NewUploadPackSession(at, nil)
	if err != nil {
		return meta{}, client.failure(err)
	}
	return s.clone(ctx, f, httpServer{server, client.gate}, client.failure)
}

// httpServer is git-upload-pack behind HTTP.
type httpServer struct {
	transport.UploadPackSession
	gate *gate
}

// UploadPack asks for a pack.
func (c httpServer) UploadPack(ctx context.Context, r *packp.UploadPackRequest) (*packp.UploadPackResponse, error) {
	res, err := c.UploadPackSession.UploadPack(ctx, r)
	if err == nil {
		c.gate.beginPack()
	}
	return res, err
}

// clone fetches the wanted commit, unless it is there, and keeps the wanted folder of it.
func (s *Store) clone(ctx context.Context, f *flight, server uploadPack, failure func(error) *Error) (meta, error) {
	defer func() { _ = server.Close() }()
	refs, err := server.AdvertisedReferencesContext(ctx)
	if err != nil {
		return meta{}, gitError(err, failure)
	}
	want, name, err := choose(refs, f.uri.Ref)
	if err != nil {
		return meta{}, err
	}
	if f.fixed && moves(refs, f.uri.Ref) {
		return meta{}, terminal(ReasonRefMoves, "name a tag or the 40 digits of a commit by ?ref=", "the ref %q is a branch", name)
	}
	id := s.gitTree(f, want)
	r := record{ID: id}
	if e := s.pin(id); e != nil {
		r = e.record
		s.unpin(e)
		return meta{ID: id, Digest: r.Digest, Revision: name + "@" + r.Digest}, nil
	}
	spaceOf(ctx).there = func() bool { return s.has(id) }
	p, err := newPack(filepath.Join(f.work, "objects"), s.options.Limits)
	if err != nil {
		return meta{}, err
	}
	defer p.close()
	if err := receive(ctx, server, refs, want, p); err != nil {
		if notOurs(err) && !commitHash.MatchString(f.uri.Ref) {
			// The list of refs and the pack are two requests.
			return meta{}, transient(ReasonServerError, "", "the ref %q has moved while it was fetched", name)
		}
		return meta{}, gitError(err, failure)
	}
	commit, top, err := p.commit(ctx, want)
	if err != nil {
		return meta{}, err
	}
	r.Digest, r.Revision = commit.String(), name+"@"+commit.String()
	e, err := s.keep(ctx, f.work, r, false, func(to *tree) error { return p.checkout(ctx, top, f.uri.Dir, to) })
	if err != nil {
		return meta{}, err
	}
	s.unpin(e)
	return meta{ID: id, Digest: r.Digest, Revision: r.Revision}, nil
}

// gitTree names the tree of a commit. The address is part of the name: a server can make up a repository for a commit, but not for another
// server's. So are the credentials: who brings a CA and a proxy chooses the server that answers for an address, and its list of refs is no
// proof that they may read a commit which somebody else has fetched.
func (s *Store) gitTree(f *flight, commit plumbing.Hash) string {
	return s.keyed(struct {
		Git, Commit, Dir string
		Auth             Auth
	}{f.uri.address.String(), commit.String(), f.uri.Dir, f.auth})
}

// choose finds the object that a ref names, and what people call it. A tag comes before a branch of the same name.
func choose(refs *packp.AdvRefs, ref string) (plumbing.Hash, string, error) {
	switch {
	case commitHash.MatchString(ref):
		// Before the names: a branch that is called like a commit must not pass for it.
		return plumbing.NewHash(ref), "commit", nil
	case ref == "" || ref == "HEAD":
		if refs.Head == nil {
			return plumbing.ZeroHash, "", terminal(ReasonNotFound, "name a branch by ?ref=", "the repository has no default branch")
		}
		return *refs.Head, "HEAD", nil
	}
	for _, name := range refNames(ref) {
		if hash, ok := refs.References[name]; ok {
			return hash, ref, nil
		}
	}
	return plumbing.ZeroHash, "", terminal(ReasonNotFound, "name a branch, a tag or a whole commit",
		"the repository has no ref %q", ref)
}

// moves says that a ref which choose finds is a branch.
func moves(refs *packp.AdvRefs, ref string) bool {
	_, tag := refs.References["refs/tags/"+ref]
	return !tag && !commitHash.MatchString(ref) && !strings.HasPrefix(ref, "refs/tags/")
}

// receive asks for one object with what belongs to it, and reads the pack that comes.
func receive(ctx context.Context, server uploadPack, refs *packp.AdvRefs, want plumbing.Hash, p *pack) error {
	r := packp.NewUploadPackRequestFromCapabilities(refs.Capabilities)
	r.Wants = []plumbing.Hash{want}
	if refs.Capabilities.Supports(capability.Shallow) {
		if err := r.Capabilities.Set(capability.Shallow); err != nil {
			return err
		}
		r.Depth = packp.DepthCommits(1)
	}
	res, err := server.UploadPack(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Close() }()
	limit := p.limits.Archive
	stream := &bounded{ctx: ctx, r: res, left: limit, err: tooLarge("the pack has more than %d bytes", limit)}
	in := io.Reader(stream)
	switch {
	case r.Capabilities.Supports(capability.Sideband64k):
		in = sideband.NewDemuxer(sideband.Sideband64k, in)
	case r.Capabilities.Supports(capability.Sideband):
		in = sideband.NewDemuxer(sideband.Sideband, in)
	}
	if err := p.read(ctx, in); err != nil {
		return cmp.Or(stream.broke, err)
	}
	return nil
}

// notOurs says that a server does not give the commit that it was asked for: git's own words (upload-pack.c), which go-git hands on as a text.
func notOurs(err error) bool { return strings.Contains(err.Error(), "not our ref") }

// gitError tells the errors that git's protocol has of its own from those of the network.
func gitError(err error, failure func(error) *Error) *Error {
	var known *Error
	switch {
	case errors.As(err, &known):
		return known
	case notOurs(err):
		return terminal(ReasonNotFound, "name a branch or a tag: the server gives no other commits",
			"the server does not give the commit")
	case errors.Is(err, transport.ErrEmptyRemoteRepository), errors.Is(err, transport.ErrRepositoryNotFound):
		return terminal(ReasonNotFound, "check the URI, and whether it needs credentials", "the repository is not there, or empty")
	case errors.Is(err, transport.ErrEmptyUploadPackRequest):
		return terminal(ReasonNotFound, "name a branch or a tag: the server may not give other commits", "the server sent no pack")
	}
	e := failure(err)
	if e.Message == exchangeFailed {
		return terminal(ReasonRejected, "check that the URI is a git repository", "the server's answer is not git's")
	}
	return e
}
