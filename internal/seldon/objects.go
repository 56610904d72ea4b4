package seldon

import (
	"encoding/base64"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
)

var (
	gvkSecret         = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	gvkConfigMap      = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	gvkService        = schema.GroupVersionKind{Version: "v1", Kind: "Service"}
	gvkNamespace      = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	gvkGateway        = schema.GroupVersionKind{Group: "networking.istio.io", Version: "v1", Kind: "Gateway"}
	gvkVirtualService = schema.GroupVersionKind{Group: "networking.istio.io", Version: "v1", Kind: "VirtualService"}
	gvkBroker         = schema.GroupVersionKind{Group: "eventing.knative.dev", Version: "v1", Kind: "Broker"}
	gvkTrigger        = schema.GroupVersionKind{Group: "eventing.knative.dev", Version: "v1", Kind: "Trigger"}
	gvkKnativeService = schema.GroupVersionKind{Group: "serving.knative.dev", Version: "v1", Kind: "Service"}
)

// labels are those of the objects that come from no chart.
var labels = map[string]string{"app.kubernetes.io/part-of": "seldon", "app.kubernetes.io/managed-by": "mlkeeper"}

// secretsOf are the Secrets that the operator makes. Those with passwords outlive the SeldonOperator, since the volumes that
// they unlock do.
func secretsOf(cr *v1alpha1.SeldonOperator, facts Facts) []plan.Object {
	generated := secret(cr, keysName(cr), facts.Keys.data)
	generated.IfNotPresent, generated.Generated = facts.Keys.absent, facts.Keys.remade
	out := []plan.Object{generated}
	if facts.KeepsRevisions {
		data := map[string][]byte{}
		for _, part := range facts.Parts {
			if part.Rollback.Kept != nil {
				data[part.name] = part.Rollback.Kept
			}
		}
		revisions := secret(cr, revisionsName(cr), data)
		revisions.IfNotPresent = facts.RevisionsAbsent
		out = append(out, revisions)
	}
	if facts.Postgres.Text != "" && !facts.Postgres.Theirs {
		password := []byte(facts.Postgres.Text)
		o := secret(cr, postgresSecret, map[string][]byte{
			"dbname": []byte(postgresDatabase), "host": []byte(postgresHost + "." + cr.Namespace), "user": []byte("postgres"),
			"port": []byte("5432"), "sslmode": []byte("disable"), "password": password,
			// The names that versions of the chart look for.
			"postgres-password": password, "postgresql-password": password,
		})
		o.Retain, o.IfNotPresent = true, facts.Postgres.Absent
		out = append(out, o)
	}
	if facts.Elastic.Text != "" && !facts.Elastic.Theirs {
		o := secret(cr, elasticSecret, map[string][]byte{"username": []byte("admin"), "password": []byte(facts.Elastic.Text)})
		o.Retain, o.IfNotPresent = true, facts.Elastic.Absent
		out = append(out, o)
	}
	return out
}

func secret(cr *v1alpha1.SeldonOperator, name string, data map[string][]byte) plan.Object {
	encoded := make(map[string]any, len(data))
	for key, value := range data {
		encoded[key] = base64.StdEncoding.EncodeToString(value)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"type": string(corev1.SecretTypeOpaque), "data": encoded}}
	u.SetGroupVersionKind(gvkSecret)
	u.SetNamespace(cr.Namespace)
	u.SetName(name)
	u.SetLabels(labels)
	return plan.Object{Desired: u}
}

// gateway is the simple HTTP Gateway of Seldon's documentation.
func gateway(cr *v1alpha1.SeldonOperator, version string) plan.Object {
	gvk := gvkGateway
	if version != "" {
		gvk.Version = version
	}
	return plan.Foreign(gvk, cr.Namespace, gatewayName, labels, map[string]any{
		"selector": map[string]any{"istio": "ingressgateway"},
		"servers": []any{map[string]any{
			"port":  map[string]any{"number": int64(80), "name": "http", "protocol": "HTTP"},
			"hosts": []any{"*"},
		}},
	})
}

// broker takes the payloads that the request logger is triggered by.
func broker(cr *v1alpha1.SeldonOperator) plan.Object {
	return plan.Foreign(gvkBroker, cr.Namespace, brokerName, labels, map[string]any{})
}

// alias makes the address that detectors answer to by default one of the request logger (a known issue of the meta-operator).
func alias(cr *v1alpha1.SeldonOperator, domain string) plan.Object {
	return plan.Typed(gvkService, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: loggerService, Namespace: loggerAliasNamespace, Labels: labels},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeExternalName, ExternalName: loggerService + "." + cr.Namespace + ".svc." + domain,
		},
	})
}

// aliasNamespace is the namespace of the alias, where it is not there.
func aliasNamespace() plan.Object {
	return plan.Typed(gvkNamespace, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: loggerAliasNamespace, Labels: labels}})
}
