package source

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote"
)

// The providers of signatures.
const (
	// ProviderCosign is for charts of a registry: cosign signs the digest of a manifest, under a tag that is named after it.
	ProviderCosign = "cosign"
	// ProviderPGP is for charts of a repository with an index: helm package --sign signs the digest of an archive, in the file .prov beside it.
	ProviderPGP = "pgp"
)

// FieldVerify is the part of a chart's request that asks for a signature.
const FieldVerify = "verify"

// Verify asks for a signature of a chart. It is part of what a source is remembered by, so that other keys verify again.
type Verify struct {
	// Provider is how the chart is signed.
	Provider string
	// Keys are the public keys, of which one must have signed: in PEM for cosign, keyrings for PGP, armored or not.
	Keys [][]byte
}

const (
	// simpleSigning is the media type of what cosign signs; the signature is in an annotation (sigstore/cosign specs/SIGNATURE_SPEC.md).
	simpleSigning = "application/vnd.dev.cosign.simplesigning.v1+json"
	signatureType = "cosign container image signature"
	// maxPayload bounds what is signed, in bytes, and maxPublicKeys the keys.
	maxPayload, maxPublicKeys = 64 << 10, 16
	// minRSA and maxRSA bound the keys of RSA, in bits: shorter ones are broken, and longer ones take long.
	minRSA, maxRSA = 2048, 8192
)

// fits says that charts of a repository are signed like this.
func (v *Verify) fits(repository string) error {
	if v == nil {
		return nil
	}
	registry := strings.HasPrefix(repository, "oci://")
	want := ProviderPGP
	if registry {
		want = ProviderCosign
	}
	if v.Provider == want {
		return nil
	}
	e := uriError("set its provider to "+want, "charts of an oci:// address are signed by cosign, and those of an index by PGP")
	e.Field = FieldVerify
	return e
}

// noSignature says that a chart has no signature of the kind that is asked for.
func noSignature(remedy, format string, args ...any) *Error {
	e := terminal(ReasonSignatureMissing, remedy, format, args...)
	e.Field = FieldVerify
	return e
}

// badSignature says that a chart is not signed as it must be.
func badSignature(format string, args ...any) *Error {
	e := terminal(ReasonSignatureInvalid, "find out who changed the chart, or add the key that it is signed with", format, args...)
	e.Field = FieldVerify
	return e
}

// badKeys says that what is to verify a signature cannot.
func badKeys(remedy, format string, args ...any) *Error {
	e := terminal(ReasonKeysInvalid, remedy, format, args...)
	e.Field = FieldVerify
	return e
}

// verifySigned looks for a signature of an artifact by one of the keys. It is of the digest of the manifest, which names all the rest.
func verifySigned(
	ctx context.Context, from *remote.Repository, artifact ocispec.Descriptor, v *Verify, failure func(error) *Error,
) error {
	keys, err := publicKeys(v.Keys)
	if err != nil {
		return err
	}
	found, err := signatures(ctx, from, artifact, failure)
	if err != nil {
		return err
	}
	for _, layer := range found.Layers {
		if layer.MediaType != simpleSigning || layer.Size > maxPayload || layer.Digest.Validate() != nil {
			continue
		}
		payload, err := content.FetchAll(ctx, from, ocispec.Descriptor{MediaType: layer.MediaType, Digest: layer.Digest, Size: layer.Size})
		if err != nil {
			if e := failure(err); e.Class == Transient {
				return e
			}
			continue
		}
		signature, err := base64.StdEncoding.DecodeString(layer.Annotations.Signature)
		if err == nil && signedBy(keys, payload, signature) && names(payload, artifact.Digest.String()) {
			return nil
		}
	}
	return badSignature("no signature of the chart is by one of the keys and of the manifest %s", artifact.Digest)
}

// signatures is the manifest under the tag of an artifact's signatures, of which each is a layer.
func signatures(
	ctx context.Context, from *remote.Repository, artifact ocispec.Descriptor, failure func(error) *Error,
) (*manifest, error) {
	tag := strings.Replace(artifact.Digest.String(), ":", "-", 1) + ".sig"
	at, err := from.Resolve(ctx, tag)
	if err != nil {
		e := failure(err)
		if e.Reason == ReasonNotFound {
			return nil, noSignature("sign it: cosign sign --key KEY with the digest, and with --new-bundle-format=false since cosign 3",
				"the registry has no signature of the chart under the tag %s", tag)
		}
		return nil, e
	}
	if at.Size > maxManifest {
		return nil, tooLarge("the manifest of the signatures has %d bytes, more than %d", at.Size, maxManifest)
	}
	raw, err := content.FetchAll(ctx, from, at)
	if err != nil {
		return nil, failure(err)
	}
	var out manifest
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, badSignature("the manifest of the chart's signatures cannot be read")
	}
	return &out, nil
}

// names says that what was signed is the digest of an artifact. Another signed artifact of the same registry has another one.
func names(payload []byte, digest string) bool {
	var signed struct {
		Critical struct {
			Type  string `json:"type"`
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
		} `json:"critical"`
	}
	return json.Unmarshal(payload, &signed) == nil && signed.Critical.Type == signatureType && signed.Critical.Image.Digest == digest
}

// publicKeys reads keys in PEM.
func publicKeys(texts [][]byte) ([]crypto.PublicKey, error) {
	const remedy = "put the keys there as cosign generate-key-pair writes cosign.pub"
	var out []crypto.PublicKey
	for _, text := range texts {
		block, rest := pem.Decode(text)
		if block == nil {
			return nil, badKeys(remedy, "one of the keys is not in PEM")
		}
		for ; block != nil; block, rest = pem.Decode(rest) {
			key, err := x509.ParsePKIXPublicKey(block.Bytes)
			if err != nil || block.Type != "PUBLIC KEY" || !usable(key) {
				return nil, badKeys(remedy, "one of the keys is no public key of ECDSA, Ed25519, or RSA of %d to %d bits", minRSA, maxRSA)
			}
			if out = append(out, key); len(out) > maxPublicKeys {
				return nil, badKeys("remove those that sign no chart", "there are more than %d keys", maxPublicKeys)
			}
		}
	}
	return out, nil
}

func usable(key crypto.PublicKey) bool {
	switch key := key.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	case *rsa.PublicKey:
		return key.N.BitLen() >= minRSA && key.N.BitLen() <= maxRSA
	}
	return false
}

// signedBy says that one of the keys has signed something, as cosign does: its SHA-256, or with Ed25519 itself.
func signedBy(keys []crypto.PublicKey, signed, signature []byte) bool {
	sum := sha256.Sum256(signed)
	for _, key := range keys {
		var good bool
		switch key := key.(type) {
		case *ecdsa.PublicKey:
			good = ecdsa.VerifyASN1(key, sum[:], signature)
		case *rsa.PublicKey:
			good = rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) == nil
		case ed25519.PublicKey:
			good = ed25519.Verify(key, signed, signature)
		}
		if good {
			return true
		}
	}
	return false
}
