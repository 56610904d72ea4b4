package kserve

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/internal/acm"
)

// iris is an InferenceService as users write it into a payload.
const iris = `{"apiVersion":"serving.kserve.io/v1beta1","kind":"InferenceService","metadata":{"name":"sklearn-iris","namespace":"kserve-test"},
"spec":{"predictor":{"model":{"modelFormat":{"name":"sklearn"},"storageUri":"gs://kfserving-examples/models/sklearn/1.0/model"},"minReplicas":1}}}`

const irisYAML = `
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: sklearn-iris, namespace: kserve-test}
spec: {predictor: {model: {modelFormat: {name: sklearn}, storageUri: "gs://kfserving-examples/models/sklearn/1.0/model"}, minReplicas: 1}}
`

// properties makes properties of values.
func properties(values map[string]any) acm.Properties {
	out := acm.Properties{}
	for key, value := range values {
		raw, err := json.Marshal(value)
		if err != nil {
			panic(err)
		}
		out[key] = raw
	}
	return out
}

func declared(name, namespace string, payload any) map[string]any {
	return map[string]any{
		"kserveInferenceEntityId": map[string]any{"name": "entity1", "version": "1.0.0"},
		"name":                    name, "namespace": namespace, "payload": payload,
	}
}

func list(entities ...map[string]any) map[string]any {
	return map[string]any{"kserveInferenceEntities": append([]map[string]any{}, entities...)}
}

// object is what a JSON text says.
func object(text string) map[string]any {
	out := map[string]any{}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		panic(err)
	}
	return out
}

// TestForms: the flat properties of the documentation and the list of the participant's code, payloads as JSON and YAML.
func TestForms(t *testing.T) {
	for name, values := range map[string]map[string]any{
		"the seed's flat properties":           declared("sklearn-iris", "kserve-test", iris),
		"a list":                               list(declared("sklearn-iris", "kserve-test", iris)),
		"YAML":                                 list(declared("sklearn-iris", "kserve-test", irisYAML)),
		"an object":                            list(declared("sklearn-iris", "kserve-test", object(iris))),
		"a payload that names itself":          list(map[string]any{"payload": iris}),
		"a payload without a name":             list(declared("sklearn-iris", "kserve-test", strings.Replace(iris, `"name":"sklearn-iris","namespace":"kserve-test"`, "", 1))),
		"beside properties of the definition":  {"provider": "ONAP", "startPhase": 0, "kserveInferenceEntities": []any{declared("sklearn-iris", "kserve-test", iris)}},
		"flat, beside those of the definition": merged(declared("sklearn-iris", "kserve-test", iris), map[string]any{"uninitializedToPassiveTimeout": 60}),
		"the marks of MLKeeper": list(declared("sklearn-iris", "kserve-test", strings.Replace(iris, `"metadata":{`, `"metadata":{
			"labels":{"keeper.mlkeeper.dev/stack":"x"},"annotations":{"keeper.mlkeeper.dev/adopted":"true","keeper.mlkeeper.dev/prune":"disabled"},`, 1))),
		"what others have put into the payload": list(declared("sklearn-iris", "kserve-test", strings.Replace(iris, `"metadata":{`, `"status":{"x":1},"metadata":{"uid":"1","resourceVersion":"2","finalizers":["x"],"ownerReferences":[{"name":"x"}],`, 1))),
	} {
		got, err := services(properties(values))
		if err != nil || len(got) != 1 {
			t.Errorf("%s: %v, %v", name, got, err)
			continue
		}
		want := &unstructured.Unstructured{Object: object(iris)}
		a, _ := json.Marshal(got[0].Object)
		b, _ := json.Marshal(want.Object)
		if string(a) != string(b) {
			t.Errorf("%s:\n%s, not\n%s", name, a, b)
		}
	}
}

// TestMarksOfUsers: what users set on an InferenceService stays.
func TestMarksOfUsers(t *testing.T) {
	got, err := services(properties(list(declared("sklearn-iris", "kserve-test", strings.Replace(iris, `"metadata":{`, `"metadata":{
		"labels":{"team":"a"},"annotations":{"keeper.mlkeeper.dev/wire":"false","serving.kserve.io/deploymentMode":"RawDeployment"},`, 1)))))
	if err != nil || len(got) != 1 || len(got[0].GetLabels()) != 1 || len(got[0].GetAnnotations()) != 2 {
		t.Errorf("%v, %v", got, err)
	}
}

func merged(maps ...map[string]any) map[string]any {
	out := map[string]any{}
	for _, m := range maps {
		for key, value := range m {
			out[key] = value
		}
	}
	return out
}

func TestRefusedProperties(t *testing.T) {
	many := make([]map[string]any, maxServices+1)
	for i := range many {
		many[i] = declared(fmt.Sprintf("s%d", i), "kserve-test", strings.Replace(iris, `"name":"sklearn-iris",`, "", 1))
	}
	bomb := irisYAML + "x: &x " + strings.Repeat("x", 100<<10) + "\ny: [" + strings.Repeat("*x, ", 20) + "]\n"
	half := make([]map[string]any, 20)
	for i := range half {
		half[i] = declared(fmt.Sprintf("s%d", i), "kserve-test", "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\n"+
			"spec: {x: &x "+strings.Repeat("x", 100<<10)+", y: ["+strings.Repeat("*x, ", 9)+"]}\n")
	}
	for name, c := range map[string]struct {
		values map[string]any
		want   []string
	}{
		"nothing":            {map[string]any{"provider": "ONAP"}, []string{"kserveInferenceEntities", "provider"}},
		"no list":            {map[string]any{"kserveInferenceEntities": 7}, []string{"kserveInferenceEntities", "list"}},
		"another name":       {list(declared("other", "kserve-test", iris)), []string{"kserveInferenceEntities[0].name", "other", "sklearn-iris"}},
		"a name with a dot":  {list(declared("sklearn.iris", "kserve-test", strings.Replace(iris, "sklearn-iris", "sklearn.iris", 1))), []string{"kserveInferenceEntities[0].name", "KServe"}},
		"a leading digit":    {list(declared("1-iris", "kserve-test", strings.Replace(iris, "sklearn-iris", "1-iris", 1))), []string{"kserveInferenceEntities[0].name", "KServe"}},
		"another namespace":  {list(declared("sklearn-iris", "other", iris)), []string{"kserveInferenceEntities[0].namespace", "kserve-test"}},
		"no namespace":       {list(declared("sklearn-iris", "", strings.Replace(iris, `,"namespace":"kserve-test"`, "", 1))), []string{"namespace", "none"}},
		"another kind":       {list(declared("sklearn-iris", "kserve-test", strings.Replace(iris, "InferenceService", "ClusterRoleBinding", 1))), []string{"payload", "ClusterRoleBinding"}},
		"another group":      {list(declared("sklearn-iris", "kserve-test", strings.Replace(iris, "serving.kserve.io", "apps", 1))), []string{"payload", "apps/v1beta1"}},
		"a label of 1":       {list(declared("sklearn-iris", "kserve-test", strings.Replace(iris, `"metadata":{`, `"metadata":{"labels":{"a":"b","x":1},`, 1))), []string{"payload", "metadata.labels.x is a number: write it in quotes"}},
		"annotated true":     {list(declared("sklearn-iris", "kserve-test", strings.Replace(iris, `"metadata":{`, `"metadata":{"annotations":{"sidecar.istio.io/userVolume":"[]","x":true},`, 1))), []string{"payload", "metadata.annotations.x is a boolean"}},
		"no payload":         {list(declared("sklearn-iris", "kserve-test", "")), []string{"payload"}},
		"neither of the two": {list(declared("sklearn-iris", "kserve-test", "{a")), []string{"payload", "neither JSON nor YAML"}},
		"twice the same":     {list(declared("sklearn-iris", "kserve-test", iris), declared("sklearn-iris", "kserve-test", iris)), []string{"kserveInferenceEntities[1].name", "kserveInferenceEntities[0]"}},
		"a bad name":         {list(declared("../x", "kserve-test", strings.Replace(iris, `"name":"sklearn-iris",`, "", 1))), []string{"name", "../x"}},
		"a bomb":             {list(declared("sklearn-iris", "kserve-test", bomb)), []string{"kserveInferenceEntities[0].payload", "too large", "alias", "etcd"}},
		"values":             {list(declared("sklearn-iris", "kserve-test", "["+strings.Repeat("[],", 1<<18)+"[]]")), []string{"payload", "too large"}},
		"much together":      {list(half...), []string{"kserveInferenceEntities[16].payload", "16 MiB", "split"}},
		"too many":           {list(many...), []string{"101", "split"}},
		"many of nothing":    {list(make([]map[string]any, 300_000)...), []string{"kserveInferenceEntities", "16 MiB", "split"}},
	} {
		got, err := services(properties(c.values))
		if err == nil {
			t.Errorf("%s gives %v", name, got)
			continue
		}
		for _, word := range c.want {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q does not say %q", name, err, word)
			}
		}
	}
}

func TestNoServices(t *testing.T) {
	if got, err := services(properties(list())); err != nil || len(got) != 0 {
		t.Errorf("an empty list gives %v, %v", got, err)
	}
}

// FuzzServices reads hostile payloads: whatever they hold, nothing but an InferenceService comes out.
func FuzzServices(f *testing.F) {
	f.Add("sklearn-iris", "kserve-test", iris)
	f.Add("sklearn-iris", "kserve-test", irisYAML)
	f.Add("", "", "a: &a [*a, *a]")
	f.Fuzz(func(t *testing.T, name, namespace, payload string) {
		got, err := services(properties(list(declared(name, namespace, payload))))
		if err != nil {
			return
		}
		for _, u := range got {
			if u.GroupVersionKind() != gvkService || u.GetName() == "" || u.GetNamespace() == "" || u.GetOwnerReferences() != nil {
				t.Errorf("a payload gives %v", u.Object)
			}
			_ = u.DeepCopy()
		}
	})
}
