package standin

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The annotations of a Secret with who issued the certificate in it.
const (
	issuerName  = certManagerGroup + "/issuer-name"
	issuerKind  = certManagerGroup + "/issuer-kind"
	issuerGroup = certManagerGroup + "/issuer-group"
)

// readiness tells whether the Secret is as the spec asks for (readiness_controller.go), and until when it is good.
func (c *certificate) readiness(now time.Time) {
	status, reason, message := isTrue, "Ready", "Certificate is up to date and has not expired"
	if violated, why := c.violation(now, true); violated != "" {
		status, reason, message = isFalse, violated, why
	}
	c.status.Conditions.set(readyCondition, status, reason, message, c.obj.GetGeneration(), now)
	c.status.NotBefore, c.status.NotAfter, c.status.RenewalTime = nil, nil, nil
	if issued := c.issued(); issued != nil {
		from, until, renewal := metav1.NewTime(issued.NotBefore), metav1.NewTime(issued.NotAfter), metav1.NewTime(c.renewal(issued))
		c.status.NotBefore, c.status.NotAfter, c.status.RenewalTime = &from, &until, &renewal
	}
}

// issued is the certificate in the Secret; nil where there is none.
func (c *certificate) issued() *x509.Certificate {
	if c.secret == nil {
		return nil
	}
	issued, err := certificateIn(dataOf(c.secret, "tls.crt"))
	if err != nil {
		return nil
	}
	return issued
}

// renewal is RenewalTime: so long before the end as the spec says, else a third of the lifetime.
func (c *certificate) renewal(issued *x509.Certificate) time.Time {
	lifetime := issued.NotAfter.Sub(issued.NotBefore)
	before := lifetime / 3
	if b := c.spec.RenewBefore; b != nil && b.Duration > 0 && b.Duration < lifetime {
		before = b.Duration
	} else if p := c.spec.RenewBeforePercentage; p != nil && *p > 0 && *p < 100 {
		before = time.Duration(float64(lifetime) * float64(*p) / 100)
	}
	return issued.NotAfter.Add(-before).Truncate(time.Second)
}

// violation is the first rule that the Secret breaks: of those that a certificate is issued for, or of those that make it not ready,
// which differ in the last (internal/controller/certificates/policies). The reason is empty where it breaks none.
func (c *certificate) violation(now time.Time, ready bool) (reason, message string) {
	if c.secret == nil {
		return "DoesNotExist", "Issuing certificate as Secret does not exist"
	}
	if reason, message := c.keyPairViolation(); reason != "" {
		return reason, message
	}
	if reason, message := c.originViolation(); reason != "" {
		return reason, message
	}
	if reason, message := c.specViolation(); reason != "" {
		return reason, message
	}
	issued := c.issued()
	switch {
	case ready && now.After(issued.NotAfter):
		return "Expired", "Certificate expired on " + issued.NotAfter.Format(time.RFC1123)
	case !ready && !now.Before(c.renewal(issued)):
		return "Renewing", fmt.Sprintf("Renewing certificate as renewal was scheduled at %s", c.status.RenewalTime)
	}
	return "", ""
}

// keyPairViolation is SecretIsMissingData and SecretPublicKeysDiffer.
func (c *certificate) keyPairViolation() (reason, message string) {
	data, _, _ := unstructured.NestedMap(c.secret.Object, "data")
	key, cert := dataOf(c.secret, "tls.key"), dataOf(c.secret, "tls.crt")
	switch {
	case data == nil:
		return "MissingData", "Issuing certificate as Secret does not contain any data"
	case key == "":
		return "MissingData", "Issuing certificate as Secret does not contain a private key"
	case cert == "":
		return "MissingData", "Issuing certificate as Secret does not contain a certificate"
	}
	signer, err := privateKeyIn(key)
	if err != nil {
		return "InvalidKeyPair", fmt.Sprintf("Issuing certificate as Secret contains invalid private key data: %v", err)
	}
	issued, err := certificateIn(cert)
	if err != nil {
		return "InvalidCertificate", fmt.Sprintf("Issuing certificate as Secret contains an invalid certificate: %v", err)
	}
	if !sameKey(issued.PublicKey, signer.Public()) {
		return "InvalidKeyPair", "Issuing certificate as Secret contains a private key that does not match the certificate"
	}
	return "", ""
}

// originViolation is SecretIssuerAnnotationsMismatch and SecretCertificateNameAnnotationsMismatch.
func (c *certificate) originViolation() (reason, message string) {
	marks := c.secret.GetAnnotations()
	from := issuerRef{marks[issuerName], marks[issuerKind], marks[issuerGroup]}
	want := c.spec.IssuerRef.normal()
	if from != (issuerRef{}) && from.Name != want.Name || from.normal().Kind != want.Kind || from.normal().Group != want.Group {
		return "IncorrectIssuer", fmt.Sprintf("Issuing certificate as Secret was previously issued by %q", from)
	}
	if name, there := marks[nameAnnotation]; there && name != c.obj.GetName() {
		return "IncorrectCertificate", fmt.Sprintf("Secret was issued for %q. If this message is not transient, you might have two "+
			"conflicting Certificates pointing to the same secret.", name)
	}
	return "", ""
}

// specViolation is SecretPrivateKeyMismatchesSpec, SecretPublicKeyDiffersFromCurrentCertificateRequest and
// CurrentCertificateRequestMismatchesSpec.
func (c *certificate) specViolation() (reason, message string) {
	signer, err := privateKeyIn(dataOf(c.secret, "tls.key"))
	if err != nil {
		return "InvalidKeyPair", fmt.Sprintf("Issuing certificate as Secret contains invalid private key data: %v", err)
	}
	if fields := c.spec.keyMismatches(signer); len(fields) > 0 {
		return "SecretMismatch", "Existing private key is not up to date for spec: " + plural(fields)
	}
	current := c.request(c.status.Revision)
	if current == nil || c.status.Revision == 0 {
		if fields := c.namesMissing(); len(fields) > 0 {
			return "SecretMismatch", "Issuing certificate as Existing issued Secret is not up to date for spec: " + plural(fields)
		}
		return "", ""
	}
	csr, err := requestIn(current.spec.Request)
	switch {
	case err != nil:
		return "InvalidCertificateRequest", fmt.Sprintf("Failed to decode current CertificateRequest: %v", err)
	case !sameKey(csr.PublicKey, signer.Public()):
		return "SecretMismatch", "Secret contains a private key that does not match the current CertificateRequest"
	}
	if fields := current.mismatches(&c.spec); len(fields) > 0 {
		return "RequestChanged", "Fields on existing CertificateRequest resource not up to date: " + plural(fields)
	}
	return "", ""
}

// namesMissing are the names of the spec that the certificate does not have, by which it is judged without its request
// (pkg/util/pki/match.go, FuzzyX509AltNamesMatchSpec).
func (c *certificate) namesMissing() []string {
	issued := c.issued()
	var out []string
	lacks := func(field string, has, want []string) {
		if slices.ContainsFunc(want, func(name string) bool { return !slices.Contains(has, name) }) {
			out = append(out, field)
		}
	}
	names := append(slices.Clone(issued.DNSNames), issued.Subject.CommonName)
	if c.spec.CommonName != "" {
		lacks("spec.commonName", names, []string{c.spec.CommonName})
	}
	var ips, uris []string
	for _, ip := range issued.IPAddresses {
		ips = append(ips, ip.String())
	}
	for _, uri := range issued.URIs {
		uris = append(uris, uri.String())
	}
	lacks("spec.dnsNames", names, c.spec.DNSNames)
	lacks("spec.uris", uris, c.spec.URIs)
	lacks("spec.ipAddresses", ips, c.spec.IPAddresses)
	lacks("spec.emailAddresses", issued.EmailAddresses, c.spec.EmailAddresses)
	return out
}

// owns says whether the Secret is for this Certificate to fill, if several name it (internal/controller/certificates, CertificateOwnsSecret).
func (c *certificate) owns(ctx context.Context) (bool, error) {
	list, err := c.m.client.Resource(certificates).Namespace(c.obj.GetNamespace()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	first, marked := c.obj, ""
	if c.secret != nil {
		marked = c.secret.GetAnnotations()[nameAnnotation]
	}
	for i := range list.Items {
		one := &list.Items[i]
		if name, _, _ := unstructured.NestedString(one.Object, "spec", "secretName"); name != c.spec.SecretName {
			continue
		}
		if one.GetName() == marked {
			return marked == c.obj.GetName(), nil
		}
		a, b := one.GetCreationTimestamp(), first.GetCreationTimestamp()
		if a.Before(&b) || a.Equal(&b) && one.GetName() < first.GetName() {
			first = one
		}
	}
	return first.GetName() == c.obj.GetName(), nil
}

// detailsOf are the annotations of a Secret about the certificate in it (internal/controller/certificates/secrets.go,
// AnnotationsForCertificate). Some are there without a value, too.
func detailsOf(cert *x509.Certificate) map[string]string {
	out := map[string]string{}
	add := func(always bool, key string, values ...string) {
		if text := strings.Join(values, ","); text != "" || always {
			out[certManagerGroup+"/"+key] = text
		}
	}
	var ips, uris []string
	for _, ip := range cert.IPAddresses {
		ips = append(ips, ip.String())
	}
	for _, uri := range cert.URIs {
		uris = append(uris, uri.String())
	}
	n := cert.Subject
	add(true, "common-name", n.CommonName)
	add(true, "alt-names", cert.DNSNames...)
	add(true, "ip-sans", ips...)
	add(true, "uri-sans", uris...)
	add(false, "email-sans", cert.EmailAddresses...)
	add(false, "subject-serialnumber", n.SerialNumber)
	add(false, "subject-organizations", n.Organization...)
	add(false, "subject-organizationalunits", n.OrganizationalUnit...)
	add(false, "subject-countries", n.Country...)
	add(false, "subject-provinces", n.Province...)
	add(false, "subject-localities", n.Locality...)
	add(false, "subject-postalcodes", n.PostalCode...)
	add(false, "subject-streetaddresses", n.StreetAddress...)
	return out
}
