//go:build realhelm

// Package chart tests charts/mlkeeper with helm itself, which HELM names, on an API server (make test-chart). What the chart renders is
// tested in hack/chart.
package chart

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/test/cluster"
)

const (
	namespace = "mlkeeper-system"
	manager   = "mlkeeper-controller-manager"
	patience  = 3 * time.Minute
)

var (
	definitions = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	services    = schema.GroupVersionKind{Group: "trustyai.opendatahub.io", Version: "v1", Kind: "TrustyAIService"}
)

func TestMain(m *testing.M) { cluster.Main(m) }

// run runs helm against a cluster.
func run(t *testing.T, c *cluster.Cluster, args ...string) (string, error) {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	for i, arg := range args {
		args[i] = strings.ReplaceAll(arg, "CHART", filepath.Join(root, "charts", "mlkeeper"))
	}
	return c.Helm(t, namespace, args...)
}

func must(t *testing.T, c *cluster.Cluster, args ...string) string {
	t.Helper()
	out, err := run(t, c, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// proxyRole is the ClusterRole of the proxies of Secured services, which stay with their definition.
const proxyRole = "mlkeeper-trustyai-proxy"

// kept are the resources that stay with the definitions, and the namespace.
var kept = []string{"customresourcedefinitions", "apiservices", "namespaces"}

var image = []string{"--set", "image.repository=registry.example.com/mlkeeper", "--set", "image.tag=v0.1.0"}

// problems asks mlkeeper check for what does not fit the release.
func problems(t *testing.T, c *cluster.Cluster) error {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(root, "bin", "mlkeeper"), "check", "-o", "json", "--kubeconfig", c.Kubeconfig).Output()
	var report struct {
		Checks []struct{ State, Subject, Message string }
	}
	if jsonErr := json.Unmarshal(out, &report); jsonErr != nil || len(report.Checks) == 0 {
		return fmt.Errorf("mlkeeper check: %w, %w: %s", err, jsonErr, out)
	}
	for _, one := range report.Checks {
		if one.State != "ok" {
			return fmt.Errorf("%s: %s", one.Subject, one.Message)
		}
	}
	return nil
}

// TestLife installs a release, switches controllers off and on, and uninstalls it.
func TestLife(t *testing.T) {
	c := cluster.Start(t)
	out := must(t, c, append([]string{"install", "mlkeeper", "CHART", "--create-namespace"}, image...)...)
	if !strings.Contains(out, "mlkeeper rbac -f FILE") {
		t.Errorf("the notes do not tell of the rights of KfDefs:\n%s", out)
	}
	cluster.Eventually(t, patience, func() error { return problems(t, c) })
	c.Apply(t, "apiVersion: trustyai.opendatahub.io/v1\nkind: TrustyAIService\nmetadata: {name: kept}\n"+
		"spec: {storage: {format: PVC, folder: /data, size: 1Gi}, data: {filename: a.csv, format: CSV}, metrics: {schedule: 5s}}\n")

	// What a controller alone needs goes with it, its definition and the custom resources stay.
	must(t, c, append([]string{"upgrade", "mlkeeper", "CHART", "--set", "controllers.trustyai=false"}, image...)...)
	if _, err := c.TryKubectl("get", "clusterrole", "mlkeeper-trustyai"); err == nil {
		t.Error("the rights of a controller stay when it is switched off")
	}
	if c.Get(t, services, "default", "kept") == nil {
		t.Fatal("a custom resource went with its controller")
	}
	c.Kubectl(t, "get", "clusterrole", proxyRole)
	if args := c.Kubectl(t, "-n", namespace, "get", "deployment", manager, "-o", "jsonpath={.spec.template.spec.containers[0].args}"); strings.Contains(args, "trustyai") {
		t.Errorf("the manager still runs with %s", args)
	}
	// A claim comes and goes.
	must(t, c, append([]string{"upgrade", "mlkeeper", "CHART", "--set", "sources.existingClaim=data"}, image...)...)
	if surge := c.Kubectl(t, "-n", namespace, "get", "deployment", manager, "-o", "jsonpath={.spec.strategy.rollingUpdate.maxSurge}"); surge != "0" {
		t.Errorf("with a claim, %s pods are added to the one that has it", surge)
	}
	must(t, c, append([]string{"upgrade", "mlkeeper", "CHART", "--reset-values"}, image...)...)
	cluster.Eventually(t, patience, func() error { return problems(t, c) })

	must(t, c, "uninstall", "mlkeeper", "--wait")
	all, err := c.Everything(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		// The namespace is helm's, and an API service belongs to each definition.
		if strings.Contains(o.Name, "mlkeeper") && o.Namespace == "" && !slices.Contains(kept, o.Resource) && o.Name != proxyRole {
			t.Errorf("helm uninstall leaves %s", o)
		}
	}
	if c.Get(t, services, "default", "kept") == nil {
		t.Error("a custom resource went with the release")
	}
	// The definitions that stayed are the release's of that name.
	must(t, c, append([]string{"install", "mlkeeper", "CHART"}, image...)...)
	cluster.Eventually(t, patience, func() error { return problems(t, c) })
}

// TestDefinitionsOfOthers installs a release over definitions that kubectl applied, and is refused by an original operator's.
func TestDefinitionsOfOthers(t *testing.T) {
	c := cluster.Start(t)
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	c.Kubectl(t, "apply", "--server-side", "-k", filepath.Join(root, "config", "crd"))
	install := append([]string{"install", "mlkeeper", "CHART", "--create-namespace"}, image...)
	out, err := run(t, c, install...)
	if err == nil || !strings.Contains(out, "--take-ownership") && !strings.Contains(out, "invalid ownership metadata") {
		t.Errorf("helm takes over what kubectl applied, unasked: %v\n%s", err, out)
	}
	must(t, c, append(install, "--take-ownership", "--force-conflicts")...)
	cluster.Eventually(t, patience, func() error { return problems(t, c) })
	must(t, c, "uninstall", "mlkeeper", "--wait")

	const name = "trustyaiservices.trustyai.opendatahub.io"
	c.Kubectl(t, "patch", "crd", name, "--type=merge", "-p", `{"spec":{"conversion":{"strategy":"Webhook","webhook":{
		"conversionReviewVersions":["v1"],"clientConfig":{"service":{"namespace":"opendatahub","name":"webhook"}}}}}}`)
	out, err = run(t, c, append(install, "--take-ownership")...)
	if err == nil || !strings.Contains(out, name) || !strings.Contains(out, "mlkeeper check --pre") {
		t.Errorf("an original operator's definition: %v\n%s", err, out)
	}
	if c.Get(t, definitions, "", name) == nil {
		t.Error("the definition is gone")
	}
	if _, err := c.TryKubectl("-n", namespace, "get", "deployment", manager); err == nil {
		t.Error("half of the release is installed")
	}
}
