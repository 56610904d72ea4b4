package tenants

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"mlkeeper.dev/test/cluster"
)

// unsteady are resources that the control plane itself writes all the time: heartbeats, addresses of pods, and reports.
var unsteady = []string{
	"events", "leases", "nodes", "csinodes", "endpoints", "endpointslices", "componentstatuses", "validatingadmissionpolicies", "apiservices",
}

// resources are those of all objects that can be listed.
func resources(config *rest.Config) (map[schema.GroupVersionResource]metav1.APIResource, error) {
	api, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	lists, err := api.ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	out := map[schema.GroupVersionResource]metav1.APIResource{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "list") {
				out[gv.WithResource(r.Name)] = r
			}
		}
	}
	return out, nil
}

// objects are the objects of namespaces, or of everything else, by "resource namespace/name".
type objects map[string]*unstructured.Unstructured

func everything(ctx context.Context, c *cluster.Cluster, wanted func(resource string, u *unstructured.Unstructured) bool) (objects, error) {
	config := rest.CopyConfig(c.Config)
	config.WarningHandler = rest.NoWarnings{} // Deprecated resources are listed, too.
	kinds, err := resources(config)
	if err != nil {
		return nil, err
	}
	api, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	out := objects{}
	for gvr := range kinds {
		list, err := api.Resource(gvr).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", gvr, err)
		}
		for i := range list.Items {
			u := &list.Items[i]
			if wanted(gvr.Resource, u) {
				out[fmt.Sprintf("%s %s/%s", gvr.GroupResource(), u.GetNamespace(), u.GetName())] = u
			}
		}
	}
	return out, nil
}

// outside are all objects that are not in the tenants' namespaces, and that do not follow from them by rights.
func outside(ctx context.Context, c *cluster.Cluster, tenants []string) (objects, error) {
	return everything(ctx, c, func(resource string, u *unstructured.Unstructured) bool {
		return !slices.Contains(unsteady, resource) && !slices.Contains(tenants, u.GetNamespace()) && !ofTenants(resource, u, tenants)
	})
}

// unchanging is outside once nothing of it has changed for three seconds: the controllers of Kubernetes and of KServe go on after the
// operator.
func unchanging(t *testing.T, c *cluster.Cluster, tenants []string) objects {
	t.Helper()
	var last objects
	since := time.Now()
	cluster.Eventually(t, patience, func() error {
		now, err := outside(t.Context(), c, tenants)
		if err != nil {
			return err
		}
		changed := changes(last, now)
		if last == nil || len(changed) > 0 {
			last, since = now, time.Now()
		}
		if time.Since(since) < 3*time.Second {
			return fmt.Errorf("it still changes: %v", changed)
		}
		return nil
	})
	return last
}

// ofTenants says that a cluster-scoped object is there for a tenant's namespace, on the evidence of what only others than the tenant
// write: the Inventory and the binding that the operator makes for a custom resource of the namespace, and what Kubernetes makes for a
// claim or a Service.
func ofTenants(resource string, u *unstructured.Unstructured, tenants []string) bool {
	at := func(path ...string) string {
		text, _, _ := unstructured.NestedString(u.Object, path...)
		return text
	}
	switch resource {
	case "namespaces":
		return slices.Contains(tenants, u.GetName())
	case "inventories":
		return slices.Contains(tenants, at("spec", "owner", "namespace"))
	case "persistentvolumes":
		return slices.Contains(tenants, at("spec", "claimRef", "namespace"))
	case "ipaddresses":
		return slices.Contains(tenants, at("spec", "parentRef", "namespace"))
	case "clusterrolebindings":
		subjects, _, _ := unstructured.NestedSlice(u.Object, "subjects")
		if len(subjects) != 1 || at("roleRef", "name") != "mlkeeper-trustyai-proxy" {
			return false
		}
		subject, _ := subjects[0].(map[string]any)
		namespace, _ := subject["namespace"].(string)
		return slices.Contains(tenants, namespace) && strings.HasPrefix(u.GetName(), "mlkeeper:trustyai-proxy:"+namespace+":")
	}
	return false
}

// changes are what differs between two snapshots.
func changes(before, after objects) []string {
	var out []string
	for name, was := range before {
		switch now := after[name]; {
		case now == nil:
			out = append(out, name+" is gone")
		case now.GetUID() != was.GetUID():
			out = append(out, name+" is another object")
		case now.GetResourceVersion() != was.GetResourceVersion():
			out = append(out, fmt.Sprintf("%s has changed:\n%v\n%v", name, was.Object, now.Object))
		}
	}
	for name := range after {
		if before[name] == nil {
			out = append(out, name+" is new")
		}
	}
	slices.Sort(out)
	return out
}

// secrets are values that nobody in the tenants' namespaces may read, as text and as Secrets have them.
type secrets map[string]string

func (s secrets) add(name, value string) { s[name] = value }

// in names the secrets that a text has.
func (s secrets) in(text string) []string {
	var out []string
	for name, value := range s {
		// Within another text, base64 has one of three forms; the middle of the value is in each of them as its own.
		forms := []string{value, base64.StdEncoding.EncodeToString([]byte(value))}
		for skip := 1; skip < 3; skip++ {
			forms = append(forms, strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(value)[skip:]), "=")[:20])
		}
		if slices.ContainsFunc(forms, func(form string) bool { return strings.Contains(text, form) }) {
			out = append(out, name)
		}
	}
	return out
}

// ofMLKeeper says that an object of a namespace is one in which MLKeeper tells something: a custom resource, or an event.
func ofMLKeeper(u *unstructured.Unstructured, namespaces []string) bool {
	return slices.Contains(namespaces, u.GetNamespace()) && (slices.Contains(groups, u.GroupVersionKind().Group) || u.GetKind() == "Event")
}

// leaks says where secrets are in the objects.
func leaks(t *testing.T, c *cluster.Cluster, known secrets, in func(*unstructured.Unstructured) bool) []string {
	t.Helper()
	all, err := everything(t.Context(), c, func(_ string, u *unstructured.Unstructured) bool { return in(u) })
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for name, u := range all {
		raw, err := u.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range known.in(string(raw)) {
			out = append(out, fmt.Sprintf("%s has the %s: %s", name, secret, raw))
		}
	}
	return out
}
