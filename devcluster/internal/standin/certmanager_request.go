package standin

import (
	"context"
	"crypto"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// requestSpec is the spec of a CertificateRequest.
type requestSpec struct {
	Duration  *metav1.Duration `json:"duration,omitempty"`
	IssuerRef issuerRef        `json:"issuerRef"`
	Request   []byte           `json:"request"`
	IsCA      bool             `json:"isCA,omitempty"`
	Usages    []string         `json:"usages,omitempty"`
}

// requestStatus is its status.
type requestStatus struct {
	Conditions  certConditions `json:"conditions,omitempty"`
	Certificate []byte         `json:"certificate,omitempty"`
	CA          []byte         `json:"ca,omitempty"`
	FailureTime *metav1.Time   `json:"failureTime,omitempty"`
}

// certRequest is a CertificateRequest.
type certRequest struct {
	obj      *unstructured.Unstructured
	spec     requestSpec
	status   requestStatus
	revision int
}

func requestOf(obj *unstructured.Unstructured) (certRequest, error) {
	out := certRequest{obj: obj}
	out.revision, _ = strconv.Atoi(obj.GetAnnotations()[revisionAnnotation])
	if err := decode(obj.Object["spec"], &out.spec); err != nil {
		return out, err
	}
	return out, decode(obj.Object["status"], &out.status)
}

// request is the one of a revision; nil where there is none.
func (c *certificate) request(revision int) *certRequest {
	at := slices.IndexFunc(c.requests, func(r certRequest) bool { return r.revision == revision })
	if at < 0 {
		return nil
	}
	return &c.requests[at]
}

func (m *certManager) remove(ctx context.Context, r *certRequest) error {
	return ignoreGone(m.client.Resource(requests).Namespace(r.obj.GetNamespace()).Delete(ctx, r.obj.GetName(), metav1.DeleteOptions{}))
}

// mismatches are the fields of a Certificate's spec that a request is not as (pkg/util/pki/match.go, RequestMatchesSpec).
func (r *certRequest) mismatches(spec *certSpec) []string {
	csr, err := requestIn(r.spec.Request)
	if err != nil {
		return []string{"spec.request"}
	}
	var out []string
	differs := func(field string, is bool) {
		if is {
			out = append(out, field)
		}
	}
	var ips, uris []string
	for _, ip := range csr.IPAddresses {
		ips = append(ips, ip.String())
	}
	for _, uri := range csr.URIs {
		uris = append(uris, uri.String())
	}
	n, want := csr.Subject, spec.Subject
	differs("spec.ipAddresses", !sameSet(ips, spec.IPAddresses))
	differs("spec.uris", !sameSet(uris, spec.URIs))
	differs("spec.emailAddresses", !sameSet(csr.EmailAddresses, spec.EmailAddresses))
	differs("spec.dnsNames", !sameSet(csr.DNSNames, spec.DNSNames))
	differs("spec.commonName", n.CommonName != spec.CommonName)
	differs("spec.subject.serialNumber", n.SerialNumber != want.SerialNumber)
	differs("spec.subject.organizations", !sameSet(n.Organization, want.Organizations))
	differs("spec.subject.countries", !sameSet(n.Country, want.Countries))
	differs("spec.subject.localities", !sameSet(n.Locality, want.Localities))
	differs("spec.subject.organizationalUnits", !sameSet(n.OrganizationalUnit, want.OrganizationalUnits))
	differs("spec.subject.postCodes", !sameSet(n.PostalCode, want.PostalCodes))
	differs("spec.subject.provinces", !sameSet(n.Province, want.Provinces))
	differs("spec.subject.streetAddresses", !sameSet(n.StreetAddress, want.StreetAddresses))
	differs("spec.isCA", r.spec.IsCA != spec.IsCA)
	differs("spec.usages", !sameSet(r.spec.Usages, spec.Usages))
	differs("spec.duration", r.spec.Duration != nil && spec.Duration != nil && r.spec.Duration.Duration != spec.Duration.Duration)
	differs("spec.issuerRef", r.spec.IssuerRef.normal() != spec.IssuerRef.normal())
	return out
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// nextRequest is the request for the next certificate (requestmanager_controller.go); nil while it is made anew.
func (c *certificate) nextRequest(ctx context.Context, key crypto.Signer) (*certRequest, error) {
	revision := c.status.Revision + 1
	if there := c.request(revision); there != nil {
		csr, err := requestIn(there.spec.Request)
		failed := there.status.FailureTime
		if err != nil || len(there.mismatches(&c.spec)) > 0 || !sameKey(csr.PublicKey, key.Public()) ||
			failed != nil && failed.Before(c.status.Conditions.get(issuing).LastTransitionTime) {
			return nil, c.m.remove(ctx, there)
		}
		return there, nil
	}
	text, err := c.spec.signingRequest(key)
	if err != nil {
		return nil, err
	}
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&requestSpec{
		Duration: c.spec.Duration, IssuerRef: c.spec.IssuerRef, Request: []byte(text), IsCA: c.spec.IsCA, Usages: c.spec.Usages,
	})
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": certManagerGroup + "/v1", "kind": "CertificateRequest", "spec": spec}}
	u.SetName(fmt.Sprintf("%s-%d", c.obj.GetName(), revision))
	u.SetNamespace(c.obj.GetNamespace())
	u.SetLabels(c.obj.GetLabels())
	u.SetAnnotations(map[string]string{
		revisionAnnotation: strconv.Itoa(revision), nameAnnotation: c.obj.GetName(),
		certManagerGroup + "/private-key-secret-name": c.status.NextPrivateKeySecretName,
	})
	u.SetOwnerReferences([]metav1.OwnerReference{c.owner()})
	_, err = c.m.client.Resource(requests).Namespace(u.GetNamespace()).
		Create(ctx, u, metav1.CreateOptions{FieldManager: "cert-manager-certificates-request-manager"})
	return nil, err
}

// sign approves a request and has it signed, or says what it waits for (pkg/controller/certificaterequests/sync.go).
func (m *certManager) sign(ctx context.Context, r *certRequest, key crypto.Signer) error {
	before := slices.Clone(r.status.Conditions)
	now := m.now()
	set := func(kind, status, reason, message string) {
		r.status.Conditions.set(kind, status, reason, message, 0, now)
	}
	item := r.spec.IssuerRef.item(r.obj.GetNamespace())
	if item.resource.Empty() {
		return nil // The issuer has a controller of its own.
	}
	set("Approved", isTrue, certManagerGroup, "Certificate request has been approved by cert-manager.io")
	signed, waits, err := m.signature(ctx, r, item, key)
	failed := &signingError{}
	switch {
	case waits != "":
		set(readyCondition, isFalse, "Pending", waits)
	case errors.As(err, &failed):
		at := metav1.NewTime(now)
		r.status.FailureTime = &at
		set(readyCondition, isFalse, "Failed", "Error signing certificate: "+err.Error())
	case err != nil:
		return err
	default:
		r.status.Certificate, r.status.CA = []byte(signed.chain), []byte(signed.authority)
		set(readyCondition, isTrue, "Issued", "Certificate fetched from issuer successfully")
	}
	if slices.Equal(before, r.status.Conditions) {
		return nil
	}
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&r.status)
	if err != nil {
		return err
	}
	r.obj.Object["status"] = status
	_, err = m.client.Resource(requests).Namespace(r.obj.GetNamespace()).
		UpdateStatus(ctx, r.obj, metav1.UpdateOptions{FieldManager: "cert-manager-certificaterequests"})
	return err
}

// signingError says that a request cannot be signed.
type signingError struct{ error }

// signature is a signed certificate, or what it waits for.
func (m *certManager) signature(ctx context.Context, r *certRequest, item certItem, key crypto.Signer) (out bundle, waits string, err error) {
	issuer, err := m.client.Resource(item.resource).Namespace(item.namespace).Get(ctx, item.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		kind := r.spec.IssuerRef.normal().Kind
		return out, fmt.Sprintf("Referenced %q not found: %s.cert-manager.io %q not found", kind, strings.ToLower(kind), item.name), nil
	}
	if err != nil {
		return out, "", err
	}
	if conditionIn(issuer, readyCondition).status != isTrue {
		return out, "Referenced issuer does not have a Ready status condition", nil
	}
	csr, err := requestIn(r.spec.Request)
	if err != nil {
		return out, "", &signingError{err}
	}
	template, err := certificateFor(csr, &r.spec, m.now())
	if err != nil {
		return out, "", &signingError{err}
	}
	if _, own, _ := unstructured.NestedMap(issuer.Object, "spec", "selfSigned"); own {
		out, err = signItself(key, template)
	} else {
		a, problem := m.authorityOf(ctx, issuer)
		switch {
		case problem != nil && a == nil:
			return out, "", problem
		case problem != nil && a.gone:
			return out, fmt.Sprintf("Referenced secret %s not found: %s", a.secret, problem), nil
		case problem != nil:
			return out, fmt.Sprintf("Failed to parse signing CA keypair from secret %s: %s", a.secret, problem), nil
		}
		out, err = signBy(a, template)
	}
	if err != nil {
		err = &signingError{err}
	}
	return out, "", err
}

// keep writes what was issued into the Secret, and ends the issuance (issuing_controller.go, issueCertificate, and its
// internal/secret.go).
func (c *certificate) keep(ctx context.Context, r *certRequest, key crypto.Signer) error {
	text, err := encodeKey(key, c.spec.PrivateKey.Encoding)
	if err != nil {
		return err
	}
	issued, err := certificateIn(string(r.status.Certificate))
	if err != nil {
		return err
	}
	kind := "kubernetes.io/tls"
	if c.secret != nil {
		kind, _, _ = unstructured.NestedString(c.secret.Object, "type") // It cannot change.
	}
	data := map[string]any{}
	for name, content := range map[string][]byte{"tls.crt": r.status.Certificate, "tls.key": []byte(text), "ca.crt": r.status.CA} {
		if len(content) > 0 {
			data[name] = base64.StdEncoding.EncodeToString(content)
		}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "type": kind, "data": data}}
	u.SetName(c.spec.SecretName)
	u.SetNamespace(c.obj.GetNamespace())
	labels, annotations := maps.Clone(c.spec.SecretTemplate.Labels), maps.Clone(c.spec.SecretTemplate.Annotations)
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels[partLabel] = "true"
	maps.Copy(annotations, detailsOf(issued))
	annotations[nameAnnotation] = c.obj.GetName()
	ref := r.spec.IssuerRef
	annotations[issuerName], annotations[issuerKind], annotations[issuerGroup] = ref.Name, ref.Kind, ref.Group
	u.SetLabels(labels)
	u.SetAnnotations(annotations)
	_, err = c.m.client.Resource(secrets).Namespace(u.GetNamespace()).
		Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: "cert-manager-certificates-issuing", Force: true})
	if err != nil {
		return err
	}
	c.status.Revision = r.revision
	c.status.Conditions.remove(issuing)
	c.status.FailedIssuanceAttempts, c.status.LastFailureTime = 0, nil
	_, err = c.write(ctx)
	return err
}
