package rights

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// read reads the recorded log of two operators.
func read(t *testing.T) []Used {
	t.Helper()
	log, err := os.Open(filepath.Join("testdata", "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	const prefix = "system:serviceaccount:mlkeeper-system:"
	users := map[string]*Used{
		prefix + "trustyai": {Roles: []string{"mlkeeper-engine", "mlkeeper-digest-key", "mlkeeper-trustyai"}},
		prefix + "kubeflow": {Roles: []string{"mlkeeper-engine", "mlkeeper-kubeflow"}},
	}
	lacks := func(line []byte) bool { return bytes.Contains(line, []byte("is forbidden")) }
	if err := Read(log, users, lacks); err != nil {
		t.Fatal(err)
	}
	return []Used{*users[prefix+"trustyai"], *users[prefix+"kubeflow"]}
}

func TestWhatALogNeeded(t *testing.T) {
	for i, want := range [][]string{
		{
			"bind clusterroles.rbac.authorization.k8s.io", "create clusterrolebindings.rbac.authorization.k8s.io", "create services", "delete services",
			"own get secrets", "patch deployments.apps/status", "watch services",
		},
		// A request as a tenant needs the right to act as it, and the rest is the tenant's.
		{"impersonate serviceaccounts", "watch namespaces"},
	} {
		var got []string
		for name := range read(t)[i].Needed {
			got = append(got, name)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("needed %q, want %q", got, want)
		}
	}
	if missing := read(t)[0].Missing; len(missing) != 1 || missing["list pods"] == nil || missing["list pods"].Example != "/api/v1/namespaces/a/pods" {
		t.Errorf("missing %v", missing)
	}
	if missing := read(t)[1].Missing; len(missing) != 0 {
		t.Errorf("what a tenant may not do is missing: %v", missing)
	}
}

func rule(group string, resources, verbs []string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}

func TestCompare(t *testing.T) {
	roles := map[string][]rbacv1.PolicyRule{
		"mlkeeper-engine":     {rule("", []string{"namespaces"}, []string{"list", "watch"}), rule("", []string{"services"}, []string{"watch"})},
		"mlkeeper-digest-key": {rule("", []string{"secrets"}, []string{"get"})},
		"mlkeeper-trustyai":   {rule("", []string{"services"}, []string{"create", "get", "watch"}), rule("", []string{"secrets"}, []string{"get"})},
		"mlkeeper-kubeflow":   {rule("", []string{"secrets"}, []string{"list"})},
		"mlkeeper-seldon":     {rule("", []string{"secrets"}, []string{"list"})},
	}
	rows, unexercised := Compare(roles, read(t), []Reason{
		{Role: "mlkeeper-kubeflow", Right: "list secrets", Why: "as the test says"}, {Verb: "list", Why: "as for all"},
	})
	var got []string
	for _, row := range rows {
		got = append(got, strings.TrimSpace(strings.Join([]string{row.Role, row.String(), string(row.State), row.Why}, " ")))
	}
	want := []string{
		// The request is about the operator's own namespace, so the controller's right was not needed.
		"mlkeeper-digest-key get secrets used",
		"mlkeeper-engine list namespaces unused as for all",
		"mlkeeper-engine watch namespaces used",
		// The controller that watches them has the right itself.
		"mlkeeper-engine watch services unused",
		"mlkeeper-kubeflow list secrets unused as the test says",
		"mlkeeper-trustyai get secrets unused",
		"mlkeeper-trustyai create services used",
		"mlkeeper-trustyai get services unused",
		"mlkeeper-trustyai watch services used",
		"[mlkeeper-engine mlkeeper-digest-key mlkeeper-trustyai] list pods missing",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !slices.Equal(unexercised, []string{"mlkeeper-seldon"}) {
		t.Errorf("unexercised %v", unexercised)
	}
	if unused, missing := Findings(rows); unused != 3 || missing != 1 {
		t.Errorf("%d unused, %d missing", unused, missing)
	}
	var table bytes.Buffer
	if err := Print(&table, rows); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"| `mlkeeper-kubeflow` | list secrets | unused | as the test says |\n",
		"| list pods | missing | **no reason** /api/v1/namespaces/a/pods |\n",
	} {
		if !strings.Contains(table.String(), line) {
			t.Errorf("the table lacks %q:\n%s", line, table.String())
		}
	}
}
