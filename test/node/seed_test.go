//go:build realnode

package node

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	trustyaiv1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/node/scrape"
)

const seedName = "trustyai-service-example"

// meshConfig is what a ModelMesh that was there before has in its configuration.
const meshConfig = `# ModelMesh settings of the platform team.
podsPerRuntime: 1
`

// seedsManifest applies the manifest of TrustyAI ADR 3 as it is, and uses what it makes.
func seedsManifest(t *testing.T, c *cluster.Cluster) {
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	ns := c.Namespace(t)
	volume(t, c, "mypv", ns, "")
	c.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata: {name: model-serving-config}
data:
  config.yaml: %q
---
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: model}
spec:
  predictor: {model: {modelFormat: {name: sklearn}, storageUri: s3://bucket/model}}
`, meshConfig), ns)
	clientPod(t, c, ns, "client")
	before, err := objects(t, c, ns)
	if err != nil {
		t.Fatal(err)
	}

	applied := time.Now()
	c.Kubectl(t, "apply", "-n", ns, "-f", filepath.Join(root, "config", "samples", "trustyai-service.yaml"))
	cr := condition(t, c, ns, seedName, "Ready", metav1.ConditionTrue)
	t.Logf("Ready %s after the manifest was applied", time.Since(applied).Round(100*time.Millisecond))
	pod := servicePod(t, c, ns, "trustyai-service")
	if image := pod.Spec.Containers[0].Image; image != serviceImage {
		t.Errorf("the pod runs %s, not the image that the operator was told", image)
	}
	probed(t, c, ns, seedName, "client", pod)

	url := processorURL(t, c, ns, cr)
	mustIn(t, c, ns, "client", "post", url, partial("first"))
	arrived(t, c, ns, "client", pod, `\"id\":\"first\"`)
	scraped(t, c, ns, "trustyai-metrics", "client", "trustyai_dir", "trustyai_spd")
	repaired(t, c, ns)
	// The Service that was made anew has another address; the URL is the same.
	cluster.Eventually(t, patience, func() error {
		_, err := in(c, ns, "client", "post", url, partial("second"))
		return err
	})
	arrived(t, c, ns, "client", pod, `\"id\":\"second\"`)

	c.Kubectl(t, "delete", "-n", ns, "trustyaiservice", seedName, "--timeout="+patience.String())
	onlyLeft(t, c, ns, before, "persistentvolumeclaims trustyai-service-pvc")
	cluster.Eventually(t, patience, func() error { return unwired(t, c, ns) })
}

// processorURL reads the URL from ModelMesh's configuration, as ModelMesh would.
func processorURL(t *testing.T, c *cluster.Cluster, ns string, cr *trustyaiv1.TrustyAIService) string {
	t.Helper()
	var config struct {
		PayloadProcessors string `json:"payloadProcessors"`
	}
	cluster.Eventually(t, patience, func() error {
		text := meshText(t, c, ns)
		if err := yaml.Unmarshal([]byte(text), &config); err != nil {
			return err
		}
		if config.PayloadProcessors == "" {
			return fmt.Errorf("no payloadProcessors in %q", text)
		}
		return nil
	})
	want := "http://trustyai-service." + ns + ".svc.cluster.local/consumer/kserve/v2"
	if config.PayloadProcessors != want || cr.Status.URL != want {
		t.Errorf("payloadProcessors is %q and status.url %q; the ADR says %q", config.PayloadProcessors, cr.Status.URL, want)
	}
	t.Logf("payloadProcessors: %s", config.PayloadProcessors)
	return config.PayloadProcessors
}

func meshText(t *testing.T, c *cluster.Cluster, ns string) string {
	t.Helper()
	config := &corev1.ConfigMap{}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "model-serving-config"}, config); err != nil {
		t.Fatal(err)
	}
	return config.Data["config.yaml"]
}

// unwired says which object of others does not hold what it held before.
func unwired(t *testing.T, c *cluster.Cluster, ns string) error {
	t.Helper()
	if text := meshText(t, c, ns); text != meshConfig {
		return fmt.Errorf("ModelMesh's configuration is %q", text)
	}
	model := c.Get(t, schema.GroupVersionKind{Group: "serving.kserve.io", Version: "v1beta1", Kind: "InferenceService"}, ns, "model")
	if logger, found, _ := unstructured.NestedMap(model.Object, "spec", "predictor", "logger"); found {
		return fmt.Errorf("the InferenceService has a logger: %v", logger)
	}
	return nil
}

// scraped does what Prometheus would do with the ServiceMonitor, from a pod, and asserts the names of the metrics.
func scraped(t *testing.T, c *cluster.Cluster, ns, monitor, from string, want ...string) {
	t.Helper()
	u := c.Get(t, schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "ServiceMonitor"}, ns, monitor)
	if u == nil {
		t.Fatalf("there is no ServiceMonitor %s", monitor)
	}
	m, err := scrape.Read(u)
	if err != nil {
		t.Fatal(err)
	}
	services, slices, pods := &corev1.ServiceList{}, &discoveryv1.EndpointSliceList{}, &corev1.PodList{}
	for _, list := range []client.ObjectList{services, slices, pods} {
		if err := c.Client.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	targets, err := scrape.Targets(m, services.Items, slices.Items, pods.Items)
	if err != nil {
		t.Fatal(err)
	}
	if len(targets) != 1 {
		t.Fatalf("the ServiceMonitor finds %d targets, not the one pod: %+v", len(targets), targets)
	}
	target := targets[0]
	address := target.URL
	if name := target.Endpoint.TLSConfig.ServerName; name != "" {
		// The client verifies the host of the URL, so it goes through the Service, which has one pod.
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		u.Host = name
		address = u.String()
	}
	args := []string{"get", address}
	if target.Endpoint.BearerTokenFile != "" {
		args = append(args, target.Endpoint.BearerTokenFile)
	}
	text := mustIn(t, c, ns, from, args...)
	names, err := target.Endpoint.Names(text)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(names, " ") != strings.Join(want, " ") {
		t.Errorf("the scrape keeps %v, not %v", names, want)
	}
	t.Logf("scraped %s of pod %s (token: %q): kept %v of %d lines", target.URL, target.Pod,
		target.Endpoint.BearerTokenFile, names, strings.Count(text, "\n"))
}

// repaired deletes a child and waits for it to be made again.
func repaired(t *testing.T, c *cluster.Cluster, ns string) {
	t.Helper()
	uid := func() types.UID {
		service := c.Get(t, schema.GroupVersionKind{Version: "v1", Kind: "Service"}, ns, "trustyai-service")
		if service == nil {
			return ""
		}
		return service.GetUID()
	}
	before := uid()
	c.Kubectl(t, "delete", "-n", ns, "service", "trustyai-service")
	began := time.Now()
	cluster.Eventually(t, patience, func() error {
		if now := uid(); now == "" || now == before {
			return fmt.Errorf("the Service did not come back")
		}
		return nil
	})
	t.Logf("the deleted Service was there again %s after kubectl had returned", time.Since(began).Round(time.Millisecond))
	condition(t, c, ns, seedName, "Ready", metav1.ConditionTrue)
}
