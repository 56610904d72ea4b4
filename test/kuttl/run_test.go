package kuttl

import (
	"errors"
	"strings"
	"testing"
	"time"

	"mlkeeper.dev/test/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// TestRun runs the cases below testdata, which need nothing but Kubernetes.
func TestRun(t *testing.T) {
	c := cluster.Shared(t)
	Run(t, c, "testdata", map[string]any{"text": "from outside"})
	c.Eventually(t, 10*time.Second, func() error {
		if left := c.Kubectl(t, "get", "pv", "-o", "name"); left != "" {
			return errors.New("cluster-scoped objects of cases are left: " + left)
		}
		return nil
	})
}

// TestRunFails makes sure that a case that does not hold fails, and says why.
func TestRunFails(t *testing.T) {
	c := cluster.Shared(t)
	const quick = "apiVersion: kuttl.dev/v1beta1\nkind: TestAssert\ntimeout: 1\n---\n"
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"another value": {map[string]string{"00-a.yaml": configMap + "a\ndata: {k: v}\n", "00-assert.yaml": quick + configMap + "a\ndata: {k: w}\n"}, ".data.k: is"},
		"missing":       {map[string]string{"00-assert.yaml": quick + configMap + "none\n"}, "there is none"},
		"not absent": {map[string]string{
			"00-a.yaml": configMap + "a\ndata: {k: v}\n", "00-assert.yaml": quick,
			"00-errors.yaml": "apiVersion: v1\nkind: ConfigMap\ndata: {k: v}\n",
		}, "as it should not be"},
		"refused": {map[string]string{"00-a.yaml": configMap + "Not_A_Name\n"}, "apply ConfigMap"},
		"held": {map[string]string{
			"00-a.yaml":      "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, finalizers: [test.mlkeeper.dev/held]}\n",
			"01-assert.yaml": quick, "01-d.yaml": "apiVersion: kuttl.dev/v1beta1\nkind: TestStep\ndelete: [{apiVersion: v1, kind: ConfigMap, name: a}]\n",
		}, "still there"},
		"unknown kind": {map[string]string{"00-assert.yaml": quick + "apiVersion: none.mlkeeper.dev/v1\nkind: None\n"}, "no matches"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &runner{cluster: c, namespace: c.Namespace(t)}
			steps, err := load(write(t, test.files), environment{Namespace: r.namespace})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range steps {
				if err = r.run(t, s); err != nil {
					break
				}
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if name == "held" {
				c.Kubectl(t, "patch", "configmap", "a", "-n", r.namespace, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
			}
		})
	}
}
