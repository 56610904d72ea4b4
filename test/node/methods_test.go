//go:build realnode && realinstall

package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/samples"
)

// method is a documented way to install, to upgrade and to uninstall a release.
type method struct {
	name      string
	install   func(*testing.T, *cluster.Cluster, *release)
	uninstall func(*testing.T, *cluster.Cluster, *release)
	// also tests what this way alone installs; nil where there is no such thing.
	also func(*testing.T, *cluster.Cluster)
}

// TestInstallMethods installs a release in each way on a real node, has samples become Ready, upgrades it to the release under test, which
// replaces no pod of them, uninstalls it, and finds nothing left. Each has a cluster of its own, since the garbage collector of Kubernetes is late
// for kinds that are deleted and made again within minutes.
func TestInstallMethods(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	before, after := readRelease(t, previousEnv), readRelease(t, releaseEnv)
	images := []standIn{{"docker.io/" + imageOfHello(t), "", []string{"wait"}}}
	for _, image := range slices.Concat(before.operands, after.operands) {
		switch {
		case strings.Contains(image, "/trustyai-service:"):
			images = append(images, standIn{image, "", []string{"serve", "JavaTLS"}})
		case strings.HasPrefix(image, "tensorflow/serving:"):
			images = append(images, standIn{"docker.io/" + image, servingPath, nil})
		}
	}
	for _, m := range []method{
		{"File", byFile, withoutFile, nil},
		{"Kustomize", byKustomize, withoutKustomize, consoleShowsEachUserTheirOwn},
		{"Chart", byChart, withoutChart, nil},
		{"Bundle", byBundle, withoutBundle, nil},
	} {
		t.Run(m.name, func(t *testing.T) {
			c := cluster.Start(t, cluster.WithFlags("--node=real"))
			explainFailures(t, c)
			before.load(t, c)
			after.load(t, c)
			loadStandIns(t, c, images...)
			m.life(t, c, before, after)
		})
	}
}

// life is that of one installation.
func (m method) life(t *testing.T, c *cluster.Cluster, before, after *release) {
	ns := c.Namespace(t)
	samples.Grant(t, c, operatorNamespace+"/"+operatorDeployment, ns)
	samples.Charts(t, c, ns)
	volume(t, c, "mypv", ns, "")
	there := everything(t, c)

	m.install(t, c, before)
	available(t, c, before)
	applied := samplesBecomeReady(t, c, ns)
	running := pods(t, c, ns)
	m.install(t, c, after)
	available(t, c, after)
	reconciled(t, c, ns)
	if now := pods(t, c, ns); now != running && slices.Equal(before.operands, after.operands) {
		t.Errorf("before the upgrade there were\n%sand now there are\n%s", running, now)
	}
	if m.also != nil {
		m.also(t, c)
	}

	for _, file := range applied {
		c.Kubectl(t, "delete", "-n", ns, "-f", file, "--timeout="+patience.String())
	}
	c.ExpectRefusals(t, "its roles are deleted before it ends", ".")
	m.uninstall(t, c, after)
	cluster.Eventually(t, patience, func() error {
		var errs []error
		for _, o := range everything(t, c) {
			// The claim has the data of the TrustyAIService.
			if !slices.Contains(there, o) && !strings.HasPrefix(o, "persistentvolumeclaims "+ns+"/") {
				errs = append(errs, fmt.Errorf("%s is left", o))
			}
		}
		return errors.Join(errs...)
	})
}

// everything lists what the cluster has, but for what the kubelet makes when it comes to it.
func everything(t *testing.T, c *cluster.Cluster) []string {
	t.Helper()
	all, err := c.Everything(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, o := range all {
		if o.Namespace != "kube-node-lease" {
			out = append(out, o.String())
		}
	}
	return out
}

// available waits until the operator of a release runs and its definitions are served.
func available(t *testing.T, c *cluster.Cluster, r *release) {
	t.Helper()
	c.Kubectl(t, "rollout", "status", "-n", operatorNamespace, "deployment/"+operatorDeployment, "--timeout="+patience.String())
	ours := c.Kubectl(t, "get", "crd", "-l", "app.kubernetes.io/part-of=mlkeeper", "-o", "jsonpath={.items[*].metadata.name}")
	c.AwaitServed(t, strings.Fields(ours)...)
	image := c.Kubectl(t, "get", "deployment", "-n", operatorNamespace, operatorDeployment, "-o",
		"jsonpath={.spec.template.spec.containers[0].image}")
	if _, digest, _ := strings.Cut(r.image, "@"); !strings.HasSuffix(image, "@"+digest) {
		t.Errorf("the operator runs %s, not %s", image, r.image)
	}
}

// sampleFiles need no network, and are of the kinds that every installation has. The charts of the SeldonOperator are in a ConfigMap.
var sampleFiles = map[string]string{
	"trustyaiservice/" + seedName: "trustyai-service.yaml", "tfserv/" + tfservName: "tfserv.yaml",
	"kfdef/hello": "kfdef.yaml", "seldonoperator/seldon": "seldonoperator.yaml",
}

// samplesBecomeReady applies the samples, and returns their files.
func samplesBecomeReady(t *testing.T, c *cluster.Cluster, ns string) []string {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for sample, name := range sampleFiles {
		text, err := os.ReadFile(filepath.Join(root, "config", "samples", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, component := range []string{"core", "enterprise"} {
			chart, err := json.Marshal(samples.ChartOf(component))
			if err != nil {
				t.Fatal(err)
			}
			if sample == "seldonoperator/seldon" {
				text = fmt.Appendf(text, "  %s: {chart: %s}\n", component, chart)
			}
		}
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		c.Kubectl(t, "apply", "-n", ns, "-f", file)
		files = append(files, file)
	}
	for sample := range sampleFiles {
		c.Kubectl(t, "wait", "-n", ns, sample, "--for=condition=Ready", "--timeout="+patience.String())
	}
	return files
}

// imageOfHello is the image in the sample of a KfDef.
func imageOfHello(t *testing.T) string {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "config", "samples", "kfdef", "manifests", "hello", "hello.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(regexp.MustCompile(`image: (\S+)`).FindSubmatch(text)[1])
}

// pods are those of a namespace, and how often they were restarted.
func pods(t *testing.T, c *cluster.Cluster, ns string) string {
	t.Helper()
	return c.Kubectl(t, "get", "pods", "-n", ns, "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.status.containerStatuses[*].restartCount}{"\n"}{end}`)
}

// reconciled has the operator look at the samples, and waits until they are Ready.
func reconciled(t *testing.T, c *cluster.Cluster, ns string) {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	for sample := range sampleFiles {
		out, err := exec.CommandContext(t.Context(), filepath.Join(root, "bin", "mlkeeper"), "reconcile", sample, "-n", ns, "--wait",
			"--timeout="+patience.String(), "--kubeconfig", c.Kubeconfig).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", sample, err, out)
		}
	}
}

func must(t *testing.T, out string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// byFile applies install.yaml.
func byFile(t *testing.T, c *cluster.Cluster, r *release) {
	c.Kubectl(t, "apply", "--server-side", "-f", filepath.Join(r.folder, "install.yaml"))
}

func withoutFile(t *testing.T, c *cluster.Cluster, r *release) {
	c.Kubectl(t, "delete", "--ignore-not-found", "-f", filepath.Join(r.folder, "install.yaml"), "--timeout="+patience.String())
}

// byKustomize deploys the release with three components.
func byKustomize(t *testing.T, c *cluster.Cluster, r *release) {
	out, err := c.Make(t, r.tree, "deploy", "IMG="+r.image, "COMPONENTS=network-policy disruption-budget console")
	must(t, out, err)
}

func withoutKustomize(t *testing.T, c *cluster.Cluster, r *release) {
	out, err := c.Make(t, r.tree, "undeploy")
	must(t, out, err)
}

// byChart installs the packed chart, or upgrades to it, and tests the release.
func byChart(t *testing.T, c *cluster.Cluster, r *release) {
	charts, err := filepath.Glob(filepath.Join(r.folder, "mlkeeper-*.tgz"))
	if err != nil || len(charts) != 1 {
		t.Fatalf("the release has the charts %v: %v", charts, err)
	}
	out, err := c.Helm(t, operatorNamespace, "upgrade", "--install", "mlkeeper", charts[0], "--create-namespace", "--wait",
		"--timeout", patience.String())
	must(t, out, err)
	out, err = c.Helm(t, operatorNamespace, "test", "mlkeeper", "--timeout", patience.String())
	must(t, out, err)
}

// withoutChart deletes what helm keeps, too.
func withoutChart(t *testing.T, c *cluster.Cluster, _ *release) {
	out, err := c.Helm(t, operatorNamespace, "uninstall", "mlkeeper", "--wait", "--timeout", patience.String())
	must(t, out, err)
	c.Kubectl(t, "delete", "crd", "-l", "app.kubernetes.io/part-of=mlkeeper", "--timeout="+patience.String())
	c.Kubectl(t, "delete", "clusterrole", "mlkeeper-trustyai-proxy")
	c.Kubectl(t, "delete", "namespace", operatorNamespace, "--timeout="+patience.String())
}
