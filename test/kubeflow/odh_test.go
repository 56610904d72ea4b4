package kubeflow

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/manifest/convert"
	"mlkeeper.dev/internal/manifest/kustomize"
	"mlkeeper.dev/internal/manifest/manifesttest"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// elsewhere are the kinds of Open Data Hub that neither Kubernetes nor a definition of the KfDef has: OpenShift's, and those
// of its Operator Lifecycle Manager and of operators that it installs.
var elsewhere = map[string]int{
	"DeploymentConfig.apps.openshift.io": 2, "ImageStream.image.openshift.io": 8, "Route.route.openshift.io": 6,
	"Role.authorization.openshift.io": 1, "RoleBinding.authorization.openshift.io": 1,
	"Subscription.operators.coreos.com": 5, "OperatorGroup.operators.coreos.com": 1, "Kafka.kafka.strimzi.io": 1,
	"Grafana.integreatly.org": 1, "GrafanaDashboard.integreatly.org": 4, "GrafanaDataSource.integreatly.org": 1,
	"Prometheus.monitoring.coreos.com": 1, "PodMonitor.monitoring.coreos.com": 4, "ServiceMonitor.monitoring.coreos.com": 3,
}

// orphan is the token of a ServiceAccount that the operator of Prometheus would make. Kubernetes deletes it as often as it
// is made.
const orphan = "odh.prometheus-k8s"

// storedOfHub are all of its 111 objects but those that are elsewhere, and the orphan.
const storedOfHub = 71

// TestOpenDataHub applies a KfDef of the other mode, most of whose platform is missing here: what can be applied is, and
// the rest is waited for by name.
func TestOpenDataHub(t *testing.T) {
	c := cluster.Start(t)
	o := start(t, c, mirror(t), harness.Options{}, trusting)
	c.Kubectl(t, "create", "namespace", "opendatahub")
	c.Apply(t, filepath.Join(inputs, "odh_kfctl_openshift.v1.1.0.yaml"))
	cluster.Eventually(t, patience, func() error {
		if cr := get(t, c, "opendatahub", "opendatahub"); len(cr.Status.Applications) == 0 {
			return fmt.Errorf("nothing is rendered yet: %+v", cr.Status.Conditions)
		}
		return nil
	})
	o.Settle(t, patience)
	missing := map[string]int{}
	for _, u := range openDataHub(t) {
		gvk := u.GroupVersionKind()
		mapping, err := c.Client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
		if meta.IsNoMatchError(err) {
			missing[gvk.GroupKind().String()]++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		namespace := u.GetNamespace()
		if mapping.Scope.Name() == meta.RESTScopeNameRoot {
			namespace = ""
		}
		if u.GetName() != orphan {
			// What is refused is tried again with pauses that may be longer than those that count as settled.
			cluster.Eventually(t, time.Minute, func() error { return c.There(t, gvk, namespace, u.GetName()) })
		}
	}
	if fmt.Sprint(missing) != fmt.Sprint(elsewhere) {
		t.Errorf("waits for %v, want %v", missing, elsewhere)
	}
	cr := get(t, c, "opendatahub", "opendatahub")
	ready := meta.FindStatusCondition(cr.Status.Conditions, "Ready")
	if ready == nil || ready.Reason != "RecreationBackOff" || !strings.Contains(ready.Message, orphan) {
		t.Errorf("the status does not tell of what is deleted again and again: %+v", ready)
	}
	var failed []string
	for _, a := range cr.Status.Applications {
		if a.Name == "kafka-cluster" && !strings.HasPrefix(a.Message, "waiting for ") {
			t.Errorf("the status does not name what %s waits for: %q", a.Name, a.Message)
		}
		if a.Phase == "Failed" {
			failed = append(failed, a.Name+": "+a.Message)
		}
	}
	documented(t, "odh_kfctl_openshift.v1.1.0.yaml", cr)
	// Server-side apply refuses fields that no schema has: they go, and the status says so.
	warnings := strings.Join(cr.Status.Warnings, "\n")
	for _, want := range []string{"superset: spec.selector.deployment: dropped", "jupyterhub: metadata.label: dropped"} {
		if !strings.Contains(warnings, want) {
			t.Errorf("the warnings do not tell of %q:\n%s", want, warnings)
		}
	}
	// What is rendered is held against plain kustomize by TestLikePlainKustomize of internal/manifest/kustomize.
	t.Run("Stored", func(t *testing.T) {
		if n, want := stored(t, c, openDataHub(t), "opendatahub", cr.Status.Warnings), storedOfHub; n != want {
			t.Errorf("%d objects are compared, not %d", n, want)
		}
	})
	if len(failed) > 0 || len(cr.Status.Applications) != 17 {
		t.Errorf("%d applications, failed %v", len(cr.Status.Applications), failed)
	}
	t.Run("AnAPIAppears", func(t *testing.T) {
		c.Apply(t, routes)
		cluster.Eventually(t, time.Minute, func() error {
			var list unstructured.UnstructuredList
			list.SetGroupVersionKind(schema.GroupVersionKind{Group: "route.openshift.io", Version: "v1", Kind: "RouteList"})
			if err := c.Client.List(t.Context(), &list); err != nil {
				return err
			}
			if len(list.Items) != elsewhere["Route.route.openshift.io"] {
				return fmt.Errorf("%d Routes", len(list.Items))
			}
			return nil
		})
	})
}

// openDataHub renders the objects as they are to be, but for the namespace of those that name none.
func openDataHub(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	k, repo := manifesttest.OpenDataHub(t)
	in := kustomize.Input{Name: k.Metadata.Name, Namespace: k.Metadata.Namespace, Repos: map[string]fs.FS{"manifests": repo, "kf-manifests": repo}}
	for _, a := range k.Spec.Applications {
		one := kustomize.Application{
			Name: a.Name, HasConfig: true, HasRepoRef: true, Repo: a.KustomizeConfig.RepoRef.Name, Path: a.KustomizeConfig.RepoRef.Path,
			Overlays: a.KustomizeConfig.Overlays,
		}
		for _, p := range a.KustomizeConfig.Parameters {
			one.Parameters = append(one.Parameters, kustomize.Parameter{Name: p.Name, Value: p.Value})
		}
		in.Applications = append(in.Applications, one)
	}
	served := func(gvk schema.GroupVersionKind) bool { return !slices.Contains([]string{"v1beta1"}, gvk.Version) }
	var out []*unstructured.Unstructured
	rendered, err := kustomize.Render(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rendered {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		for _, u := range r.Objects {
			converted, _, err := convert.Converter{Served: served}.Convert(u)
			if err != nil {
				t.Fatal(err)
			}
			if converted != nil {
				out = append(out, converted)
			}
		}
	}
	return out
}

const routes = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: routes.route.openshift.io, annotations: {api-approved.kubernetes.io: unapproved}}
spec:
  group: route.openshift.io
  scope: Namespaced
  names: {kind: Route, listKind: RouteList, plural: routes, singular: route}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`
