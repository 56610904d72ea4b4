package trustyai

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/pki"
)

// certsThatStay are the certificates of pods that were Secured and stay as they are: nothing is made of them, and service-ca goes on to renew its own.
func certsThatStay(ctx context.Context, read controller.Reader, cr *v1.TrustyAIService, facts Facts) (Certs, error) {
	served := facts.served(cr)
	if served.Secret != ServiceName(cr)+"-tls" {
		return Certs{}, nil
	}
	if secret, err := read.Referenced(ctx, gvkSecret, cr.Namespace, served.Secret); err != nil || secret == nil || !ofServiceCA(secret) {
		return Certs{}, err
	}
	return Certs{Source: CertsServiceCA}, nil
}

// gatherCerts reads, and for the operator's own CA makes, the certificates of a Secured service.
func (s *system) gatherCerts(ctx context.Context, read controller.Reader, cr *v1.TrustyAIService, facts Facts) (Certs, error) {
	serves := facts.Serves
	if ExposureOf(cr) != v1.ExposureSecured {
		return certsThatStay(ctx, read, cr, facts)
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
	data := controller.SecretData(proxy)
	if out.Source != CertsServiceCA {
		// A Route trusts service-ca by itself. Of what a Secret holds here, whoever may read a Route or a ConfigMap gets the
		// certificates alone.
		out.CA = strings.Join(certificatesIn(string(data[corev1.ServiceAccountRootCAKey])), "")
	}
	out.ExpiresAt = expiry(data)
	if out.Source == CertsUser {
		out.Missing = proxy == nil
		if proxy != nil {
			out.MissingKeys, out.Digest, out.WrittenAt = missingKeys(data), read.Digest(mountedCertificate(data)), writtenAt(proxy)
		}
		return out, nil
	}
	internal, err := read.Referenced(ctx, gvkSecret, cr.Namespace, n.internalSecret)
	if err != nil {
		return Certs{}, err
	}
	if out.Foreign, err = foreignSecrets(ctx, read, cr, out.Source); err != nil || len(out.Foreign) > 0 {
		// Nothing is made of what they hold.
		name := cmp.Or(out.Foreign...)
		return Certs{Source: out.Source, Foreign: out.Foreign, AwaitsCA: name, AwaitsLeaf: name}, err
	}
	out.ExpiresAt = earliest(out.ExpiresAt, expiry(controller.SecretData(internal)))
	if proxy != nil && internal != nil {
		out.Digest = read.Digest(mountedCertificate(data), mountedCertificate(controller.SecretData(internal)))
		out.WrittenAt = writtenAt(proxy, internal)
	}
	if !s.settings.DryRun {
		// Service-ca and the issuer of cert-manager may take their time, and pods that were started before would be restarted for
		// what they waited for.
		switch {
		case proxy == nil:
			out.AwaitsLeaf = n.tlsSecret
		case internal == nil:
			out.AwaitsLeaf = n.internalSecret
		}
	}
	return out, nil
}

// mountedCertificate is what pods may read of a Secret with a certificate: the pair, and the authority beside it.
func mountedCertificate(data map[string][]byte) map[string][]byte {
	return controller.Only(data, corev1.TLSCertKey, corev1.TLSPrivateKeyKey, corev1.ServiceAccountRootCAKey)
}

// missingKeys are the keys that a Secret with a certificate lacks.
func missingKeys(data map[string][]byte) (out []string) {
	for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		if len(data[key]) == 0 {
			out = append(out, key)
		}
	}
	return out
}

// foreignSecrets are the Secrets under the names of the certificates that cert-manager or service-ca makes that are none of this service.
// cert-manager takes any Secret that a Certificate names for its own, and the key that was in it is lost (v1.21
// pkg/controller/certificates/issuing/internal/secret.go); once there is a Certificate, it has the Secret. Who has objects adopted by an
// annotation has these adopted too. service-ca writes no Secret but its own (openshift/service-ca-operator
// pkg/controller/servingcert/controller/secret_creating_controller.go), so that pods would have the key of somebody else.
func foreignSecrets(ctx context.Context, read controller.Reader, cr *v1.TrustyAIService, source CertSource) ([]string, error) {
	certManager := source == CertsCertManager
	if certManager && cr.Annotations[keeper.AdoptAnnotation] == "true" {
		return nil, nil
	}
	n := namesOf(cr)
	names := []string{n.tlsSecret, n.internalSecret}
	if certManager && (cr.Spec.TLS == nil || cr.Spec.TLS.IssuerRef == nil) {
		names = append(names, n.caSecret)
	}
	var out []string
	for _, name := range names {
		if certManager && read.Child(gvkCertificate, cr.Namespace, name) != nil {
			continue
		}
		secret, err := read.Referenced(ctx, gvkSecret, cr.Namespace, name)
		if err != nil {
			return nil, err
		}
		ofCertManager := certManager && secret != nil && secret.GetAnnotations()[certificateAnnotation] == name
		if secret != nil && !stackOf(cr).Marked(secret) && !ofCertManager && !ofServiceCA(secret) {
			out = append(out, name)
		}
	}
	return out, nil
}

// certificateAnnotation is that of cert-manager on a Secret: the Certificate that it is of.
const certificateAnnotation = "cert-manager.io/certificate-name"

// ofServiceCA says that OpenShift's service-ca made a Secret.
func ofServiceCA(secret *unstructured.Unstructured) bool {
	marks := secret.GetAnnotations()
	return marks["service.beta.openshift.io/originating-service-name"] != "" || marks["service.alpha.openshift.io/originating-service-name"] != ""
}

// serviceCABundle is the ConfigMap with the authority of service-ca, which OpenShift keeps in every namespace, and serviceCAKey its key.
const serviceCABundle, serviceCAKey = "openshift-service-ca.crt", "service-ca.crt"

// gatherGatewayCA is the authority that a Gateway verifies the proxy with. Unlike a Route, it does not know that of service-ca.
func gatherGatewayCA(ctx context.Context, read controller.Reader, cr *v1.TrustyAIService, certs Certs) (string, error) {
	if cr.Spec.HTTPRoute == nil || certs.Source != CertsServiceCA {
		return certs.CA, nil
	}
	return authorityOfServiceCA(ctx, read, cr.Namespace)
}

// authorityOfServiceCA is the authority of service-ca, in PEM; empty where OpenShift has not put it into the namespace.
func authorityOfServiceCA(ctx context.Context, read controller.Reader, namespace string) (string, error) {
	bundle, err := read.Referenced(ctx, gvkConfigMap, namespace, serviceCABundle)
	if err != nil || bundle == nil {
		return "", err
	}
	ca, _, err := unstructured.NestedString(bundle.Object, "data", serviceCAKey)
	return ca, err
}

// expiry is when the certificate in a Secret expires; zero where it has none that can be read.
func expiry(data map[string][]byte) time.Time {
	block, _ := pem.Decode(data[corev1.TLSCertKey])
	if block == nil {
		return time.Time{}
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}
	}
	return cert.NotAfter
}

// earliest is the first of some times; zero times do not count.
func earliest(times ...time.Time) time.Time {
	var out time.Time
	for _, at := range times {
		if !at.IsZero() && (out.IsZero() || at.Before(out)) {
			out = at
		}
	}
	return out
}

// certSource is where the certificates come from: what the spec says, else the source that made the Secret that is
// there, so that a choice never flips by itself, else the first of service-ca, cert-manager and the operator's own CA
// that the cluster has.
func certSource(cr *v1.TrustyAIService, serves Serves, proxy *unstructured.Unstructured) CertSource {
	if tls := cr.Spec.TLS; tls != nil {
		if tls.SecretName != "" {
			return CertsUser
		}
		// Without cert-manager, certificates that exist stay in use: their Secrets would be deleted with nothing in their place.
		if tls.IssuerRef != nil && (serves.CertManager || proxy == nil) {
			return CertsCertManager
		}
	}
	if proxy != nil {
		marks := proxy.GetAnnotations()
		switch {
		case marks[keeper.OwnerAnnotation] != "", stackOf(cr).Marked(proxy):
			return CertsOwn
		case marks[certificateAnnotation] != "":
			return CertsCertManager
		case ofServiceCA(proxy):
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

// ownSecrets reads the Secrets under the names of the own certificates, and the data of those that belong to the custom
// resource: what somebody else put under a name is not ours to build on.
func ownSecrets(
	ctx context.Context, read controller.Reader, cr *v1.TrustyAIService, proxy *unstructured.Unstructured,
) (secrets map[string]*unstructured.Unstructured, stored map[string]map[string][]byte, err error) {
	n := namesOf(cr)
	secrets = map[string]*unstructured.Unstructured{n.tlsSecret: proxy}
	for _, name := range []string{n.caSecret, n.internalSecret} {
		if secrets[name], err = read.Referenced(ctx, gvkSecret, cr.Namespace, name); err != nil {
			return nil, nil, err
		}
	}
	stored = map[string]map[string][]byte{}
	for _, name := range sortedKeys(secrets) {
		switch u := secrets[name]; {
		case u == nil && read.Child(gvkSecret, cr.Namespace, name) != nil:
			return nil, nil, notYetRead(name)
		case u != nil && (refersTo(u, cr) || stackOf(cr).Marked(u)):
			stored[name] = controller.SecretData(u)
		}
	}
	return secrets, stored, nil
}

// ownCerts takes the certificates of the operator's own CA from their Secrets, and makes what is absent, due for renewal, or
// for other names. What is made is for its own Secret alone: everything that depends on it is made from what was read from
// that Secret, a certificate as well as the digest and the CA that other objects get.
func (s *system) ownCerts(ctx context.Context, read controller.Reader, cr *v1.TrustyAIService, proxy *unstructured.Unstructured) (Certs, error) {
	n := namesOf(cr)
	secrets, stored, err := ownSecrets(ctx, read, cr, proxy)
	if err != nil {
		return Certs{}, err
	}
	out := Certs{Source: CertsOwn}
	add := func(name string, cert, key, ca []byte) {
		made := !bytes.Equal(cert, stored[name][corev1.TLSCertKey])
		out.Own = append(out.Own, OwnSecret{Name: name, Cert: cert, Key: key, CA: ca, First: secrets[name] == nil, Made: made})
	}
	renew := func(p *pki.Pair) { out.RenewAt = earliest(out.RenewAt, p.RenewAt()) }
	now := read.Now()
	leaves := []leaf{
		{n.tlsSecret, s.settings.dnsNames(n.tlsService, cr.Namespace)}, {n.internalSecret, s.settings.dnsNames(n.base, cr.Namespace)},
	}
	authority, trusted := storedAuthority(stored[n.caSecret], now)
	inUse, pairs, signer := certificatesInUse(stored, leaves, trusted, now)
	wanted, bundle, err := s.authority(authority, trusted, signer, now, pki.CommonName(cr.Namespace, n.base))
	if err != nil {
		return Certs{}, err
	}
	add(n.caSecret, wanted.CertPEM, wanted.KeyPEM, bundle)
	renew(wanted)
	if authority == nil && s.settings.DryRun {
		authority, trusted = wanted, bundle
	}
	switch {
	case inUse != nil:
		out.CA = string(inUse)
	case authority == nil:
		out.AwaitsCA = n.caSecret
	default:
		out.CA = string(trusted)
	}
	var mounted []map[string][]byte
	for i, leaf := range leaves {
		have := stored[leaf.secret]
		switch {
		case inUse != nil:
			add(leaf.secret, pairs[i].CertPEM, pairs[i].KeyPEM, inUse)
			renew(pairs[i])
		case authority != nil:
			p, err := s.leaf(have, now, authority, leaf.dns)
			if err != nil {
				return Certs{}, err
			}
			add(leaf.secret, p.CertPEM, p.KeyPEM, trusted)
			renew(p)
			if s.settings.DryRun {
				have = map[string][]byte{corev1.TLSCertKey: p.CertPEM, corev1.TLSPrivateKeyKey: p.KeyPEM, corev1.ServiceAccountRootCAKey: trusted}
			}
		case have != nil:
			add(leaf.secret, have[corev1.TLSCertKey], have[corev1.TLSPrivateKeyKey], have[corev1.ServiceAccountRootCAKey])
		}
		at := stands(read, cr, secrets[leaf.secret], stored[leaf.secret])
		if now.Before(at) {
			out.StandsAt = earliest(out.StandsAt, at)
		}
		if (!usable(have, now) || now.Before(at)) && out.AwaitsLeaf == "" {
			out.AwaitsLeaf = leaf.secret
		}
		mounted = append(mounted, map[string][]byte{
			"crt": have[corev1.TLSCertKey], "key": have[corev1.TLSPrivateKeyKey], "ca": have[corev1.ServiceAccountRootCAKey],
		})
	}
	if out.AwaitsLeaf == "" {
		out.Digest = read.Digest(mounted...)
	}
	return out, nil
}

// standsFor is how long a certificate that was made again has to stand before pods are restarted for it: where somebody deletes or empties its
// Secret whenever that was written, each new certificate would restart them, to wait for one that is gone.
const standsFor = 10 * time.Second

// clockSkew is how far the clock of the API server may be behind. The first certificate of a Secret is made a moment before that is.
const clockSkew = 2 * time.Second

// stands is when a certificate that was made again counts, with its Secret or in it; zero for the first one. Of a new service that is made before
// the Deployment is. Where a service became Secured later, it is made with the NetworkPolicy.
func stands(read controller.Reader, cr *v1.TrustyAIService, secret *unstructured.Unstructured, data map[string][]byte) time.Time {
	policy, deployment := read.Child(gvkPolicy, cr.Namespace, namesOf(cr).policy), read.Child(gvkDeployment, cr.Namespace, ServiceName(cr))
	if secret == nil || policy == nil || deployment == nil {
		return time.Time{}
	}
	stored, first := secret.GetCreationTimestamp().Time, deployment.CreationTimestamp.Time
	if first.Before(policy.CreationTimestamp.Time) {
		first = policy.CreationTimestamp.Add(standsFor)
	}
	if p, err := pki.Decode(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey]); err == nil && p.MadeAt().After(stored.Add(clockSkew)) {
		return p.MadeAt().Add(standsFor)
	}
	if !stored.After(first) {
		return time.Time{}
	}
	return stored.Add(standsFor)
}

// usable says that pods can serve with what a Secret holds, even if it is due for renewal.
func usable(data map[string][]byte, now time.Time) bool {
	p, err := pki.Decode(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	return err == nil && now.Before(p.Cert.NotAfter)
}

// storedAuthority takes the CA from the data of its Secret, and what is to be trusted with it; nil while there is none.
func storedAuthority(data map[string][]byte, now time.Time) (p *pki.Pair, trusted []byte) {
	p, err := pki.Decode(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil || !p.Signs() || !now.Before(p.Cert.NotAfter) {
		return nil, nil
	}
	if bundle := data[corev1.ServiceAccountRootCAKey]; bytes.HasPrefix(bundle, p.CertPEM) && pki.OnlyAuthorities(bundle) {
		return p, bundle
	}
	return p, p.CertPEM
}

// leaf is a certificate of a server: its Secret, and the names that it is for.
type leaf struct {
	secret string
	dns    []string
}

// certificatesInUse is the bundle that the stored certificates are to be trusted by, these, and the authority that signed them. All are nil
// unless all of them have time left, are for their names, and have the bundle beside them. They stay in use until they are due, whatever
// becomes of the authority: one that was lost and made again, even again and again, restarts no pod.
func certificatesInUse(stored map[string]map[string][]byte, leaves []leaf, trusted []byte, now time.Time) (bundle []byte, pairs []*pki.Pair, signer []byte) {
	for i, leaf := range leaves {
		have := stored[leaf.secret]
		p, err := pki.Decode(have[corev1.TLSCertKey], have[corev1.TLSPrivateKeyKey])
		if err != nil || !p.Fresh(now) || !p.For(leaf.dns) {
			return nil, nil, nil
		}
		ca := have[corev1.ServiceAccountRootCAKey]
		by := p.Signer(ca, now)
		if by == nil || i > 0 && !bytes.Equal(ca, bundle) {
			return nil, nil, nil
		}
		if trusted != nil && !bytes.Contains(trusted, by) {
			return nil, nil, nil // Somebody replaced the authority, and trusts the one before no more.
		}
		bundle, pairs, signer = ca, append(pairs, p), by
	}
	return bundle, pairs, signer
}

// authority is the CA that the Secret is to hold: the one that is stored, or another where that is due for renewal or
// missing. A new CA comes with the one before, or the one that signed what is in use, so that who has the new bundle still trusts a pod with
// an old certificate.
func (s *system) authority(stored *pki.Pair, trusted, signer []byte, now time.Time, name string) (p *pki.Pair, bundle []byte, err error) {
	if stored != nil && stored.Fresh(now) {
		return stored, trusted, nil
	}
	if p, err = pki.NewAuthority(s.random, now, name); err != nil {
		return nil, nil, err
	}
	if stored != nil {
		signer = stored.CertPEM
	}
	return p, slices.Concat(p.CertPEM, signer), nil
}

// leaf takes a server certificate from its Secret, or makes one.
func (s *system) leaf(data map[string][]byte, now time.Time, authority *pki.Pair, dns []string) (*pki.Pair, error) {
	p, err := pki.Decode(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err == nil && p.Fresh(now) && p.Serves(authority, dns) {
		return p, nil
	}
	return pki.NewLeaf(s.random, now, authority, dns)
}
