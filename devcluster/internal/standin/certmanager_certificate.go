package standin

import (
	"context"
	"crypto"
	"encoding/base64"
	"fmt"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
)

const (
	// nextKeyLabel is on the Secret with the key of the certificate that is issued at present.
	nextKeyLabel = certManagerGroup + "/next-private-key"
	// partLabel is on every Secret of cert-manager's.
	partLabel = "controller.cert-manager.io/fao"
	// nameAnnotation is on what belongs to a Certificate, and revisionAnnotation counts its requests.
	nameAnnotation, revisionAnnotation = certManagerGroup + "/certificate-name", certManagerGroup + "/certificate-revision"
	// issuing is the condition of a Certificate that is being issued.
	issuing = "Issuing"
	// retryAfter is the first pause after an issuance that failed.
	retryAfter = time.Hour
)

// unsupported are the fields of a Certificate that are not played. A Certificate with one is left alone.
var unsupported = []string{"additionalOutputFormats", "keystores", "literalSubject", "nameConstraints", "otherNames", "renewal"}

// certSpec is the spec of a Certificate.
type certSpec struct {
	SecretName            string           `json:"secretName"`
	CommonName            string           `json:"commonName"`
	DNSNames              []string         `json:"dnsNames"`
	IPAddresses           []string         `json:"ipAddresses"`
	URIs                  []string         `json:"uris"`
	EmailAddresses        []string         `json:"emailAddresses"`
	IsCA                  bool             `json:"isCA"`
	Usages                []string         `json:"usages"`
	Duration              *metav1.Duration `json:"duration"`
	RenewBefore           *metav1.Duration `json:"renewBefore"`
	RenewBeforePercentage *int32           `json:"renewBeforePercentage"`
	RevisionHistoryLimit  *int             `json:"revisionHistoryLimit"`
	IssuerRef             issuerRef        `json:"issuerRef"`
	PrivateKey            struct {
		Algorithm      string `json:"algorithm"`
		Encoding       string `json:"encoding"`
		RotationPolicy string `json:"rotationPolicy"`
		Size           int    `json:"size"`
	} `json:"privateKey"`
	Subject struct {
		Organizations       []string `json:"organizations"`
		Countries           []string `json:"countries"`
		OrganizationalUnits []string `json:"organizationalUnits"`
		Localities          []string `json:"localities"`
		Provinces           []string `json:"provinces"`
		StreetAddresses     []string `json:"streetAddresses"`
		PostalCodes         []string `json:"postalCodes"`
		SerialNumber        string   `json:"serialNumber"`
	} `json:"subject"`
	SecretTemplate struct {
		Annotations map[string]string `json:"annotations"`
		Labels      map[string]string `json:"labels"`
	} `json:"secretTemplate"`
}

// certStatus is the status of a Certificate.
type certStatus struct {
	Conditions               certConditions `json:"conditions,omitempty"`
	LastFailureTime          *metav1.Time   `json:"lastFailureTime,omitempty"`
	NotBefore                *metav1.Time   `json:"notBefore,omitempty"`
	NotAfter                 *metav1.Time   `json:"notAfter,omitempty"`
	RenewalTime              *metav1.Time   `json:"renewalTime,omitempty"`
	Revision                 int            `json:"revision,omitempty"`
	NextPrivateKeySecretName string         `json:"nextPrivateKeySecretName,omitempty"`
	FailedIssuanceAttempts   int            `json:"failedIssuanceAttempts,omitempty"`
}

// certificate is a Certificate with what there is for it.
type certificate struct {
	m      *certManager
	obj    *unstructured.Unstructured
	spec   certSpec
	status certStatus
	// told is the status as it was read.
	told certStatus
	// secret is the one that the certificate is kept in; nil where there is none.
	secret *unstructured.Unstructured
	// requests are its CertificateRequests.
	requests []certRequest
}

// issue takes the next step for a Certificate, and says when it is to be renewed.
func (m *certManager) issue(ctx context.Context, obj *unstructured.Unstructured) (time.Duration, error) {
	c := &certificate{m: m, obj: obj}
	spec, _, _ := unstructured.NestedMap(obj.Object, "spec")
	for _, field := range unsupported {
		if spec[field] != nil {
			fmt.Fprintf(os.Stderr, "stand-in: Certificate %s/%s: spec.%s is not played; remove it, or run cert-manager itself\n",
				obj.GetNamespace(), obj.GetName(), field)
			return 0, nil
		}
	}
	if err := decode(spec, &c.spec); err != nil {
		return 0, err
	}
	for _, into := range []*certStatus{&c.status, &c.told} {
		if err := decode(obj.Object["status"], into); err != nil {
			return 0, err
		}
	}
	if err := c.gather(ctx); err != nil {
		return 0, err
	}
	now := m.now()
	c.readiness(now)
	if !c.status.Conditions.is(issuing, isTrue) {
		if err := c.trigger(ctx, now); err != nil {
			return 0, err
		}
	}
	if changed, err := c.write(ctx); changed || err != nil {
		return 0, err // The event of it takes the next step.
	}
	var err error
	if c.status.Conditions.is(issuing, isTrue) {
		err = c.proceed(ctx, now)
	} else {
		err = c.tidy(ctx)
	}
	return c.next(now), err
}

// gather reads what there is for the Certificate.
func (c *certificate) gather(ctx context.Context) error {
	namespace := c.obj.GetNamespace()
	secret, err := c.m.client.Resource(secrets).Namespace(namespace).Get(ctx, c.spec.SecretName, metav1.GetOptions{})
	switch {
	case err == nil:
		c.secret = secret
	case !apierrors.IsNotFound(err):
		return err
	}
	list, err := c.m.client.Resource(requests).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], c.obj) {
			one, err := requestOf(&list.Items[i])
			if err != nil {
				return err
			}
			c.requests = append(c.requests, one)
		}
	}
	return nil
}

// write writes the status if it has changed.
func (c *certificate) write(ctx context.Context) (bool, error) {
	if equality.Semantic.DeepEqual(c.status, c.told) {
		return false, nil
	}
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&c.status)
	if err != nil {
		return false, err
	}
	c.obj.Object["status"] = status
	_, err = c.m.client.Resource(certificates).Namespace(c.obj.GetNamespace()).
		UpdateStatus(ctx, c.obj, metav1.UpdateOptions{FieldManager: "cert-manager-certificates"})
	return true, err
}

// next is when the certificate is to be renewed, or to be tried again.
func (c *certificate) next(now time.Time) time.Duration {
	var at *metav1.Time
	switch {
	case c.status.Conditions.is(issuing, isTrue):
	case c.status.LastFailureTime != nil:
		again := metav1.NewTime(c.status.LastFailureTime.Add(c.pause()))
		at = &again
	default:
		at = c.status.RenewalTime
	}
	if at == nil {
		return 0
	}
	return max(at.Sub(now), time.Second)
}

// trigger says that the certificate is to be issued, where it is (trigger_controller.go).
func (c *certificate) trigger(ctx context.Context, now time.Time) error {
	owns, err := c.owns(ctx)
	if err != nil || !owns || c.waits(now) {
		return err
	}
	reason, message := c.violation(now, false)
	if reason != "" {
		c.status.Conditions.set(issuing, isTrue, reason, message, c.obj.GetGeneration(), now)
	}
	return nil
}

// pause doubles with every failure, up to 32 hours.
func (c *certificate) pause() time.Duration {
	return min(retryAfter<<min(max(c.status.FailedIssuanceAttempts-1, 0), 5), 32*retryAfter)
}

// waits says that an issuance failed a short time ago, and would fail again.
func (c *certificate) waits(now time.Time) bool {
	if c.status.LastFailureTime == nil {
		return false
	}
	failed := c.request(c.status.Revision + 1)
	return (failed == nil || len(failed.mismatches(&c.spec)) == 0) && now.Sub(c.status.LastFailureTime.Time) < c.pause()
}

// proceed takes the next step of an issuance: a key, a request, its signature, the Secret.
func (c *certificate) proceed(ctx context.Context, now time.Time) error {
	key, err := c.nextKey(ctx)
	if key == nil || err != nil {
		return err
	}
	request, err := c.nextRequest(ctx, key)
	if request == nil || err != nil {
		return err
	}
	ready := request.status.Conditions.get(readyCondition)
	switch {
	case ready != nil && ready.Status == isTrue:
		return c.keep(ctx, request, key)
	case ready != nil && ready.Reason == "Failed":
		c.fail(ready, now)
		_, err := c.write(ctx)
		return err
	}
	return c.m.sign(ctx, request, key)
}

// fail is failIssueCertificate.
func (c *certificate) fail(why *certCondition, now time.Time) {
	at := metav1.NewTime(now.Truncate(time.Second))
	c.status.LastFailureTime = &at
	c.status.FailedIssuanceAttempts++
	c.status.Conditions.set(issuing, isFalse, why.Reason,
		"The certificate request has failed to complete and will be retried: "+why.Message, c.obj.GetGeneration(), now)
}

// nextKey is the key of the certificate that is issued (keymanager_controller.go): a new one, or with the rotation policy Never the one
// that there is. It is nil while there is none.
func (c *certificate) nextKey(ctx context.Context) (crypto.Signer, error) {
	client := c.m.client.Resource(secrets).Namespace(c.obj.GetNamespace())
	kept, err := c.keySecrets(ctx)
	if err != nil {
		return nil, err
	}
	if len(kept) > 0 && c.status.NextPrivateKeySecretName == "" {
		c.status.NextPrivateKeySecretName = kept[0].GetName()
		_, err := c.write(ctx)
		return nil, err
	}
	if len(kept) > 0 {
		key, err := privateKeyIn(dataOf(kept[0], "tls.key"))
		if err == nil && len(c.spec.keyMismatches(key)) == 0 && kept[0].GetName() == c.status.NextPrivateKeySecretName {
			return key, nil
		}
		// The event of it makes another.
		return nil, client.Delete(ctx, kept[0].GetName(), metav1.DeleteOptions{})
	}
	key, err := c.keyToUse()
	if key == nil || err != nil {
		return nil, err
	}
	text, err := encodeKey(key, "PKCS8")
	if err != nil {
		return nil, err
	}
	name := c.status.NextPrivateKeySecretName
	if name == "" {
		name = c.obj.GetName() + "-" + rand.String(5)
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": map[string]any{"tls.key": base64.StdEncoding.EncodeToString([]byte(text))},
	}}
	u.SetName(name)
	u.SetNamespace(c.obj.GetNamespace())
	u.SetLabels(map[string]string{nextKeyLabel: "true", partLabel: "true"})
	u.SetOwnerReferences([]metav1.OwnerReference{c.owner()})
	_, err = client.Create(ctx, u, metav1.CreateOptions{FieldManager: "cert-manager-certificates-key-manager"})
	return nil, err
}

// keyToUse is nil where only the user can help: the key that has to stay is not as the spec asks for.
func (c *certificate) keyToUse() (crypto.Signer, error) {
	if c.spec.PrivateKey.RotationPolicy == "Never" && c.secret != nil {
		if key, err := privateKeyIn(dataOf(c.secret, "tls.key")); err == nil {
			if len(c.spec.keyMismatches(key)) > 0 {
				return nil, nil
			}
			return key, nil
		}
	}
	return c.spec.newKey()
}

// keySecrets are the Secrets with keys for what is issued.
func (c *certificate) keySecrets(ctx context.Context) ([]*unstructured.Unstructured, error) {
	list, err := c.m.client.Resource(secrets).Namespace(c.obj.GetNamespace()).List(ctx, metav1.ListOptions{LabelSelector: nextKeyLabel + "=true"})
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], c.obj) {
			out = append(out, &list.Items[i])
		}
	}
	return out, nil
}

func (c *certificate) owner() metav1.OwnerReference {
	return *metav1.NewControllerRef(c.obj, certificates.GroupVersion().WithKind("Certificate"))
}

// tidy removes what an issuance leaves behind: the Secrets with keys, and older requests than are kept.
func (c *certificate) tidy(ctx context.Context) error {
	kept, err := c.keySecrets(ctx)
	if err != nil {
		return err
	}
	for _, one := range kept {
		if err := c.m.client.Resource(secrets).Namespace(one.GetNamespace()).Delete(ctx, one.GetName(), metav1.DeleteOptions{}); ignoreGone(err) != nil {
			return err
		}
	}
	limit := 1
	if c.spec.RevisionHistoryLimit != nil {
		limit = *c.spec.RevisionHistoryLimit
	}
	done := slices.DeleteFunc(c.requests, func(r certRequest) bool { return r.revision > c.status.Revision })
	slices.SortFunc(done, func(a, b certRequest) int { return b.revision - a.revision })
	for i := limit; i < len(done); i++ {
		if err := c.m.remove(ctx, &done[i]); err != nil {
			return err
		}
	}
	if c.status.NextPrivateKeySecretName != "" {
		c.status.NextPrivateKeySecretName = ""
		_, err = c.write(ctx)
	}
	return err
}
