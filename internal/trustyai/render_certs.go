package trustyai

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/pki"
)

func joinWords(words []string) string { return strings.Join(words, ", ") }

// dnsNames are the names that a certificate for a Service of this namespace is valid for.
func (s Settings) dnsNames(service, namespace string) []string {
	domain := s.ClusterDomain
	if domain == "" {
		domain = DefaultClusterDomain
	}
	return []string{
		service + "." + namespace + ".svc." + domain, service + "." + namespace + ".svc", service + "." + namespace, service,
	}
}

// checkForeign reports Secrets of others under the names of certificates.
func (r *scene) checkForeign() {
	why := "cert-manager would put another certificate and key into it"
	if r.facts.Certs.Source == CertsServiceCA {
		why = "OpenShift's service-ca puts no certificate into it"
	}
	for _, name := range r.facts.Certs.Foreign {
		r.problem(plan.Waiting, decide.ReasonForeignOwner, "metadata.name", r.cr.Name, "the Secret "+name+" is of somebody else, and "+why,
			"delete that Secret, name it in spec.tls.secretName if it is for this service, or create the TrustyAIService under another name")
	}
}

// certManager renders Certificates for cert-manager, issued by the issuer that the spec names, else by a certificate
// authority of this custom resource.
func (r *scene) certManager() {
	issuer := map[string]any{"group": gvkIssuer.Group, "kind": "Issuer", "name": r.names.caSecret}
	if tls := r.cr.Spec.TLS; tls != nil && tls.IssuerRef != nil {
		kind := tls.IssuerRef.Kind
		if kind == "" {
			kind = "Issuer"
		}
		issuer["kind"], issuer["name"] = kind, tls.IssuerRef.Name
	} else {
		selfSigned := map[string]any{"group": gvkIssuer.Group, "kind": "Issuer", "name": r.names.selfSignedIssuer}
		r.add(plan.Foreign(gvkIssuer, r.cr.Namespace, r.names.selfSignedIssuer, r.labels(), map[string]any{"selfSigned": map[string]any{}}))
		// A renewed authority has the key that it had, so what it signed before is good under what it is now, and the other way
		// round: cert-manager issues nothing anew because its authority was (v1.21 internal/controller/certificates/policies).
		authority := r.certificate(r.names.caSecret, selfSigned, "87600h", "Never")
		authority["isCA"] = true
		authority["commonName"] = pki.CommonName(r.cr.Namespace, r.names.base)
		r.addCertificate(r.names.caSecret, authority)
		r.add(plan.Foreign(gvkIssuer, r.cr.Namespace, r.names.caSecret, r.labels(),
			map[string]any{"ca": map[string]any{"secretName": r.names.caSecret}}))
	}
	for _, leaf := range []struct{ secret, service string }{
		{r.names.tlsSecret, r.names.tlsService}, {r.names.internalSecret, r.names.base},
	} {
		spec := r.certificate(leaf.secret, issuer, "8760h", "Always")
		var dns []any
		for _, name := range r.settings.dnsNames(leaf.service, r.cr.Namespace) {
			dns = append(dns, name)
		}
		spec["dnsNames"] = dns
		spec["usages"] = []any{"digital signature", "server auth"}
		r.addCertificate(leaf.secret, spec)
	}
}

// addCertificate adds a Certificate, unless its Secret is there and of somebody else.
func (r *scene) addCertificate(name string, spec map[string]any) {
	if !slices.Contains(r.facts.Certs.Foreign, name) {
		r.add(plan.Foreign(gvkCertificate, r.cr.Namespace, name, r.labels(), spec))
	}
}

// checkIssuer reports an issuer that the spec names on a cluster without cert-manager. Certificates of another source stay in use.
func (r *scene) checkIssuer() {
	tls := r.cr.Spec.TLS
	if tls == nil || tls.IssuerRef == nil || tls.SecretName != "" || r.facts.Serves.CertManager {
		return
	}
	r.problem(plan.Waiting, "CertManagerNotServed", "spec.tls.issuerRef", tls.IssuerRef.Name,
		"the cluster does not serve cert-manager.io/v1", "install cert-manager, or remove the field")
}

// certificate is what all Certificates have in common: ECDSA keys, renewed with a third of the lifetime left.
func (r *scene) certificate(secret string, issuer map[string]any, duration, rotation string) map[string]any {
	return map[string]any{
		"secretName": secret, "issuerRef": issuer, "duration": duration,
		"privateKey": map[string]any{"algorithm": "ECDSA", "size": int64(256), "rotationPolicy": rotation},
	}
}

// lacks says which certificate an object depends on that does not exist: the generated Secret, or the one that the spec names. With a
// volume the strategy is Recreate, so that pods that cannot start would replace the one that serves; and pods that were started
// before their certificate would be restarted for it.
func (r *scene) lacks(generated string) string {
	certs := r.facts.Certs
	switch {
	case generated != "":
		return "the generated certificate in Secret " + generated + " to be stored"
	case certs.Missing || len(certs.MissingKeys) > 0:
		return "the certificate in Secret " + r.names.tlsSecret
	}
	return ""
}

// mistrusted says what an object waits for that verifies the service: its certificate, or the pods that have another one to be replaced.
func (r *scene) mistrusted() string {
	if r.secured && r.served.Secret != declaredSecret(r.cr) {
		return "the pods with the certificate in Secret " + r.served.Secret + " to be replaced"
	}
	return r.lacks(r.facts.Certs.AwaitsCA)
}

// checkExpiry reports a certificate that nobody renews: one that has expired, and one of cert-manager where that is gone.
func (r *scene) checkExpiry() {
	certs := r.facts.Certs
	if certs.ExpiresAt.IsZero() {
		return
	}
	at, secrets := certs.ExpiresAt.UTC().Format(time.RFC3339), r.names.tlsSecret
	if r.names.internalSecret != secrets {
		secrets += " or " + r.names.internalSecret
	}
	unserved := certs.Source == CertsCertManager && !r.facts.Serves.CertManager
	remedy := "replace it in the Secret"
	switch {
	case unserved:
		instead := fmt.Sprintf("delete the Secrets %s, %s and %s", r.names.tlsSecret, r.names.internalSecret, r.names.caSecret)
		if tls := r.cr.Spec.TLS; tls != nil && tls.IssuerRef != nil {
			instead = fmt.Sprintf("remove spec.tls.issuerRef and delete the Secrets %s and %s", r.names.tlsSecret, r.names.internalSecret)
		}
		remedy = "install cert-manager again, or " + instead + ": MLKeeper then makes certificates of its own"
	case certs.Source != CertsUser:
		remedy = "look at the events of the Certificates or Services that it is made for"
	}
	switch {
	case !r.facts.Now.Before(certs.ExpiresAt):
		r.problem(plan.Waiting, "CertificateExpired", "spec.tls", "", "the certificate in Secret "+secrets+" expired at "+at, remedy)
	case unserved:
		r.warn("the cluster no longer serves cert-manager.io/v1: the certificate in Secret %s is not renewed, and expires at %s; %s", secrets, at, remedy)
	}
}

// checkAuthority warns of a Route whose router cannot verify the service: without destinationCACertificate it trusts service-ca only.
func (r *scene) checkAuthority() {
	if !r.facts.Serves.Route || !r.facts.Certs.withoutAuthority() {
		return
	}
	r.warn("the Secret %s has no ca.crt with a certificate, so that the Route %s names no destinationCACertificate and its router answers 503 unless it trusts "+
		"the issuer of the certificate anyway: add the certificate of the issuer as ca.crt", r.names.tlsSecret, r.names.route)
}

// ownSecret renders a Secret of the operator's own CA: what was read from it, or its renewal.
func (r *scene) ownSecret(own OwnSecret) plan.Object {
	o := plan.Typed(gvkSecret, &corev1.Secret{
		ObjectMeta: r.meta(own.Name, r.labels()),
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{corev1.TLSCertKey: own.Cert, corev1.TLSPrivateKeyKey: own.Key, corev1.ServiceAccountRootCAKey: own.CA},
	})
	o.IfNotPresent, o.Generated = own.First, own.Made
	return o
}
