package seldon

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mlkeeper.dev/internal/manifest/manifesttest"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// adoptable is a chart whose hook of an installation would harm what is installed.
const adoptable = `
{apiVersion: batch/v1, kind: Job, metadata: {name: initialise, annotations: {helm.sh/hook: pre-install, helm.sh/hook-delete-policy: hook-succeeded}}, spec: SPEC}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: migrate, annotations: {helm.sh/hook: pre-upgrade}}, spec: SPEC}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {release: "{{ .Release.Revision }} {{ .Release.IsUpgrade }}"}}
`

// TestAReleaseOfHelmIsTakenOver: nothing is applied and no hook is run before somebody asks for it, and then those of an upgrade.
func TestAReleaseOfHelmIsTakenOver(t *testing.T) {
	c := cluster.Start(t)
	start(t, c, repository(t).URL, harness.Options{})
	ns, chart := c.Namespace(t), t.TempDir()
	template := strings.ReplaceAll(adoptable, "SPEC", `{backoffLimit: 0, template: {spec: {restartPolicy: Never, containers: [{name: c, image: c}]}}}`)
	if err := os.Mkdir(filepath.Join(chart, "templates"), 0o750); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"Chart.yaml": "{apiVersion: v2, name: small, version: 1.0.0}\n", "templates/a.yaml": template} {
		if err := os.WriteFile(filepath.Join(chart, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	byHelm(t, c, manifesttest.HelmCommand(t), ns, chart)
	settings, jobsOf := c.Get(t, configMaps, ns, "settings"), watchJobs(t, c, ns)
	jobsOf(ns)
	chartMap(t, c, ns, map[string]string{"core": template})
	apply(t, c, ns, `{core: {chart: {repository: "configmap:charts/core.tgz"}}}`)
	cluster.Eventually(t, patience, func() error { return reason(get(t, c, ns, "stack"), "ResourceConflict", "settings exists already") })
	if jobs := jobsOf(ns); len(jobs) > 0 {
		t.Errorf("before it is to be adopted, %q ran", jobs)
	}
	c.Kubectl(t, "annotate", "seldonoperator", "stack", "-n", ns, "keeper.mlkeeper.dev/adopt=true")
	cluster.Eventually(t, patience, func() error { return ready(get(t, c, ns, "stack")) })
	now := c.Get(t, configMaps, ns, "settings")
	if got := fmt.Sprint(now.Object["data"]); now.GetUID() != settings.GetUID() || got != "map[release:2 true]" {
		t.Errorf("the templates were told %s; the object was made again: %t", got, now.GetUID() != settings.GetUID())
	}
	var jobs []string
	cluster.Eventually(t, 10*time.Second, func() error {
		if jobs = append(jobs, jobsOf(ns)...); !slices.Equal(jobs, []string{"migrate"}) {
			return fmt.Errorf("the Jobs that ran are %q", jobs)
		}
		return nil
	})
}
