package seldon

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// TestLife holds what happens to one stack over its life, on one control plane.
func TestLife(t *testing.T) {
	c := cluster.Start(t)
	o := start(t, c, repository(t).URL, harness.Options{})
	ns := c.Namespace(t)
	t.Run("WhatIsMissingIsWaitedFor", func(t *testing.T) { missing(t, c, ns) })
	t.Run("Values", func(t *testing.T) { givesValues(t, c, ns) })
	t.Run("AChartInAConfigMap", func(t *testing.T) { airGapped(t, c, ns) })
	t.Run("Credentials", func(t *testing.T) { credentials(t, c, ns) })
	t.Run("Suspend", func(t *testing.T) { suspended(t, c, ns) })
	t.Run("BadValues", func(t *testing.T) { badValues(t, c, ns) })
	t.Run("Patches", func(t *testing.T) { patched(t, c, ns) })
	t.Run("TemplatesWithoutEnd", func(t *testing.T) { endless(t, c, ns) })
	t.Run("WhatCannotBeChanged", func(t *testing.T) { upgraded(t, c, ns) })
	t.Run("TheDetectorsAlias", func(t *testing.T) { aliased(t, c, ns) })
	t.Run("ASecondOne", func(t *testing.T) { second(t, c) })
	t.Run("Idle", func(t *testing.T) { idle(t, c, o, ns) })
	t.Run("Delete", func(t *testing.T) { deleted(t, c, ns) })
	t.Run("DeleteCRDs", func(t *testing.T) { deletesDefinitions(t, c) })
}

func apply(t *testing.T, c *cluster.Cluster, ns, spec string) {
	t.Helper()
	c.Apply(t, "apiVersion: operator.seldon.io/v1alpha1\nkind: SeldonOperator\nmetadata: {name: stack}\nspec: "+spec+"\n", ns)
}

// missing switches on what needs Istio and Knative, which appear later.
func missing(t *testing.T, c *cluster.Cluster, ns string) {
	apply(t, c, ns, "{enable: {routing: true, detectors: true}}")
	cluster.Eventually(t, patience, func() error { return reason(get(t, c, ns, "stack"), "IstioNotInstalled", "istioctl install -y") })
	// What can be there is.
	cluster.Eventually(t, patience, func() error { return c.There(t, deployments, ns, "seldon-deploy") })
	c.InstallDefinitions(t, "istio")
	cluster.Eventually(t, patience, func() error { return reason(get(t, c, ns, "stack"), "KnativeNotInstalled", "Knative Eventing") })
	cluster.Eventually(t, patience, func() error { return c.There(t, gateways, ns, "seldon-gateway") })
	c.InstallDefinitions(t, "knative")
	cluster.Eventually(t, patience, func() error { return c.There(t, triggers, ns, "seldon-request-logger-trigger") })
	cr := get(t, c, ns, "stack")
	if warnings := strings.Join(cr.Status.Warnings, "\n"); !strings.Contains(warnings, "no payload store") {
		t.Errorf("warnings %q", warnings)
	}
	apply(t, c, ns, "{}")
	cluster.Eventually(t, patience, func() error { return ready(get(t, c, ns, "stack")) })
	for _, gone := range []struct {
		gvk  schema.GroupVersionKind
		name string
	}{{gateways, "seldon-gateway"}, {brokers, "default"}, {triggers, "seldon-request-logger-trigger"}, {deployments, "seldon-request-logger"}} {
		cluster.Eventually(t, patience, func() error { return c.Gone(t, gone.gvk, ns, gone.name) })
	}
}

// givesValues lays values over each other; a user's win. One component is written, and nothing else.
func givesValues(t *testing.T, c *cluster.Cluster, ns string) {
	before := c.Get(t, deployments, ns, "seldon-controller-manager")
	c.Kubectl(t, "-n", ns, "create", "configmap", "more", "--from-literal=values.yaml={env: {FIRST: map, SECOND: map}, enableAppAuth: true}")
	c.Kubectl(t, "-n", ns, "create", "secret", "generic", "hidden", "--from-literal=token=s3cret")
	apply(t, c, ns, `{enterprise: {values: {env: {SECOND: spec}, image: {image: mine}}, valuesFrom: [
		{kind: ConfigMap, name: more}, {kind: Secret, name: hidden, valuesKey: token, targetPath: env.TOKEN}, {kind: Secret, name: absent, optional: true}]}}`)
	cluster.Eventually(t, patience, func() error {
		env := environment(c.Get(t, deployments, ns, "seldon-deploy"))
		if env["FIRST"] != "map" || env["SECOND"] != "spec" || env["TOKEN"] != "s3cret" {
			return fmt.Errorf("the environment is %v", env)
		}
		return ready(get(t, c, ns, "stack"))
	})
	if after := c.Get(t, deployments, ns, "seldon-controller-manager"); after.GetResourceVersion() != before.GetResourceVersion() && after.GetGeneration() != before.GetGeneration() {
		t.Error("another component was written")
	}
	if whole := fmt.Sprint(get(t, c, ns, "stack").Status); strings.Contains(whole, "s3cret") {
		t.Error("the status tells a secret")
	}
	// Another content of a Secret is another rendering.
	c.Kubectl(t, "-n", ns, "patch", "secret", "hidden", "-p", `{"stringData":{"token":"other"}}`)
	cluster.Eventually(t, patience, func() error {
		if env := environment(c.Get(t, deployments, ns, "seldon-deploy")); env["TOKEN"] != "other" {
			return fmt.Errorf("the environment is %v", env)
		}
		return nil
	})
}

func airGapped(t *testing.T, c *cluster.Cluster, ns string) {
	c.Apply(t, fmt.Sprintf("\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: charts}\nbinaryData: {core.tgz: %s}\n",
		base64.StdEncoding.EncodeToString(pack(t, "seldon-core-operator"))), ns)
	apply(t, c, ns, `{core: {chart: {repository: "configmap:charts/none.tgz"}}}`)
	cluster.Eventually(t, patience, func() error { return reason(get(t, c, ns, "stack"), "KeyMissing", "spec.core.chart.repository") })
	apply(t, c, ns, `{core: {chart: {repository: "configmap:charts/core.tgz"}, values: {istio: {gateway: from/air}}}}`)
	cluster.Eventually(t, patience, func() error {
		if env := environment(c.Get(t, deployments, ns, "seldon-controller-manager")); env["ISTIO_GATEWAY"] != "from/air" {
			return fmt.Errorf("the environment is %v", env)
		}
		return ready(get(t, c, ns, "stack"))
	})
}

// credentials waits for a Secret of the user's, and names its keys.
func credentials(t *testing.T, c *cluster.Cluster, ns string) {
	apply(t, c, ns, `{enable: {payloadstore: true}, payloadstore: {internal_elastic: {use_internal: false}},
		enterprise: {values: {elasticsearch: {url: "https://mine:9200", basicAuth: true, secret: {name: mine, userKey: who, passwordKey: what}}}}}`)
	cluster.Eventually(t, patience, func() error {
		return reason(get(t, c, ns, "stack"), "CredentialsMissing", "kubectl create secret generic mine -n "+ns+" --from-literal=who=... --from-literal=what=...")
	})
	c.Kubectl(t, "-n", ns, "create", "secret", "generic", "mine", "--from-literal=who=me")
	cluster.Eventually(t, patience, func() error { return reason(get(t, c, ns, "stack"), "CredentialsMissing", "the Secret lacks what") })
	c.Kubectl(t, "-n", ns, "patch", "secret", "mine", "-p", `{"stringData":{"what":"x"}}`)
	cluster.Eventually(t, patience, func() error { return ready(get(t, c, ns, "stack")) })
	if cr := get(t, c, ns, "stack"); !meta.IsStatusConditionTrue(cr.Status.Conditions, "PayloadStoreReady") {
		t.Errorf("%+v", cr.Status.Conditions)
	}
}

// suspended leaves one component alone, and keeps up the others.
func suspended(t *testing.T, c *cluster.Cluster, ns string) {
	apply(t, c, ns, "{core: {suspend: true, values: {istio: {gateway: another/one}}}}")
	cluster.Eventually(t, patience, func() error {
		for _, one := range get(t, c, ns, "stack").Status.Components {
			if one.Name == "core" && one.Phase == "Suspended" {
				return nil
			}
		}
		return fmt.Errorf("no component is suspended")
	})
	c.Kubectl(t, "-n", ns, "delete", "configmap", "seldon-config", "seldon-deploy-config")
	configMaps := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	cluster.Eventually(t, patience, func() error { return c.There(t, configMaps, ns, "seldon-deploy-config") })
	cluster.Consistently(t, 2*time.Second, func() error {
		if c.Get(t, configMaps, ns, "seldon-config") != nil {
			return fmt.Errorf("an object of what is suspended was made")
		}
		if env := environment(c.Get(t, deployments, ns, "seldon-controller-manager")); env["ISTIO_GATEWAY"] == "another/one" {
			return fmt.Errorf("what is suspended was changed")
		}
		return nil
	})
	apply(t, c, ns, "{}")
	cluster.Eventually(t, patience, func() error { return c.There(t, configMaps, ns, "seldon-config") })
	cluster.Eventually(t, patience, func() error { return ready(get(t, c, ns, "stack")) })
}

// badValues tells what is wrong, and tears nothing down.
func badValues(t *testing.T, c *cluster.Cluster, ns string) {
	before := c.Get(t, deployments, ns, "seldon-deploy")
	apply(t, c, ns, "{enterprise: {values: {service: 7}}}")
	cluster.Eventually(t, patience, func() error { return reason(get(t, c, ns, "stack"), "ChartFailed", "spec.enterprise.values") })
	if !meta.IsStatusConditionTrue(get(t, c, ns, "stack").Status.Conditions, "Stalled") {
		t.Error("it is not Stalled")
	}
	after := c.Get(t, deployments, ns, "seldon-deploy")
	if after == nil || after.GetGeneration() != before.GetGeneration() {
		t.Error("what runs was changed because of bad input")
	}
	apply(t, c, ns, "{core: {chart: {version: 9.9.9}}}")
	cluster.Eventually(t, patience, func() error { return reason(get(t, c, ns, "stack"), "NotFound", "no version 9.9.9") })
	if _, err := c.TryKubectl("-n", ns, "patch", "seldonoperator", "stack", "--type=merge", "-p", `{"spec":{"core":{"chart":{"digest":"sha256:short"}}}}`); err == nil {
		t.Error("a digest that is none is accepted")
	}
	apply(t, c, ns, "{}")
	cluster.Eventually(t, patience, func() error { return ready(get(t, c, ns, "stack")) })
}

// endless gives charts that would take all memory, as some author may. The operator lives, tells it, and tears nothing down.
func endless(t *testing.T, c *cluster.Cluster, ns string) {
	before := c.Get(t, deployments, ns, "seldon-controller-manager")
	apply(t, c, ns, `{core: {chart: {repository: "configmap:charts/core.tgz"}}}`)
	for _, template := range []string{
		`{{ $l := until 20000 }}{{ range $l }}{{ range $l }}xxxxxxxxxxxxxxxx{{ end }}{{ end }}`,
		`{{ indent 2000000000 "x" }}`,
		`{{ $x := "xxxxxxxx" }}{{ range until 40 }}{{ $x = printf "%s%s" $x $x }}{{ end }}`,
	} {
		chartMap(t, c, ns, map[string]string{"core": template})
		cluster.Eventually(t, patience, func() error {
			cr := get(t, c, ns, "stack")
			if !meta.IsStatusConditionTrue(cr.Status.Conditions, "Stalled") {
				return fmt.Errorf("it is not Stalled: %v", cr.Status.Conditions)
			}
			return reason(cr, "ChartFailed", "MiB of memory")
		})
		apply(t, c, ns, "{}")
		cluster.Eventually(t, patience, func() error { return ready(get(t, c, ns, "stack")) })
		apply(t, c, ns, `{core: {chart: {repository: "configmap:charts/core.tgz"}}}`)
	}
	apply(t, c, ns, "{}")
	cluster.Eventually(t, patience, func() error { return ready(get(t, c, ns, "stack")) })
	if after := c.Get(t, deployments, ns, "seldon-controller-manager"); after == nil || after.GetUID() != before.GetUID() {
		t.Error("what runs was made again because of a chart that fails")
	}
}

// upgraded changes a chart in what cannot be changed: a Deployment is made again, a StatefulSet with consent, a claim never.
func upgraded(t *testing.T, c *cluster.Cluster, ns string) {
	const before, after = "one", "two"
	release := func(app string) {
		t.Helper()
		chartMap(t, c, ns, map[string]string{"core": strings.ReplaceAll(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: changes}
spec:
  selector: {matchLabels: {app: APP}}
  template: {metadata: {labels: {app: APP}}, spec: {containers: [{name: c, image: c}]}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: holds}
spec:
  serviceName: APP
  selector: {matchLabels: {app: holds}}
  template: {metadata: {labels: {app: holds}}, spec: {containers: [{name: c, image: c}]}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: stays}
`, "APP", app)})
	}
	sets := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}
	configMaps := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	release(before)
	apply(t, c, ns, `{core: {chart: {repository: "configmap:charts/core.tgz"}}}`)
	cluster.Eventually(t, patience, func() error { return ready(get(t, c, ns, "stack")) })
	changes, holds, stays := c.Get(t, deployments, ns, "changes"), c.Get(t, sets, ns, "holds"), c.Get(t, configMaps, ns, "stays")

	release(after)
	cluster.Eventually(t, patience, func() error { return reason(get(t, c, ns, "stack"), "ImmutableField", "StatefulSet") })
	cluster.Eventually(t, patience, func() error {
		if now := c.Get(t, deployments, ns, "changes"); now == nil || now.GetUID() == changes.GetUID() || !strings.Contains(text(now, "spec", "selector"), after) {
			return fmt.Errorf("the Deployment is %v", now)
		}
		return nil
	})
	if now := c.Get(t, sets, ns, "holds"); now == nil || now.GetUID() != holds.GetUID() {
		t.Error("the StatefulSet was made again without consent")
	}
	apply(t, c, ns, `{core: {chart: {repository: "configmap:charts/core.tgz"}, recreateStatefulSets: true}}`)
	cluster.Eventually(t, patience, func() error {
		if now := c.Get(t, sets, ns, "holds"); text(now, "spec", "serviceName") != after {
			return fmt.Errorf("the StatefulSet is %v", now)
		}
		return ready(get(t, c, ns, "stack"))
	})
	if now := c.Get(t, configMaps, ns, "stays"); now == nil || now.GetUID() != stays.GetUID() {
		t.Error("what can be changed was made again")
	}
	apply(t, c, ns, "{}")
	cluster.Eventually(t, patience, func() error { return ready(get(t, c, ns, "stack")) })
}

func aliased(t *testing.T, c *cluster.Cluster, ns string) {
	apply(t, c, ns, "{enable: {routing: true, detectors: true}, detectors: {replyAlias: true}}")
	cluster.Eventually(t, patience, func() error {
		s := c.Get(t, services, "seldon-logs", "seldon-request-logger")
		if name := text(s, "spec", "externalName"); name != "seldon-request-logger."+ns+".svc.cluster.local" {
			return fmt.Errorf("the alias leads to %q", name)
		}
		return ready(get(t, c, ns, "stack"))
	})
	apply(t, c, ns, "{}")
	cluster.Eventually(t, patience, func() error {
		if c.Get(t, services, "seldon-logs", "seldon-request-logger") != nil {
			return fmt.Errorf("the alias is left")
		}
		return ready(get(t, c, ns, "stack"))
	})
}

// second is another stack in another namespace, whose names of the cluster are taken.
func second(t *testing.T, c *cluster.Cluster) {
	ns := c.Namespace(t)
	apply(t, c, ns, "{}")
	cluster.Eventually(t, patience, func() error { return reason(get(t, c, ns, "stack"), "ResourceConflict", "seldon") })
	c.Kubectl(t, "-n", ns, "delete", "seldonoperator", "stack", "--timeout=1m")
	cluster.Eventually(t, patience, func() error {
		if c.Get(t, deployments, ns, "seldon-deploy") != nil {
			return fmt.Errorf("its objects are left")
		}
		return nil
	})
}

// idle asks for nothing and writes nothing with all switches on.
func idle(t *testing.T, c *cluster.Cluster, o *harness.Operator, ns string) {
	volumes(t, c, 4)
	apply(t, c, ns, "{enable: {analytics: true, catalogue: true, payloadstore: true, routing: true, detectors: true}}")
	cluster.Eventually(t, patience, func() error { return ready(get(t, c, ns, "stack")) })
	o.Settle(t, time.Minute)
	before := o.Requests.Snapshot()
	cluster.Consistently(t, 15*time.Second, func() error {
		since := o.Requests.Since(before)
		if n := cluster.Sum(since, cluster.Request.Write) + cluster.Sum(since, cluster.Request.Read); n > 0 {
			return fmt.Errorf("%d requests while idle: %s", n, cluster.Describe(since))
		}
		return nil
	})
	harness.NoTimer(t, c, kind, ns, "stack")
}

// deleted leaves the definition, the volumes, and the passwords that unlock them.
func deleted(t *testing.T, c *cluster.Cluster, ns string) {
	c.Kubectl(t, "-n", ns, "delete", "seldonoperator", "stack", "--timeout=1m")
	webhooks := schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"}
	roles := schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}
	cluster.Eventually(t, patience, func() error {
		for _, one := range []struct {
			gvk      schema.GroupVersionKind
			ns, name string
		}{
			{deployments, ns, "seldon-deploy"},
			{deployments, ns, "seldon-controller-manager"},
			{services, ns, "seldon-request-logger"},
			{webhooks, "", "seldon-validating-webhook-configuration-" + ns},
			{roles, "", "seldon-deploy-role"},
			{roles, "", "prometheus"},
			{secrets, ns, "stack-generated"},
			{gateways, ns, "seldon-gateway"},
			{brokers, ns, "default"},
		} {
			if c.Get(t, one.gvk, one.ns, one.name) != nil {
				return fmt.Errorf("%s %s is left", one.gvk.Kind, one.name)
			}
		}
		return nil
	})
	crds := schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	for _, one := range []struct {
		gvk      schema.GroupVersionKind
		ns, name string
	}{
		{crds, "", "seldondeployments.machinelearning.seldon.io"},
		{secrets, ns, "metadata-postgres"},
		{secrets, ns, "elastic-credentials"},
		{schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}, ns, "data-seldon-internal-postgres-postgresql-0"},
	} {
		if c.Get(t, one.gvk, one.ns, one.name) == nil {
			t.Errorf("%s %s is gone", one.gvk.Kind, one.name)
		}
	}
}

// deletesDefinitions has a chart with definitions and Namespaces: what holds nothing goes with the SeldonOperator, a definition
// only where it is asked for at the end.
func deletesDefinitions(t *testing.T, c *cluster.Cluster) {
	crds := schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	namespaces := schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	definition := func(kind string) string {
		return strings.ReplaceAll(`
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: KINDs.crds.example.test}
spec:
  group: crds.example.test
  scope: Namespaced
  names: {kind: KIND, plural: KINDs}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`, "KIND", kind)
	}
	keptIdles := regexp.MustCompile(`"name":"idles\.crds\.example\.test",[^{}]*"policy":"Retain"`)
	for _, consent := range []bool{false, true} {
		ns := c.Namespace(t)
		empty, used := ns+"-empty", ns+"-used"
		chartMap(t, c, ns, map[string]string{"core": definition("idle") + definition("used") + fmt.Sprintf(`
---
{apiVersion: v1, kind: Namespace, metadata: {name: %[1]s}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: %[2]s}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: ours, namespace: %[1]s}}
`, empty, used)})
		const chart = `core: {chart: {repository: "configmap:charts/core.tgz"}}`
		// What it says at the end counts, though nothing about the definitions changes with it.
		apply(t, c, ns, fmt.Sprintf("{deleteCRDs: %t, %s}", !consent, chart))
		cluster.Eventually(t, patience, func() error {
			if err := c.There(t, crds, "", "idles.crds.example.test"); err != nil {
				return err
			}
			return c.There(t, schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, empty, "ours")
		})
		c.Apply(t, "\n{apiVersion: crds.example.test/v1, kind: used, metadata: {name: theirs}}\n", ns)
		c.Kubectl(t, "-n", used, "create", "configmap", "theirs")
		apply(t, c, ns, fmt.Sprintf("{deleteCRDs: %t, %s}", consent, chart))
		cluster.Eventually(t, patience, func() error {
			if err := ready(get(t, c, ns, "stack")); err != nil {
				return err
			}
			out := c.Kubectl(t, "get", "inventories", "-o", `jsonpath={range .items[?(@.spec.owner.namespace=="`+ns+`")]}{.status.entries}{end}`)
			if kept := keptIdles.MatchString(out); kept == consent {
				return fmt.Errorf("with deleteCRDs %t the definition is recorded as kept: %t", consent, kept)
			}
			return nil
		})
		c.Kubectl(t, "-n", ns, "delete", "seldonoperator", "stack", "--timeout=1m")
		cluster.Eventually(t, patience, func() error {
			if err := c.Gone(t, namespaces, "", empty); err != nil {
				return err
			}
			if out := c.Kubectl(t, "get", "inventories", "-o", `jsonpath={.items[?(@.spec.owner.namespace=="`+ns+`")].metadata.name}`); out != "" {
				return fmt.Errorf("left: %s", out)
			}
			return nil
		})
		there := c.Get(t, crds, "", "idles.crds.example.test") != nil
		if consent {
			cluster.Eventually(t, patience, func() error { return c.Gone(t, crds, "", "idles.crds.example.test") })
		} else if !there {
			t.Error("a definition was deleted although nobody asked for it")
		}
		for name, gvk := range map[string]schema.GroupVersionKind{"useds.crds.example.test": crds, used: namespaces} {
			if u := c.Get(t, gvk, "", name); u == nil || u.GetDeletionTimestamp() != nil {
				t.Errorf("%s %s was deleted with what others made of it", gvk.Kind, name)
			}
		}
		c.Kubectl(t, "delete", "crd", "--ignore-not-found", "idles.crds.example.test", "useds.crds.example.test")
	}
}
