package tfserving

import (
	"context"
	"encoding/base64"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
)

var testNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// seedFile holds the ConfigMap, the Secret and the Tfserv of the tutorial.
const seedFile = "../../test/testdata/seeds/tfserv.yaml"

// seed returns the documents of the tutorial in a cluster, and its custom resource.
func seed(t testing.TB) (*controllertest.Cluster, *v1alpha1.Tfserv) {
	t.Helper()
	raw, err := os.ReadFile(seedFile)
	if err != nil {
		t.Fatal(err)
	}
	c := controllertest.New(testNow, gvkServiceMonitor)
	var cr *v1alpha1.Tfserv
	for _, text := range strings.Split(string(raw), "\n---\n") {
		u := controllertest.Parse(t, text)
		switch u.GetKind() {
		case "Tfserv":
			cr = custom(t, text)
			continue
		case "Secret":
			data := map[string]any{}
			plain, _, _ := unstructured.NestedStringMap(u.Object, "stringData")
			for k, v := range plain {
				data[k] = base64.StdEncoding.EncodeToString([]byte(v))
			}
			u.Object["data"] = data
		}
		u.SetNamespace("ns")
		c.Put(u)
	}
	return c, cr
}

// custom reads a custom resource with the defaults of the schema.
func custom(t testing.TB, text string) *v1alpha1.Tfserv {
	t.Helper()
	cr := &v1alpha1.Tfserv{}
	if err := yaml.UnmarshalStrict([]byte(text), cr); err != nil {
		t.Fatal(err)
	}
	cr.Namespace = "ns"
	cr.UID, cr.Generation = types.UID("uid-of-"+cr.Name), max(cr.Generation, 1)
	cr.CreationTimestamp = metav1.NewTime(testNow)
	return cr
}

const inline = `
metadata: {name: tfs}
spec:
  models:
    - {name: resnet, basePath: "gs://bucket/resnet"}
`

func testSystem() *system { return &system{settings: Settings{}.complete()} }

func gatherAndRender(t testing.TB, c *controllertest.Cluster, cr *v1alpha1.Tfserv) (Facts, plan.Plan) {
	t.Helper()
	s := testSystem()
	facts, err := s.Gather(context.Background(), c, cr)
	if err != nil {
		t.Fatal(err)
	}
	return facts, s.Render(cr, facts)
}

func ownerOf(cr *v1alpha1.Tfserv) string {
	return "Tfserv.servapi.dev-state.com/" + cr.Namespace + "/" + cr.Name
}

// deployed returns the Deployment of a plan as its type.
func deployed(t testing.TB, p plan.Plan, name string) *appsv1.Deployment {
	t.Helper()
	out := &appsv1.Deployment{}
	convert(t, controllertest.MustFind(t, p, "Deployment", name), out)
	return out
}

func served(t testing.TB, p plan.Plan, name string) *corev1.Service {
	t.Helper()
	out := &corev1.Service{}
	convert(t, controllertest.MustFind(t, p, "Service", name), out)
	return out
}

// problems are the texts of the problems of a plan.
func problems(p plan.Plan) []string {
	var out []string
	for _, problem := range p.Problems {
		out = append(out, problem.Error())
	}
	return out
}

func convert(t testing.TB, u *unstructured.Unstructured, to any) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, to); err != nil {
		t.Fatal(err)
	}
}

func key(kind, name string) plan.Key {
	gvk := gvkConfigMap
	switch kind {
	case "Secret":
		gvk = gvkSecret
	case "Deployment":
		gvk = gvkDeployment
	case "PersistentVolumeClaim":
		gvk = gvkClaim
	}
	return plan.Key{GroupKind: gvk.GroupKind(), Namespace: "ns", Name: name}
}

// resourceVersions are those of Deployments: each status is another.
var resourceVersions atomic.Int64

// rolledOut makes the Deployment of a plan the one that runs, complete or not.
func rolledOut(t testing.TB, c *controllertest.Cluster, cr *v1alpha1.Tfserv, p plan.Plan, complete bool) {
	t.Helper()
	u := controllertest.MustFind(t, p, "Deployment", cr.Name).DeepCopy()
	n, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
	ready := n
	if !complete {
		ready = n - 1
	}
	u.SetGeneration(1)
	u.SetResourceVersion(strconv.FormatInt(resourceVersions.Add(1), 10))
	u.Object["status"] = map[string]any{
		"observedGeneration": int64(1), "replicas": n, "updatedReplicas": n, "readyReplicas": ready, "availableReplicas": ready,
	}
	c.Own(u, ownerOf(cr))
}
