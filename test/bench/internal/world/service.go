package world

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/test/cluster"
)

// Shape is a TrustyAIService to measure with: a template of the custom resource and what must be there before it. In
// both, NAMESPACE, NAME and VOLUME stand for the namespace, the name and the PersistentVolume of one service.
type Shape struct {
	Name     string
	Template string
	// Claim is the name of the claim that the volume is reserved for.
	Claim string
}

// ADR is the manifest of TrustyAI ADR 3, the one that the project ships as a sample: the custom resource owns its
// children, and a namespace has one.
var ADR = Shape{Name: "adr", Claim: "trustyai-service-pvc", Template: `
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
var Upstream = Shape{Name: "upstream", Claim: "NAME-pvc", Template: `
apiVersion: trustyai.opendatahub.io/v1
kind: TrustyAIService
metadata: {name: NAME, namespace: NAMESPACE}
spec:
  storage: {format: PVC, folder: /inputs, size: 1Gi}
  data: {filename: data.csv, format: CSV}
  metrics: {schedule: 5s, batchSize: 1000}
`}

// volumeTemplate reserves a volume for the claim, so that binding does not depend on which claim comes first.
const volumeTemplate = `
apiVersion: v1
kind: Namespace
metadata: {name: NAMESPACE}
---
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

// Service is one custom resource of a shape, in a namespace of its own.
type Service struct {
	Shape           Shape
	Namespace, Name string
}

// Services names n services of a shape, numbered from a first one.
func Services(shape Shape, prefix string, first, n int) []Service {
	out := make([]Service, n)
	for i := range out {
		out[i] = Service{Shape: shape, Namespace: fmt.Sprintf("%s-%05d", prefix, first+i), Name: "svc"}
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

// Prepare makes the namespaces and volumes of services, outside every measurement.
func (c *Cluster) Prepare(ctx context.Context, services []Service) error {
	var spaces, volumes []*unstructured.Unstructured
	for _, s := range services {
		objects, err := cluster.Parse(s.fill(volumeTemplate))
		if err != nil {
			return err
		}
		spaces, volumes = append(spaces, objects[0]), append(volumes, objects[1])
	}
	if err := c.CreateAll(ctx, spaces); err != nil {
		return err
	}
	return c.CreateAll(ctx, volumes)
}
