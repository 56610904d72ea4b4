package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/internal/trustyai"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/harness"
)

// The defects are those of reference/trustyai.md, section 4.4. Of the others, 1 and 10 are shown in upstream_test.go, 2,
// 3, 4 and 6 in wiring_test.go, 5 in badinput_test.go, 7 in adr_test.go and 13 in late_test.go; internal/trustyai shows
// each again where it can be shown without a cluster.

// Defect 8: upstream repaired no drift but that of one ConfigMap.
func Test_Defect08_DriftIsRepaired(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	ns := c.Namespace(t)
	c.Apply(t, databaseSecret("db"), ns)
	c.Apply(t, withDatabase("tas"), ns)
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
	for _, drift := range []struct{ apiVersion, kind, patch, want string }{
		{"v1", "Service", `{"spec":{"selector":{"app":"other"}}}`, `"app":"tas"`},
		{"route.openshift.io/v1", "Route", `{"spec":{"to":{"name":"other"}}}`, `"name":"tas"`},
		{"monitoring.coreos.com/v1", "ServiceMonitor", `{"spec":{"endpoints":[]}}`, `"path":"/q/metrics"`},
		{"apps/v1", "Deployment", `{"spec":{"replicas":3}}`, `"replicas":1`},
	} {
		c.Kubectl(t, "-n", ns, "patch", strings.ToLower(drift.kind), "tas", "--type=merge", "-p", drift.patch)
		cluster.Eventually(t, 30*time.Second, func() error {
			raw, err := json.Marshal(c.Get(t, gvkOf(drift.apiVersion, drift.kind), ns, "tas").Object["spec"])
			if err != nil {
				return fmt.Errorf("encode the %s: %w", drift.kind, err)
			}
			if !strings.Contains(string(raw), drift.want) {
				return fmt.Errorf("%s is %s, without %s", drift.kind, raw, drift.want)
			}
			return nil
		})
	}
}

// Defect 9: a custom resource that was being deleted, but held by somebody else, was an endless loop of refusals.
func Test_Defect09_ADeletionThatOthersHoldIsWaitedFor(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t)
	// What other tests leave behind is torn down meanwhile, and must not be counted.
	o := start(t, c, harness.Options{Engine: engine.Options{Namespaces: []string{ns}}})
	c.Apply(t, databaseSecret("db"), ns)
	c.Apply(t, withDatabase("tas"), ns)
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
	c.Kubectl(t, "-n", ns, "patch", "trustyaiservice", "tas", "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/held"]}}`)
	t.Cleanup(func() {
		_, _ = c.TryKubectl("-n", ns, "patch", "trustyaiservice", "tas", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	})
	c.Kubectl(t, "-n", ns, "delete", "trustyaiservice", "tas", "--cascade=foreground", "--wait=false")
	cluster.Eventually(t, 30*time.Second, func() error {
		if c.Get(t, gvk, ns, "tas").GetDeletionTimestamp() == nil {
			return fmt.Errorf("not being deleted")
		}
		return nil
	})
	// The garbage collector may be quicker than the watch on the custom resource, so that a child is made once more. Then
	// there is quiet.
	before, last, since := o.Requests.Snapshot(), 0, time.Now()
	cluster.Eventually(t, 30*time.Second, func() error {
		writes := 0
		for request, n := range o.Requests.Since(before) {
			if request.Write() && request.Resource != "events" {
				writes += n
			}
		}
		if writes != last {
			last, since = writes, time.Now()
		}
		if quiet := time.Since(since); quiet < 3*time.Second {
			return fmt.Errorf("%d writes, the last %s ago", writes, quiet)
		}
		return nil
	})
	if last > 5 {
		t.Errorf("%d writes for a custom resource that is being deleted:\n%s", last, cluster.Describe(o.Requests.Since(before)))
	}
	c.Kubectl(t, "-n", ns, "patch", "trustyaiservice", "tas", "--type=json", "-p", `[{"op":"test","path":"/metadata/finalizers/0","value":"example.com/held"},{"op":"remove","path":"/metadata/finalizers/0"}]`)
	cluster.Eventually(t, 60*time.Second, func() error {
		if c.Get(t, gvk, ns, "tas") != nil || c.Get(t, gvkOf("apps/v1", "Deployment"), ns, "tas") != nil {
			return fmt.Errorf("still there")
		}
		return nil
	})
}

// Defect 11: the version is in the selector, which cannot be changed, so that an upgrade ended every migration. An
// operator of another release rolls what it made and changes no selector.
func Test_Defect11_AnUpgradeChangesNoSelector(t *testing.T) {
	c := cluster.Shared(t)
	o := startWith(t, c, harness.Options{}, trustyai.Settings{Image: "trustyai-service:v0.27.0", Version: "1"})
	ns := c.Namespace(t)
	c.Apply(t, databaseSecret("db"), ns)
	c.Apply(t, withDatabase("tas"), ns)
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
	before := c.Get(t, gvkOf("apps/v1", "Deployment"), ns, "tas")
	o.Stop()
	startWith(t, c, harness.Options{}, trustyai.Settings{Image: "trustyai-service:v0.28.0", Version: "2"})
	cluster.Eventually(t, 60*time.Second, func() error {
		now := c.Get(t, gvkOf("apps/v1", "Deployment"), ns, "tas")
		text := fmt.Sprint(now.Object["spec"])
		if now.GetUID() != before.GetUID() || !strings.Contains(text, "trustyai-service:v0.28.0") || now.GetLabels()["app.kubernetes.io/version"] != "2" {
			return fmt.Errorf("the Deployment is %s", text)
		}
		return nil
	})
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
}

// Defect 12: input became fields of the pod.
func Test_Defect12_InputStaysData(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	ns := c.Namespace(t)
	boundClaim(t, c, ns, "tas-pvc")
	const evil = "x\n        securityContext: {privileged: true}\n        $(HOSTNAME) {{ .Values }}"
	quoted, err := json.Marshal(evil)
	if err != nil {
		t.Fatal(err)
	}
	c.Apply(t, strings.ReplaceAll(migratable, "data.csv", string(quoted)), ns)
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
	d := c.Get(t, gvkOf("apps/v1", "Deployment"), ns, "tas")
	containers, _, _ := unstructured.NestedSlice(d.Object, "spec", "template", "spec", "containers")
	container := containers[0].(map[string]any)
	if _, found, _ := unstructured.NestedBool(container, "securityContext", "privileged"); found {
		t.Error("input became a field")
	}
	found := false
	for _, item := range container["env"].([]any) {
		// The kubelet takes $$ for one dollar sign, and would expand $(HOSTNAME).
		found = found || item.(map[string]any)["value"] == strings.ReplaceAll(evil, "$", "$$")
	}
	if !found {
		t.Errorf("the file name did not arrive as it is: %v", container["env"])
	}
}

// Defect 14: services adopted each other's children where names met.
func Test_Defect14_ServicesWhoseNamesMeetLeaveEachOtherAlone(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	ns := c.Namespace(t)
	secured := func(name string) string {
		return strings.Replace(withDatabase(name), "exposure: Plain", "exposure: Secured", 1)
	}
	c.Apply(t, databaseSecret("db"), ns)
	c.Apply(t, secured("a"), ns)
	condition(t, c, ns, "a", "Ready", metav1.ConditionTrue)
	before := c.Get(t, gvkOf("v1", "Service"), ns, "a-tls")
	c.Apply(t, withDatabase("a-tls"), ns)
	says(t, c, ns, "a-tls", "Ready", metav1.ConditionFalse, "ResourceConflict", "Service "+ns+"/a-tls")
	now := c.Get(t, gvkOf("v1", "Service"), ns, "a-tls")
	if now.GetResourceVersion() != before.GetResourceVersion() {
		t.Error("the Service of the other was written")
	}
	condition(t, c, ns, "a", "Ready", metav1.ConditionTrue)

	// Upstream's name of the ClusterRoleBinding is <name>-<namespace>-...: (a, b-NS) and (a-b, NS) meet. A binding of others is under it.
	other := "b-" + ns
	c.Kubectl(t, "create", "namespace", other)
	t.Cleanup(func() {
		// The operator of the next test, and its hand-back, would care for a service that is there until the namespace is gone.
		_, _ = c.TryKubectl("-n", other, "delete", "trustyaiservices", "--all", "--timeout=30s")
		_, _ = c.TryKubectl("delete", "namespace", other, "--wait=false")
	})
	theirs := "a-" + other + "-proxy-rolebinding"
	c.Kubectl(t, "create", "clusterrolebinding", theirs, "--clusterrole=view", "--serviceaccount="+other+":theirs")
	t.Cleanup(func() { _, _ = c.TryKubectl("delete", "clusterrolebinding", theirs) })
	bindings := gvkOf("rbac.authorization.k8s.io/v1", "ClusterRoleBinding")
	before = c.Get(t, bindings, "", theirs)
	c.Apply(t, databaseSecret("db"), other)
	for _, at := range []struct{ namespace, name string }{{other, "a"}, {ns, "a-b"}} {
		adopting := "{name: " + at.name + `, annotations: {keeper.mlkeeper.dev/adopt: "true", keeper.mlkeeper.dev/previous-operator: "true"}}`
		c.Apply(t, strings.Replace(secured(at.name), "{name: "+at.name+"}", adopting, 1), at.namespace)
		// The hosts of their Routes meet, too, so that one of them is not Ready.
		var binding *unstructured.Unstructured
		cluster.Eventually(t, time.Minute, func() error {
			if binding = c.Get(t, bindings, "", fixture.BindingOf(at.namespace, at.name)); binding == nil {
				return fmt.Errorf("%s/%s has no binding", at.namespace, at.name)
			}
			return nil
		})
		if text := fmt.Sprint(binding.Object["subjects"]); !strings.Contains(text, "name:"+at.name+"-proxy namespace:"+at.namespace) {
			t.Errorf("the binding is for %s", text)
		}
	}
	if now := c.Get(t, bindings, "", theirs); now == nil || now.GetResourceVersion() != before.GetResourceVersion() {
		t.Errorf("the binding of others was written: %v", now)
	}
}

// Defect 15: every ServiceMonitor scraped every Service of the namespace, and the central one stayed for ever.
func Test_Defect15_EachServiceIsScrapedOnce(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	ns := c.Namespace(t)
	c.Apply(t, databaseSecret("db"), ns)
	names := []string{"one", "two"}
	for _, name := range names {
		c.Apply(t, strings.Replace(withDatabase(name), "exposure: Plain", "exposure: Secured", 1), ns)
	}
	for _, name := range names {
		condition(t, c, ns, name, "Ready", metav1.ConditionTrue)
	}
	for _, name := range names {
		monitor := c.Get(t, gvkOf("monitoring.coreos.com/v1", "ServiceMonitor"), ns, name)
		labels, _, _ := unstructured.NestedStringMap(monitor.Object, "spec", "selector", "matchLabels")
		selector := metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: labels})
		if out := strings.TrimSpace(c.Kubectl(t, "-n", ns, "get", "services", "-l", selector, "-o", "name")); out != "service/"+name {
			t.Errorf("ServiceMonitor %s scrapes %q", name, out)
		}
	}
	if out := strings.Fields(c.Kubectl(t, "-n", ns, "get", "servicemonitors", "-o", "name")); len(out) != len(names) {
		t.Errorf("ServiceMonitors %v", out)
	}
}
