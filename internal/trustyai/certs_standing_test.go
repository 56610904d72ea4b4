package trustyai

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// issuedBy is a source of certificates that others make: what the cluster serves for it, its spec, and how it marks the Secret tas-tls.
type issuedBy struct {
	served     schema.GroupVersionKind
	spec, mark string
	secrets    []string
	// field is what its entry in managedFields names: who applies stringData has that there.
	field string
}

var issuers = map[string]issuedBy{
	"cert-manager": {gvkCertificate, "  tls: {issuerRef: {name: corp}}\n", certificateAnnotation, []string{"tas-tls", "tas-internal"}, "f:data"},
	"service-ca":   {gvkServiceCA, "", "service.beta.openshift.io/originating-service-name", []string{"tas-tls", "tas-internal"}, "f:data"},
	"the user":     {gvkCertificate, "  tls: {secretName: mine}\n", "by", []string{"mine"}, "f:stringData"},
}

// issue has the issuer write a Secret now, whose managedFields tell when that was.
func (i issuedBy) issue(c *cluster, name, content string) {
	u := secretOf2("ns", name, map[string]string{"tls.crt": content, "tls.key": content})
	u.SetAnnotations(map[string]string{i.mark: name})
	u.SetCreationTimestamp(metav1.NewTime(testNow))
	at, later := metav1.NewTime(c.Time), metav1.NewTime(c.Time.Add(time.Hour))
	u.SetManagedFields([]metav1.ManagedFieldsEntry{
		{Manager: "issuer", Time: &at, FieldsV1: metav1.NewFieldsV1(`{"` + i.field + `":{"f:tls.crt":{},"f:tls.key":{}}}`)},
		{Manager: "labels", Time: &later, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:a":{}}}}`)},
	})
	c.Put(u)
}

// certificatesOf is the digest that the pod template of a Deployment has.
func certificatesOf(u *unstructured.Unstructured) string {
	out, _, _ := unstructured.NestedString(u.Object, "spec", "template", "metadata", "annotations", certificatesAnnotation)
	return out
}

// Test_ACertificateOfAnotherRestartsPodsOnceItStands: what issues certificates in a loop, or fights over their Secret, restarts no pod, and keeps no
// change of the spec from them. What it issued last restarts them once it has stood for a while, also after a restart of the operator.
func Test_ACertificateOfAnotherRestartsPodsOnceItStands(t *testing.T) {
	for name, issuer := range issuers {
		t.Run(name, func(t *testing.T) {
			c, cr := newCluster(issuer.served), custom(t, upstreamSpec+issuer.spec)
			gatherAndRender(t, c, cr)
			for _, secret := range issuer.secrets {
				issuer.issue(c, secret, "first")
			}
			reconcile := func() (digest string) {
				_, p := gatherAndRender(t, c, cr)
				o := deploymentIn(t, p)
				if o.Hold != "" && o.Hold != "the NetworkPolicy tas-secured" {
					t.Fatalf("the Deployment is held for %s", o.Hold)
				}
				c.Written(p, ownerID(cr))
				return certificatesOf(o.Desired)
			}
			first := reconcile()
			if again := reconcile(); first == "" || again != first {
				t.Fatalf("the first pods are made for %q, and the next for %q", first, again)
			}
			for i := range 60 {
				c.Time = c.Time.Add(time.Second)
				issuer.issue(c, issuer.secrets[0], fmt.Sprint(i))
				if reconcile() != first {
					t.Fatalf("after %d s pods are restarted for a certificate that nobody knows to stay", i+1)
				}
			}
			cr.Generation, cr.Spec.Metrics.Schedule = 2, "9s"
			_, p := gatherAndRender(t, c, cr)
			if o := deploymentIn(t, p); o.Hold != "" || certificatesOf(o.Desired) != first || !p.WakeAt.Equal(c.Time.Add(standsFor)) {
				t.Fatalf("a change of the spec waits for %q, or nothing ends the wait: %s", o.Hold, p.WakeAt)
			}
			c.Time = c.Time.Add(standsFor - time.Second)
			if reconcile() != first {
				t.Error("pods are restarted too early")
			}
			c.Time = c.Time.Add(time.Second)
			last := reconcile()
			if last == first || last == "" {
				t.Error("pods are not restarted for the certificate that stands")
			}
			c.Time = c.Time.Add(time.Hour)
			if reconcile() != last {
				t.Error("pods are restarted again")
			}
		})
	}
}

// Test_AdoptedPodsStayUntilACertificateStands: the pods of the original operator are replaced for no certificate that is about to be another.
func Test_AdoptedPodsStayUntilACertificateStands(t *testing.T) {
	c, cr := adopted(t, upstreamSpec)
	issuer := issuers["service-ca"]
	reconcile := func() bool {
		_, p := gatherAndRender(t, c, cr)
		o := deploymentIn(t, p)
		c.Own(o.Desired.DeepCopy(), testOwner)
		return o.Partial
	}
	reconcile()
	issuer.issue(c, "tas-tls", "first")
	issuer.issue(c, "tas-internal", "first")
	for i := range 30 {
		if !reconcile() {
			t.Fatalf("after %d s the pods are replaced", i)
		}
		c.Time = c.Time.Add(time.Second)
		issuer.issue(c, "tas-tls", fmt.Sprint(i))
	}
	c.Time = c.Time.Add(standsFor)
	if reconcile() {
		t.Error("the pods are not replaced for the certificate that stands")
	}
}

// Test_AnotherSecretOfTheUserIsUsedAtOnce: the pods are restarted for its name, and would be a second time for what it holds.
func Test_AnotherSecretOfTheUserIsUsedAtOnce(t *testing.T) {
	issuer := issuers["the user"]
	c, cr := newCluster(issuer.served), custom(t, upstreamSpec+issuer.spec)
	issuer.issue(c, "mine", "first")
	facts, p := gatherAndRender(t, c, cr)
	c.Written(p, ownerID(cr))
	issuer.issue(c, "another", "another")
	cr.Spec.TLS.SecretName = "another"
	if now, _ := gatherAndRender(t, c, cr); now.Certs.Digest == "" || now.Certs.Digest == facts.Certs.Digest || !now.Certs.StandsAt.IsZero() {
		t.Errorf("the digest is %q, of %q, until %s", now.Certs.Digest, facts.Certs.Digest, now.Certs.StandsAt)
	}
}
