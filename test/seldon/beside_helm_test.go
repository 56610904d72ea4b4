package seldon

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"mlkeeper.dev/internal/manifest/manifesttest"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// ordered is a chart whose hooks have weights and names that are not in the order of its template, with an object that they need, one that an
// upgrade changes and one that it removes.
const ordered = `
{apiVersion: batch/v1, kind: Job, metadata: {name: b, annotations: {helm.sh/hook: "pre-install,pre-upgrade"}}, spec: SPEC}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: a, annotations: {helm.sh/hook: "pre-install,pre-upgrade"}}, spec: SPEC}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: first, annotations: {helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-weight: "-5"}}, spec: SPEC}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: installs, annotations: {helm.sh/hook: pre-install, helm.sh/hook-weight: "3"}}, spec: SPEC}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: upgrades, annotations: {helm.sh/hook: pre-upgrade, helm.sh/hook-weight: "3"}}, spec: SPEC}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: own, annotations: {}}, spec: SPEC}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: last, annotations: {helm.sh/hook: "post-install,post-upgrade", helm.sh/hook-weight: "9"}}, spec: SPEC}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: early, annotations: {helm.sh/hook: "post-install,post-upgrade", helm.sh/hook-delete-policy: hook-succeeded}}, spec: SPEC}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: helper, annotations: {helm.sh/hook: "pre-install,pre-upgrade,post-install,post-upgrade", helm.sh/hook-delete-policy: "before-hook-creation,hook-succeeded"}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {release: "RELEASE {{ .Release.Revision }} {{ .Release.IsUpgrade }} {{ .Release.IsInstall }}"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: of-RELEASE}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: kept-RELEASE, annotations: {helm.sh/resource-policy: keep}}}
`

// TestBesideHelm installs, upgrades and downgrades one chart with Helm's own command and as a component: the Jobs are made in the same order,
// and the same objects are there in the end.
func TestBesideHelm(t *testing.T) {
	c := cluster.Start(t)
	start(t, c, repository(t).URL, harness.Options{})
	helmSpace, ours := c.Namespace(t), c.Namespace(t)
	command, home := manifesttest.HelmCommand(t), t.TempDir()
	jobsOf := watchJobs(t, c, helmSpace, ours)
	for i, release := range []string{"one", "two", "one"} {
		spec := `{backoffLimit: 0, template: {metadata: {annotations: {release: "RELEASE"}}, spec: {restartPolicy: Never, containers: [{name: c, image: c}]}}}`
		template := strings.NewReplacer("SPEC", spec, "RELEASE", release).Replace(strings.Replace(ordered, "{name: own, annotations: {}}", "{name: own-RELEASE}", 1))
		template = strings.ReplaceAll(template, "RELEASE", release) // Those of the Jobs.
		chart := filepath.Join(home, fmt.Sprint("chart", i))
		if err := os.MkdirAll(filepath.Join(chart, "templates"), 0o750); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"Chart.yaml": "{apiVersion: v2, name: small, version: 1.0.0}\n", "templates/a.yaml": template} {
			if err := os.WriteFile(filepath.Join(chart, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		byHelm(t, c, command, helmSpace, chart)
		chartMap(t, c, ours, map[string]string{"core": template})
		if i == 0 {
			apply(t, c, ours, `{core: {chart: {repository: "configmap:charts/core.tgz"}}}`)
		}
		cluster.Eventually(t, patience, func() error {
			if got, want := content(t, c, ours), content(t, c, helmSpace); got != want {
				return fmt.Errorf("there is\n%s\nand by Helm\n%s", got, want)
			}
			return ready(get(t, c, ours, "stack"))
		})
		// The watches tell of the Jobs a moment later.
		var got, want []string
		cluster.Eventually(t, 10*time.Second, func() error {
			got, want = append(got, jobsOf(ours)...), append(want, jobsOf(helmSpace)...)
			if !slices.Equal(got, want) || len(want) == 0 {
				return fmt.Errorf("%s: the Jobs were made in the order %q, and by Helm %q", release, got, want)
			}
			return nil
		})
	}
}

// byHelm installs the release of the component core, or upgrades it, with Helm's own command.
func byHelm(t *testing.T, c *cluster.Cluster, command, ns, chart string, args ...string) {
	t.Helper()
	cmd := exec.Command(command, "upgrade", "--install", "seldon-core", chart, "--namespace", ns, "--kubeconfig", c.Kubeconfig, "--timeout", "2m")
	cmd.Args, cmd.Env = append(cmd.Args, args...), []string{"HOME=" + t.TempDir()}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

// watchJobs returns the Jobs that were made in a namespace since it was asked last, in their order, without those of CronJobs.
func watchJobs(t *testing.T, c *cluster.Cluster, namespaces ...string) func(string) []string {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	made := map[string][]string{}
	for _, ns := range namespaces {
		w, err := client.BatchV1().Jobs(ns).Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
		go func() {
			for event := range w.ResultChan() {
				if job, ok := event.Object.(*batchv1.Job); ok && event.Type == watch.Added && job.Annotations[batchv1.CronJobScheduledTimestampAnnotation] == "" {
					mu.Lock()
					made[ns] = append(made[ns], job.Name)
					mu.Unlock()
				}
			}
		}()
	}
	return func(ns string) []string {
		mu.Lock()
		defer mu.Unlock()
		out := made[ns]
		made[ns] = nil
		return out
	}
}

// content are the objects of the chart in a namespace, as far as the chart declares them.
func content(t *testing.T, c *cluster.Cluster, ns string) string {
	t.Helper()
	var out []string
	for _, kind := range []string{"configmaps", "jobs"} {
		var list struct {
			Items []struct {
				Metadata metav1.ObjectMeta
				Data     map[string]string
				Spec     batchv1.JobSpec
			}
		}
		if err := json.Unmarshal([]byte(c.Kubectl(t, "-n", ns, "get", kind, "-o", "json")), &list); err != nil {
			t.Fatal(err)
		}
		for _, one := range list.Items {
			if name := one.Metadata.Name; name != "charts" && name != "kube-root-ca.crt" && !strings.HasPrefix(name, "seldon") {
				out = append(out, fmt.Sprint(kind, "/", name, " ", one.Data, " ", one.Spec.Template.Annotations))
			}
		}
	}
	return strings.Join(out, "\n")
}
