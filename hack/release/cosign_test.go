package main

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/sigstore/cosign/v3/pkg/cosign"
	"github.com/sigstore/cosign/v3/pkg/oci/static"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
)

// withKey are the options that cosign has with --key and --insecure-ignore-tlog.
func withKey(t *testing.T, key []byte) *cosign.CheckOpts {
	t.Helper()
	public, err := cryptoutils.UnmarshalPEMToPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := signature.LoadVerifier(public, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return &cosign.CheckOpts{SigVerifier: verifier, IgnoreTlog: true}
}

// otherKey is the public key of somebody else.
func otherKey(t *testing.T) []byte {
	t.Helper()
	block, _ := pem.Decode(privateKey(t))
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	key, err := cryptoutils.MarshalPublicKeyToPEM(parsed.(crypto.Signer).Public())
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestCosignVerifiesTheChecksums does what cosign verify-blob does.
func TestCosignVerifiesTheChecksums(t *testing.T) {
	_, all := finished(t)
	verify := func(key, checksums []byte) error {
		signed, err := static.NewSignature(checksums, string(all["checksums.txt.sig"]))
		if err != nil {
			t.Fatal(err)
		}
		_, err = cosign.VerifyBlobSignature(t.Context(), signed, withKey(t, key))
		return err
	}
	if err := verify(all["cosign.pub"], all["checksums.txt"]); err != nil {
		t.Error(err)
	}
	if verify(all["cosign.pub"], bytes.Replace(all["checksums.txt"], []byte("a"), []byte("b"), 1)) == nil {
		t.Error("other checksums are verified")
	}
	if verify(otherKey(t), all["checksums.txt"]) == nil {
		t.Error("the signature is somebody else's as well")
	}
}

// TestCosignVerifiesTheProvenance does what cosign verify-blob-attestation does with a file of the release.
func TestCosignVerifiesTheProvenance(t *testing.T) {
	_, all := finished(t)
	verify := func(key, envelope, content []byte) error {
		signed, err := static.NewAttestation(envelope)
		if err != nil {
			t.Fatal(err)
		}
		options := withKey(t, key)
		options.ClaimVerifier = cosign.IntotoSubjectClaimVerifier
		_, err = cosign.VerifyBlobAttestation(t.Context(), signed, v1.Hash{Algorithm: "sha256", Hex: sha256Hex(content)}, options)
		return err
	}
	envelope := all["provenance.intoto.jsonl"]
	if n := bytes.Count(envelope, []byte("\n")); n != 1 || !bytes.HasSuffix(envelope, []byte("\n")) {
		t.Errorf("one envelope has %d lines, and each line of the format is one", n)
	}
	for line := range strings.Lines(string(all["checksums.txt"])) {
		file := strings.Fields(line)[1]
		if err := verify(all["cosign.pub"], envelope, all[file]); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	if verify(all["cosign.pub"], envelope, append([]byte("# \n"), all["install.yaml"]...)) == nil {
		t.Error("another install.yaml is verified")
	}
	if verify(otherKey(t), envelope, all["install.yaml"]) == nil {
		t.Error("the signature is somebody else's as well")
	}
	var tampered map[string]any
	if err := json.Unmarshal(envelope, &tampered); err != nil {
		t.Fatal(err)
	}
	tampered["payload"] = base64.StdEncoding.EncodeToString(bytes.Replace(all["provenance.json"], []byte("mlkeeper"), []byte("mlkeepr"), 1))
	rewritten, err := json.Marshal(tampered)
	if err != nil {
		t.Fatal(err)
	}
	if verify(all["cosign.pub"], rewritten, all["install.yaml"]) == nil {
		t.Error("another statement is verified")
	}
}

// TestCosignVerifiesTheImages does what cosign verify does with each image of the release, and with another that somebody has put in its place.
func TestCosignVerifiesTheImages(t *testing.T) {
	o, all := finished(t)
	server := httptest.NewServer(registry.New())
	defer server.Close()
	repository := strings.TrimPrefix(server.URL, "http://") + "/mlkeeper"
	if err := pushLayout(o.output+"/"+imageFolder, repository); err != nil {
		t.Fatal(err)
	}
	verify := func(key []byte, tag string) error {
		options := withKey(t, key)
		options.ClaimVerifier = cosign.SimpleClaimVerifier
		_, _, err := cosign.VerifyImageSignatures(t.Context(), tagged(t, repository, tag), options)
		return err
	}
	for _, tag := range []string{o.version, "bundle-" + o.version, "catalog-" + o.version} {
		if err := verify(all["cosign.pub"], tag); err != nil {
			t.Errorf("%s: %v", tag, err)
		}
		if verify(otherKey(t), tag) == nil {
			t.Errorf("%s: the signature is somebody else's as well", tag)
		}
	}
	signatureOf := func(digest v1.Hash) name.Tag { return tagged(t, repository, digest.Algorithm+"-"+digest.Hex+".sig") }
	original, err := remote.Head(tagged(t, repository, o.version))
	if err != nil {
		t.Fatal(err)
	}
	signed, err := remote.Image(signatureOf(original.Digest))
	if err != nil {
		t.Fatal(err)
	}
	other, err := random.Image(100, 1)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := other.Digest()
	if err != nil {
		t.Fatal(err)
	}
	for tag, image := range map[name.Tag]v1.Image{tagged(t, repository, o.version): other, signatureOf(digest): signed} {
		if err := remote.Write(tag, image); err != nil {
			t.Fatal(err)
		}
	}
	if verify(all["cosign.pub"], o.version) == nil {
		t.Error("another image is verified by the signature of the release's")
	}
}

func tagged(t *testing.T, repository, tag string) name.Tag {
	t.Helper()
	out, err := name.NewTag(repository + ":" + tag)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
