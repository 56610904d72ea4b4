package kubeflow

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// least is a KfDef with a kind of its own, which no shipped role names.
const least = `
apiVersion: kfdef.apps.kubeflow.org/v1
kind: KfDef
metadata: {name: kf, namespace: NAMESPACE}
spec:
  serviceAccountName: mlkeeper
  applications:
    - {name: one, kustomizeConfig: {repoRef: {name: manifests, path: one}}}
    - {name: oxen-crds, kustomizeConfig: {repoRef: {name: manifests, path: oxen-crds}}}
    - {name: ox, dependsOn: [oxen-crds], kustomizeConfig: {repoRef: {name: manifests, path: ox}}}
  repos: [{name: manifests, uri: "configmap:kf/manifests.tar.gz"}]
`

const oxen = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: oxen.least.example.com}, spec: {
  group: least.example.com, scope: Namespaced, names: {plural: oxen, singular: ox, kind: Ox, listKind: OxList},
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`

// TestTheLeastRights: the component kubeflow and what `mlkeeper rbac -f` prints for a KfDef are all that it takes to apply it, to repair it
// and to delete it. That nothing was refused on the way, the audit log shows.
func TestTheLeastRights(t *testing.T) {
	c := cluster.Start(t)
	a := mirror(t)
	start(t, c, a, harness.Options{LeastRights: true}, asAccount)
	ns := c.Namespace(t)
	files := application("one", configMap("one"))
	merge(files, application("oxen-crds", oxen))
	merge(files, application("ox", "{apiVersion: least.example.com/v1, kind: Ox, metadata: {name: first}}"))
	archive(t, c, ns, "kf", files)
	manifest := strings.ReplaceAll(least, "NAMESPACE", ns)
	const operator = cluster.OperatorAccount + "-kubeflow-least"
	grantLeast(t, c, a, manifest, "--kubeconfig", c.Kubeconfig, "--operator", cluster.OperatorNamespace+"/"+operator)
	user := "--as=system:serviceaccount:" + cluster.OperatorNamespace + ":" + operator
	cluster.Eventually(t, time.Minute, func() error {
		// The control plane has added the kinds to the operator's role, this one with those that nobody serves yet.
		_, err := c.TryKubectl("auth", "can-i", "watch", "configmaps", "-A", user)
		return err
	})
	if out, err := c.TryKubectl("auth", "can-i", "impersonate", "serviceaccounts/default", "-n", ns, user); err == nil {
		t.Errorf("the operator may act as another ServiceAccount of the namespace: %s", out)
	}
	c.Apply(t, manifest)
	cluster.Eventually(t, time.Minute, func() error { return ready(get(t, c, ns, "kf")) })
	first := schema.GroupVersionKind{Group: "least.example.com", Version: "v1", Kind: "Ox"}
	if c.Get(t, first, ns, "first") == nil {
		t.Error("the custom resource of the application is not there")
	}
	for _, kind := range []schema.GroupVersionKind{configMaps, first} {
		name := map[bool]string{true: "one", false: "first"}[kind == configMaps]
		before := c.Get(t, kind, ns, name).GetUID()
		c.Kubectl(t, "-n", ns, "delete", strings.ToLower(kind.Kind)+"."+kind.Version+"."+kind.Group, name)
		cluster.Eventually(t, time.Minute, func() error {
			if again := c.Get(t, kind, ns, name); again == nil || again.GetUID() == before {
				return fmt.Errorf("%s %s is not made again", kind.Kind, name)
			}
			return nil
		})
	}
	remove(t, c, ns, "kf")
	cluster.Eventually(t, time.Minute, func() error { return c.Gone(t, configMaps, ns, "one") })
}
