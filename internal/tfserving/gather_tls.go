package tfserving

import (
	"cmp"
	"context"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
)

// tls reads the Secret with the TLS of the gRPC API, which a server reads once.
func (g *gathering) tls(ctx context.Context) error {
	if g.cr.Spec.Server == nil || g.cr.Spec.Server.TLS == nil {
		return nil
	}
	name, key := g.cr.Spec.Server.TLS.SecretName, cmp.Or(g.cr.Spec.Server.TLS.Key, defaultTLSKey)
	secret, err := g.read.Referenced(ctx, gvkSecret, g.cr.Namespace, name)
	if err != nil {
		return err
	}
	if secret == nil {
		g.problem(plan.Waiting, reasonSecretNotFound, "spec.server.tls.secretName", name, "there is no Secret of this name in the namespace",
			"create it with a SSLConfig of TensorFlow Serving under the key "+key)
		return nil
	}
	data := controller.Only(controller.SecretData(secret), key)
	if len(data[key]) == 0 {
		g.problem(plan.Waiting, reasonSecretKeyNotFound, "spec.server.tls.key", key, "the Secret "+name+" has no such key",
			"add a SSLConfig of TensorFlow Serving under it, or name the key that has one")
		return nil
	}
	g.secrets = append(g.secrets, data)
	return nil
}
