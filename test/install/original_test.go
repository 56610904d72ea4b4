package install

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"mlkeeper.dev/test/cluster"
)

// original is an original operator's kind as it stands in a cluster when MLKeeper comes.
type original struct {
	// definition, plural and group name the CustomResourceDefinition and its resource.
	definition, plural, group string
	// releases are the definitions of its releases, the oldest first, each with objects that were created under it.
	releases []release
	// legacy says that the definition was applied as apiextensions v1beta1, which pruned nothing.
	legacy bool
	// versions are those that MLKeeper serves, and stored those in which objects are stored.
	versions, stored []string
	// change is a merge patch of the spec that users make, and path are the names of the field that it changes.
	change, path string
}

type release struct{ definition, objects string }

func (o *original) resource(version string) string { return o.plural + "." + version + "." + o.group }

// tasSchema is the schema of both versions of a TrustyAIService, shortened.
const tasSchema = `{openAPIV3Schema: {type: object, properties: {
        apiVersion: {type: string}, kind: {type: string}, metadata: {type: object}, status: {type: object},
        spec: {type: object, required: [metrics, storage], properties: {
          data: {type: object, required: [filename, format], properties: {filename: {type: string}, format: {type: string}}},
          metrics: {type: object, required: [schedule], properties: {batchSize: {type: integer}, schedule: {type: string}}},
          replicas: {type: integer, format: int32},
          storage: {type: object, required: [format], properties: {databaseConfigurations: {type: string}, folder: {type: string}, format: {type: string}, size: {type: string}}}}}}}}`

// tasHead begins upstream's definitions, with the annotation of its controller-gen.
const tasHead = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: trustyaiservices.trustyai.opendatahub.io
  annotations: {controller-gen.kubebuilder.io/version: v0.20.0}
spec:
  group: trustyai.opendatahub.io
  names: {kind: TrustyAIService, listKind: TrustyAIServiceList, plural: trustyaiservices, singular: trustyaiservice}
  scope: Namespaced
`

// tasFirst is the definition of the releases that had one version.
const tasFirst = tasHead + `  versions:
    - {name: v1alpha1, served: true, storage: true, subresources: {status: {}}, schema: ` + tasSchema + `}
`

// upstream has the shape of the definition of the upstream operator: two versions of which v1 is stored, and a webhook of its
// own that converts (trustyai-service-operator at 11c335b, config/components/tas: the crd, and
// patches/webhook_in_trustyaiservices.yaml).
const upstream = tasHead + `  conversion:
    strategy: Webhook
    webhook:
      clientConfig: {service: {namespace: opendatahub, name: trustyai-webhook-service, path: /convert}}
      conversionReviewVersions: [v1]
  versions:
    - {name: v1, served: true, storage: true, subresources: {status: {}}, schema: &schema ` + tasSchema + `}
    - {name: v1alpha1, served: true, storage: false, subresources: {status: {}}, schema: *schema}
`

// tasObject is a service that upstream keeps, stored in a version.
func tasObject(version, name string) string {
	return `apiVersion: trustyai.opendatahub.io/` + version + `
kind: TrustyAIService
metadata: {name: ` + name + `, namespace: default}
spec:
  storage: {format: PVC, folder: /data, size: 1Gi}
  data: {filename: data.csv, format: CSV}
  metrics: {schedule: 5s, batchSize: 5000}
`
}

var trustyaiService = original{
	definition: tasDefinition, plural: "trustyaiservices", group: "trustyai.opendatahub.io",
	releases: []release{{tasFirst, tasObject("v1alpha1", "older")}, {upstream, tasObject("v1", "old")}},
	versions: []string{"v1", "v1alpha1"}, stored: []string{"v1alpha1", "v1"},
	change: `{"spec":{"metrics":{"schedule":"%s"}}}`, path: "spec.metrics.schedule",
}

// kfdefNames are in the definitions of kfctl's operator and of Open Data Hub's, deploy/crds/kfdef.apps.kubeflow.org_kfdefs_crd.yaml.
const kfdefNames = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kfdefs.kfdef.apps.kubeflow.org}
spec:
  group: kfdef.apps.kubeflow.org
  names: {kind: KfDef, listKind: KfDefList, plural: kfdefs, singular: kfdef}
  scope: Namespaced
  versions:
`

const kfdefObject = `apiVersion: kfdef.apps.kubeflow.org/v1
kind: KfDef
metadata: {name: old, namespace: default}
spec:
  version: v1.2-branch
  repos: [{name: manifests, uri: "https://example.com/manifests.tar.gz"}]
  applications:
    - name: istio
      kustomizeConfig: {repoRef: {name: manifests, path: stacks/istio}, parameters: [{name: namespace, value: istio-system}]}
`

// originals are the kinds that MLKeeper shares with an original without a webhook.
var originals = map[string]original{
	// kfctl at c5c55f6: apiextensions v1beta1, spec and status without properties.
	"kfctl": {
		definition: "kfdefs.kfdef.apps.kubeflow.org", plural: "kfdefs", group: "kfdef.apps.kubeflow.org", legacy: true,
		releases: []release{{kfdefNames + `    - {name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, properties: {
        apiVersion: {type: string}, kind: {type: string}, metadata: {type: object}, spec: {type: object}, status: {type: object}}}}}
`, kfdefObject}},
		versions: []string{"v1", "v1beta1"}, stored: []string{"v1"},
		change: `{"spec":{"version":"%s"}}`, path: "spec.version",
	},
	// opendatahub-operator at 040e793, whose lists keep unknown fields.
	"Open Data Hub": {
		definition: "kfdefs.kfdef.apps.kubeflow.org", plural: "kfdefs", group: "kfdef.apps.kubeflow.org",
		releases: []release{{kfdefNames + `    - {name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, properties: {
        apiVersion: {type: string}, kind: {type: string}, metadata: {type: object},
        spec: {type: object, properties: {version: {type: string},
          applications: {type: array, items: {type: object, x-kubernetes-preserve-unknown-fields: true}},
          repos: {type: array, items: {type: object, x-kubernetes-preserve-unknown-fields: true}}}},
        status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}}
`, kfdefObject}},
		versions: []string{"v1", "v1beta1"}, stored: []string{"v1"},
		change: `{"spec":{"version":"%s"}}`, path: "spec.version",
	},
	// The tutorial's definition: kubebuilder 2 with trivialVersions, so apiextensions v1beta1, without a status subresource.
	"Tfserv": {
		definition: "tfservs.servapi.dev-state.com", plural: "tfservs", group: "servapi.dev-state.com", legacy: true,
		releases: []release{{`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: tfservs.servapi.dev-state.com, annotations: {controller-gen.kubebuilder.io/version: v0.2.2}}
spec:
  group: servapi.dev-state.com
  names: {kind: Tfserv, listKind: TfservList, plural: tfservs, singular: tfserv}
  scope: Namespaced
  versions:
    - {name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {
        apiVersion: {type: string}, kind: {type: string}, metadata: {type: object},
        spec: {type: object, properties: {grpcPort: {type: integer, format: int32}, restPort: {type: integer, format: int32}, replicas: {type: integer, format: int32},
          configMap: {type: string}, configFileName: {type: string}, configFileLocation: {type: string}, secretFileName: {type: string}, secretFileLocation: {type: string}}},
        status: {type: object, properties: {active: {type: array, items: {type: object}}}}}}}}
`, `apiVersion: servapi.dev-state.com/v1alpha1
kind: Tfserv
metadata: {name: old, namespace: default}
spec:
  grpcPort: 9000
  restPort: 8500
  replicas: 3
  configMap: tf-serving-models-config
  configFileName: models.conf
  configFileLocation: /var/config/
  secretFileName: test-apps-model-viewer.json
  secretFileLocation: /secret/gcp-credentials/
`}},
		versions: []string{"v1alpha1"}, stored: []string{"v1alpha1"},
		change: `{"spec":{"configFileName":"%s"}}`, path: "spec.configFileName",
	},
	// The definition is not public; the operator's documentation has the manifests, whose Helm values are free.
	"SeldonOperator": {
		definition: "seldonoperators.operator.seldon.io", plural: "seldonoperators", group: "operator.seldon.io",
		releases: []release{{`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: seldonoperators.operator.seldon.io}
spec:
  group: operator.seldon.io
  names: {kind: SeldonOperator, listKind: SeldonOperatorList, plural: seldonoperators, singular: seldonoperator}
  scope: Namespaced
  versions:
    - {name: v1alpha1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, properties: {
        apiVersion: {type: string}, kind: {type: string}, metadata: {type: object},
        spec: {type: object, x-kubernetes-preserve-unknown-fields: true}, status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}}
`, `apiVersion: operator.seldon.io/v1alpha1
kind: SeldonOperator
metadata: {name: old, namespace: default}
spec:
  enable: {analytics: true, routing: true}
  routing: {create_gateway: false}
  core: {values: {istio: {enabled: true, gateway: istio-system/seldon-gateway}}}
`}},
		versions: []string{"v1alpha1"}, stored: []string{"v1alpha1"},
		change: `{"spec":{"core":{"values":{"image":{"tag":"%s"}}}}}`, path: "spec.core.values.image.tag",
	},
}

// stand puts the definitions and objects into a cluster, in order, the way they were applied.
func (o *original) stand(t *testing.T, c *cluster.Cluster, apply ...string) {
	t.Helper()
	for _, r := range o.releases {
		for name, text := range map[string]string{"crd.yaml": r.definition, "cr.yaml": r.objects} {
			if err := os.WriteFile(filepath.Join(c.Dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c.Kubectl(t, append(slices.Clone(apply), "-f", filepath.Join(c.Dir, "crd.yaml"))...)
		if o.legacy {
			preserveUnknownFields(t, c, o.definition)
		}
		// The API server takes a moment until a definition that has changed is what it serves.
		cluster.Eventually(t, time.Minute, func() error {
			_, err := c.TryKubectl("apply", "-f", filepath.Join(c.Dir, "cr.yaml"))
			return err
		})
	}
}

// preserveUnknownFields gives a definition what one has that was applied as apiextensions v1beta1, to a release of Kubernetes that still
// served that. No API server takes it any more, so it is written to etcd.
func preserveUnknownFields(t *testing.T, c *cluster.Cluster, name string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(c.Dir, "state.json"))
	if err != nil {
		t.Fatal(err)
	}
	var state struct {
		Spec struct {
			Ports struct {
				Etcd int `json:"etcd"`
			} `json:"ports"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(raw, &state); err != nil || state.Spec.Ports.Etcd == 0 {
		t.Fatalf("state.json: %v\n%s", err, raw)
	}
	key := []byte("/registry/apiextensions.k8s.io/customresourcedefinitions/" + name)
	etcd := func(verb string, request, response any) {
		body, err := json.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.Post(fmt.Sprintf("http://127.0.0.1:%d/v3/kv/%s", state.Spec.Ports.Etcd, verb), "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		if err := json.NewDecoder(answer.Body).Decode(response); err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v", verb, answer.Status, err)
		}
	}
	var found struct {
		Kvs []struct {
			Value []byte `json:"value"`
		} `json:"kvs"`
	}
	etcd("range", map[string]any{"key": key}, &found)
	if len(found.Kvs) != 1 {
		t.Fatalf("etcd has %d of %s", len(found.Kvs), name)
	}
	var definition map[string]any
	if err := json.Unmarshal(found.Kvs[0].Value, &definition); err != nil {
		t.Fatalf("%s is not JSON: %v: %s", name, err, base64.StdEncoding.EncodeToString(found.Kvs[0].Value))
	}
	definition["spec"].(map[string]any)["preserveUnknownFields"] = true
	value, err := json.Marshal(definition)
	if err != nil {
		t.Fatal(err)
	}
	etcd("put", map[string]any{"key": key, "value": value}, &map[string]any{})
	if d := definitionOf(t, c, name); !d.Spec.PreserveUnknownFields {
		t.Fatalf("%s prunes: %+v", name, d.Spec)
	}
}
