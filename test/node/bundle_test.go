//go:build realnode && realinstall

package node

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/test/cluster"
)

// byBundle does with the bundle what OLM does: it applies the files, and makes the ServiceAccount, the roles and the Deployment out
// of the ClusterServiceVersion. The namespace and the policies are an administrator's.
func byBundle(t *testing.T, c *cluster.Cluster, r *release) {
	c.Kubectl(t, "apply", "--server-side", "-f", r.bundle(t))
}

func withoutBundle(t *testing.T, c *cluster.Cluster, r *release) {
	c.Kubectl(t, "delete", "--ignore-not-found", "-f", r.bundle(t), "--timeout="+patience.String())
}

// bundle writes what is installed with the bundle into one folder.
func (r *release) bundle(t *testing.T) string {
	t.Helper()
	archives, err := filepath.Glob(filepath.Join(r.folder, "mlkeeper-bundle-*.tar.gz"))
	if err != nil || len(archives) != 1 {
		t.Fatalf("the release has the bundles %v: %v", archives, err)
	}
	folder := t.TempDir()
	unpack := exec.CommandContext(t.Context(), "tar", "-C", folder, "--strip-components=1", "-xzf", archives[0], "manifests")
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", archives[0], err, out)
	}
	version := filepath.Join(folder, "mlkeeper.clusterserviceversion.yaml")
	csv, err := os.ReadFile(version)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := cluster.Parse(string(csv))
	if err != nil {
		t.Fatal(err)
	}
	policies, err := os.ReadFile(filepath.Join(r.folder, "admission.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	namespace := "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + operatorNamespace + "}\n"
	// In the order of their names, in which kubectl applies them.
	for name, text := range map[string]string{"0.yaml": namespace, "1.yaml": string(policies), "2.yaml": strategy(t, objects[0])} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(version); err != nil {
		t.Fatal(err)
	}
	return folder
}

// strategy is what OLM makes of the install strategy of a ClusterServiceVersion (operator-lifecycle-manager pkg/controller/install).
func strategy(t *testing.T, csv *unstructured.Unstructured) string {
	t.Helper()
	var out strings.Builder
	add := func(apiVersion, kind, namespace string, name any, more map[string]any) {
		more["apiVersion"], more["kind"] = apiVersion, kind
		metadata := map[string]any{"name": name}
		if namespace != "" {
			metadata["namespace"] = namespace
		}
		more["metadata"] = metadata
		text, err := (&unstructured.Unstructured{Object: more}).MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n" + string(text) + "\n")
	}
	list := func(name string) []any {
		values, _, err := unstructured.NestedSlice(csv.Object, "spec", "install", "spec", name)
		if err != nil || len(values) == 0 {
			t.Fatalf("the strategy has %d %s: %v", len(values), name, err)
		}
		return values
	}
	const rbac = "rbac.authorization.k8s.io"
	for _, scope := range []struct{ field, prefix, namespace string }{
		{"permissions", "", operatorNamespace}, {"clusterPermissions", "Cluster", ""},
	} {
		for i, one := range list(scope.field) {
			permission := one.(map[string]any)
			account, name := permission["serviceAccountName"], fmt.Sprintf("mlkeeper-olm-%d", i)
			if scope.namespace != "" {
				add("v1", "ServiceAccount", operatorNamespace, account, map[string]any{})
			}
			add(rbac+"/v1", scope.prefix+"Role", scope.namespace, name, map[string]any{"rules": permission["rules"]})
			add(rbac+"/v1", scope.prefix+"RoleBinding", scope.namespace, name, map[string]any{
				"roleRef":  map[string]any{"apiGroup": rbac, "kind": scope.prefix + "Role", "name": name},
				"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": account, "namespace": operatorNamespace}},
			})
		}
	}
	for _, one := range list("deployments") {
		deployment := one.(map[string]any)
		add("apps/v1", "Deployment", operatorNamespace, deployment["name"], map[string]any{"spec": deployment["spec"]})
	}
	return out.String()
}
