package source

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"helm.sh/helm/v4/pkg/provenance"
)

// author is somebody with a key of PGP.
func author(t *testing.T) *openpgp.Entity {
	t.Helper()
	out, err := openpgp.NewEntity("author", "", "author@example.test", nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// exported are the public keys of authors as gpg --export writes them.
func exported(t *testing.T, armored bool, of ...*openpgp.Entity) []byte {
	t.Helper()
	var out bytes.Buffer
	for _, one := range of {
		w := io.WriteCloser(nopCloser{&out})
		if armored {
			var err error
			if w, err = armor.Encode(&out, openpgp.PublicKeyType, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(one.Serialize(w), w.Close()); err != nil {
			t.Fatal(err)
		}
		if armored {
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// packaged is the file .prov that helm package --sign writes, by Helm's own code.
func packaged(t *testing.T, by *openpgp.Entity, archive []byte, file string) string {
	t.Helper()
	out, err := (&provenance.Signatory{Entity: by}).ClearSign(archive, file, []byte("name: x\nversion: 1.0.0\n"))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// signing is a chart repository with one chart and the signature beside it, if it is not empty.
type signing struct {
	*httptest.Server
	archive, index []byte
	prov           string
}

func newSigning(t *testing.T) *signing {
	t.Helper()
	out := &signing{archive: forge(t)}
	out.list()
	out.Server = serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/charts/index.yaml":
			_, _ = w.Write(out.index)
		case r.URL.Path == "/charts/x-1.0.0.tgz":
			_, _ = w.Write(out.archive)
		case r.URL.Path == "/charts/x-1.0.0.tgz.prov" && out.prov != "":
			_, _ = io.WriteString(w, out.prov)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	return out
}

func (s *signing) list() {
	sum := sha256.Sum256(s.archive)
	s.index = fmt.Appendf(nil, "entries: {x: [{version: 1.0.0, digest: %x, urls: [x-1.0.0.tgz]}]}", sum)
}

func (s *signing) request(keys ...[]byte) ChartRequest {
	return ChartRequest{
		Repository: s.URL + "/charts", Name: "x", Version: "1.0.0", Auth: Auth{CA: caOf(s.Server)},
		Verify: &Verify{Provider: ProviderPGP, Keys: keys},
	}
}

// wantRefused fetches a chart whose signature is not as it must be.
func wantRefused(t *testing.T, s *Store, r ChartRequest, class Class, reason string) {
	t.Helper()
	a, err := s.FetchChart(t.Context(), r)
	if err == nil {
		a.Close()
	}
	wantError(t, err, class, reason)
	var e *Error
	if errors.As(err, &e); class == Terminal && (e == nil || e.Field != FieldVerify) {
		t.Errorf("the error does not say that the signature is at fault: %+v", e)
	}
}

// TestChartsSignedByPGP verifies what Helm's own code has signed.
func TestChartsSignedByPGP(t *testing.T) {
	web, signer, other := newSigning(t), author(t), author(t)
	good := packaged(t, signer, web.archive, "x-1.0.0.tgz")
	for name, keys := range map[string][][]byte{
		"armored": {exported(t, true, signer)}, "binary": {exported(t, false, signer)},
		"two keyrings": {exported(t, false, other), exported(t, true, signer)}, "two exports": {exported(t, true, other, signer)},
	} {
		web.prov = good
		a, err := open(t, nil).FetchChart(t.Context(), web.request(keys...))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		wantContents(t, a, forged)
		a.Close()
	}
	var private bytes.Buffer
	w, err := armor.Encode(&private, openpgp.PrivateKeyType, nil)
	if err := errors.Join(err, signer.SerializePrivate(w, nil), w.Close()); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(web.archive)
	for name, c := range map[string]struct{ prov, keys, reason string }{
		"no signature":        {"", string(exported(t, true, signer)), ReasonSignatureMissing},
		"another key":         {good, string(exported(t, true, other)), ReasonSignatureInvalid},
		"no text of PGP":      {"files: {x-1.0.0.tgz: sha256:" + fmt.Sprintf("%x", sum) + "}", string(exported(t, true, signer)), ReasonSignatureInvalid},
		"a changed text":      {strings.Replace(good, "name: x", "name: y", 1), string(exported(t, true, signer)), ReasonSignatureInvalid},
		"another file":        {packaged(t, signer, web.archive, "y-1.0.0.tgz"), string(exported(t, true, signer)), ReasonSignatureInvalid},
		"another archive":     {packaged(t, signer, []byte("other"), "x-1.0.0.tgz"), string(exported(t, true, signer)), ReasonSignatureInvalid},
		"no keys of PGP":      {good, "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", ReasonKeysInvalid},
		"a private key":       {good, private.String(), ReasonKeysInvalid},
		"nothing as the keys": {good, "", ReasonKeysInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			web.prov = c.prov
			wantRefused(t, open(t, nil), web.request([]byte(c.keys)), Terminal, c.reason)
		})
	}
	// An archive that was exchanged after the signature was made, with and without its own digest in the index.
	web.prov, web.archive = good, tarball(t, file("x/Chart.yaml", "name: evil"))
	web.list()
	wantRefused(t, open(t, nil), web.request(exported(t, true, signer)), Terminal, ReasonSignatureInvalid)
	web.index = []byte("entries: {x: [{version: 1.0.0, urls: [x-1.0.0.tgz]}]}")
	_, err = open(t, nil).FetchChart(t.Context(), web.request(exported(t, true, signer)))
	wantError(t, err, Terminal, ReasonDigestMismatch)
}

// TestSignaturesOfSHA1AreNone: two texts with the same SHA-1 can be made, so that whoever has one of them signed has signed both.
func TestSignaturesOfSHA1AreNone(t *testing.T) {
	web, signer := newSigning(t), author(t)
	block, _ := clearsign.Decode([]byte(packaged(t, signer, web.archive, "x-1.0.0.tgz")))
	if block == nil {
		t.Fatal("Helm signs otherwise")
	}
	plain := &packet.Config{NonDeterministicSignaturesViaNotation: packet.BoolPointer(false)}
	for hash, refused := range map[crypto.Hash]bool{crypto.SHA256: false, crypto.SHA1: true} {
		sum := hash.New()
		_, _ = sum.Write(block.Bytes)
		key := signer.PrivateKey
		signature := &packet.Signature{
			Version: key.Version, SigType: packet.SigTypeText, PubKeyAlgo: key.PubKeyAlgo, Hash: hash, CreationTime: time.Now(), IssuerKeyId: &key.KeyId,
		}
		var out bytes.Buffer
		w, err := armor.Encode(&out, openpgp.SignatureType, nil)
		if err := errors.Join(err, signature.Sign(sum, key, plain), signature.Serialize(w), w.Close()); err != nil {
			t.Fatal(err)
		}
		web.prov = "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n" + string(block.Plaintext) + "\n" + out.String() + "\n"
		r := web.request(exported(t, true, signer))
		if refused {
			wantRefused(t, open(t, nil), r, Terminal, ReasonSignatureInvalid)
			continue
		}
		a, err := open(t, nil).FetchChart(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		a.Close()
	}
}

// TestWhatWasNotVerifiedStandsForNothing: neither a chart that was fetched without a signature, nor one that another key has signed, is what
// a repository gave before.
func TestWhatWasNotVerifiedStandsForNothing(t *testing.T) {
	web, signer := newSigning(t), author(t)
	s, r := open(t, nil), web.request(exported(t, true, signer))
	r.Before = true
	unverified := r
	unverified.Verify = nil
	a, err := s.FetchChart(t.Context(), unverified)
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	wantRefused(t, s, r, Terminal, ReasonSignatureMissing)
	pinned := r
	pinned.Digest = a.Digest
	wantRefused(t, s, pinned, Terminal, ReasonSignatureMissing)
	web.prov = packaged(t, signer, web.archive, "x-1.0.0.tgz")
	if a, err = s.FetchChart(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	a.Close()
	// Once it was verified, it is what the repository gave before.
	web.prov = ""
	if a, err = s.FetchChart(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	a.Close()
	wantError(t, a.Stale, Terminal, ReasonSignatureMissing)
	r.Verify = &Verify{Provider: ProviderPGP, Keys: [][]byte{exported(t, true, author(t))}}
	wantRefused(t, s, r, Terminal, ReasonSignatureMissing)
	r.Verify = &Verify{Provider: ProviderCosign}
	wantRefused(t, s, r, Terminal, ReasonURIInvalid)
}

// cosigned is a registry with an artifact and the manifest of its signatures, laid out by cosign's specification.
type cosigned struct {
	*registryOf
	signatures []ocispec.Descriptor
	missing    bool
	status     atomic.Int32
}

// add adds a signature of a payload, which is that of the artifact where it is empty.
func (c *cosigned) add(t *testing.T, key crypto.Signer, payload string) *ocispec.Descriptor {
	t.Helper()
	if payload == "" {
		payload = c.payload()
	}
	signed, hash := []byte(payload), crypto.Hash(0)
	if _, whole := key.(ed25519.PrivateKey); !whole {
		sum := sha256.Sum256(signed)
		signed, hash = sum[:], crypto.SHA256
	}
	signature, err := key.Sign(rand.Reader, signed, hash)
	if err != nil {
		t.Fatal(err)
	}
	d := digest.FromString(payload)
	c.blobs[d] = []byte(payload)
	c.signatures = append(c.signatures, ocispec.Descriptor{
		MediaType: "application/vnd.dev.cosign.simplesigning.v1+json", Digest: d, Size: int64(len(payload)),
		Annotations: map[string]string{"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(signature)},
	})
	return &c.signatures[len(c.signatures)-1]
}

// payload is what cosign signs of the artifact.
func (c *cosigned) payload() string {
	return fmt.Sprintf(`{"critical":{"identity":{"docker-reference":"any"},"image":{"docker-manifest-digest":%q},"type":"cosign container image signature"},"optional":null}`,
		digest.FromBytes(c.manifest))
}

func (c *cosigned) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m := ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: ocispec.DescriptorEmptyJSON, Layers: c.signatures}
	m.SchemaVersion = 2
	raw, _ := json.Marshal(m)
	sum := digest.FromBytes(raw)
	tag := "sha256-" + digest.FromBytes(c.manifest).Encoded() + ".sig"
	switch path := strings.TrimPrefix(r.URL.Path, "/v2/o/r/manifests/"); {
	case path != tag && path != sum.String():
		c.registryOf.ServeHTTP(w, r)
	case c.status.Load() != 0:
		w.WriteHeader(int(c.status.Load()))
	case c.missing:
		w.WriteHeader(http.StatusNotFound)
	default:
		w.Header().Set("Content-Type", m.MediaType)
		w.Header().Set("Docker-Content-Digest", sum.String())
		w.Header().Set("Content-Length", fmt.Sprint(len(raw)))
		_, _ = w.Write(raw)
	}
}

func publicPEM(t *testing.T, keys ...crypto.Signer) []byte {
	t.Helper()
	var out []byte
	for _, key := range keys {
		der, err := x509.MarshalPKIXPublicKey(key.Public())
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})...)
	}
	return out
}

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestChartsSignedByCosign has signatures of every kind of key, and those that do not count.
func TestChartsSignedByCosign(t *testing.T) {
	data, key, other := forge(t), newKey(t), newKey(t)
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	long, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	good := func(keys ...crypto.Signer) func(*cosigned) {
		return func(c *cosigned) {
			for _, key := range keys {
				c.add(t, key, "")
			}
		}
	}
	swap := func(from, to string) func(*cosigned) {
		return func(c *cosigned) { c.add(t, key, strings.Replace(c.payload(), from, to, 1)) }
	}
	for name, c := range map[string]struct {
		sign   func(*cosigned)
		keys   []byte
		class  Class
		reason string
	}{
		"ECDSA":                   {good(key), publicPEM(t, key), "", ""},
		"Ed25519":                 {good(edwards), publicPEM(t, edwards), "", ""},
		"RSA":                     {good(long), publicPEM(t, long), "", ""},
		"one of two keys":         {good(key), publicPEM(t, other, key), "", ""},
		"two signatures":          {good(other, key), publicPEM(t, key), "", ""},
		"no signatures":           {func(c *cosigned) { c.missing = true }, publicPEM(t, key), Terminal, ReasonSignatureMissing},
		"an empty manifest":       {good(), publicPEM(t, key), Terminal, ReasonSignatureInvalid},
		"another key":             {good(other), publicPEM(t, key), Terminal, ReasonSignatureInvalid},
		"another artifact":        {swap("sha256:", "sha256:0"), publicPEM(t, key), Terminal, ReasonSignatureInvalid},
		"another statement":       {swap("cosign container image signature", "atomic container signature"), publicPEM(t, key), Terminal, ReasonSignatureInvalid},
		"no payload":              {func(c *cosigned) { delete(c.blobs, c.add(t, key, "").Digest) }, publicPEM(t, key), Terminal, ReasonSignatureInvalid},
		"another type of payload": {func(c *cosigned) { c.add(t, key, "").MediaType = "text/plain" }, publicPEM(t, key), Terminal, ReasonSignatureInvalid},
		"no base64": {func(c *cosigned) {
			c.add(t, key, "").Annotations["dev.cosignproject.cosign/signature"] = "?"
		}, publicPEM(t, key), Terminal, ReasonSignatureInvalid},
		"many before it": {func(c *cosigned) {
			good(key)(c)
			c.signatures = append(make([]ocispec.Descriptor, maxLayers), c.signatures...)
		}, publicPEM(t, key), Terminal, ReasonSignatureInvalid},
		"502":           {func(c *cosigned) { c.status.Store(http.StatusBadGateway) }, publicPEM(t, key), Transient, ReasonServerError},
		"no keys":       {good(key), []byte("s3cret"), Terminal, ReasonKeysInvalid},
		"a private key": {good(key), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY"}), Terminal, ReasonKeysInvalid},
		"too many keys": {good(key), bytes.Repeat(publicPEM(t, key), maxPublicKeys+1), Terminal, ReasonKeysInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			r := &cosigned{registryOf: artifactOf(map[string][]byte{fluxLayer: data}, fluxLayer)}
			c.sign(r)
			web := serve(t, true, r.ServeHTTP)
			s := open(t, nil)
			request := ChartRequest{
				Repository: "oci://" + strings.TrimPrefix(web.URL, "https://") + "/o", Name: "r", Version: "v1", Before: true, Auth: Auth{CA: caOf(web)},
			}
			// What was fetched before without a signature stands for nothing.
			if a, err := s.FetchChart(t.Context(), request); err == nil {
				a.Close()
			} else {
				t.Error(err)
			}
			request.Verify = &Verify{Provider: ProviderCosign, Keys: [][]byte{c.keys}}
			if c.reason != "" {
				wantRefused(t, s, request, c.class, c.reason)
				return
			}
			a, err := s.FetchChart(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			wantContents(t, a, forged)
			a.Close()
			request.Verify = &Verify{Provider: ProviderPGP, Keys: [][]byte{c.keys}}
			wantRefused(t, s, request, Terminal, ReasonURIInvalid)
		})
	}
}

// TestAMappingLeadsAroundNoSignature: what is no registry has no signatures of cosign, and is not taken for signed where an administrator has
// registries mapped there.
func TestAMappingLeadsAroundNoSignature(t *testing.T) {
	archive := forge(t)
	web := serve(t, true, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(archive) })
	s := open(t, func(o *Options) { o.Map = []Mapping{{From: "oci://registry.example.test/", To: web.URL + "/"}} })
	r := ChartRequest{Repository: "oci://registry.example.test/o", Name: "r", Version: "1.0.0", Auth: Auth{CA: caOf(web)}, Before: true}
	a, err := s.FetchChart(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	for _, version := range []string{"1.0.0", "1.x"} {
		r.Version, r.Verify = version, &Verify{Provider: ProviderCosign, Keys: [][]byte{publicPEM(t, newKey(t))}}
		wantRefused(t, s, r, Terminal, ReasonURIInvalid)
	}
}
