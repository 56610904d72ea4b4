package e2e

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"mlkeeper.dev/config/crd"
	"mlkeeper.dev/internal/cli"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/trustyai"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/harness"
)

// shell runs commands of mlkeeper against a cluster.
type shell struct {
	t          *testing.T
	kubeconfig string
	settings   trustyai.Settings
}

func newShell(t *testing.T, c *cluster.Cluster) *shell {
	return &shell{t: t, kubeconfig: c.Kubeconfig, settings: trustyai.Settings{Image: trustyai.DefaultImage, ProxyImage: trustyai.DefaultProxyImage, DryRun: true}}
}

// run returns everything that a command prints, and its exit status.
func (s *shell) run(create func(cli.Environment) *cobra.Command, args ...string) (out string, status int) {
	s.t.Helper()
	connection := &cli.Connection{}
	flags := pflag.NewFlagSet("connection", pflag.ContinueOnError)
	connection.Bind(flags)
	if err := flags.Set("kubeconfig", s.kubeconfig); err != nil {
		s.t.Fatal(err)
	}
	cmd := create(cli.Environment{
		Connection: connection, Definitions: crd.Definitions, Now: time.Now,
		Controllers: func() []controller.Any {
			return []controller.Any{controller.Erase(trustyai.Definition(), trustyai.New(s.settings))}
		},
	})
	var text bytes.Buffer
	cmd.SetOut(&text)
	cmd.SetErr(&text)
	cmd.SetArgs(args)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(s.t.Context())
	var exit *cli.Exit
	switch {
	case errors.As(err, &exit):
		status = exit.Status
	case err != nil:
		status = 1
	}
	if err != nil {
		text.WriteString(err.Error())
	}
	return text.String(), status
}

// says runs a command and checks its exit status and what it says.
func (s *shell) says(status int, words []string, create func(cli.Environment) *cobra.Command, args ...string) string {
	s.t.Helper()
	out, got := s.run(create, args...)
	if got != status {
		s.t.Errorf("%v: the exit status is %d and should be %d:\n%s", args, got, status, out)
	}
	// A paragraph is broken anywhere.
	flat := strings.Join(strings.Fields(out), " ")
	for _, word := range words {
		if !strings.Contains(flat, word) {
			s.t.Errorf("%v does not say %q:\n%s", args, word, out)
		}
	}
	return out
}

func TestCommandsOnAServiceWhoseVolumeIsMissing(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	ns, sh := c.Namespace(t), newShell(t, c)
	c.Apply(t, adr(pvName(ns)), ns)
	says(t, c, ns, example, "Ready", metav1.ConditionFalse, "VolumeNotFound")
	name := "tas/" + example
	sh.says(0, []string{"Ready: False", "VolumeNotFound", "stage service", "PersistentVolumeClaim/trustyai-service-pvc", "Pending"},
		cli.NewTreeCommand, name, "-n", ns)
	sh.says(0, []string{
		"is not Ready (VolumeNotFound)", "requests the PersistentVolume " + pvName(ns) + ", which does not exist",
		"What to do: Create that PersistentVolume", "belongs to TrustyAIService",
	}, cli.NewExplainCommand, "deployment/trustyai-service", "-n", ns)
	sh.says(1, []string{"is not Ready after 10s", "PersistentVolumeClaim trustyai-service-pvc is not ready", "What to do: Create that PersistentVolume"},
		cli.NewWaitCommand, name, "-n", ns, "--timeout", "10s")
	sh.says(2, []string{"problem", "VolumeNotFound", "0 changed"}, cli.NewDiffCommand, name, "-n", ns)

	made := time.AfterFunc(time.Second, func() { volume(t, c, pvName(ns)) })
	defer made.Stop()
	sh.says(0, []string{"PersistentVolumeClaim trustyai-service-pvc: ready", "Deployment trustyai-service: ready", example + " is Ready"},
		cli.NewWaitCommand, name, "-n", ns, "--timeout", "60s")
	sh.says(0, []string{"is Ready since", "5 of its 5 objects are healthy"}, cli.NewExplainCommand, name, "-n", ns)
	sh.says(0, []string{"0 created, 0 changed, 0 deleted, 5 unchanged"}, cli.NewDiffCommand, name, "-n", ns)

	c.Kubectl(t, "-n", ns, "delete", "trustyaiservice", example, "--wait=false")
	sh.says(0, []string{example + " is gone", "PersistentVolumeClaim trustyai-service-pvc was retained"},
		cli.NewWaitCommand, name, "-n", ns, "--for=deleted", "--timeout", "60s")
}

func TestDiffShowsWhatAnotherImageChangesAndWritesNothing(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	s := fixture.Create(t, c, fixture.Secured)
	s.AwaitReady(t, c)
	sh, name := newShell(t, c), "tas/"+s.Name
	sh.says(0, []string{"ClusterRoleBinding/" + s.Binding(), "stage service"}, cli.NewTreeCommand, name, "-n", s.Namespace)
	sh.says(0, []string{"0 created, 0 changed, 0 deleted"}, cli.NewDiffCommand, name, "-n", s.Namespace)

	deployment := gvkOf("apps/v1", "Deployment")
	before := c.Get(t, deployment, s.Namespace, s.Name)
	sh.settings.Image = "quay.io/trustyai/trustyai-service:v0.27.0"
	change := []string{
		"changed Deployment " + s.Namespace + "/" + s.Name, "- image: " + trustyai.DefaultImage,
		"+ image: quay.io/trustyai/trustyai-service:v0.27.0", "0 created, 1 changed, 0 deleted",
	}
	admin := sh.says(1, change, cli.NewDiffCommand, name, "-n", s.Namespace)
	if n := changedLines(admin); n != 2 {
		t.Errorf("%d lines differ, and only the image should:\n%s", n, admin)
	}
	sh.kubeconfig = reader(t, c, s.Namespace)
	viewer := sh.says(1, append(change, "no dry run of Deployments is possible"), cli.NewDiffCommand, name, "-n", s.Namespace)
	if n := changedLines(viewer); n != 2 {
		t.Errorf("%d lines differ for whoever may only read, and only the image should:\n%s", n, viewer)
	}
	if now := c.Get(t, deployment, s.Namespace, s.Name); now.GetResourceVersion() != before.GetResourceVersion() {
		t.Error("the Deployment was written")
	}
}

// changedLines counts the lines of a diff that are taken out or put in.
func changedLines(out string) int {
	n := 0
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "+ ") || strings.HasPrefix(line, "- ") {
			n++
		}
	}
	return n
}

// reader writes the kubeconfig of somebody who may read everything and write nothing.
func reader(t *testing.T, c *cluster.Cluster, ns string) string {
	t.Helper()
	c.Apply(t, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: read-everything-`+ns+`}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: read-everything-`+ns+`}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: read-everything-`+ns+`}
subjects: [{kind: ServiceAccount, name: reader, namespace: `+ns+`}]
`, ns)
	t.Cleanup(func() {
		_, _ = c.TryKubectl("delete", "clusterrole,clusterrolebinding", "read-everything-"+ns, "--ignore-not-found")
	})
	c.AwaitAllowed(t, ns, "reader", authorizationv1.ResourceAttributes{Group: "*", Resource: "*", Verb: "list"})
	token := strings.TrimSpace(c.Kubectl(t, "-n", ns, "create", "token", "reader"))
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{
		Server: c.Config.Host, CertificateAuthorityData: c.Config.CAData, CertificateAuthority: c.Config.CAFile,
	}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u", Namespace: ns}
	config.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCommandsOnANameThatIsTakenAndOnASecondService(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	ns, sh := c.Namespace(t), newShell(t, c)
	volume(t, c, pvName(ns))
	c.Apply(t, `
apiVersion: v1
kind: Service
metadata: {name: trustyai-service}
spec: {selector: {app: theirs}, ports: [{port: 1}]}
`, ns)
	c.Apply(t, adr(pvName(ns)), ns)
	says(t, c, ns, example, "Ready", metav1.ConditionFalse, "ResourceConflict")
	sh.says(0, []string{"(ResourceConflict)", "An object of another owner exists with the name", "keeper.mlkeeper.dev/adopt=true"},
		cli.NewExplainCommand, "trustyaiservices/"+example, "-n", ns)
	sh.says(0, []string{"conflict Service " + ns + "/trustyai-service"}, cli.NewDiffCommand, "tas/"+example, "-n", ns, "-o", "summary")

	secondOver(t, c.Get(t, fixture.GVK, ns, example))
	c.Apply(t, strings.Replace(adr(pvName(ns)), example, "second", 1), ns)
	says(t, c, ns, "second", "Stalled", metav1.ConditionTrue, "DuplicateService")
	sh.says(0, []string{"(DuplicateService)", "It stays Stalled until that is changed", "spec.metrics"}, cli.NewExplainCommand, "tas/second", "-n", ns)
	sh.says(1, []string{"does not become Ready without a change", "What to do: Delete one of the two"},
		cli.NewWaitCommand, "tas/second", "-n", ns, "--timeout", "60s")
}
