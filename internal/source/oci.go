package source

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// maxManifest bounds the manifest of an artifact, in bytes: those of charts have a few kilobytes. maxLayers bounds its layers, of which charts
// have two.
const maxManifest, maxLayers = freeMemory, 32

// manifest is what is read of a manifest. An array takes as many layers as it has room for, where a megabyte of them would take a hundred.
type manifest struct {
	Layers [maxLayers]struct {
		MediaType   string        `json:"mediaType"`
		Digest      digest.Digest `json:"digest"`
		Size        int64         `json:"size"`
		Annotations struct {
			Signature string `json:"dev.cosignproject.cosign/signature"`
		} `json:"annotations"`
	} `json:"layers"`
}

// fetchOCI brings the first layer of an artifact that is a gzipped tar: what flux, oras and helm push.
func (s *Store) fetchOCI(ctx context.Context, f *flight) (meta, error) {
	origin := f.uri.address
	origin.Scheme = "https"
	client, err := s.newSession(ctx, &origin, f.auth)
	if err != nil {
		return meta{}, err
	}
	defer client.close()
	ref, err := registry.ParseReference(origin.Host + origin.Path)
	if err != nil {
		return meta{}, uriError("write oci://registry/repository:tag", "the URI names no artifact")
	}
	repository := &remote.Repository{Reference: ref}
	repository.Client = &auth.Client{Client: client.Client, Cache: auth.NewCache(), Credential: credential(origin.Host, f.auth)}
	failure := func(err error) *Error { return ociError(err, client) }
	// Asking for the digest alone is the check whether a tag has moved.
	found, err := repository.Resolve(ctx, f.uri.Ref)
	if err != nil {
		return meta{}, failure(err)
	}
	same := func(m meta) bool {
		return m.Digest == found.Digest.String() && (f.uri.Digest == "" || f.uri.Digest == m.ID)
	}
	if m, e := s.known(f.key); e != nil {
		s.unpin(e)
		if same(m) {
			return m, nil
		}
	}
	spaceOf(ctx).there = s.gave(f.key, same)
	if f.verify != nil {
		if err := verifySigned(ctx, repository, found, f.verify, failure); err != nil {
			return meta{}, err
		}
	}
	layer, err := s.layer(ctx, repository, found, failure)
	if err != nil {
		return meta{}, err
	}
	if f.uri.Digest != "" && layer.Digest.Encoded() != f.uri.Digest {
		return meta{}, terminal(ReasonDigestMismatch, "correct the digest, or find out who changed the artifact",
			"the artifact's layer has the digest %s, not %s", layer.Digest.Encoded(), f.uri.Digest)
	}
	blob, err := repository.Fetch(ctx, layer)
	if err != nil {
		return meta{}, failure(err)
	}
	defer func() { _ = blob.Close() }()
	e, err := s.keepArchive(ctx, f.work, blob, layer.Digest.Encoded())
	if err != nil {
		return meta{}, err
	}
	defer s.unpin(e)
	m := meta{ID: e.ID, Digest: found.Digest.String(), Revision: found.Digest.String()}
	if f.uri.Ref != m.Digest {
		m.Revision = f.uri.Ref + "@" + m.Digest
	}
	return m, nil
}

// layer reads a manifest, whose digest is checked, and finds the layer that is the archive.
func (s *Store) layer(
	ctx context.Context, from content.Fetcher, found ocispec.Descriptor, failure func(error) *Error,
) (ocispec.Descriptor, error) {
	none := ocispec.Descriptor{}
	if found.Size > maxManifest {
		return none, tooLarge("the manifest has %d bytes, more than %d", found.Size, maxManifest)
	}
	if found.MediaType == ocispec.MediaTypeImageIndex || strings.HasSuffix(found.MediaType, "manifest.list.v2+json") {
		return none, invalid("the artifact is an index of several")
	}
	raw, err := content.FetchAll(ctx, from, found)
	if err != nil {
		return none, failure(err)
	}
	var m manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return none, invalid("the artifact's manifest cannot be read")
	}
	for _, l := range m.Layers {
		switch {
		case !strings.HasSuffix(l.MediaType, "tar+gzip") && !strings.HasSuffix(l.MediaType, "tar.gzip"):
			continue
		case l.Digest.Validate() != nil || l.Digest.Algorithm() != "sha256":
			return none, invalid("the artifact's layer has no sha256")
		case l.Size > s.options.Limits.Archive:
			return none, tooLarge("the artifact's layer has %d bytes, more than %d", l.Size, s.options.Limits.Archive)
		}
		return ocispec.Descriptor{MediaType: l.MediaType, Digest: l.Digest, Size: l.Size}, nil
	}
	return none, invalid("none of the first %d layers of the artifact is a gzipped tar", maxLayers)
}

// credential gives the credentials to the registry, and through it to the token service that it names.
func credential(host string, a Auth) auth.CredentialFunc {
	return auth.StaticCredential(host, auth.Credential{Username: a.Username, Password: a.Password, AccessToken: a.Token})
}

// ociError tells the statuses that a registry answers with from errors of the network.
func ociError(err error, client *session) *Error {
	var response *errcode.ErrorResponse
	switch {
	case errors.As(err, &response):
		return status(response.StatusCode, nil)
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return status(http.StatusUnauthorized, nil)
	case errors.Is(err, errdef.ErrNotFound):
		return status(http.StatusNotFound, nil)
	case errors.Is(err, errdef.ErrSizeExceedsLimit):
		return tooLarge("the manifest is too large")
	case errors.Is(err, content.ErrMismatchedDigest), errors.Is(err, content.ErrTrailingData):
		return terminal(ReasonDigestMismatch, "ask who runs the registry", "the registry sent another manifest than it announced")
	}
	e := client.failure(err)
	if e.Message == exchangeFailed && strings.Contains(err.Error(), "bearer realm") {
		// oras refuses some token services itself, before our own rules are asked, and has a text alone for it.
		return terminal(ReasonAddressRefused, "ask who runs the registry",
			"the registry wants the credentials sent to a token service that is not to be reached, or not by https")
	}
	return e
}
