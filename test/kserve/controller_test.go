//go:build realkserve

package kserve

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"mlkeeper.dev/test/cluster"
)

// With the tag realkserve the tests of this package that play no controller themselves run against KServe's own: its manager as a
// process, its definitions, its serving runtimes and its webhooks, in an installation for the mode Standard. Of Knative only the
// definitions are there. make test-kserve names the tests, builds the programs and says where the files of KServe's module are.
func init() {
	options = []cluster.Option{cluster.WithCRDs("knative"), cluster.WithFlags("--no-stand-in")}
	prepare = realKServe
	// A checkout without tags is taken for one of today.
	v, err := version.ParseGeneric(os.Getenv("KSERVE_VERSION"))
	if err != nil {
		return
	}
	// KServe 0.17 takes the ingress for undone, those before and later say what the old pods say (devcluster/internal/standin, standardReady).
	if v.Minor() == 17 {
		whileRolledOut = "False"
	}
	// Before 0.16 the modes had other names.
	if v.LessThan(version.MustParseGeneric("0.16.0")) {
		withoutKnative = "RawDeployment"
	}
}

// ingress is what such an installation has in KServe's inferenceservice-config. The domain is that of the stand-in, so that what
// both tell can be compared.
const ingress = `{"enableGatewayApi": false, "ingressGateway": "knative-serving/knative-ingress-gateway",
		"localGateway": "knative-serving/knative-local-gateway", "localGatewayService": "knative-local-gateway.istio-system.svc.cluster.local",
		"ingressDomain": "models.devcluster.test", "ingressClassName": "nginx", "urlScheme": "http", "disableIstioVirtualHost": true,
		"domainTemplate": "{{ .Name }}-{{ .Namespace }}.{{ .IngressDomain }}"}`

// controller is KServe's manager, which the tests share like their cluster, and what it has asked of the API server.
var controller struct {
	once     sync.Once
	err      error
	requests *cluster.Counter
}

// realKServe installs KServe and runs its manager.
func realKServe(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	controller.once.Do(func() { controller.err = installKServe(t, c) })
	if controller.err != nil {
		t.Fatalf("no KServe: %v", controller.err)
	}
}

func installKServe(t *testing.T, c *cluster.Cluster) error {
	t.Helper()
	manager, module := os.Getenv("KSERVE_MANAGER"), os.Getenv("KSERVE_MODULE")
	if manager == "" || module == "" {
		return errors.New("KSERVE_MANAGER and KSERVE_MODULE are not set: run make test-kserve")
	}
	config := filepath.Join(module, "config")
	steps := [][]string{
		{"create", "namespace", "kserve"},
		{"apply", "--server-side", "-k", filepath.Join(config, "crd")},
		{"apply", "--server-side", "-f", filepath.Join(config, "configmap/inferenceservice.yaml")},
		// A Knative Service is made with what Knative's autoscaler is configured to.
		{"create", "namespace", "knative-serving"},
		{"create", "configmap", "config-autoscaler", "-n", "knative-serving"},
	}
	// Later versions keep this definition apart from the others.
	if folder := filepath.Join(config, "crd/full/clusterstoragecontainer"); exists(folder) {
		steps = append(steps, []string{"apply", "--server-side", "-k", folder})
	}
	for _, args := range steps {
		if out, err := c.TryKubectl(args...); err != nil {
			return fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	c.AwaitServed(t)
	if err := configure(c); err != nil {
		return err
	}
	authority, webhooks, err := run(c, manager)
	if err != nil {
		return err
	}
	if err := registerWebhooks(c, filepath.Join(config, "webhook/manifests.yaml"), authority, webhooks); err != nil {
		return err
	}
	for _, folder := range []string{"runtimes", "storagecontainers"} {
		if out, err := c.TryKubectl("apply", "--server-side", "-k", filepath.Join(config, folder)); err != nil {
			return fmt.Errorf("apply %s: %w\n%s", folder, err, out)
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// configure changes inferenceservice-config as it is shipped to that of an installation for the mode Standard whose loggers verify
// whom they send to as docs/trustyai.md says.
func configure(c *cluster.Cluster) error {
	config := &corev1.ConfigMap{}
	if err := c.Client.Get(context.Background(), client.ObjectKey{Namespace: "kserve", Name: "inferenceservice-config"}, config); err != nil {
		return err
	}
	logger := map[string]any{}
	if err := json.Unmarshal([]byte(config.Data["logger"]), &logger); err != nil {
		return err
	}
	logger["caBundle"], logger["caCertFile"] = loggerBundle, loggerBundleFile
	changed, err := json.Marshal(logger)
	if err != nil {
		return err
	}
	config.Data["ingress"], config.Data["logger"] = ingress, string(changed)
	config.Data["deploy"] = `{"defaultDeploymentMode": "` + withoutKnative + `"}`
	return c.Client.Update(context.Background(), config)
}

// counted writes a kubeconfig of a proxy that counts the requests, and passes them on with the rights of an administrator.
func counted(c *cluster.Cluster) (kubeconfig string, counter *cluster.Counter, err error) {
	config, counter := cluster.WithCounter(c.Config)
	transport, err := rest.TransportFor(config)
	if err != nil {
		return "", nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return "", nil, err
	}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: transport, FlushInterval: -1,
	})
	kubeconfig = filepath.Join(c.Dir, "kserve.kubeconfig")
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: server.URL}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c"}},
		CurrentContext: "c",
	}, kubeconfig)
	return kubeconfig, counter, err
}

// run starts the manager, which ends with the test, and returns what signed its certificate and where its webhooks listen.
func run(c *cluster.Cluster, manager string) (authority []byte, webhooks string, err error) {
	authority, err = cluster.ServingCertificate(c.Dir, "kserve-webhook-server")
	if err != nil {
		return nil, "", err
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, "", err
	}
	kubeconfig, requests, err := counted(c)
	if err != nil {
		return nil, "", err
	}
	controller.requests = requests
	health := fmt.Sprintf("127.0.0.1:%d", ports[1])
	cmd := exec.Command(manager, "--metrics-addr=0", fmt.Sprintf("--webhook-port=%d", ports[0]), "--health-probe-addr="+health)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "POD_NAMESPACE=kserve", "TMPDIR="+c.Dir)
	if _, err := cluster.StartProgram(cmd, os.Getenv("KSERVE_LOG"), "http://"+health+"/readyz"); err != nil {
		return nil, "", err
	}
	return authority, fmt.Sprintf("https://127.0.0.1:%d", ports[0]), nil
}

// registerWebhooks applies KServe's webhook configurations, which name a Service, with the address of the process in its place.
func registerWebhooks(c *cluster.Cluster, file string, authority []byte, address string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for _, text := range strings.Split(string(content), "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			return err
		}
		hooks, _, _ := unstructured.NestedSlice(u.Object, "webhooks")
		for _, one := range hooks {
			path, _, _ := unstructured.NestedString(one.(map[string]any), "clientConfig", "service", "path")
			one.(map[string]any)["clientConfig"] = map[string]any{
				"url": address + path, "caBundle": base64.StdEncoding.EncodeToString(authority),
			}
		}
		if len(hooks) == 0 {
			continue
		}
		u.Object["webhooks"] = hooks
		if err := c.Client.Create(context.Background(), u); err != nil {
			return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return nil
}
