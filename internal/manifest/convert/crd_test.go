package convert

import (
	"context"
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// acceptedByServer runs the API server's own validation of a new definition.
func acceptedByServer(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	raw, err := json.Marshal(u)
	if err != nil {
		t.Fatal(err)
	}
	var typed apiextensionsv1.CustomResourceDefinition
	if err := json.Unmarshal(raw, &typed); err != nil {
		t.Fatal(err)
	}
	crdScheme.Default(&typed)
	var internal apiextensions.CustomResourceDefinition
	if err := crdScheme.Convert(&typed, &internal, nil); err != nil {
		t.Fatal(err)
	}
	for _, problem := range validation.ValidateCustomResourceDefinition(context.Background(), &internal) {
		t.Errorf("%s: %v", u.GetName(), problem)
	}
}

const crdHead = `apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata: {name: widgets.x.io, creationTimestamp: null, labels: {a: b}}
status: {acceptedNames: {kind: ""}, conditions: [], storedVersions: []}
`

const crdWant = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.x.io, labels: {a: b}}
`

// TestDefinition pins the conversion of definitions: what v1 asks for is filled in, what v1beta1 kept is kept.
func TestDefinition(t *testing.T) {
	cases := map[string]struct{ in, want, warning string }{
		"without a schema": {
			in: crdHead + `spec: {group: x.io, version: v1alpha1, names: {plural: widgets, kind: Widget}}`,
			want: crdWant + `spec: {group: x.io, scope: Namespaced, conversion: {strategy: None},
names: {plural: widgets, kind: Widget, singular: widget, listKind: WidgetList},
versions: [{name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}`,
		},
		"with a structural schema": {
			in: crdHead + `spec:
  group: x.io
  scope: Cluster
  names: {plural: widgets, kind: Widget}
  subresources: {status: {}}
  additionalPrinterColumns: [{name: Age, type: date, JSONPath: .metadata.creationTimestamp}]
  validation: {openAPIV3Schema: {type: object, properties: {metadata: {type: object},
    spec: {type: object, properties: {list: {type: array, items: {type: object}}, size: {type: integer, default: 3}}},
    map: {type: object, additionalProperties: {type: object}}}}}
  versions: [{name: v1, served: true, storage: true}, {name: v1beta1, served: true, storage: false}]`,
			want: crdWant + `spec: {group: x.io, scope: Cluster, conversion: {strategy: None},
names: {plural: widgets, kind: Widget, singular: widget, listKind: WidgetList}, versions: [
{name: v1, served: true, storage: true, subresources: {status: {}},
additionalPrinterColumns: [{name: Age, type: date, jsonPath: .metadata.creationTimestamp}], schema: {openAPIV3Schema: &s
{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {metadata: {type: object},
  spec: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {size: {type: integer, default: 3},
    list: {type: array, items: {type: object, x-kubernetes-preserve-unknown-fields: true}}}},
  map: {type: object, additionalProperties: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}}},
{name: v1beta1, served: true, storage: false, subresources: {status: {}},
additionalPrinterColumns: [{name: Age, type: date, jsonPath: .metadata.creationTimestamp}], schema: {openAPIV3Schema: *s}}]}`,
		},
		"that pruned already": {
			in: crdHead + `spec: {group: x.io, preserveUnknownFields: false, names: {plural: widgets, kind: Widget},
versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}],
conversion: {strategy: Webhook, webhookClientConfig: {service: {name: s, namespace: ns}}}}`,
			want: crdWant + `spec: {group: x.io, scope: Namespaced, names: {plural: widgets, kind: Widget, singular: widget, listKind: WidgetList},
versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}],
conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1beta1], clientConfig: {service: {name: s, namespace: ns, port: 443}}}}}`,
		},
		"with a schema that is not structural": {
			in: crdHead + `spec: {group: x.io, version: v1, names: {plural: widgets, kind: Widget},
validation: {openAPIV3Schema: {properties: {spec: {default: {}, properties: {a: {type: string}}}}}}}`,
			want: crdWant + `spec: {group: x.io, scope: Namespaced, conversion: {strategy: None},
names: {plural: widgets, kind: Widget, singular: widget, listKind: WidgetList},
versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}`,
			warning: "CustomResourceDefinition widgets.x.io: the schema of v1 is not structural",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, warnings, err := today.Convert(parse(t, c.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(parse(t, c.want), got); diff != "" {
				t.Error(diff)
			}
			checkWarning(t, warnings, c.warning)
			acceptedByServer(t, got)
		})
	}
}

// TestProtectedGroup shows the annotation that v1 asks for in the groups of the Kubernetes community; one that is there
// stays.
func TestProtectedGroup(t *testing.T) {
	for annotations, want := range map[string]string{
		"{}": unapproved,
		"{api-approved.kubernetes.io: 'https://x/1'}": "https://x/1",
	} {
		got, _, err := today.Convert(parse(t, `{apiVersion: apiextensions.k8s.io/v1beta1, kind: CustomResourceDefinition,
metadata: {name: applications.app.k8s.io, annotations: `+annotations+`},
spec: {group: app.k8s.io, version: v1beta1, names: {plural: applications, kind: Application}}}`))
		if err != nil || got.GetAnnotations()["api-approved.kubernetes.io"] != want {
			t.Fatalf("%v, %v", got, err)
		}
		acceptedByServer(t, got)
	}
}

// TestLargeDefinitionsAreRefused holds what the manager takes for one of a few hundred kilobytes, in which every value becomes a schema.
func TestLargeDefinitionsAreRefused(t *testing.T) {
	definition := func(schemas int) *unstructured.Unstructured {
		u := parse(t, crdHead+`spec: {group: x.io, version: v1, names: {plural: widgets, kind: Widget}, validation: {openAPIV3Schema: {}}}`)
		mapAt(u.Object, "spec", "validation", "openAPIV3Schema")["allOf"] = make([]any, schemas)
		return u
	}
	c := Converter{Served: func(gvk schema.GroupVersionKind) bool { return gvk.Version == "v1" }}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := c.Convert(definition(maxDefinition + 1))
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; err == nil || !strings.Contains(err.Error(), "CustomResourceDefinition widgets.x.io") || took > 32 {
		t.Errorf("%v, with %d MiB", err, took)
	}
	if _, _, err := c.Convert(definition(1000)); err != nil {
		t.Error(err)
	}
}
