package faults

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/trustyai"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/harness"
)

var (
	secretGVK    = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	inferenceGVK = schema.GroupVersionKind{Group: "serving.kserve.io", Version: "v1beta1", Kind: "InferenceService"}
)

// trustyAI is TrustyAIService with all that its users do.
func trustyAI() *Kind {
	return &Kind{
		Makes: trustyAIMakes(),
		Name:  "trustyai", GVK: fixture.GVK, Resource: "trustyaiservices.trustyai.opendatahub.io",
		Controller: trustyAIController(trustyai.DefaultImage),
		Workloads:  trustyAIWorkloads(),
		Bases:      trustyAIBases(),
		Yields:     regexp.MustCompile(`^configmaps/kserve-logger-ca-bundle$`),
	}
}

// trustyAIMakes are the children of the services of the workloads. One is named as the Service of another with the certificate of the proxy.
func trustyAIMakes() []Child {
	const service = `(data|tas|trustyai-service)(-tls)?`
	return slices.Concat(
		making(`deployments\.apps/`+service, `services/`+service, `services/`+service+`-tls`, `persistentvolumeclaims/`+service+`-pvc`,
			`configmaps/`+service+`-kube-rbac-proxy-config`, `configmaps/`+service+`-gateway-ca`, `configmaps/kserve-logger-ca-bundle`,
			`secrets/`+service+`-(tls|internal|ca)`, `serviceaccounts/`+service+`-proxy`,
			`clusterrolebindings\.rbac\.authorization\.k8s\.io/mlkeeper:trustyai-proxy:NS:(data|plain|tas)`,
			`networkpolicies\.networking\.k8s\.io/`+service+`-secured`, `routes\.route\.openshift\.io/(trustyai|`+service+`)`,
			`servicemonitors\.monitoring\.coreos\.com/(trustyai-metrics|`+service+`)`, `ingresses\.networking\.k8s\.io/`+service,
			`httproutes\.gateway\.networking\.k8s\.io/`+service, `backendtlspolicies\.gateway\.networking\.k8s\.io/`+service,
			`poddisruptionbudgets\.policy/`+service),
		lacking("with the definitions of cert-manager, whose controllers are not there, no Secured service gets certificates; test/certmanager has them",
			`certificates\.cert-manager\.io/.*`, `issuers\.cert-manager\.io/.*`),
	)
}

func trustyAIController(image string) harness.Register {
	settings := trustyai.Settings{Image: image, ProxyImage: trustyai.DefaultProxyImage}
	return harness.Controller(trustyai.Definition(), trustyai.New(settings))
}

// The manifests of the workloads. "NS" is the namespace of the run.
var (
	plainVolume   = fixture.VolumeFor("pv-NS", "NS", "trustyai-service-pvc") + "---\n"
	securedVolume = fixture.VolumeFor("pv-NS", "NS", "tas-pvc") + "---\n"
)

const (
	meshConfig = fixture.MeshConfig + "---\n"
	model      = `
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: model, annotations: {owner: stays}}
spec: {predictor: {model: {modelFormat: {name: sklearn}, storageUri: "s3://bucket/model"}}}
---
`
	plainService = `
apiVersion: trustyai.opendatahub.io/v1alpha1
kind: TrustyAIService
metadata: {name: plain}
spec:
  storage: {format: PVC, folder: /inputs, pv: pv-NS, size: 1Gi}
  data: {filename: data.csv, format: CSV}
  trustyaiMetrics: {schedule: 15s}
---
`
	securedService = `
apiVersion: trustyai.opendatahub.io/v1
kind: TrustyAIService
metadata: {name: tas}
spec:
  storage: {format: PVC, folder: /inputs, size: 1Gi}
  data: {filename: data.csv, format: CSV}
  metrics: {schedule: 5s, batchSize: 1000}
---
`
	// fullService has every child of a Secured service that a user has to ask for.
	fullService = `
apiVersion: trustyai.opendatahub.io/v1
kind: TrustyAIService
metadata: {name: tas}
spec:
  storage: {format: PVC, folder: /inputs, size: 1Gi}
  data: {filename: data.csv, format: CSV}
  metrics: {schedule: 5s, batchSize: 1000}
  podDisruptionBudget: {maxUnavailable: 1}
  ingress: {host: tas.example.com}
  httpRoute: {host: tas.example.com, gateway: {name: public}}
---
`
	databaseService = `
apiVersion: trustyai.opendatahub.io/v1
kind: TrustyAIService
metadata: {name: data}
spec:
  exposure: Plain
  storage: {format: DATABASE, databaseConfigurations: db}
  metrics: {schedule: 5s}
---
`
	credentials = `
apiVersion: v1
kind: Secret
metadata: {name: db}
stringData:
  databaseKind: mariadb
  databaseUsername: u
  databasePassword: hunter2hunter2
  databaseService: db
  databasePort: "3306"
  databaseName: trustyai
  databaseGeneration: update
---
`
)

// apply is a step that applies manifests.
func apply(name, text string, until func(*World) error) Step {
	return Step{Name: name, Do: func(w *World) error { return w.Apply(text) }, Until: until}
}

// patch is a step that changes a TrustyAIService.
func patch(name, service, body string, until func(*World) error) Step {
	return Step{Name: name, Do: func(w *World) error { return w.Patch(fixture.GVK, service, body) }, Until: until}
}

// remove is a step that deletes a TrustyAIService.
func remove(service string, until func(*World) error) Step {
	return Step{
		Name: "delete", Do: func(w *World) error { return w.Delete(fixture.GVK, service) }, Until: until,
	}
}

// wired says whether every service is Ready and has its entries in the objects of others.
func wired(w *World) error {
	if err := w.Ready(); err != nil {
		return err
	}
	model := w.Get("inferenceservices.serving.kserve.io", "model")
	if model == nil {
		return nil
	}
	if _, found, _ := unstructured.NestedMap(model.Object, "spec", "predictor", "logger"); !found {
		return errors.New("the InferenceService has no logger")
	}
	return nil
}

// unwired says what a deleted service left.
func unwired(w *World) error {
	if err := w.Gone(); err != nil {
		return err
	}
	if u := w.Get("configmaps", "model-serving-config"); u != nil && strings.Contains(fmt.Sprint(u.Object["data"]), "trustyai") {
		return errors.New("the configuration of ModelMesh still has an entry")
	}
	if u := w.Get("inferenceservices.serving.kserve.io", "model"); u != nil {
		if _, found, _ := unstructured.NestedMap(u.Object, "spec", "predictor", "logger"); found {
			return errors.New("the InferenceService still has a logger")
		}
	}
	return nil
}

// runs says whether the pods of a Deployment are of an image, and its service is Ready.
func runs(deployment, image string) func(*World) error {
	return func(w *World) error {
		u := w.Get("deployments.apps", deployment)
		if u == nil || !strings.Contains(fmt.Sprint(u.Object["spec"]), image) {
			return fmt.Errorf("the Deployment is not of image %s", image)
		}
		return w.Ready()
	}
}

// replicas says whether a Deployment has a number of replicas, and its service is Ready.
func replicas(deployment string, n int64) func(*World) error {
	return func(w *World) error {
		u := w.Get("deployments.apps", deployment)
		if u == nil {
			return errors.New("there is no Deployment")
		}
		if have, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas"); have != n {
			return fmt.Errorf("%d replicas, not %d", have, n)
		}
		return w.Ready()
	}
}

// condition says whether a condition of a service is as told.
func condition(service, kind, status string, reason ...string) func(*World) error {
	return func(w *World) error { return w.Condition(service, kind, status, reason...) }
}

// suspended says whether a service tells that it is suspended.
func suspended(w *World, service string) error {
	u := w.Get("trustyaiservices.trustyai.opendatahub.io", service)
	if c := conditionOf(u, "Suspended"); c == nil || c["status"] != "True" {
		return errors.New("it is not suspended")
	}
	return nil
}

// migrated says whether the data is in the database.
func migrated(w *World) error {
	u := w.Get("trustyaiservices.trustyai.opendatahub.io", "data")
	if phase, _, _ := unstructured.NestedString(u.Object, "status", "migration", "phase"); phase != "Done" {
		return fmt.Errorf("the migration is %q", phase)
	}
	return w.Ready()
}

// kept says whether the claim of a deleted service is there, for the next service and for nobody else's collector.
func kept(w *World, claim string) error {
	u := w.Get("persistentvolumeclaims", claim)
	switch {
	case u == nil:
		return errors.New("the claim went with the service")
	case u.GetDeletionTimestamp() != nil:
		return errors.New("the claim is being deleted")
	case len(u.GetOwnerReferences()) > 0:
		return fmt.Errorf("the claim has an owner: %v", u.GetOwnerReferences())
	}
	return nil
}

// leaves says whether a deleted service left its claim and nothing else.
func leaves(claim string) func(*World) error {
	return func(w *World) error { return errors.Join(unwired(w), kept(w, claim)) }
}
