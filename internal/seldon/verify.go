package seldon

import (
	"context"
	"fmt"

	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/helm"
	"mlkeeper.dev/internal/source"
)

// keyEndings are how the names of entries with public keys end, by provider.
var keyEndings = map[string][]string{source.ProviderCosign: {".pub"}, source.ProviderPGP: {".asc", ".gpg"}}

// readVerify reads the keys that the signature of a chart is verified with.
func (r *request) readVerify(ctx context.Context, read controller.Reader, v v1alpha1.Verification) error {
	field := r.from.Field + "." + source.FieldVerify
	if r.from.Chart == nil {
		return plan.Problem{
			Class: plan.Terminal, Reason: source.ReasonURIInvalid, Field: field, Value: v.Provider,
			Message: "an archive in a ConfigMap or Secret has no signature",
			Remedy:  "remove the field, or name the repository where the chart is published",
		}
	}
	gvk, ref, name := gvkSecret, v.SecretRef, ".secretRef"
	if ref == nil {
		gvk, ref, name = gvkConfigMap, v.ConfigMapRef, ".configMapRef"
	}
	if ref == nil {
		return plan.Problem{
			Class: plan.Terminal, Reason: source.ReasonKeysInvalid, Field: field, Value: v.Provider,
			Message: "no keys are named", Remedy: "set secretRef or configMapRef",
		}
	}
	keys, err := r.from.ReadKeys(ctx, read, gvk, r.namespace, field+name, ref.Name, keyEndings[v.Provider]...)
	if err != nil {
		return err
	}
	r.from.Chart.Verify = &source.Verify{Provider: v.Provider, Keys: keys}
	return nil
}

// misnamed says that a signed chart is not the one that is asked for: whoever signs several charts has not signed that one takes the place
// of another, or an old version that of a new one.
func (r request) misnamed(chart *helm.Chart) *plan.Problem {
	if r.chart.Verify == nil || chart.Name == r.chart.Name && source.InRange(r.chart.Version, chart.Version) {
		return nil
	}
	return &plan.Problem{
		Class: plan.Terminal, Reason: source.ReasonSignatureInvalid, Field: r.from.Field + "." + source.FieldVerify, Value: r.from.Name,
		Message: fmt.Sprintf("the chart that is signed is %s %s", chart.Name, chart.Version), Remedy: "find out who changed the repository",
	}
}
