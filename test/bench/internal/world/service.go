package world

import (
	"context"
	"fmt"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/test/cluster"
)

// Shape is a custom resource to measure with: a template of it and of what must be there before it. In both, NAMESPACE,
// NAME and VOLUME stand for the namespace, the name and the PersistentVolume of one.
type Shape struct {
	Name     string
	Template string
	// Resource is the path of the custom resources, without a namespace.
	Resource string
	// Before is what must be there before it, but for the namespace.
	Before string
	// Claim is the name of the claim that the volume is reserved for.
	Claim string
	// Deployment is the name of the Deployment that serves.
	Deployment string
	// Together is how many share a namespace and what is there before them; 1 when it is 0.
	Together int
}

// Plural is the last part of the path of the custom resources.
func (s Shape) Plural() string { return path.Base(s.Resource) }

// Paths of the kinds that are measured, without a namespace.
const (
	TrustyAIServices = "/apis/trustyai.opendatahub.io/v1/trustyaiservices"
	Tfservs          = "/apis/servapi.dev-state.com/v1alpha1/tfservs"
)

// ADR is the manifest of TrustyAI ADR 3, the one that the project ships as a sample: the custom resource owns its
// children, and a namespace has one.
var ADR = Shape{Name: "adr", Resource: TrustyAIServices, Before: volume, Claim: "trustyai-service-pvc", Deployment: "trustyai-service", Template: `
apiVersion: trustyai.opendatahub.io/v1
kind: TrustyAIService
metadata: {name: NAME, namespace: NAMESPACE}
spec:
  storage: {format: PVC, folder: /inputs, pv: VOLUME, size: 1Gi}
  data: {filename: data.csv, format: CSV}
  trustyaiMetrics: {schedule: 15s}
  serviceMonitoring:
    ref:
      apiVersion: monitoring.coreos.com/v1
      kind: ServiceMonitor
      spec: {endpoints: [{interval: 15s}]}
`}

// Upstream is the shape of the upstream operator: a service behind kube-rbac-proxy, with certificates. A
// ClusterRoleBinding is among its children, so that an Inventory owns them all.
var Upstream = Shape{Name: "upstream", Resource: TrustyAIServices, Before: volume, Claim: "NAME-pvc", Deployment: "NAME", Template: `
apiVersion: trustyai.opendatahub.io/v1
kind: TrustyAIService
metadata: {name: NAME, namespace: NAMESPACE}
spec:
  storage: {format: PVC, folder: /inputs, size: 1Gi}
  data: {filename: data.csv, format: CSV}
  metrics: {schedule: 5s, batchSize: 1000}
`}

// Tutorial is the Tfserv of the tutorial, with its ConfigMap and its Secret. Its names for these are the same for all, so
// that the servers of a team share them.
var Tutorial = Shape{Name: "tutorial", Resource: Tfservs, Deployment: "NAME", Together: 20, Template: `
apiVersion: servapi.dev-state.com/v1alpha1
kind: Tfserv
metadata: {name: NAME, namespace: NAMESPACE}
spec:
  grpcPort: 9000
  restPort: 8500
  replicas: 3
  configMap: tf-serving-models-config
  configFileName: models.conf
  configFileLocation: /var/config/
  secretFileName: test-apps-model-viewer.json
  secretFileLocation: /secret/gcp-credentials/
`, Before: `
apiVersion: v1
kind: ConfigMap
metadata: {name: tf-serving-models-config, namespace: NAMESPACE}
data:
  models.conf: |
    model_config_list: {
      config: { name: "resnet", base_path: "gs://tfmodel-store/resnet", model_platform: "tensorflow" }
    }
---
apiVersion: v1
kind: Secret
metadata: {name: tfs-secret, namespace: NAMESPACE}
stringData: {test-apps-model-viewer.json: "{}"}
`}

// volume is reserved for the claim, so that binding does not depend on which claim comes first.
const volume = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: VOLUME}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  claimRef: {namespace: NAMESPACE, name: CLAIM}
  hostPath: {path: /data}
`

// Service is one custom resource of a shape.
type Service struct {
	Shape           Shape
	Namespace, Name string
}

// Services names n services of a shape, numbered from a first one.
func Services(shape Shape, prefix string, first, n int) []Service {
	out := make([]Service, n)
	together := max(shape.Together, 1)
	for i := range out {
		at := first + i
		out[i] = Service{Shape: shape, Namespace: fmt.Sprintf("%s-%05d", prefix, at/together), Name: "svc"}
		if together > 1 {
			out[i].Name = fmt.Sprintf("svc-%02d", at%together)
		}
	}
	return out
}

// Mixed names n services of the shapes in turn.
func Mixed(shapes []Shape, prefix string, first, n int) []Service {
	var out []Service
	for i := range n {
		shape := shapes[(first+i)%len(shapes)]
		out = append(out, Services(shape, prefix+"-"+shape.Name, first+i, 1)...)
	}
	return out
}

// Key names the custom resource, DeploymentKey the Deployment that serves.
func (s Service) Key() string { return s.Namespace + "/" + s.Name }

// DeploymentKey is as Key says.
func (s Service) DeploymentKey() string { return s.Namespace + "/" + s.fill(s.Shape.Deployment) }

// StatusPath is how the path of its status ends.
func (s Service) StatusPath() string {
	return s.Namespace + "/" + s.Shape.Plural() + "/" + s.Name + "/status"
}

// Volume is the name of the PersistentVolume of the service.
func (s Service) Volume() string { return "pv-" + s.Namespace }

// Object returns the custom resource.
func (s Service) Object() (*unstructured.Unstructured, error) {
	objects, err := cluster.Parse(s.fill(s.Shape.Template))
	if err != nil {
		return nil, fmt.Errorf("the template of shape %s: %w", s.Shape.Name, err)
	}
	if len(objects) != 1 {
		return nil, fmt.Errorf("the template of shape %s has %d objects; it must have one", s.Shape.Name, len(objects))
	}
	return objects[0], nil
}

func (s Service) fill(template string) string {
	template = strings.ReplaceAll(template, "CLAIM", s.Shape.Claim)
	return strings.NewReplacer("NAMESPACE", s.Namespace, "NAME", s.Name, "VOLUME", s.Volume()).Replace(template)
}

// Prepare makes the namespaces of services and what must be there before them, outside every measurement.
func (c *Cluster) Prepare(ctx context.Context, services []Service) error {
	var spaces, before []*unstructured.Unstructured
	seen := map[string]bool{}
	for _, s := range services {
		if seen[s.Namespace] {
			continue
		}
		seen[s.Namespace] = true
		objects, err := cluster.Parse(s.fill("apiVersion: v1\nkind: Namespace\nmetadata: {name: NAMESPACE}\n---\n" + s.Shape.Before))
		if err != nil {
			return err
		}
		spaces, before = append(spaces, objects[0]), append(before, objects[1:]...)
	}
	if err := c.CreateAll(ctx, spaces); err != nil {
		return err
	}
	return c.CreateAll(ctx, before)
}
