//go:build realoriginal

package original

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/ports"
)

const (
	definition = "trustyaiservices.trustyai.opendatahub.io"
	// upstreamNamespace is where Open Data Hub deploys upstream's operator.
	upstreamNamespace = "opendatahub"
	upstreamOperator  = "trustyai-service-operator-controller-manager"
	image             = "registry.example.com/mlkeeper:v0.1.0"
)

// manifest writes a kustomization of upstream's overlay odh in the namespace of Open Data Hub, which is how its operator deploys it.
func (s *site) manifest() string {
	s.t.Helper()
	folder := filepath.Join(s.c.Dir, "original")
	overlay, err := filepath.Rel(folder, filepath.Join(s.checkout, "config", "overlays", "odh"))
	if err != nil {
		s.t.Fatal(err)
	}
	text := fmt.Sprintf("namespace: %s\nresources: [%s]\n", upstreamNamespace, overlay)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return folder
}

// startUpstream runs upstream's operator. Its Deployment has a simulated pod, of which the process is the container: with its environment, and
// with the controller of TrustyAIServices alone. The API server cannot reach the process by the Service, so the definition has its address.
func (s *site) startUpstream() {
	s.t.Helper()
	s.c.Kubectl(s.t, "-n", upstreamNamespace, "rollout", "status", "deployment/"+upstreamOperator, "--timeout=2m")
	authority, err := cluster.ServingCertificate(s.c.Dir, "trustyai-webhook")
	if err != nil {
		s.t.Fatal(err)
	}
	health := s.address()
	cmd := exec.Command(os.Getenv("ORIGINAL_MANAGER"), "--metrics-bind-address=0", "--health-probe-bind-address="+health, "--enable-services", "TAS")
	cmd.Env = append(os.Environ(), "APPLICATIONS_NAMESPACE="+upstreamNamespace)
	for _, one := range s.container(upstreamNamespace, upstreamOperator, "env") {
		variable := one.(map[string]any)
		cmd.Env = append(cmd.Env, fmt.Sprint(variable["name"], "=", variable["value"]))
	}
	s.start(cmd, upstreamNamespace, upstreamOperator, "upstream", "http://"+health+"/readyz")
	// The port of its webhook is part of its source (cmd/main.go).
	s.converts(fmt.Sprintf(`{"service":null,"url":"https://127.0.0.1:9443/convert","caBundle":%q}`, base64.StdEncoding.EncodeToString(authority)))
	cluster.Eventually(s.t, patience, func() error {
		_, err := s.c.TryKubectl("get", "trustyaiservices.v1alpha1.trustyai.opendatahub.io", "-A")
		return err
	})
}

// converts changes who converts the versions of upstream's definition, under the name of OpenShift's service-ca, which has a field of it in each
// case: the authority, by the annotation service.beta.openshift.io/inject-cabundle.
func (s *site) converts(clientConfig string) {
	s.t.Helper()
	s.c.Kubectl(s.t, "patch", "crd", definition, "--type=merge", "--field-manager=service-ca-operator", "-p",
		`{"spec":{"conversion":{"webhook":{"clientConfig":`+clientConfig+`}}}}`)
}

// stopUpstream stops it as docs/trustyai.md says. The definition is again as upstream's manifest has it.
func (s *site) stopUpstream() {
	s.t.Helper()
	s.c.Kubectl(s.t, "-n", upstreamNamespace, "scale", "deployment", upstreamOperator, "--replicas=0")
	s.c.Kubectl(s.t, "-n", upstreamNamespace, "wait", "--for=delete", "pod", "-l", "control-plane=trustyai-service-operator", "--timeout=2m")
	s.stop()
	s.converts(fmt.Sprintf(`{"url":null,"service":{"namespace":%q,"name":"trustyai-service-operator-webhook-service","path":"/convert"}}`, upstreamNamespace))
}

// deployMLKeeper deploys it as docs/trustyai.md says for OpenShift, which refuses the user of the manifest.
func (s *site) deployMLKeeper() {
	s.t.Helper()
	root, err := cluster.Root()
	if err != nil {
		s.t.Fatal(err)
	}
	if out, err := s.c.Make(s.t, root, "deploy", "IMG="+image); err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
	s.c.Kubectl(s.t, "-n", cluster.OperatorNamespace, "patch", "deployment", cluster.OperatorAccount, "--type=strategic", "-p",
		`{"spec":{"template":{"spec":{"containers":[{"name":"manager","securityContext":{"runAsUser":null,"runAsGroup":null}}]}}}}`)
	s.c.Kubectl(s.t, "-n", cluster.OperatorNamespace, "rollout", "status", "deployment/"+cluster.OperatorAccount, "--timeout=2m")
}

// startMLKeeper runs MLKeeper with the flags of its Deployment, whose pod is simulated too.
func (s *site) startMLKeeper() {
	s.t.Helper()
	health := s.address()
	var args []string
	for _, one := range s.container(cluster.OperatorNamespace, cluster.OperatorAccount, "args") {
		args = append(args, one.(string))
	}
	args = append(args, "--metrics-bind-address=0", "--health-probe-bind-address="+health, "--source-dir="+filepath.Join(s.c.Dir, "sources"),
		"--leader-election-namespace="+cluster.OperatorNamespace)
	cmd := exec.Command(os.Getenv("ORIGINAL_MLKEEPER"), args...)
	s.start(cmd, cluster.OperatorNamespace, cluster.OperatorAccount, "mlkeeper", "http://"+health+"/readyz")
}

// container is a list of the container of an operator's Deployment.
func (s *site) container(namespace, name, field string) []any {
	s.t.Helper()
	containers, _, _ := unstructured.NestedSlice(s.c.Get(s.t, deployments, namespace, name).Object, "spec", "template", "spec", "containers")
	list, _, err := unstructured.NestedSlice(containers[0].(map[string]any), field)
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

func (s *site) address() string {
	s.t.Helper()
	port, err := ports.Free()
	if err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// works waits until MLKeeper corrects something, which shows that it is through with what it found.
func (s *site) works() {
	s.t.Helper()
	monitor := func() string {
		return s.c.Kubectl(s.t, "-n", services[0].namespace, "get", "servicemonitor", services[0].name, "--ignore-not-found", "-o", "jsonpath={.metadata.uid}")
	}
	was := monitor()
	s.c.Kubectl(s.t, "-n", services[0].namespace, "delete", "servicemonitor", services[0].name)
	cluster.Eventually(s.t, patience, func() error {
		if now := monitor(); now == "" || now == was {
			return fmt.Errorf("the ServiceMonitor of %s is not made again: %q", services[0].name, now)
		}
		return nil
	})
}

// took prints how long a step took.
func (s *site) took(step string, start time.Time) {
	s.t.Helper()
	s.t.Logf("%s: %s", strings.ToUpper(step[:1])+step[1:], time.Since(start).Round(time.Second/10))
}
