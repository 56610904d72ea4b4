package tfserv

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/tfserver"
)

const withCanary = `
apiVersion: servapi.dev-state.com/v1alpha1
kind: Tfserv
metadata: {name: ` + sample + `}
spec:
  restPort: 8500
  grpcPort: 9000
  models:
    - {name: resnet, basePath: /models/resnet, versionPolicy: {specific: {versions: [41]}}}
  httpRoute: {host: models.example.com, gateway: {name: public}}
  grpcRoute: {host: grpc.example.com, gateway: {name: public}}
  canary: {model: resnet, version: 42, weight: 10}
`

// servingAll is the model server of every pod, which has every version that there is.
func servingAll(t *testing.T, store *tfserver.Memory) *tfserver.Server {
	t.Helper()
	store.Put(storedModel, 41)
	return tfserver.InProcess(t, store, `model_config_list { config { name: "resnet" base_path: "`+storedModel+
		`" model_platform: "tensorflow" model_version_policy { all {} } } }`, "--rest_api_port=8500")
}

// split waits until both routes lead to the Services with weights, such as "tfserv-sample-service 1".
func split(t *testing.T, c *cluster.Cluster, ns, want string) {
	t.Helper()
	cluster.Eventually(t, 2*time.Minute, func() error {
		for _, gvk := range entrances[1:] {
			u := c.Get(t, gvk, ns, sample)
			if u == nil {
				return fmt.Errorf("there is no %s", gvk.Kind)
			}
			var got []string
			for _, ref := range field(t, u, "spec", "rules").([]any)[0].(map[string]any)["backendRefs"].([]any) {
				got = append(got, fmt.Sprint(ref.(map[string]any)["name"], " ", ref.(map[string]any)["weight"]))
			}
			if text := strings.Join(got, ", "); text != want {
				return fmt.Errorf("the %s leads to %s, not to %s", gvk.Kind, text, want)
			}
		}
		return nil
	})
}

const (
	alone  = sample + "-service 1"
	shared = sample + "-service 90, " + sample + "-canary-service 10"
)

// accept has a Gateway accept the HTTPRoute.
func accept(t *testing.T, c *cluster.Cluster, ns string) {
	t.Helper()
	u := c.Get(t, entrances[1], ns, sample)
	u.Object["status"] = map[string]any{"parents": []any{map[string]any{
		"controllerName": "example.com/gateway", "parentRef": map[string]any{"name": "public"},
		"conditions": []any{map[string]any{
			"type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
			"observedGeneration": u.GetGeneration(),
		}},
	}}}
	if err := c.Client.Status().Update(t.Context(), u); err != nil {
		t.Fatal(err)
	}
}

// gone waits until nothing of a canary is left, in the namespace and in the inventory.
func gone(t *testing.T, c *cluster.Cluster, ns string) {
	t.Helper()
	split(t, c, ns, alone)
	cluster.Eventually(t, time.Minute, func() error {
		for gvk, name := range map[schema.GroupVersionKind]string{deployment: sample + "-canary", service: sample + "-canary-service"} {
			if c.Get(t, gvk, ns, name) != nil {
				return fmt.Errorf("%s %s is left", gvk.Kind, name)
			}
		}
		for _, e := range get(t, c, ns, sample).Status.Inventory.Entries {
			if strings.Contains(e.Name, "-canary") {
				return fmt.Errorf("%s %s is left", e.Kind, e.Name)
			}
		}
		return nil
	})
}

// TestACanaryGetsItsShareWhileItsVersionIsAvailable, is aborted and taken out, while the other servers run on.
func TestACanaryGetsItsShareWhileItsVersionIsAvailable(t *testing.T) {
	c, store := cluster.Shared(t), &tfserver.Memory{}
	ns := c.Namespace(t)
	startAsking(t, c, ns, servingAll(t, store))
	c.Apply(t, withCanary, ns)
	condition(t, c, ns, sample, "CanaryAvailable", metav1.ConditionFalse, "VersionUnavailable")
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	split(t, c, ns, alone)
	generation := c.Get(t, deployment, ns, sample).GetGeneration()

	store.Put(storedModel, 42)
	split(t, c, ns, shared)
	condition(t, c, ns, sample, "CanaryAvailable", metav1.ConditionTrue, "CanaryAvailable")
	if got := get(t, c, ns, sample).Status.Canary; got == nil || got.Weight != 0 || got.AvailableReplicas != 1 ||
		!strings.Contains(got.Message, "No Gateway has accepted the") {
		t.Errorf("the status is %+v", got)
	}
	accept(t, c, ns)
	cluster.Eventually(t, time.Minute, func() error {
		if got := get(t, c, ns, sample).Status.Canary; got.Weight != 10 {
			return fmt.Errorf("a Gateway has accepted the route, and the status is %+v", got)
		}
		return nil
	})
	store.Remove(storedModel, 42)
	split(t, c, ns, alone)
	condition(t, c, ns, sample, "CanaryAvailable", metav1.ConditionFalse, "VersionUnavailable")
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	store.Put(storedModel, 42)
	split(t, c, ns, shared)

	patch(t, c, tfserv, ns, sample, `{"spec":{"canary":{"state":"Aborted"}}}`)
	split(t, c, ns, alone)
	// The Gateway sends it its share until it has read the route without it.
	cluster.Consistently(t, 2*time.Second, func() error {
		if c.Get(t, service, ns, sample+"-canary-service") == nil || c.Get(t, deployment, ns, sample+"-canary") == nil {
			return errors.New("the canary is gone before the Gateway knows")
		}
		return nil
	})
	accept(t, c, ns)
	gone(t, c, ns)
	condition(t, c, ns, sample, "CanaryAvailable", metav1.ConditionFalse, "Aborted")
	patch(t, c, tfserv, ns, sample, `{"spec":{"canary":{"state":"Running"}}}`)
	split(t, c, ns, shared)
	patch(t, c, tfserv, ns, sample, `{"spec":{"canary":null}}`)
	split(t, c, ns, alone)
	accept(t, c, ns)
	gone(t, c, ns)
	cluster.Eventually(t, time.Minute, func() error {
		s := get(t, c, ns, sample).Status
		if s.Canary != nil || meta.FindStatusCondition(s.Conditions, "CanaryAvailable") != nil {
			return fmt.Errorf("the canary is told still: %+v", s.Canary)
		}
		return nil
	})
	if got := c.Get(t, deployment, ns, sample).GetGeneration(); got != generation {
		t.Errorf("the Deployment of the other servers was changed: generation %d, was %d", got, generation)
	}
}

// TestACanaryIsCopiedToAndPromoted: the API server takes the filter, and a promoted canary goes when the other servers have its version.
func TestACanaryIsCopiedToAndPromoted(t *testing.T) {
	c, store := cluster.Shared(t), &tfserver.Memory{}
	ns := c.Namespace(t)
	servers := servingAll(t, store)
	store.Put(storedModel, 42)
	startAsking(t, c, ns, servers)
	c.Apply(t, strings.Replace(withCanary, "weight: 10", "weight: 10, mode: Shadow", 1), ns)
	for _, gvk := range entrances[1:] {
		cluster.Eventually(t, time.Minute, func() error {
			if text := fmt.Sprint(c.Get(t, gvk, ns, sample)); !strings.Contains(text, "RequestMirror") || !strings.Contains(text, "percent:10") {
				return fmt.Errorf("the %s copies nothing: %s", gvk.Kind, text)
			}
			return nil
		})
	}
	split(t, c, ns, alone)
	condition(t, c, ns, sample, "CanaryAvailable", metav1.ConditionTrue)
	patch(t, c, tfserv, ns, sample, `{"spec":{"canary":{"mode":"Canary"}}}`)
	split(t, c, ns, shared)
	patch(t, c, tfserv, ns, sample, `{"spec":{"canary":{"state":"Promoted"},`+
		`"models":[{"name":"resnet","basePath":"/models/resnet","versionPolicy":{"specific":{"versions":[42]}}}]}}`)
	gone(t, c, ns)
	condition(t, c, ns, sample, "CanaryAvailable", metav1.ConditionFalse, "Promoted")
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
}

// TestACanaryNeedsAShorterName at admission, since Services are named after it.
func TestACanaryNeedsAShorterName(t *testing.T) {
	c := cluster.Shared(t)
	c.InstallCRDs(t)
	ns := c.Namespace(t)
	for n, refused := range map[int]bool{48: false, 49: true} {
		objects, err := cluster.Parse(strings.Replace(withCanary, "name: "+sample, "namespace: "+ns+", name: "+strings.Repeat("a", n), 1))
		if err != nil {
			t.Fatal(err)
		}
		err = c.Client.Create(t.Context(), objects[0])
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "at most 48 characters with spec.canary") {
			t.Errorf("%d characters: %v", n, err)
		}
	}
}
