package trustyai

import (
	"bytes"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/room"
	"mlkeeper.dev/internal/pki"
)

// gatherCerts reads, and for the operator's own CA makes, the certificates of a Secured service.
func (s *system) gatherCerts(ctx context.Context, read room.Reader, cr *v1.TrustyAIService, serves Serves) (Certs, error) {
	if ExposureOf(cr) != v1.ExposureSecured {
		return Certs{}, nil
	}
	n := namesOf(cr)
	proxy, err := read.Referenced(ctx, gvkSecret, cr.Namespace, n.tlsSecret)
	if err != nil {
		return Certs{}, err
	}
	out := Certs{Source: certSource(cr, serves, proxy)}
	if out.Source == CertsOwn {
		return s.ownCerts(ctx, read, cr, proxy)
	}
	data := room.SecretData(proxy)
	if out.Source != CertsServiceCA {
		// A Route trusts service-ca by itself.
		out.CA = string(data[corev1.ServiceAccountRootCAKey])
	}
	if out.Source == CertsUser {
		out.Missing = proxy == nil
		for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
			if proxy != nil && len(data[key]) == 0 {
				out.MissingKeys = append(out.MissingKeys, key)
			}
		}
		if proxy != nil {
			out.Digest = room.SecretDigest(cr.UID, data)
		}
		return out, nil
	}
	internal, err := read.Referenced(ctx, gvkSecret, cr.Namespace, n.internalSecret)
	if err != nil {
		return Certs{}, err
	}
	if proxy != nil && internal != nil {
		out.Digest = room.SecretDigest(cr.UID, data, room.SecretData(internal))
	}
	return out, nil
}

// certSource is where the certificates come from: what the spec says, else the source that made the Secret that is
// there, so that a choice never flips by itself, else the first of service-ca, cert-manager and the operator's own CA
// that the cluster has.
func certSource(cr *v1.TrustyAIService, serves Serves, proxy *unstructured.Unstructured) CertSource {
	if tls := cr.Spec.TLS; tls != nil {
		if tls.SecretName != "" {
			return CertsUser
		}
		if tls.IssuerRef != nil {
			return CertsCertManager
		}
	}
	if proxy != nil {
		marks := proxy.GetAnnotations()
		switch {
		case marks[keeper.OwnerAnnotation] != "":
			return CertsOwn
		case marks["cert-manager.io/certificate-name"] != "":
			return CertsCertManager
		case marks["service.beta.openshift.io/originating-service-name"] != "", marks["service.alpha.openshift.io/originating-service-name"] != "":
			return CertsServiceCA
		}
	}
	switch {
	case serves.ServiceCA:
		return CertsServiceCA
	case serves.CertManager:
		return CertsCertManager
	default:
		return CertsOwn
	}
}

// notYetRead says that a Secret of ours was written a moment ago and is not readable yet. New certificates must not be
// made in its place; the watch on it tells when it is.
func notYetRead(name string) error {
	return plan.Problem{
		Class: plan.Waiting, Reason: decide.ReasonNotSynced,
		Message: "the Secret " + name + " was written a moment ago and is not readable yet", Remedy: "nothing to do",
	}
}

// ownCerts takes the certificates of the operator's own CA from their Secrets, and makes what is absent, due for
// renewal, or for other names.
func (s *system) ownCerts(ctx context.Context, read room.Reader, cr *v1.TrustyAIService, proxy *unstructured.Unstructured) (Certs, error) {
	n := namesOf(cr)
	secrets := map[string]*unstructured.Unstructured{n.tlsSecret: proxy}
	for _, name := range []string{n.caSecret, n.internalSecret} {
		u, err := read.Referenced(ctx, gvkSecret, cr.Namespace, name)
		if err != nil {
			return Certs{}, err
		}
		secrets[name] = u
	}
	for _, name := range sortedKeys(secrets) {
		if secrets[name] == nil && read.Child(gvkSecret, cr.Namespace, name) != nil {
			return Certs{}, notYetRead(name)
		}
	}
	now := read.Now()
	authority, trusted, err := s.authority(room.SecretData(secrets[n.caSecret]), now, pki.CommonName(cr.Namespace, n.base))
	if err != nil {
		return Certs{}, err
	}
	out := Certs{Source: CertsOwn, CA: string(trusted), RenewAt: authority.RenewAt()}
	add := func(name string, p *pki.Pair) {
		out.Own = append(out.Own, OwnSecret{
			Name: name, Cert: p.CertPEM, Key: p.KeyPEM, CA: trusted, First: secrets[name] == nil,
		})
		if at := p.RenewAt(); at.Before(out.RenewAt) {
			out.RenewAt = at
		}
	}
	add(n.caSecret, authority)
	for _, leaf := range []struct{ secret, service string }{{n.tlsSecret, n.tlsService}, {n.internalSecret, n.base}} {
		p, err := s.leaf(room.SecretData(secrets[leaf.secret]), now, authority, s.settings.dnsNames(leaf.service, cr.Namespace))
		if err != nil {
			return Certs{}, err
		}
		add(leaf.secret, p)
	}
	out.Digest = ownDigest(cr, out.Own)
	return out, nil
}

// ownDigest is the digest of what the pods mount: the leaves, and not the authority.
func ownDigest(cr *v1.TrustyAIService, own []OwnSecret) string {
	var mounted []map[string][]byte
	for _, secret := range own[1:] {
		mounted = append(mounted, map[string][]byte{"crt": secret.Cert, "key": secret.Key, "ca": secret.CA})
	}
	return room.SecretDigest(cr.UID, mounted...)
}

// authority takes the CA from its Secret, or makes one, and returns what is to be trusted with it: a renewed CA comes
// with the one before, so that who has the new bundle still trusts a pod with an old certificate.
func (s *system) authority(data map[string][]byte, now time.Time, name string) (p *pki.Pair, trusted []byte, err error) {
	old, err := pki.Decode(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil || !old.Cert.IsCA {
		old = nil
	}
	if old != nil && old.Fresh(now) {
		if bundle := data[corev1.ServiceAccountRootCAKey]; bytes.HasPrefix(bundle, old.CertPEM) && pki.OnlyAuthorities(bundle) {
			return old, bundle, nil
		}
		return old, old.CertPEM, nil
	}
	if p, err = pki.NewAuthority(s.random, now, name); err != nil {
		return nil, nil, err
	}
	trusted = p.CertPEM
	if old != nil && now.Before(old.Cert.NotAfter) {
		trusted = slices.Concat(p.CertPEM, old.CertPEM)
	}
	return p, trusted, nil
}

// leaf takes a server certificate from its Secret, or makes one.
func (s *system) leaf(data map[string][]byte, now time.Time, authority *pki.Pair, dns []string) (*pki.Pair, error) {
	p, err := pki.Decode(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err == nil && p.Fresh(now) && p.Serves(authority, dns) {
		return p, nil
	}
	return pki.NewLeaf(s.random, now, authority, dns)
}
