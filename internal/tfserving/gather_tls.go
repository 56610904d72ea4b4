package tfserving

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/tfserving/sslconfig"
)

// tls reads the Secret with the TLS of the gRPC API, which a server reads once.
func (g *gathering) tls(ctx context.Context) error {
	if g.cr.Spec.Server == nil || g.cr.Spec.Server.TLS == nil {
		return nil
	}
	spec := g.cr.Spec.Server.TLS
	name, key := spec.SecretName, cmp.Or(spec.Key, defaultTLSKey)
	secret, err := g.read.Referenced(ctx, gvkSecret, g.cr.Namespace, name)
	if err != nil {
		return err
	}
	if secret == nil {
		g.problem(plan.Waiting, reasonSecretNotFound, "spec.server.tls.secretName", name, "there is no Secret of this name in the namespace",
			"create it with a SSLConfig of TensorFlow Serving under the key "+key+", or as a Secret of the type kubernetes.io/tls")
		return nil
	}
	data := controller.SecretData(secret)
	if g.facts.TLSPair = isPair(spec, secret); g.facts.TLSPair {
		g.pair(data)
		return nil
	}
	data = controller.Only(data, key)
	if len(data[key]) == 0 {
		g.problem(plan.Waiting, reasonSecretKeyNotFound, "spec.server.tls.key", key, "the Secret "+name+" has no such key",
			"add a SSLConfig of TensorFlow Serving under it, or name the key that has one")
		return nil
	}
	config, err := sslconfig.Parse(data[key], g.cr.Spec.Image != "")
	if err != nil {
		g.refusedTLS(name+"/"+key, err)
	}
	g.facts.TLSAdmitsNobody = config.Verifies && !config.Authority
	g.secrets = append(g.secrets, data)
	return nil
}

// isPair says that a Secret has a certificate with its key, of which the SSLConfig is made when a pod starts. One that has a SSLConfig besides is
// served with that.
func isPair(spec *v1alpha1.ServerTLSSpec, secret *unstructured.Unstructured) bool {
	kind, _, _ := unstructured.NestedString(secret.Object, "type")
	written := len(controller.SecretData(secret)[defaultTLSKey]) > 0
	return spec.Key == "" && kind == string(corev1.SecretTypeTLS) && !written
}

// pair checks a Secret with a certificate and its key. The API server asks for both keys, be they empty.
func (g *gathering) pair(data map[string][]byte) {
	data = controller.Only(data, corev1.TLSPrivateKeyKey, corev1.TLSCertKey)
	if err := sslconfig.Pair(data[corev1.TLSPrivateKeyKey], data[corev1.TLSCertKey]); err != nil {
		g.refusedTLS(g.cr.Spec.Server.TLS.SecretName, err)
	}
	g.secrets = append(g.secrets, data)
}

func (g *gathering) refusedTLS(value string, err error) {
	g.problem(plan.Terminal, reasonConfigInvalid, "spec.server.tls.secretName", value, "TensorFlow Serving would end at its start: "+err.Error(),
		"correct the Secret; servers that run keep what they have read, but one that starts meanwhile ends")
}
