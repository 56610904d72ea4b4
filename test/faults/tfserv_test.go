package faults

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/tfserving"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/harness"
)

const tfservResource = "tfservs.servapi.dev-state.com"

var (
	tfservGVK    = v1alpha1.GroupVersion.WithKind("Tfserv")
	configMapGVK = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
)

// tfserv is Tfserv with all that its users do.
func tfserv() *Kind {
	return &Kind{
		Makes: making(`deployments\.apps/tfs`, `services/tfs-service`, `services/tfs-grpc`, `configmaps/tfs-config-[0-9a-f]{8}`, `configmaps/tfs-config-live`,
			`poddisruptionbudgets\.policy/tfs`, `servicemonitors\.monitoring\.coreos\.com/tfs`, `horizontalpodautoscalers\.autoscaling/tfs`,
			`scaledobjects\.keda\.sh/tfs`, `ingresses\.networking\.k8s\.io/tfs`, `httproutes\.gateway\.networking\.k8s\.io/tfs`,
			`grpcroutes\.gateway\.networking\.k8s\.io/tfs`, `deployments\.apps/tfs-canary`, `services/tfs-canary-service`,
			`configmaps/tfs-canary-config-[0-9a-f]{8}`, `servicemonitors\.monitoring\.coreos\.com/tfs-canary`),
		// docs/tfserv.md, "Canary".
		Apart: regexp.MustCompile(`^(deployments\.apps/tfs-canary|services/tfs-canary-service|scaledobjects\.keda\.sh/tfs)$`),
		Asks:  true, Name: "tfserv", GVK: tfservGVK, Resource: tfservResource, Controller: tfservController(tfserving.DefaultImage),
		Asking: func(pods http.RoundTripper) harness.Register {
			return fixture.TfservControllerOf(tfserving.Settings{ModelsEvery: patienceWithServers}, pods)
		},
		Workloads: tfservWorkloads(),
		Bases:     tfservBases(),
	}
}

func tfservController(image string) harness.Register {
	return harness.PerOperator(func() harness.Register { return fixture.TfservController(image, fixture.Nobody{}) })
}

const (
	modelsConfig = `
apiVersion: v1
kind: ConfigMap
metadata: {name: tf-serving-models-config}
data:
  models.conf: 'model_config_list { config { name: "resnet" base_path: "gs://b/resnet" model_platform: "tensorflow" } }'
---
`
	otherConfig = `{"data":{"models.conf":"model_config_list { config { name: \"other\" base_path: \"gs://b/other\" model_platform: \"tensorflow\" } }"}}`
	gcsSecret   = `
apiVersion: v1
kind: Secret
metadata: {name: tfs-secret}
stringData: {key.json: "{}"}
---
`
	seedTfserv = `
apiVersion: servapi.dev-state.com/v1alpha1
kind: Tfserv
metadata: {name: tfs}
spec:
  grpcPort: 9000
  restPort: 8500
  replicas: 3
  configMap: tf-serving-models-config
  configFileName: models.conf
  configFileLocation: /var/config/
  secretFileName: key.json
  secretFileLocation: /secret/gcp-credentials/
---
`
	inlineTfserv = `
apiVersion: servapi.dev-state.com/v1alpha1
kind: Tfserv
metadata: {name: tfs}
spec:
  replicas: 2
  models: [{name: resnet, basePath: "gs://b/resnet"}]
  monitoring: {}
  podDisruptionBudget: {maxUnavailable: 1}
---
`
	// fullTfserv has every child that a Tfserv can have at once: of the two autoscalers there can be one.
	fullTfserv = `
apiVersion: servapi.dev-state.com/v1alpha1
kind: Tfserv
metadata: {name: tfs}
spec:
  models: [{name: resnet, basePath: "gs://b/resnet", versionPolicy: {specific: {versions: [41]}}}]
  configReload: Poll
  monitoring: {}
  podDisruptionBudget: {maxUnavailable: 1}
  service: {headless: true}
  ingress: {host: models.example.com}
  httpRoute: {host: models.example.com, gateway: {name: public}}
  grpcRoute: {host: grpc.example.com, gateway: {name: public}}
  canary: {model: resnet, version: 42, weight: 10}
  autoscaling: {maxReplicas: 3, keda: {triggers: [{type: cron, metadata: {timezone: UTC, start: 0 0 1 1 *, end: 1 0 1 1 *, desiredReplicas: "2"}}]}}
---
`
	autoscaledTfserv = `
apiVersion: servapi.dev-state.com/v1alpha1
kind: Tfserv
metadata: {name: tfs}
spec:
  models: [{name: resnet, basePath: "gs://b/resnet"}]
  resources: {requests: {cpu: 10m}}
  autoscaling: {maxReplicas: 3}
---
`
)

// servesOther says that the other model is rolled out, and that the status knows it: where the spec is as it was, a Ready may
// be of what was served before.
func servesOther(w *World) error {
	u, cr := w.Get("deployments.apps", "tfs"), w.Get(tfservResource, "tfs")
	if u == nil || cr == nil || !strings.Contains(fmt.Sprint(u.Object["spec"]), "/v1/models/other/") {
		return errors.New("the Deployment serves the old model")
	}
	hash, _, _ := unstructured.NestedString(cr.Object, "status", "configHash")
	if hash != u.GetAnnotations()[keeper.AnnotationPrefix+"config-hash"] {
		return errors.New("the status tells of the old model")
	}
	return w.Ready()
}

// modelsServed says that the servers tell of their models.
func modelsServed(w *World) error {
	return w.Condition("tfs", tfserving.ConditionModelsAvailable, "True")
}

// tfservWorkloads are what users do with a Tfserv.
func tfservWorkloads() []Workload {
	seed := []Step{apply("create", modelsConfig+gcsSecret+seedTfserv, nil)}
	inline := []Step{apply("create", inlineTfserv, nil)}
	change := func(name, body string, until func(*World) error) Step {
		return Step{Name: name, Do: func(w *World) error { return w.Patch(tfservGVK, "tfs", body) }, Until: until}
	}
	away := Step{Name: "delete", Do: func(w *World) error { return w.Delete(tfservGVK, "tfs") }, Until: (*World).Gone}
	return []Workload{
		{Name: "create-seed", Short: true, Steady: true, Steps: seed},
		{Name: "create-inline", Short: true, Steady: true, Steps: inline},
		{
			Name: "full", Steady: true, Stands: regexp.MustCompile(`^(deployments|scaledobjects|ingresses|httproutes|grpcroutes)\.|/tfs-(grpc|canary.*|config-.*)$`),
			Steps: []Step{apply("create", fullTfserv, nil)},
		},
		{
			Name: "autoscaled", Steady: true, Stands: regexp.MustCompile(`^horizontalpodautoscalers\.`),
			Steps: []Step{apply("create", autoscaledTfserv, nil)},
		},
		{Name: "answered", Short: true, Server: "tfs", Plain: true, Steps: []Step{apply("create", inlineTfserv, modelsServed)}},
		{
			Name: "late-config", Same: "create-seed", Steps: []Step{
				apply("the custom resource alone", seedTfserv, condition("tfs", "Ready", "False", "ConfigMapNotFound")),
				apply("the rest", modelsConfig+gcsSecret, nil),
			},
		},
		{
			Name: "update-image", Short: true, Setup: seed,
			Steps: []Step{change("image", `{"spec":{"image":"tensorflow/serving:new"}}`, runs("tfs", "tensorflow/serving:new"))},
		},
		{
			Name: "change-ports", Setup: seed, Steps: []Step{change("ports", `{"spec":{"restPort":8600,"serviceType":"ClusterIP"}}`, func(w *World) error {
				if u := w.Get("services", "tfs-service"); u == nil || !strings.Contains(fmt.Sprint(u.Object["spec"]), "8600") {
					return errors.New("the Service has the old port")
				}
				return w.Ready()
			})},
		},
		{
			Name: "change-models", Setup: inline, Steps: []Step{
				change("other models", `{"spec":{"models":[{"name":"other","basePath":"gs://b/other"}]}}`, servesOther),
			},
		},
		{
			Name: "change-config", Setup: seed, Steps: []Step{{
				Name:  "another config",
				Do:    func(w *World) error { return w.Patch(configMapGVK, "tf-serving-models-config", otherConfig) },
				Until: servesOther,
			}},
		},
		{
			Name: "mend", Same: "create-seed", Setup: seed, Steps: []Step{
				{
					Name: "a config that the server refuses",
					Do: func(w *World) error {
						return w.Patch(configMapGVK, "tf-serving-models-config", `{"data":{"models.conf":"{"}}`)
					},
					Until: condition("tfs", "Stalled", "True", "ConfigInvalid"),
				},
				apply("the config that it was", modelsConfig, nil),
			},
		},
		{
			Name: "scale", Setup: seed, Steps: []Step{
				change("to 1", `{"spec":{"replicas":1}}`, replicas("tfs", 1)),
				change("to 0", `{"spec":{"replicas":0}}`, replicas("tfs", 0)),
			},
		},
		{Name: "delete", Short: true, Setup: seed, Steps: []Step{away}},
		{Name: "delete-inline", Setup: inline, Steps: []Step{away}},
		{Name: "replace", Setup: seed, Steps: slices.Concat([]Step{away}, inline)},
		{
			Name: "upgrade", Same: "create-seed", Controller: tfservController("tensorflow/serving:old"), Setup: seed,
			Steps: []Step{{Name: "upgrade", Do: (*World).Upgrade, Until: runs("tfs", tfserving.DefaultImage)}},
		},
	}
}
