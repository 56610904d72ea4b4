package kubeflow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
	"mlkeeper.dev/test/references"
	"mlkeeper.dev/test/thirdparty"
)

// patience is for hundreds of objects on two cores.
const patience = 4 * time.Minute

// objects12 are the objects of each application of Kubeflow 1.2, as the reference counts them.
var objects12 = map[string]int32{
	"namespaces": 2, "application": 7, "istio-stack": 117, "cluster-local-gateway": 10, "istio": 11, "cert-manager-crds": 6,
	"cert-manager-kube-system-resources": 6, "cert-manager": 33, "metacontroller": 6, "oidc-authservice": 6, "dex": 11,
	"bootstrap": 6, "spark-operator": 10, "kubeflow-apps": 266, "knative": 57, "kfserving": 21,
}

// TestKubeflow12 applies a KfDef of 2020 with nothing changed but the name it lacks, and with no more rights than `mlkeeper rbac -f` prints.
func TestKubeflow12(t *testing.T) {
	c := cluster.Start(t)
	sources := mirror(t)
	o := start(t, c, sources, harness.Options{}, asAccount)
	atRunTime(t, c)
	manifest := named(t, "kfctl_istio_dex.v1.2.0.yaml", "kubeflow")
	grantLeast(t, c, sources, manifest)
	began := time.Now()
	c.Apply(t, manifest)
	applied(t, c, objects12)
	t.Logf("575 objects are there %s after the KfDef was applied", time.Since(began).Round(100*time.Millisecond))
	o.Settle(t, patience)
	// What its controllers make at run time comes some time after them.
	t.Run("References", func(t *testing.T) {
		cluster.Eventually(t, patience, func() error {
			objects, err := references.Read(t.Context(), c.Client)
			if missing := references.Problems(objects, nil); err == nil && len(missing) > 0 {
				err = errors.New(strings.Join(missing, "\n"))
			}
			return err
		})
	})
	t.Run("Stored", func(t *testing.T) {
		if n := stored(t, c, kustomized(t), "kubeflow", get(t, c, "kubeflow", "kubeflow").Status.Warnings); n != 575 {
			t.Errorf("%d objects are compared", n)
		}
	})
	t.Run("Idle", func(t *testing.T) {
		filled := fill(t, c)
		t.Logf("others have filled in %d contents", len(filled))
		o.Settle(t, patience)
		before := o.Requests.Snapshot()
		cluster.Consistently(t, 10*time.Second, func() error {
			if n := cluster.Sum(o.Requests.Since(before), cluster.Request.Write, "leases"); n > 0 {
				return fmt.Errorf("%d writes: %s", n, cluster.Describe(o.Requests.Since(before)))
			}
			return nil
		})
		harness.NoTimer(t, c, kfDef, "kubeflow", "kubeflow")
		filled.stays(t, c)
	})
	// From here on there is no network.
	sources.server.Close()
	t.Run("RepairWithoutNetwork", func(t *testing.T) { repairs(t, c) })
	t.Run("DeleteWithoutNetwork", func(t *testing.T) { deletes(t, c) })
}

// atRunTime has the controllers of Kubeflow, which do not run here, make their Secrets until the test ends.
func atRunTime(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- thirdparty.Run(ctx, c.Client, thirdparty.Kubeflow12) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// fillings are the contents that others have filled in, by object and place.
type fillings map[string]string

// filledKinds are the kinds in which others fill in something at run time, with the resource of each.
var filledKinds = map[string]string{
	"MutatingWebhookConfiguration": "mutatingwebhookconfigurations", "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
	"Secret": "secrets",
}

// fill gives every empty Secret a content, and waits until each webhook whose caBundle is to be filled in has one: the devcluster
// does that once the server is ready. The control plane itself has filled in the rules of the aggregated ClusterRoles.
func fill(t *testing.T, c *cluster.Cluster) fillings {
	t.Helper()
	for _, u := range made(t, c, "Secret", filledKinds["Secret"]) {
		if data, _, _ := unstructured.NestedMap(u.Object, "data"); len(data) > 0 {
			continue
		}
		before := u.DeepCopy()
		u.Object["data"] = map[string]any{"tls.crt": "Y2VydA=="}
		if err := c.Client.Patch(t.Context(), u, client.MergeFrom(before), client.FieldOwner("cert-manager")); err != nil {
			t.Fatal(err)
		}
	}
	var out fillings
	cluster.Eventually(t, time.Minute, func() error {
		out = filled(t, c)
		for place, content := range out {
			if content == "" {
				return fmt.Errorf("%s is empty", place)
			}
		}
		return nil
	})
	return out
}

// filled are the contents as they are now.
func filled(t *testing.T, c *cluster.Cluster) fillings {
	t.Helper()
	out := fillings{}
	for kind, resource := range filledKinds {
		for _, u := range made(t, c, kind, resource) {
			at := kind + " " + u.GetNamespace() + "/" + u.GetName()
			if data, _, _ := unstructured.NestedStringMap(u.Object, "data"); kind == "Secret" && len(data) == 1 && data["tls.crt"] != "" {
				out[at] = data["tls.crt"]
			}
			hooks, _, _ := unstructured.NestedSlice(u.Object, "webhooks")
			for i, hook := range hooks {
				config, _ := hook.(map[string]any)["clientConfig"].(map[string]any)
				if service, _ := config["service"].(map[string]any); service["name"] == "kubernetes" {
					continue // cert-manager 0.11 is called by way of the API server itself.
				}
				bundle, _ := config["caBundle"].(string)
				out[fmt.Sprintf("%s webhook %d", at, i)] = bundle
			}
		}
	}
	return out
}

// stays fails where what was filled in is gone or another.
func (f fillings) stays(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	if now := filled(t, c); !maps.Equal(now, f) {
		t.Errorf("of %v is left %v", slices.Sorted(maps.Keys(f)), slices.Sorted(maps.Keys(now)))
	}
	var roles unstructured.UnstructuredList
	roles.SetGroupVersionKind(schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleList"})
	if err := c.Client.List(t.Context(), &roles, client.HasLabels{keeper.ControllerLabel}); err != nil {
		t.Fatal(err)
	}
	aggregated := 0
	for _, r := range roles.Items {
		if r.Object["aggregationRule"] != nil {
			aggregated++
		}
	}
	if aggregated != 14 {
		t.Errorf("%d aggregated ClusterRoles, want 14", aggregated)
	}
}

// made are the objects of a kind that the operator made.
func made(t *testing.T, c *cluster.Cluster, kind, resource string) []*unstructured.Unstructured {
	t.Helper()
	gv := schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
	if resource == "secrets" {
		gv = schema.GroupVersion{Version: "v1"}
	}
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(gv.WithKind(kind + "List"))
	if err := c.Client.List(t.Context(), &list, client.HasLabels{keeper.ControllerLabel}); err != nil {
		t.Fatal(err)
	}
	var out []*unstructured.Unstructured
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out
}

// named reads a KfDef of a user, and gives it a name as the original's page tells users to.
func named(t *testing.T, file, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(inputs, file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(string(raw), "metadata:\n", "metadata:\n  name: "+name+"\n", 1)
}

// applied waits until every object of every application exists, and asserts how many there are. Some are not healthy
// here, since their controllers, such as that of cert-manager, do not run on simulated nodes.
func applied(t *testing.T, c *cluster.Cluster, want map[string]int32) {
	t.Helper()
	var cr *kubeflowv1.KfDef
	cluster.Eventually(t, patience, func() error {
		cr = get(t, c, "kubeflow", "kubeflow")
		if len(cr.Status.Applications) == 0 {
			return fmt.Errorf("nothing is rendered yet: %+v", cr.Status.Conditions)
		}
		for _, a := range cr.Status.Applications {
			if strings.HasSuffix(a.Message, " to exist") || a.Phase == "Pending" || a.Phase == "Failed" {
				return fmt.Errorf("%s is %s: %s (%s)", a.Name, a.Phase, a.Message, cr.Status.ApplicationsReady)
			}
		}
		return nil
	})
	got := map[string]int32{}
	for _, a := range cr.Status.Applications {
		got[a.Name] = a.Objects
	}
	if !maps.Equal(got, want) {
		t.Errorf("objects %v, want %v", got, want)
	}
	documented(t, "kfctl_istio_dex.v1.2.0.yaml", cr)
}

// documented fails where the table of docs/kfdef.md does not tell what was seen of a KfDef.
func documented(t *testing.T, file string, cr *kubeflowv1.KfDef) {
	t.Helper()
	page, err := os.ReadFile("../../docs/kfdef.md")
	if err != nil {
		t.Fatal(err)
	}
	objects := int32(0)
	for _, a := range cr.Status.Applications {
		objects += a.Objects
	}
	row := fmt.Sprintf("| %d of %d applications |", objects, len(cr.Status.Applications))
	for _, line := range strings.Split(string(page), "\n") {
		if strings.Contains(line, file) && strings.HasPrefix(line, "|") && strings.HasSuffix(line, row) {
			return
		}
	}
	t.Errorf("the table of tested KfDefs in docs/kfdef.md lacks %s with %q", file, row)
}

var deployments = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}

// repairs deletes the very Deployment that the original's page has its readers delete.
func repairs(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	before := c.Get(t, deployments, "kubeflow", "tf-job-operator")
	if before == nil {
		t.Fatal("there is no Deployment tf-job-operator")
	}
	c.Kubectl(t, "-n", "kubeflow", "delete", "deployment", "tf-job-operator")
	began := time.Now()
	cluster.Eventually(t, time.Minute, func() error {
		now := c.Get(t, deployments, "kubeflow", "tf-job-operator")
		if now == nil || now.GetUID() == before.GetUID() {
			return fmt.Errorf("it is not back")
		}
		return nil
	})
	t.Logf("back %s after kubectl had returned", time.Since(began).Round(time.Millisecond))
}

// seedWebhooks are the configurations that the original's page has its readers delete by hand, some of which only controllers
// make at run time, and a Service of this KfDef that each calls.
var seedWebhooks = map[string]string{
	"admission-webhook-mutating-webhook-configuration": "kubeflow/admission-webhook-service",
	"inferenceservice.serving.kubeflow.org":            "kubeflow/kfserving-webhook-server-service",
	"istio-sidecar-injector":                           "istio-system/istio-sidecar-injector",
	"katib-mutating-webhook-config":                    "kubeflow/katib-controller",
	"mutating-webhook-configurations":                  "kubeflow/admission-webhook-service",
}

var webhooks = schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"}

// deletes removes the KfDef. What users put into its definitions and Namespaces is left, with these, and so are the claims and
// the namespace of the KfDef; nothing of the original's clean-up list is.
func deletes(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	for name, service := range seedWebhooks {
		if c.Get(t, webhooks, "", name) == nil {
			c.Apply(t, webhook(name, service))
		}
	}
	// One that others registered, for a server of their own.
	c.Apply(t, webhook("of-others", "kubeflow/of-others"))
	c.Apply(t, `
apiVersion: v1
kind: Namespace
metadata: {name: of-a-user}
---
apiVersion: kubeflow.org/v1
kind: Profile
metadata: {name: of-a-user}
spec: {owner: {kind: User, name: someone}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: of-a-user, namespace: knative-serving}
`)
	c.Kubectl(t, "-n", "kubeflow", "delete", "kfdef", "kubeflow", "--timeout=1m")
	began := time.Now()
	cluster.Eventually(t, patience, func() error {
		all, err := c.Everything(t.Context())
		if err != nil {
			return err
		}
		left := map[string][]string{}
		for _, o := range all {
			if o.Labels[keeper.ControllerLabel] != "" {
				left[o.Resource] = append(left[o.Resource], o.Name)
			}
		}
		got := map[string]string{}
		for resource, names := range left {
			slices.Sort(names)
			got[resource] = strings.Join(names, " ")
		}
		if !maps.Equal(got, leftOf12) {
			return fmt.Errorf("left: %v\nwant: %v", got, leftOf12)
		}
		return nil
	})
	t.Logf("all gone %s after kubectl had returned", time.Since(began).Round(100*time.Millisecond))
	namespaces := schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	for _, name := range []string{"kubeflow", "of-a-user"} {
		if u := c.Get(t, namespaces, "", name); u == nil || u.GetDeletionTimestamp() != nil {
			t.Errorf("Namespace %s is gone", name)
		}
	}
	for name := range seedWebhooks {
		if c.Get(t, webhooks, "", name) != nil {
			t.Errorf("the webhook configuration %s is left", name)
		}
	}
	if c.Get(t, webhooks, "", "of-others") == nil {
		t.Error("a webhook configuration of others is gone")
	}
}

// leftOf12 is what is left: the definition that has a Profile of a user, the Namespaces that hold a claim, something of a user or a
// Secret that a controller has made at run time, and the claims.
var leftOf12 = map[string]string{
	"customresourcedefinitions": "profiles.kubeflow.org",
	"namespaces":                "auth cert-manager istio-system knative-serving kubeflow",
	"persistentvolumeclaims":    "authservice-pvc katib-mysql metadata-mysql minio-pvc mysql-pv-claim",
}

// webhook is a configuration that calls a Service ("namespace/name") about a kind that nobody writes.
func webhook(name, service string) string {
	namespace, service, _ := strings.Cut(service, "/")
	return fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: %s}
webhooks:
- name: x.example.test
  sideEffects: None
  admissionReviewVersions: [v1]
  failurePolicy: Ignore
  clientConfig: {service: {namespace: %s, name: %s}}
  rules: [{apiGroups: [example.test], apiVersions: [v1], operations: [CREATE], resources: [nothings]}]
`, name, namespace, service)
}
