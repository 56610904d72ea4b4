package trustyai

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/plan"
)

// The kinds that the room renders or reads, in the versions it does so.
var (
	gvkSecret         = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	gvkConfigMap      = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	gvkService        = schema.GroupVersionKind{Version: "v1", Kind: "Service"}
	gvkServiceAccount = schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}
	gvkClaim          = schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}
	gvkVolume         = schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolume"}
	gvkDeployment     = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	gvkBinding        = schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"}
	gvkRoute          = schema.GroupVersionKind{Group: "route.openshift.io", Version: "v1", Kind: "Route"}
	gvkServiceMonitor = schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "ServiceMonitor"}
	gvkCertificate    = schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"}
	gvkIssuer         = schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Issuer"}
	gvkServiceCA      = schema.GroupVersionKind{Group: "operator.openshift.io", Version: "v1", Kind: "ServiceCA"}
	gvkConstraints    = schema.GroupVersionKind{Group: "security.openshift.io", Version: "v1", Kind: "SecurityContextConstraints"}
)

// toObject converts a typed object for the plan. Its fields are plain API types, which always convert.
func toObject(gvk schema.GroupVersionKind, obj any) plan.Object {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		panic(fmt.Sprintf("bug: %s does not convert: %v", gvk.Kind, err))
	}
	delete(content, "status")
	prune(content)
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvk)
	return plan.Object{Desired: u}
}

// prune takes out what Go types print and nobody declared: nulls, such as creationTimestamp, and the empty structs
// resources and strategy. Other empty structs may mean something, such as a selector that selects everything.
func prune(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			m, isMap := item.(map[string]any)
			if item == nil || isMap && len(m) == 0 && (key == "resources" || key == "strategy") {
				delete(v, key)
				continue
			}
			prune(item)
		}
	case []any:
		for _, item := range v {
			prune(item)
		}
	}
}

// foreign makes an object of a third party's kind.
func foreign(gvk schema.GroupVersionKind, namespace, name string, labels map[string]string, spec map[string]any) plan.Object {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(namespace)
	u.SetName(name)
	if len(labels) > 0 {
		u.SetLabels(labels)
	}
	return plan.Object{Desired: u, Optional: true}
}
