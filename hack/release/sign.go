package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func sha256Hex(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// signer signs as cosign does with a key of its own: ECDSA on P-256 over the SHA-256 of what is signed, in ASN.1.
type signer struct{ key *ecdsa.PrivateKey }

// readSigner reads a private key in PEM, as PKCS #8 or SEC 1 without a password.
func readSigner(path string) (*signer, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s is not PEM", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		if parsed, err = x509.ParseECPrivateKey(block.Bytes); err != nil {
			return nil, fmt.Errorf("%s is no private key as PKCS #8 or SEC 1: make one with openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256", path)
		}
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("%s is no ECDSA key on P-256, which cosign verifies with its defaults", path)
	}
	return &signer{key}, nil
}

// sign returns the signature of what cosign verify-blob is given, in base64. It depends on nothing but the key and the data (RFC 6979),
// so that a release is reproducible with its signatures.
func (s *signer) sign(data []byte) (string, error) {
	sum := sha256.Sum256(data)
	signature, err := s.key.Sign(nil, sum[:], crypto.SHA256)
	return base64.StdEncoding.EncodeToString(signature), err
}

// public is the public key, as cosign reads it.
func (s *signer) public() ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(s.key.Public())
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), err
}

// The media type and the annotation of cosign's signatures (sigstore/cosign specs/SIGNATURE_SPEC.md).
const (
	simpleSigning       = "application/vnd.dev.cosign.simplesigning.v1+json"
	signatureAnnotation = "dev.cosignproject.cosign/signature"
)

// signImage returns the image that carries the signature of another one, and the tag under which cosign looks for it.
func (s *signer) signImage(repository string, digest v1.Hash) (v1.Image, string, error) {
	if repository == "" {
		return nil, "", errors.New("an image is signed for a repository, which has no name")
	}
	payload, err := json.Marshal(map[string]any{
		"critical": map[string]any{
			"identity": map[string]any{"docker-reference": repository},
			"image":    map[string]any{"docker-manifest-digest": digest.String()},
			"type":     "cosign container image signature",
		},
		"optional": nil,
	})
	if err != nil {
		return nil, "", err
	}
	signature, err := s.sign(payload)
	if err != nil {
		return nil, "", err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{
		Layer: static.NewLayer(payload, simpleSigning), Annotations: map[string]string{signatureAnnotation: signature},
	})
	return image, fmt.Sprintf("%s-%s.sig", digest.Algorithm, digest.Hex), err
}
