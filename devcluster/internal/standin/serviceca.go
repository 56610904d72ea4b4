package standin

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"os"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
)

// What service-ca does is read from openshift/service-ca-operator at 6391e070: pkg/controller/servingcert/controller
// (secret_creating_controller.go, serving_cert_issuer.go), pkg/controller/cabundleinjector/configmap.go and pkg/controller/api.

var (
	services   = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	secrets    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

const (
	beta  = "service.beta.openshift.io/"
	alpha = "service.alpha.openshift.io/"
	// bundleKey is the key of the authority in what it is injected into, and published that of the ConfigMap with it that every
	// namespace has.
	bundleKey, published = "service-ca.crt", "openshift-service-ca.crt"
	// maxFailures is how often service-ca tries a Service.
	maxFailures = 10
	lifetime    = 2 * 365 * 24 * time.Hour
)

// authority signs the certificates of Services.
type authority struct {
	client dynamic.Interface
	cert   *x509.Certificate
	key    *rsa.PrivateKey
	pem    string
}

// serviceCA makes a Secret with a certificate for each Service that asks for one, and injects the authority into ConfigMaps.
func serviceCA(ctx context.Context, client dynamic.Interface) {
	a := &authority{client: client}
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		err := a.load(ctx)
		if err != nil {
			fmt.Fprintln(os.Stderr, "stand-in: service-ca:", err)
		}
		return err == nil, nil
	})
	if err != nil {
		return
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	itself := func(u *unstructured.Unstructured, enqueue func(*unstructured.Unstructured)) { enqueue(u) }
	go follow(ctx, factory.ForResource(namespaces).Informer(), itself, func(ns *unstructured.Unstructured) error { return a.publish(ctx, ns.GetName()) })
	go follow(ctx, factory.ForResource(configMaps).Informer(), itself, func(u *unstructured.Unstructured) error { return a.inject(ctx, u) })
	follow(ctx, factory.ForResource(services).Informer(), itself, func(u *unstructured.Unstructured) error { return a.serve(ctx, u) })
}

// load takes the authority from the Secret that service-ca keeps it in, so that another process goes on with the same.
func (a *authority) load(ctx context.Context) error {
	const namespace, name = "openshift-service-ca", "signing-key"
	stored, err := a.client.Resource(secrets).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			return err
		}
		now := time.Now()
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: fmt.Sprintf("openshift-service-serving-signer@%d", now.Unix())},
			NotBefore: now.Add(-time.Hour), NotAfter: now.Add(lifetime), IsCA: true, BasicConstraintsValid: true,
			KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			return err
		}
		ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}}}
		if _, err := a.client.Resource(namespaces).Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		secret := tlsSecret(namespace, name, encode("CERTIFICATE", der), encode("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)))
		if stored, err = a.client.Resource(secrets).Namespace(namespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	a.pem = dataOf(stored, "tls.crt")
	if a.cert, err = certificateIn(a.pem); err != nil {
		return err
	}
	block, _ := pem.Decode([]byte(dataOf(stored, "tls.key")))
	if block == nil {
		return errors.New("the Secret of the authority has no key")
	}
	a.key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	return err
}

// publish makes the ConfigMap that every namespace has.
func (a *authority) publish(ctx context.Context, namespace string) error {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
		"name": published, "namespace": namespace, "annotations": map[string]any{beta + "inject-cabundle": "true"},
	}}}
	_, err := a.client.Resource(configMaps).Namespace(namespace).Create(ctx, u, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) || apierrors.IsForbidden(err) { // The namespace is going.
		return nil
	}
	return ignoreGone(err)
}

// inject replaces all data of a ConfigMap that asks for it by the authority.
func (a *authority) inject(ctx context.Context, u *unstructured.Unstructured) error {
	marks := u.GetAnnotations()
	if marks[beta+"inject-cabundle"] != "true" && marks[alpha+"inject-cabundle"] != "true" {
		return nil
	}
	data, _, _ := unstructured.NestedStringMap(u.Object, "data")
	if len(data) == 1 && data[bundleKey] == a.pem {
		return nil
	}
	u = u.DeepCopy()
	u.Object["data"] = map[string]any{bundleKey: a.pem}
	if marks["openshift.io/owning-component"] == "" {
		marks["openshift.io/owning-component"] = "service-ca"
		u.SetAnnotations(marks)
	}
	_, err := a.client.Resource(configMaps).Namespace(u.GetNamespace()).Update(ctx, u, metav1.UpdateOptions{FieldManager: "service-ca-operator"})
	return ignoreGone(err)
}

// serve makes the Secret of a Service, and marks both. A Secret of somebody else is left alone: the Service says so, and is
// given up after ten times.
func (a *authority) serve(ctx context.Context, service *unstructured.Unstructured) error {
	marks := maps.Clone(service.GetAnnotations())
	name, prefix := marks[beta+"serving-cert-secret-name"], beta
	if name == "" {
		name, prefix = marks[alpha+"serving-cert-secret-name"], alpha
	}
	failures, _ := strconv.Atoi(marks[beta+"serving-cert-generation-error-num"])
	if name == "" || failures >= maxFailures {
		return nil
	}
	client := a.client.Resource(secrets).Namespace(service.GetNamespace())
	stored, err := client.Get(ctx, name, metav1.GetOptions{})
	if err == nil && a.fits(service, stored) {
		return nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err == nil && stored.GetAnnotations()[prefix+"originating-service-uid"] != string(service.GetUID()) {
		err = fmt.Errorf("secret %s/%s does not have corresponding service UID %s", service.GetNamespace(), name, service.GetUID())
	} else {
		err = a.issue(ctx, service, name, prefix, stored)
	}
	for _, p := range []string{alpha, beta} {
		if err != nil {
			marks[p+"serving-cert-generation-error"], marks[p+"serving-cert-generation-error-num"] = err.Error(), strconv.Itoa(failures+1)
			continue
		}
		marks[p+"serving-cert-signed-by"] = a.cert.Subject.CommonName
		delete(marks, p+"serving-cert-generation-error")
		delete(marks, p+"serving-cert-generation-error-num")
	}
	service = service.DeepCopy()
	service.SetAnnotations(marks)
	_, told := a.client.Resource(services).Namespace(service.GetNamespace()).Update(ctx, service, metav1.UpdateOptions{FieldManager: "service-ca-operator"})
	return errors.Join(err, ignoreGone(told))
}

// fits says that a Secret has a certificate of this authority for the names of the Service.
func (a *authority) fits(service, secret *unstructured.Unstructured) bool {
	cert, err := certificateIn(dataOf(secret, "tls.crt"))
	return err == nil && cert.Issuer.CommonName == a.cert.Subject.CommonName && slices.Equal(cert.DNSNames, namesOf(service))
}

// issue writes the Secret; stored is the one of an earlier certificate, if there is one.
func (a *authority) issue(ctx context.Context, service *unstructured.Unstructured, name, prefix string, stored *unstructured.Unstructured) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	now, names := time.Now(), namesOf(service)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		NotBefore: now.Add(-time.Second), NotAfter: now.Add(lifetime),
		KeyUsage: x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return err
	}
	// The certificate of the authority comes with it, as clients rely on.
	secret := tlsSecret(service.GetNamespace(), name, encode("CERTIFICATE", der)+a.pem, encode("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)))
	expiry := template.NotAfter.UTC().Format(time.RFC3339)
	secret.SetAnnotations(map[string]string{
		prefix + "originating-service-uid": string(service.GetUID()), prefix + "originating-service-name": service.GetName(),
		alpha + "expiry": expiry, beta + "expiry": expiry, "openshift.io/owning-component": "service-ca",
	})
	secret.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: service.GetName(), UID: service.GetUID()}})
	client := a.client.Resource(secrets).Namespace(service.GetNamespace())
	if stored != nil && stored.GetUID() != "" {
		_, err = client.Update(ctx, secret, metav1.UpdateOptions{FieldManager: "service-ca-operator"})
	} else {
		_, err = client.Create(ctx, secret, metav1.CreateOptions{FieldManager: "service-ca-operator"})
	}
	return err
}

// namesOf are the names in the certificate of a Service.
func namesOf(service *unstructured.Unstructured) []string {
	name := service.GetName() + "." + service.GetNamespace() + ".svc"
	out := []string{name, name + ".cluster.local"}
	if ip, _, _ := unstructured.NestedString(service.Object, "spec", "clusterIP"); ip == "None" {
		out = append(out, "*."+name, "*."+name+".cluster.local")
	}
	return out
}

func tlsSecret(namespace, name, cert, key string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
		"metadata": map[string]any{"namespace": namespace, "name": name},
		"data": map[string]any{
			"tls.crt": base64.StdEncoding.EncodeToString([]byte(cert)), "tls.key": base64.StdEncoding.EncodeToString([]byte(key)),
		},
	}}
}

func dataOf(secret *unstructured.Unstructured, key string) string {
	text, _, _ := unstructured.NestedString(secret.Object, "data", key)
	out, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return ""
	}
	return string(out)
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// certificateIn is the first certificate of a PEM text.
func certificateIn(text string) (*x509.Certificate, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("there is no certificate")
	}
	return x509.ParseCertificate(block.Bytes)
}
