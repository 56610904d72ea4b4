package trustyai

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
)

// What every controller is tested with, under the names that these tests use.
var (
	parse    = controllertest.Parse
	find     = controllertest.Find
	mustFind = controllertest.MustFind
	reasons  = controllertest.Reasons
	print    = controllertest.Print
	golden   = controllertest.Golden
)

var testNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func testSystem() *system {
	return &system{random: rand.Reader, settings: Settings{
		Image: "quay.io/trustyai/trustyai-service:v1", ImageGeneration: v1.GenerationJavaTLS, ProxyImage: "quay.io/opendatahub/odh-kube-rbac-proxy:v1",
		OperatorNamespace: "mlkeeper-system", ClusterDomain: DefaultClusterDomain,
	}}
}

// cluster is a Reader over objects in memory.
type cluster = controllertest.Cluster

// testOwner is whom own and written make objects for.
const testOwner = "TrustyAIService.trustyai.opendatahub.io/ns/tas"

// newCluster serves what most clusters of users do, and more.
func newCluster(served ...schema.GroupVersionKind) *cluster {
	return controllertest.New(testNow, append(served, gvkRoute, gvkServiceMonitor)...)
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

// pemOf is a certificate as far as PEM goes, which holds a word.
func pemOf(word string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(word)}))
}

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

// servingCertificate is a Secret that service-ca made.
func servingCertificate(name string, data map[string]string) *unstructured.Unstructured {
	u := secretOf2("ns", name, data)
	u.SetAnnotations(map[string]string{"service.beta.openshift.io/originating-service-name": name})
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

// stored reconciles until every generated Secret is stored, as the engine does: a pass for the authority, one for the
// certificates, and one for what depends on them.
func stored(t testing.TB, c *cluster, cr *v1.TrustyAIService) (Facts, plan.Plan) {
	t.Helper()
	for range 4 {
		facts, p := gatherAndRender(t, c, cr)
		c.Written(p, ownerID(cr))
		if facts.Certs.AwaitsCA == "" && facts.Certs.AwaitsLeaf == "" && facts.Certs.Digest != "" {
			return facts, p
		}
	}
	t.Fatal("the generated certificates are not stored")
	return Facts{}, plan.Plan{}
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
