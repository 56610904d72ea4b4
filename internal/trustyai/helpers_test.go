package trustyai

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/room"
	"mlkeeper.dev/internal/engine/room/roomtest"
)

// What every room is tested with, under the names that these tests use.
var (
	parse    = roomtest.Parse
	find     = roomtest.Find
	mustFind = roomtest.MustFind
	reasons  = roomtest.Reasons
	print    = roomtest.Print
	golden   = roomtest.Golden
)

var testNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func testSystem() *system {
	return &system{random: rand.Reader, settings: Settings{
		Image: "quay.io/trustyai/trustyai-service:v1", ProxyImage: "quay.io/opendatahub/odh-kube-rbac-proxy:v1",
		OperatorNamespace: "mlkeeper-system", ClusterDomain: DefaultClusterDomain,
	}}
}

// cluster is a Reader over objects in memory.
type cluster struct {
	now        time.Time
	referenced map[plan.Key]*unstructured.Unstructured
	children   map[plan.Key]*unstructured.Unstructured
	serves     map[schema.GroupVersionKind]bool
	siblings   []client.Object
	targets    map[string][]*unstructured.Unstructured
}

var _ room.Reader = (*cluster)(nil)

func newCluster(served ...schema.GroupVersionKind) *cluster {
	c := &cluster{
		now: testNow, referenced: map[plan.Key]*unstructured.Unstructured{}, children: map[plan.Key]*unstructured.Unstructured{},
		serves: map[schema.GroupVersionKind]bool{gvkRoute: true, gvkServiceMonitor: true}, targets: map[string][]*unstructured.Unstructured{},
	}
	for _, gvk := range served {
		c.serves[gvk] = true
	}
	return c
}

func (c *cluster) Referenced(_ context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	return c.referenced[plan.Key{GroupKind: gvk.GroupKind(), Namespace: namespace, Name: name}], nil
}

func (c *cluster) Child(gvk schema.GroupVersionKind, namespace, name string) *observe.Object {
	if u := c.children[plan.Key{GroupKind: gvk.GroupKind(), Namespace: namespace, Name: name}]; u != nil {
		return observe.From(u, true)
	}
	return nil
}
func (c *cluster) Serves(gvk schema.GroupVersionKind) bool { return c.serves[gvk] }

func (c *cluster) Namespaced(gvk schema.GroupVersionKind) (namespaced, served bool) {
	return true, c.serves[gvk]
}
func (c *cluster) Siblings() []client.Object { return c.siblings }
func (c *cluster) Now() time.Time            { return c.now }
func (c *cluster) Probe(string, time.Duration, room.Question) any {
	return nil
}

func (c *cluster) Targets(wire, _ string) []*unstructured.Unstructured {
	return c.targets[wire]
}

// put makes an object of somebody else; own makes one that MLKeeper wrote, which is seen both ways.
func (c *cluster) put(u *unstructured.Unstructured) { c.referenced[plan.KeyOf(u)] = u }

func (c *cluster) own(u *unstructured.Unstructured) {
	marks := u.GetAnnotations()
	if marks == nil {
		marks = map[string]string{}
	}
	marks[keeper.OwnerAnnotation] = "TrustyAIService.trustyai.opendatahub.io/ns/x"
	u.SetAnnotations(marks)
	if u.GetUID() == "" {
		u.SetUID(types.UID("uid-" + u.GetName()))
	}
	c.referenced[plan.KeyOf(u)], c.children[plan.KeyOf(u)] = u, u
}

// written takes the objects of a plan as written.
func (c *cluster) written(p plan.Plan) {
	for _, stage := range p.Stages {
		for _, o := range stage.Objects {
			c.own(o.Desired.DeepCopy())
		}
	}
}

func custom(t testing.TB, text string) *v1.TrustyAIService {
	t.Helper()
	cr := &v1.TrustyAIService{}
	if err := yaml.Unmarshal([]byte(text), cr); err != nil {
		t.Fatal(err)
	}
	if cr.Namespace == "" {
		cr.Namespace = "ns"
	}
	cr.UID, cr.Generation = types.UID("uid-of-"+cr.Name), max(cr.Generation, 1)
	cr.CreationTimestamp = metav1.NewTime(testNow)
	return cr
}

const adrSpec = `
metadata: {name: trustyai-service-example}
spec:
  storage: {format: PVC, folder: /inputs, pv: mypv, size: 1Gi}
  data: {filename: data.csv, format: CSV}
  trustyaiMetrics: {schedule: 15s}
`

const upstreamSpec = `
metadata: {name: tas}
spec:
  storage: {format: PVC, folder: /inputs, size: 1Gi}
  data: {filename: data.csv, format: CSV}
  metrics: {schedule: 5s}
`

const databaseSpec = `
metadata: {name: tas}
spec:
  storage: {format: DATABASE, databaseConfigurations: db, folder: /inputs, size: 1Gi}
  data: {filename: data.csv, format: CSV}
  metrics: {schedule: 5s, batchSize: 100}
`

const pvYAML = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: mypv}
spec: {capacity: {storage: 1Gi}}
`

func secretOf2(namespace, name string, data map[string]string) *unstructured.Unstructured {
	encoded := map[string]any{}
	for k, v := range data {
		encoded[k] = base64.StdEncoding.EncodeToString([]byte(v))
	}
	u := &unstructured.Unstructured{Object: map[string]any{"data": encoded}}
	u.SetGroupVersionKind(gvkSecret)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func credentials(password string) *unstructured.Unstructured {
	return secretOf2("ns", "db", map[string]string{
		"databaseKind": "mariadb", "databaseUsername": "u", "databasePassword": password, "databaseService": "s",
		"databasePort": "3306", "databaseName": "d", "databaseGeneration": "update",
	})
}

func gatherAndRender(t testing.TB, c *cluster, cr *v1.TrustyAIService) (Facts, plan.Plan) {
	t.Helper()
	s := testSystem()
	facts, err := s.Gather(context.Background(), c, cr)
	if err != nil {
		t.Fatal(err)
	}
	return facts, s.Render(cr, facts)
}

// env is the environment of the service as one line per variable.
func env(t testing.TB, p plan.Plan, name string) string {
	t.Helper()
	containers, _, _ := unstructured.NestedSlice(mustFind(t, p, "Deployment", name).Object, "spec", "template", "spec", "containers")
	var out []string
	for _, item := range containers[0].(map[string]any)["env"].([]any) {
		e := item.(map[string]any)
		out = append(out, fmt.Sprintf("%v=%v", e["name"], e["value"]))
	}
	return strings.Join(out, "\n")
}
