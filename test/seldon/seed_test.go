package seldon

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

const (
	namespace = "seldon-system"
	sample    = "seldonoperator-sample"
)

// pods are the names of the pods that run in the namespace, without what Kubernetes adds to them, and how many containers are
// ready of how many: what "kubectl get pods" lists in Seldon's documentation.
func pods(t *testing.T, c *cluster.Cluster) map[string]string {
	t.Helper()
	lines := c.Kubectl(t, "-n", namespace, "get", "pods", "--no-headers",
		"-o", "custom-columns=NAME:.metadata.name,OWNER:.metadata.ownerReferences[0].kind,READY:.status.containerStatuses[*].ready")
	out := map[string]string{}
	for line := range strings.Lines(lines) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		name, parts := f[0], strings.Split(f[0], "-")
		switch f[1] {
		case "ReplicaSet":
			name = strings.Join(parts[:len(parts)-2], "-")
		case "DaemonSet":
			name = strings.Join(parts[:len(parts)-1], "-")
		}
		states := strings.Split(f[2], ",")
		up := len(slices.DeleteFunc(slices.Clone(states), func(s string) bool { return s != "true" }))
		out[name] = fmt.Sprintf("%d/%d", up, len(states))
	}
	return out
}

// minimal are the pods of an empty spec.
var minimal = map[string]string{"seldon-controller-manager": "1/1", "seldon-deploy": "1/1"}

// trial are those that the listing of the trial components has.
var trial = map[string]string{
	"seldon-core-analytics-kube-state-metrics":       "1/1",
	"seldon-core-analytics-prometheus-alertmanager":  "2/2",
	"seldon-core-analytics-prometheus-node-exporter": "1/1",
	"seldon-core-analytics-prometheus-pushgateway":   "1/1",
	"seldon-core-analytics-prometheus-seldon":        "2/2",
	"seldon-internal-opensearch-cluster-master-0":    "1/1",
	"seldon-internal-opensearch-cluster-master-1":    "1/1",
	"seldon-internal-opensearch-cluster-master-2":    "1/1",
	"seldon-internal-postgres-postgresql-0":          "1/1",
}

// TestSeed applies every manifest of Seldon's documentation in its order, and looks for what its listings show. With -charts it does so
// with other charts, such as the real ones.
func TestSeed(t *testing.T) {
	c := cluster.Start(t, cluster.WithCRDs("istio", "knative"))
	start(t, c, repository(t).URL, harness.Options{})
	c.Kubectl(t, "create", "namespace", namespace)
	c.Kubectl(t, "create", "namespace", "istio-system")
	volumes(t, c, 8)
	for _, step := range []struct {
		manifest string
		look     func(*testing.T, *cluster.Cluster)
	}{
		{"seldon-1-minimal.yaml", lookMinimal},
		{"seldon-2-loadbalancer.yaml", lookLoadBalancer},
		{"seldon-3-trial.yaml", lookTrial},
		{"seldon-4-routing.yaml", lookRouting},
		{"seldon-5-custom-gateway.yaml", lookCustomGateway},
		{"seldon-6-detectors.yaml", lookDetectors},
		{"seldon-7-external-payloadstore.yaml", lookExternal},
	} {
		t.Run(strings.TrimSuffix(step.manifest, ".yaml"), func(t *testing.T) {
			c.Apply(t, filepath.Join(seeds, step.manifest))
			step.look(t, c)
			for _, one := range get(t, c, namespace, sample).Status.Components {
				t.Logf("%s: chart %s %s, %d objects", one.Name, one.Chart, one.Version, one.Objects)
			}
		})
	}
}

// volumes makes volumes for the claims of the trial components, which nothing provisions here.
func volumes(t *testing.T, c *cluster.Cluster, n int) {
	t.Helper()
	for i := range n {
		c.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolume
metadata: {name: trial-%d}
spec: {capacity: {storage: 8Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /nowhere}}
`, i))
	}
}

func runs(t *testing.T, c *cluster.Cluster, want ...map[string]string) {
	t.Helper()
	all := map[string]string{}
	for _, one := range want {
		maps.Copy(all, one)
	}
	cluster.Eventually(t, patience, func() error {
		if got := pods(t, c); !maps.Equal(got, all) {
			return fmt.Errorf("the pods are %v, not %v; %+v", got, all, get(t, c, namespace, sample).Status)
		}
		return nil
	})
}

func lookMinimal(t *testing.T, c *cluster.Cluster) {
	runs(t, c, minimal)
	cluster.Eventually(t, patience, func() error { return ready(get(t, c, namespace, sample)) })
	s := c.Get(t, services, namespace, "seldon-deploy")
	if text(s, "spec", "type") != "ClusterIP" || !strings.Contains(text(s, "spec", "ports"), "port:80") {
		t.Errorf("the Service is %v", s)
	}
	cr := get(t, c, namespace, sample)
	if want := "http://seldon-deploy.seldon-system.svc.cluster.local/seldon-deploy/"; cr.Status.URL != want {
		t.Errorf("the URL is %q, not %q", cr.Status.URL, want)
	}
	if cr.Status.ComponentsReady != "2/2" {
		t.Errorf("%+v", cr.Status)
	}
	if env := environment(c.Get(t, deployments, namespace, "seldon-controller-manager")); env["ISTIO_ENABLED"] != "false" {
		t.Errorf("Seldon Core has %v", env)
	}
}

func lookLoadBalancer(t *testing.T, c *cluster.Cluster) {
	cluster.Eventually(t, patience, func() error {
		if kind := text(c.Get(t, services, namespace, "seldon-deploy"), "spec", "type"); kind != "LoadBalancer" {
			return fmt.Errorf("the Service is of type %s", kind)
		}
		return nil
	})
	c.Kubectl(t, "-n", namespace, "patch", "service", "seldon-deploy", "--subresource=status", "--type=merge",
		"-p", `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.7"}]}}}`)
	cluster.Eventually(t, patience, func() error {
		if url := get(t, c, namespace, sample).Status.URL; url != "http://192.0.2.7/seldon-deploy/" {
			return fmt.Errorf("the URL is %q", url)
		}
		return nil
	})
}

func lookTrial(t *testing.T, c *cluster.Cluster) {
	runs(t, c, minimal, trial)
	cluster.Eventually(t, patience, func() error { return ready(get(t, c, namespace, sample)) })
	cr := get(t, c, namespace, sample)
	for _, condition := range []string{"AnalyticsReady", "CatalogueReady", "PayloadStoreReady"} {
		if !meta.IsStatusConditionTrue(cr.Status.Conditions, condition) {
			t.Errorf("%s is not True: %+v", condition, cr.Status.Conditions)
		}
	}
	for _, one := range cr.Status.Components {
		if one.Trial != (one.Name == "catalogue" || one.Name == "payloadstore") {
			t.Errorf("%s is marked as a trial: %v", one.Name, one.Trial)
		}
	}
	env := deployed(t, c)
	for name, want := range map[string]string{
		"elasticsearchUrl":     "https://seldon-internal-opensearch-cluster-master.seldon-system.svc.cluster.local:9200",
		"prometheusSeldonUrl":  "http://seldon-core-analytics-prometheus-seldon.seldon-system/api/v1/",
		"ALERTMANAGER_URL":     "http://seldon-core-analytics-prometheus-alertmanager.seldon-system/api/v1/alerts",
		"METADATA_PG_PASSWORD": "map[secretKeyRef:map[key:password name:metadata-postgres]]",
	} {
		if env[name] != want {
			t.Errorf("%s is %q, not %q", name, env[name], want)
		}
	}
}

// deployed is what Seldon Deploy is told: its variables and its ConfigMap.
func deployed(t *testing.T, c *cluster.Cluster) map[string]string {
	t.Helper()
	env := environment(c.Get(t, deployments, namespace, "seldon-deploy"))
	config, _, err := unstructured.NestedStringMap(c.Get(t, configMaps, namespace, "seldon-deploy-config").Object, "data")
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(env, config)
	return env
}

func lookRouting(t *testing.T, c *cluster.Cluster) {
	runs(t, c, minimal)
	cluster.Eventually(t, patience, func() error { return ready(get(t, c, namespace, sample)) })
	if g := c.Get(t, gateways, namespace, "seldon-gateway"); g == nil || !strings.Contains(text(g, "spec", "selector"), "ingressgateway") {
		t.Errorf("the Gateway is %v", g)
	}
	if v := text(c.Get(t, routes, namespace, "seldon-deploy"), "spec", "gateways"); v != "[seldon-system/seldon-gateway]" {
		t.Errorf("the VirtualService is on %s", v)
	}
	env := environment(c.Get(t, deployments, namespace, "seldon-controller-manager"))
	if env["ISTIO_ENABLED"] != "true" || env["ISTIO_GATEWAY"] != "seldon-system/seldon-gateway" {
		t.Errorf("Seldon Core has %v", env)
	}
	// The trial components were switched off: what they brought is gone, but for the passwords that unlock the volumes.
	if c.Get(t, secrets, namespace, "metadata-postgres") == nil {
		t.Error("the password of the database is gone, whose volume is not")
	}
}

func lookCustomGateway(t *testing.T, c *cluster.Cluster) {
	c.Apply(t, `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: seldon-gateway, namespace: istio-system}
spec: {selector: {istio: ingressgateway}, servers: []}
`)
	cluster.Eventually(t, patience, func() error {
		if c.Get(t, gateways, namespace, "seldon-gateway") != nil {
			return fmt.Errorf("our Gateway is still there")
		}
		if v := text(c.Get(t, routes, namespace, "seldon-deploy"), "spec", "gateways"); v != "[istio-system/seldon-gateway]" {
			return fmt.Errorf("the VirtualService is on %s", v)
		}
		if env := environment(c.Get(t, deployments, namespace, "seldon-controller-manager")); env["ISTIO_GATEWAY"] != "istio-system/seldon-gateway" {
			return fmt.Errorf("Seldon Core has %v", env)
		}
		return ready(get(t, c, namespace, sample))
	})
	if c.Get(t, gateways, "istio-system", "seldon-gateway") == nil {
		t.Error("the user's Gateway is gone")
	}
}

func lookDetectors(t *testing.T, c *cluster.Cluster) {
	cluster.Eventually(t, patience, func() error {
		b, tr := c.Get(t, brokers, namespace, "default"), c.Get(t, triggers, namespace, "seldon-request-logger-trigger")
		if url := text(b, "status", "address", "url"); url != "http://broker-ingress.knative-eventing.svc.cluster.local/seldon-system/default" {
			return fmt.Errorf("the Broker is at %q", url)
		}
		if uri := text(tr, "status", "subscriberUri"); uri != "http://seldon-request-logger.seldon-system.svc.cluster.local" || text(tr, "spec", "broker") != "default" {
			return fmt.Errorf("the Trigger has %q and %q", uri, text(tr, "spec", "broker"))
		}
		return nil
	})
	runs(t, c, minimal, map[string]string{"seldon-request-logger": "1/1"})
	cluster.Eventually(t, patience, func() error {
		env := environment(c.Get(t, deployments, namespace, "seldon-controller-manager"))
		if want := "http://broker-ingress.knative-eventing.svc.cluster.local/seldon-system/default"; env["EXECUTOR_REQUEST_LOGGER_DEFAULT_ENDPOINT"] != want {
			return fmt.Errorf("Seldon Core sends to %q, not %q", env["EXECUTOR_REQUEST_LOGGER_DEFAULT_ENDPOINT"], want)
		}
		return nil
	})
	// The manifest as it is has routing off, which detectors need.
	cluster.Eventually(t, time.Minute, func() error {
		return reason(get(t, c, namespace, sample), "RoutingDisabled", "set spec.enable.routing to true")
	})
	c.Kubectl(t, "-n", namespace, "patch", "seldonoperator", sample, "--type=merge", "-p", `{"spec":{"enable":{"routing":true}}}`)
	cluster.Eventually(t, patience, func() error { return ready(get(t, c, namespace, sample)) })
	if !meta.IsStatusConditionTrue(get(t, c, namespace, sample).Status.Conditions, "DetectorsReady") {
		t.Errorf("%+v", get(t, c, namespace, sample).Status.Conditions)
	}
}

func lookExternal(t *testing.T, c *cluster.Cluster) {
	c.Kubectl(t, "-n", namespace, "patch", "seldonoperator", sample, "--type=merge", "-p", `{"spec":{"enable":{"routing":null}}}`)
	runs(t, c, minimal)
	cluster.Eventually(t, patience, func() error { return ready(get(t, c, namespace, sample)) })
	env := deployed(t, c)
	for name, want := range map[string]string{
		"elasticsearchUrl":   "https://opensearch-cluster-master.seldon-logs.svc.cluster.local:9200",
		"ELASTICSEARCH_USER": "map[secretKeyRef:map[key:username name:elastic-credentials]]",
		"ELASTICSEARCH_PASS": "map[secretKeyRef:map[key:password name:elastic-credentials]]",
	} {
		if env[name] != want {
			t.Errorf("%s is %q, not %q", name, env[name], want)
		}
	}
}
