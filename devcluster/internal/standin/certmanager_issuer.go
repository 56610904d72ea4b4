package standin

import (
	"context"
	"crypto"
	"crypto/x509"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// outside are the issuers that call a server outside of the cluster, and what cert-manager says where it does not answer
// (pkg/issuer/acme, vault and venafi, setup.go).
var outside = map[string]condition{
	"acme":   {isFalse, "ErrRegisterACMEAccount", "Failed to register ACME account: the server does not answer"},
	"vault":  {isFalse, "VaultError", "Failed to initialize Vault client: the server does not answer"},
	"venafi": {isFalse, "ErrorSetup", "Failed to setup Certificate Manager issuer: the server does not answer"},
}

// setUp tells whether an issuer can issue (pkg/issuer/ca and selfsigned, setup.go).
func (m *certManager) setUp(ctx context.Context, item certItem, obj *unstructured.Unstructured) error {
	ready, err := m.readiness(ctx, obj)
	if err != nil || ready.status == "" {
		return err
	}
	status, _, _ := unstructured.NestedMap(obj.Object, "status")
	told := struct {
		Conditions certConditions `json:"conditions"`
	}{}
	if err := decode(status, &told); err != nil {
		return err
	}
	before := append(certConditions{}, told.Conditions...)
	told.Conditions.set(readyCondition, ready.status, ready.reason, ready.message, obj.GetGeneration(), m.now())
	if equality.Semantic.DeepEqual(before, told.Conditions) {
		return nil
	}
	written, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&told)
	if err != nil {
		return err
	}
	if status == nil {
		status = map[string]any{}
	}
	status["conditions"] = written["conditions"]
	obj.Object["status"] = status
	_, err = m.client.Resource(item.resource).Namespace(item.namespace).UpdateStatus(ctx, obj, metav1.UpdateOptions{FieldManager: "cert-manager-issuers"})
	return err
}

// readiness is the condition of an issuer; empty for one without a type, of which cert-manager tells nothing.
func (m *certManager) readiness(ctx context.Context, obj *unstructured.Unstructured) (condition, error) {
	spec, _, _ := unstructured.NestedMap(obj.Object, "spec")
	for kind, told := range outside {
		if spec[kind] != nil {
			return told, nil
		}
	}
	switch {
	case spec["selfSigned"] != nil:
		return condition{status: isTrue, reason: "IsReady"}, nil
	case spec["ca"] == nil:
		return condition{}, nil
	}
	const problem = "Error getting keypair for CA issuer: "
	a, err := m.authorityOf(ctx, obj)
	switch {
	case err != nil && a == nil:
		return condition{}, err
	case err != nil:
		return condition{isFalse, "ErrGetKeyPair", problem + err.Error()}, nil
	case !a.chain[0].IsCA:
		return condition{isFalse, "ErrInvalidKeyPair", problem + "certificate is not a CA"}, nil
	}
	return condition{isTrue, "KeyPairVerified", "Signing CA verified"}, nil
}

// keyPair is a key with its certificate, and those of the authorities above it.
type keyPair struct {
	chain []*x509.Certificate
	key   crypto.Signer
	// secret is where they are from, and gone says that it is not there.
	secret string
	gone   bool
}

// authorityOf reads the Secret of a ca issuer (pkg/util/kube/pki.go). An error beside a pair says what is wrong with the Secret.
func (m *certManager) authorityOf(ctx context.Context, issuer *unstructured.Unstructured) (*keyPair, error) {
	name, _, _ := unstructured.NestedString(issuer.Object, "spec", "ca", "secretName")
	namespace := issuer.GetNamespace()
	if namespace == "" {
		namespace = clusterNamespace
	}
	secret, err := m.client.Resource(secrets).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return &keyPair{secret: namespace + "/" + name, gone: true}, missing(name)
	}
	if err != nil {
		return nil, err
	}
	out := &keyPair{secret: namespace + "/" + name}
	for _, key := range []string{"tls.crt", "tls.key"} {
		if dataOf(secret, key) == "" {
			return out, fmt.Errorf("no data for %q in secret '%s'", key, out.secret)
		}
	}
	if out.chain, err = certificatesIn(dataOf(secret, "tls.crt")); err != nil {
		return out, err
	}
	if out.key, err = privateKeyIn(dataOf(secret, "tls.key")); err != nil {
		return out, err
	}
	if above := dataOf(secret, "ca.crt"); above != "" {
		top, err := certificateIn(above)
		if err != nil {
			return out, err
		}
		out.chain = append(out.chain, top)
	}
	return out, nil
}
