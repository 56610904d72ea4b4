package source

import (
	"bufio"
	"bytes"
	"context"
	"crypto"
	"errors"
	"io"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"helm.sh/helm/v4/pkg/provenance"

	"mlkeeper.dev/internal/limit"
	"mlkeeper.dev/internal/manifest/worker"
)

// kindProvenance is the kind of the workers that verify the signatures of PGP: whoever chooses the keys chooses what that takes, since a key
// signs itself, with numbers of any length.
const kindProvenance = "chart provenance"

const (
	// maxProvenance bounds a file .prov, in bytes: it holds a Chart.yaml, a digest and a signature.
	maxProvenance = 1 << 20
	// maxPGPTime is how much processor time the verification may take.
	maxPGPTime = 5 * time.Second
)

// provenanceJob is the text of a .prov to verify.
type provenanceJob struct {
	Keys [][]byte
	Text []byte
	// File is the name of the archive.
	File string
}

// provenanceFound is the sha256 that is signed, or why there is none.
type provenanceFound struct {
	Digest  string
	Failure Error
}

const methodSigned = "signed"

func init() { worker.Serve(kindProvenance, verifyInWorker) }

func verifyInWorker(parent *worker.Parent) error {
	var j provenanceJob
	if err := parent.Read(&j); err != nil {
		return err
	}
	var out provenanceFound
	var failure *Error
	digest, err := signedIn(j)
	if errors.As(err, &failure) {
		out.Failure = *failure
	} else {
		out.Digest = digest
	}
	_, err = worker.Call[bool](parent, methodSigned, out)
	return err
}

// signedDigest is the sha256 of an archive that one of the keys has signed, in the file .prov beside it. Who fetches the archive by it gets
// what was signed, or nothing.
func (s *Store) signedDigest(ctx context.Context, archive *url.URL, auth Auth, v *Verify) (string, error) {
	at := *archive
	at.Path += ".prov"
	if at.RawPath != "" {
		at.RawPath += ".prov"
	}
	u, mapped, err := s.resolve(Request{URI: at.String()})
	if err == nil {
		// The content is as good as its signature, however it comes here.
		err = s.options.Policy.check(u, true, mapped)
	}
	if err != nil {
		return "", err
	}
	if u.Kind != KindArchive {
		return "", uriError("map the repository to one over HTTP", "the signature of the chart is at no http address")
	}
	text, _, err := s.fetchFile(ctx, u, auth, maxProvenance, validators{})
	if err != nil {
		if describe(err).Reason == ReasonNotFound {
			return "", noSignature("sign it with helm package --sign, and publish the file .prov beside the archive",
				"the repository has no signature of the chart: %s is not there", path.Base(at.Path))
		}
		return "", err
	}
	return s.verified(ctx, provenanceJob{Keys: v.Keys, Text: text, File: path.Base(archive.Path)})
}

// verified has a worker verify a signature.
func (s *Store) verified(ctx context.Context, job provenanceJob) (string, error) {
	var found provenanceFound
	err := s.options.Workers.Run(ctx, worker.Job{
		Kind: kindProvenance, Namespace: limit.NamespaceOf(ctx), Input: job, StepTime: maxPGPTime, TotalTime: maxPGPTime,
		Handlers: map[string]worker.Handler{methodSigned: worker.Handle(func(_ *worker.Run, f provenanceFound) (bool, error) {
			found = f
			return true, nil
		})},
	})
	switch {
	case errors.Is(err, worker.ErrUnavailable):
		return "", transient(ReasonStoreFailed, "", "the signature of the chart could not be verified now")
	case err != nil:
		return "", badKeys("use other keys", "the signature cannot be verified: it takes too much memory or time")
	case found.Failure.Reason != "":
		return "", &found.Failure
	}
	return found.Digest, nil
}

// signedIn is the sha256 that a .prov has of a file, if one of the keys has signed it.
func signedIn(j provenanceJob) (string, error) {
	keys, err := keyring(j.Keys)
	if err != nil {
		return "", err
	}
	block, _ := clearsign.Decode(j.Text)
	if block == nil {
		return "", badSignature("the file .prov beside the chart holds no signature of PGP")
	}
	signature, _, err := openpgp.VerifyDetachedSignature(keys, bytes.NewReader(block.Bytes), block.ArmoredSignature.Body, nil)
	switch {
	case errors.Is(err, pgperrors.ErrUnknownIssuer):
		return "", badSignature("the chart is signed by none of the keys")
	case errors.Is(err, pgperrors.ErrKeyExpired), errors.Is(err, pgperrors.ErrKeyRevoked):
		return "", badSignature("the chart is signed by a key that has expired or was revoked")
	case err != nil:
		return "", badSignature("the signature of the chart is not valid")
	case signature.Hash == crypto.SHA1:
		return "", badSignature("the signature of the chart is of its SHA-1, which another text may have: have it signed anew")
	}
	var sums provenance.SumCollection
	if err := provenance.ParseMessageBlock(block.Plaintext, nil, &sums); err != nil {
		return "", badSignature("what is signed beside the chart is no list of digests")
	}
	digest := strings.ToLower(strings.TrimPrefix(sums.Files[j.File], digestPrefix))
	if !sha256Hex.MatchString(digest) {
		return "", badSignature("the signature beside the chart is of another file than %s", j.File)
	}
	return digest, nil
}

// keyring reads the public keys in keyrings.
func keyring(texts [][]byte) (openpgp.EntityList, error) {
	const remedy = "put the keys there as gpg --export or gpg --export --armor writes them"
	var out openpgp.EntityList
	for _, text := range texts {
		read := openpgp.ReadKeyRing
		if bytes.HasPrefix(bytes.TrimSpace(text), []byte("-----BEGIN ")) {
			read = armored
		}
		found, err := read(bytes.NewReader(text))
		if err != nil || len(found) == 0 {
			return nil, badKeys(remedy, "one of the keyrings holds something else than public keys of PGP")
		}
		out = append(out, found...)
	}
	return out, nil
}

// armored reads armored keyrings, of which several may stand one behind the other.
func armored(in io.Reader) (out openpgp.EntityList, err error) {
	for r := bufio.NewReader(in); ; {
		block, err := armor.Decode(r)
		switch {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, err
		case block.Type != openpgp.PublicKeyType:
			return nil, errors.New("it is no public key")
		}
		found, err := openpgp.ReadKeyRing(block.Body)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
}
