package fieldownership

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const me = "mlkeeper"

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u
}

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: d
  labels: {app: a}
  finalizers: [example.com/one]
spec:
  replicas: 2
  template:
    spec:
      containers:
      - name: x
        image: one
        args: [a, b]
        resources: {limits: {cpu: "1"}}
        ports:
        - containerPort: 80
          name: http
`

const live = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: d
  managedFields:
`

// entry is one managedFields entry.
func entry(manager, operation, at, fields string) string {
	return "  - {manager: " + manager + ", operation: " + operation + ", time: " + at +
		", apiVersion: apps/v1, fieldsType: FieldsV1, fieldsV1: " + fields + "}\n"
}

const (
	early = "2026-01-01T00:00:00Z"
	late  = "2026-01-01T00:00:01Z"

	container = `"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"x\"}":{".":{},"f:name":{},`
)

func TestInvariant11LostFieldsNameTheirHolder(t *testing.T) {
	for name, c := range map[string]struct {
		live string
		want []string
	}{
		"nobody else": {
			entry(me, "Apply", early, `{"f:spec":{"f:replicas":{}}}`), nil,
		},
		"a scalar": {
			entry(me, "Apply", early, `{"f:metadata":{"f:labels":{"f:app":{}}}}`) +
				entry("kubectl-edit", "Update", late, `{"f:spec":{"f:replicas":{}}}`),
			[]string{`spec.replicas (held by kubectl-edit)`},
		},
		"shared with us": {
			entry(me, "Apply", early, `{"f:spec":{"f:replicas":{}}}`) +
				entry("other", "Apply", late, `{"f:spec":{"f:replicas":{}}}`), nil,
		},
		"through a subresource": {
			entry("kube-controller-manager", "Update", late, `{"f:spec":{"f:replicas":{}}}`),
			[]string{`spec.replicas (held by kube-controller-manager)`},
		},
		"a keyed list item, a default in the key, an atomic list": {
			entry("other", "Update", late, `{`+container+`"f:image":{},"f:args":{},"f:ports":{".":{},"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:protocol":{}}}}}}}}}`),
			[]string{
				`spec.template.spec.containers[name="x"].args (held by other)`,
				`spec.template.spec.containers[name="x"].image (held by other)`,
				`spec.template.spec.containers[name="x"].name (held by other)`,
				`spec.template.spec.containers[name="x"].ports[containerPort=80,protocol="TCP"].name (held by other)`,
			},
		},
		"a set and a map": {
			entry("other", "Update", late, `{"f:metadata":{"f:finalizers":{".":{},"v:\"example.com/one\"":{}},"f:labels":{".":{},"f:app":{},"f:more":{}}}}`),
			[]string{`metadata.finalizers[="example.com/one"] (held by other)`, `metadata.labels.app (held by other)`},
		},
		"the container of what we hold": {
			entry(me, "Apply", early, `{`+container+`"f:resources":{"f:limits":{"f:cpu":{}}}}}}}}}`) +
				entry("other", "Update", late, `{`+container+`"f:resources":{}}}}}}}`), nil,
		},
		"what we do not declare": {
			entry("other", "Update", late, `{"f:spec":{"f:paused":{}},"f:status":{"f:replicas":{}}}`), nil,
		},
		"the latest of two": {
			entry("zeta", "Update", late, `{"f:spec":{"f:replicas":{}}}`) + entry("alpha", "Update", early, `{"f:spec":{"f:replicas":{}}}`),
			[]string{`spec.replicas (held by zeta)`},
		},
		"not readable": {
			entry("other", "Update", late, `{"x:spec":{}}`), nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range Lost(object(t, deployment), object(t, live+c.live), me) {
				got = append(got, f.String())
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got\n%q\nwant\n%q", got, c.want)
			}
		})
	}
	if Lost(nil, object(t, deployment), me) != nil || Lost(object(t, deployment), nil, me) != nil {
		t.Error("nothing to compare, and yet something lost")
	}
}
