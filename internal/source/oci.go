package source

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// maxManifest bounds the manifest of an artifact, in bytes; registries take no more than 4 MiB.
const maxManifest = 4 << 20

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
	if m, e := s.known(f.key); e != nil {
		s.unpin(e)
		if m.Digest == found.Digest.String() && (f.uri.Digest == "" || f.uri.Digest == m.ID) {
			return m, nil
		}
	}
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
	digest := found.Digest.String()
	revision := digest
	if f.uri.Ref != digest {
		revision = f.uri.Ref + "@" + digest
	}
	return meta{ID: e.ID, Digest: digest, Revision: revision}, nil
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
	var manifest ocispec.Manifest
	if err := json.Unmarshal(raw, &manifest); err != nil {
		return none, invalid("the artifact's manifest cannot be read")
	}
	i := slices.IndexFunc(manifest.Layers, func(l ocispec.Descriptor) bool {
		return strings.HasSuffix(l.MediaType, "tar+gzip") || strings.HasSuffix(l.MediaType, "tar.gzip")
	})
	if i < 0 {
		return none, invalid("the artifact has no layer that is a gzipped tar")
	}
	layer := manifest.Layers[i]
	switch {
	case layer.Digest.Validate() != nil || layer.Digest.Algorithm() != "sha256":
		return none, invalid("the artifact's layer has no sha256")
	case layer.Size > s.options.Limits.Archive:
		return none, tooLarge("the artifact's layer has %d bytes, more than %d", layer.Size, s.options.Limits.Archive)
	}
	return layer, nil
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
