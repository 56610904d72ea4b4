package thirdparty

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Kubeflow12 are the Secrets that the controllers of Kubeflow 1.2 make: cert-manager 0.11 as its flag --webhook-serving-secret and
// the Certificates of the applications say, Citadel of Istio 1.1 for each ServiceAccount, and the deployer of the cache of Pipelines 1.0
// (manifests of v1.2-branch: cert-manager/base/deployment.yaml, istio-install/base/istio-noauth.yaml, pipeline/upstream/base/cache-deployer).
var Kubeflow12 = []Secret{
	ofCertManager("cert-manager", "cert-manager-webhook-tls", "cert-manager-webhook", ""),
	ofCertManager("kubeflow", "webhook-certs", "admission-webhook-service", "admission-webhook-cert"),
	ofCertManager("kubeflow", "seldon-webhook-server-cert", "seldon-webhook-service", "seldon-serving-cert"),
	ofCertManager("kubeflow", "kfserving-webhook-server-cert", "kfserving-webhook-server-service", "serving-cert"),
	ofCitadel("istio.default", "istio-policy"),
	ofCitadel("istio.istio-galley-service-account", "istio-galley"),
	ofCitadel("istio.istio-sidecar-injector-service-account", "istio-sidecar-injector"),
	{
		Name: named("kubeflow", "webhook-server-tls"), Server: named("kubeflow", "cache-server"),
		Maker: named("kubeflow", "cache-deployer-deployment"), Chain: "cert.pem", Key: "key.pem",
	},
}

// OfCertificates are the Secrets that cert-manager makes for the Certificates among objects, each for the Service that its first DNS name
// is that of.
func OfCertificates(objects []*unstructured.Unstructured) []Secret {
	var out []Secret
	for _, u := range objects {
		if gvk := u.GroupVersionKind(); gvk.Group != "cert-manager.io" || gvk.Kind != "Certificate" {
			continue
		}
		names, _, _ := unstructured.NestedStringSlice(u.Object, "spec", "dnsNames")
		secret, _, _ := unstructured.NestedString(u.Object, "spec", "secretName")
		if len(names) == 0 || secret == "" {
			continue
		}
		service, _, _ := strings.Cut(names[0], ".")
		one := ofCertManager(u.GetNamespace(), secret, service, u.GetName())
		one.APIVersion = u.GetAPIVersion()
		out = append(out, one)
	}
	return out
}

func named(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func ofCertManager(namespace, name, service, certificate string) Secret {
	return Secret{
		Name: named(namespace, name), Server: named(namespace, service), Maker: named("cert-manager", "cert-manager"),
		Certificate: certificate, APIVersion: "cert-manager.io/v1alpha2", Chain: corev1.TLSCertKey, Key: corev1.TLSPrivateKeyKey,
	}
}

func ofCitadel(name, service string) Secret {
	return Secret{
		Name: named("istio-system", name), Server: named("istio-system", service), Maker: named("istio-system", "istio-citadel"),
		Chain: "cert-chain.pem", Key: "key.pem",
	}
}
