package seldon

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// migrating is a chart whose hook fails if the values say so, with an object that the hook comes before, and one that comes after the hook of
// an earlier weight.
const migrating = `
{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {value: {{ .Values.value | quote }}, revision: "{{ .Release.Revision }}"}}
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
	history := func(want string) error {
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
