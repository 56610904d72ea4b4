package seldon

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// migrating is a chart whose hook fails if the values say so, with an object that comes before the hook, and one that only the second
// revision has.
const migrating = `
{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {value: {{ .Values.value | quote }}, revision: "{{ .Release.Revision }}"}}
{{- if eq .Values.value "second" }}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: "{{ .Values.value }}"}}
{{- end }}
---
apiVersion: batch/v1
kind: Job
metadata: {name: check, annotations: {helm.sh/hook: 'post-install,post-upgrade'}}
spec:
  backoffLimit: 0
  template:
    metadata: {annotations: {devcluster.mlkeeper.dev/fail: {{ .Values.fail | quote }}}}
    spec: {restartPolicy: Never, containers: [{name: c, image: c}]}
`

// TestAnUpgradeIsRolledBack: a hook after the upgrade fails, so that what ran before is applied again, once. It stays so over a restart, is
// repaired meanwhile, and other values are another attempt.
func TestAnUpgradeIsRolledBack(t *testing.T) {
	c := cluster.Start(t)
	url := repository(t).URL
	o := start(t, c, url, harness.Options{})
	ns := c.Namespace(t)
	jobs := schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}
	chartMap(t, c, ns, map[string]string{"core": migrating})
	upgrade := func(value, fail string) {
		t.Helper()
		apply(t, c, ns, fmt.Sprintf(`{core: {chart: {repository: "configmap:charts/core.tgz"}, values: {value: %s, fail: %q}, upgrade: {onFailure: Rollback}}}`, value, fail))
	}
	holds := func(value string) error {
		if got := text(c.Get(t, configMaps, ns, "one"), "data", "value"); got != value {
			return fmt.Errorf("the value is %q, not %q", got, value)
		}
		return nil
	}
	history := func(want string) error { return coreHistory(t, c, ns, want) }
	upgrade("first", "")
	cluster.Eventually(t, patience, func() error {
		if err := holds("first"); err != nil {
			return err
		}
		return ready(get(t, c, ns, "stack"))
	})
	rolledBack := func(want string) {
		t.Helper()
		cluster.Eventually(t, patience, func() error {
			if err := holds("first"); err != nil {
				return err
			}
			if err := history(want); err != nil {
				return err
			}
			if c.Get(t, configMaps, ns, "second") != nil {
				return errors.New("what only the second revision has is still there")
			}
			if c.Get(t, jobs, ns, "check") == nil {
				return errors.New("the hook that has failed is gone, with its logs")
			}
			return reason(get(t, c, ns, "stack"), "RolledBack", "revision 2 has failed, and revision 1 is applied again: HookFailed")
		})
	}
	const once = "3 Deployed 1, 2 Failed 0, 1 Superseded 0"
	upgrade("second", "Error")
	rolledBack(once)
	// A standing failure is not tried again.
	o.Settle(t, time.Minute)
	before := o.Requests.Snapshot()
	cluster.Consistently(t, 5*time.Second, func() error {
		if since := o.Requests.Since(before); cluster.Sum(since, cluster.Request.Write) > 0 {
			return fmt.Errorf("the operator writes:\n%s", cluster.Describe(since))
		}
		return nil
	})
	o.Stop()
	c.Kubectl(t, "-n", ns, "delete", "configmap", "one")
	start(t, c, url, harness.Options{})
	rolledBack(once)
	upgrade("third", "")
	cluster.Eventually(t, patience, func() error {
		if err := holds("third"); err != nil {
			return err
		}
		if err := history("4 Deployed 0, 3 Superseded 1, 2 Failed 0, 1 Superseded 0"); err != nil {
			return err
		}
		return ready(get(t, c, ns, "stack"))
	})
}

// coreHistory says whether the component core has a history.
func coreHistory(t *testing.T, c *cluster.Cluster, ns, want string) error {
	t.Helper()
	var out []string
	for _, part := range get(t, c, ns, "stack").Status.Components {
		for _, r := range part.History {
			if part.Name == "core" {
				out = append(out, fmt.Sprintf("%d %s %d", r.Revision, r.Outcome, r.RollbackTo))
			}
		}
	}
	if got := strings.Join(out, ", "); got != want {
		return fmt.Errorf("the history is %q, not %q", got, want)
	}
	return nil
}

// TestAnUpgradeThatCannotBeRenderedIsNoRevision: a chart that fails for an upgrade alone changes nothing of what runs, which is repaired.
func TestAnUpgradeThatCannotBeRenderedIsNoRevision(t *testing.T) {
	c := cluster.Start(t)
	url := repository(t).URL
	start(t, c, url, harness.Options{})
	for _, onFailure := range []string{"Keep", "Rollback"} {
		ns := c.Namespace(t)
		chartMap(t, c, ns, map[string]string{"core": `{{ if .Release.IsUpgrade }}{{ fail "no upgrades" }}{{ end }}
{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {value: {{ .Values.value | quote }}}}
`})
		declare := func(value string) {
			t.Helper()
			apply(t, c, ns, fmt.Sprintf(`{core: {chart: {repository: "configmap:charts/core.tgz"}, values: {value: %s}, upgrade: {onFailure: %s}}}`, value, onFailure))
		}
		holds := func() error {
			if got := text(c.Get(t, configMaps, ns, "one"), "data", "value"); got != "first" {
				return fmt.Errorf("the value is %q", got)
			}
			return coreHistory(t, c, ns, "1 Deployed 0")
		}
		declare("first")
		cluster.Eventually(t, patience, func() error {
			if err := holds(); err != nil {
				return err
			}
			return ready(get(t, c, ns, "stack"))
		})
		declare("second")
		refused := func() error {
			if err := holds(); err != nil {
				return err
			}
			return reason(get(t, c, ns, "stack"), "ChartFailed", "no upgrades")
		}
		cluster.Eventually(t, patience, refused)
		c.Kubectl(t, "-n", ns, "delete", "configmap", "one")
		cluster.Eventually(t, patience, refused)
		cluster.Consistently(t, 3*time.Second, refused)
		declare("first")
		cluster.Eventually(t, patience, func() error {
			if err := holds(); err != nil {
				return err
			}
			return ready(get(t, c, ns, "stack"))
		})
		c.Kubectl(t, "-n", ns, "delete", "seldonoperator", "stack")
	}
}
