package invariants

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/test/cluster"
)

func TestInvariant11FieldsThatOthersFillAreCeded(t *testing.T) {
	b := open(t, options{})
	role, hook := b.ns+"-all", b.ns+"-hook"
	b.apply("b", one(
		object(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%q},"rules":[],
			"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"invariants.test/part-of":%q}}]}}`, role, b.ns),
		object(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":%q},
			"webhooks":[{"name":"hook.invariants.test","sideEffects":"None","admissionReviewVersions":["v1"],"failurePolicy":"Ignore",
			"rules":[{"apiGroups":["nothing.test"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["things"]}],
			"clientConfig":{"caBundle":"","url":"https://localhost:1/"}}]}`, hook),
		object(`{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":%q,"name":"filled"},"data":{"password":""}}`, b.ns),
		object(`{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":%q,"name":"tls"},"type":"kubernetes.io/tls",
			"data":{"tls.crt":"","tls.key":""}}`, b.ns),
	))
	b.ready("b")
	// Until somebody fills them, empty values are there: pods that read a missing key never start.
	for name, key := range map[string]string{"filled": "password", "tls": "tls.key"} {
		data, _, _ := unstructured.NestedMap(b.must(secretGVK, b.ns, name).Object, "data")
		if value, there := data[key]; !there || value != "" {
			t.Errorf("Secret %s has %v at %s, want an empty value", name, value, key)
		}
	}
	b.c.Apply(t, fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"%s-part",
		"labels":{"invariants.test/part-of":%q}},"rules":[{"apiGroups":["invariants.test"],"resources":["parts"],"verbs":["get"]}]}
`, b.ns, b.ns))
	b.Cleanup(func() { b.delete(clusterRoleGVK, "", b.ns+"-part") })
	filled := func() {
		cluster.Eventually(t, patience, func() error {
			rules, _, _ := unstructured.NestedSlice(b.must(clusterRoleGVK, "", role).Object, "rules")
			if len(rules) != 1 {
				return fmt.Errorf("the aggregated rules are %v", rules)
			}
			return nil
		})
		hooks, _, _ := unstructured.NestedSlice(b.must(webhookGVK, "", hook).Object, "webhooks")
		if got := hooks[0].(map[string]any)["clientConfig"].(map[string]any)["caBundle"]; got != bundlePEM {
			t.Errorf("the caBundle is %v", got)
		}
		b.field(secretGVK, b.ns, "filled", "dGhlaXJz", "data", "password")
		b.field(secretGVK, b.ns, "tls", "dGhlaXJz", "data", "tls.crt")
	}
	b.c.Kubectl(t, "patch", "validatingwebhookconfiguration", hook, "--type=json", "-p",
		`[{"op":"replace","path":"/webhooks/0/clientConfig/caBundle","value":"`+bundlePEM+`"}]`)
	b.patch(secretGVK, b.ns, "filled", `{"data":{"password":"dGhlaXJz"}}`)
	b.patch(secretGVK, b.ns, "tls", `{"data":{"tls.crt":"dGhlaXJz","tls.key":"dGhlaXJz"}}`)
	filled()
	b.ready("b")
	b.settle()
	b.nudge("b")
	b.quiet()
	filled()
}

// bundlePEM is a certificate as a caBundle holds it, which the API server only decodes.
var bundlePEM = certificate()

func TestInvariant11CededFieldIsNamed(t *testing.T) {
	b := open(t, options{})
	b.apply("b", one(object(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":"one"},
		"data":{"k":"ours","calm":"ours"}}`, b.ns)))
	b.ready("b")
	for range 3 {
		b.c.Kubectl(t, "apply", "--server-side", "--force-conflicts", "--field-manager=rival", "-f", b.file(
			fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":"one"},"data":{"k":"theirs"}}`, b.ns)))
		cluster.Eventually(t, patience, func() error {
			text := fmt.Sprint(b.must(configMapGVK, b.ns, "one").Object["data"])
			contested := false
			for _, c := range b.bundle("b").Status.Conditions {
				contested = contested || c.Type == "FieldManagerConflict"
			}
			if !strings.Contains(text, "k:ours") && !contested {
				return fmt.Errorf("neither repaired nor yielded: %s", text)
			}
			return nil
		})
	}
	got := b.condition("b", "FieldManagerConflict", metav1.ConditionTrue)
	if !strings.Contains(got.Message, "data.k") || !strings.Contains(got.Message, "rival") {
		t.Errorf("the condition does not name field and manager: %s", got.Message)
	}
	b.value("one", "theirs")
	b.quiet()
	b.nudge("b")
	b.condition("b", "FieldManagerConflict", metav1.ConditionTrue)
	b.ready("b")
	// The rest of the object is kept as before.
	b.patch(configMapGVK, b.ns, "one", `{"data":{"calm":"changed"}}`)
	b.field(configMapGVK, b.ns, "one", "ours", "data", "calm")
	b.value("one", "theirs")
	// Declared anew it is taken again, and nothing is contested any more.
	b.apply("b", one(object(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":"one"},
		"data":{"k":"ours again","calm":"ours"}}`, b.ns)))
	b.value("one", "ours again")
	cluster.Eventually(t, patience, func() error {
		for _, c := range b.bundle("b").Status.Conditions {
			if c.Type == "FieldManagerConflict" {
				return fmt.Errorf("still contested: %s", c.Message)
			}
		}
		return nil
	})
}

func TestInvariant11UndeclaredAndDuplicateFieldsAreDroppedWithAWarning(t *testing.T) {
	b := open(t, options{})
	spec := func(value string) {
		b.apply("b", one(object(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":%q,"name":"app"},"spec":{
			"undeclared":"x","selector":{"matchLabels":{"app":"app"}},"template":{"metadata":{"labels":{"app":"app"}},"spec":{
			"containers":[{"name":"main","image":"example.test/image:1","env":[{"name":"A","value":"first"},
			{"name":"A","value":%q}]}]}}}}`, b.ns, value)))
	}
	warned := func() {
		b.Helper()
		b.ready("b")
		cluster.Eventually(t, patience, func() error {
			got := strings.Join(b.bundle("b").Status.Warnings, "\n")
			if !strings.Contains(got, "spec.undeclared") || !strings.Contains(got, "env") {
				return fmt.Errorf("the warnings are: %s", got)
			}
			return nil
		})
		containers, _, _ := unstructured.NestedSlice(b.must(deploymentGVK, b.ns, "app").Object,
			"spec", "template", "spec", "containers")
		if env := containers[0].(map[string]any)["env"].([]any); len(env) != 1 {
			t.Errorf("env is %v", env)
		}
	}
	spec("last")
	warned()
	b.nudge("b")
	warned()
	b.quiet()
	spec("changed")
	b.condition("b", "Ready", metav1.ConditionTrue)
	warned()
	b.nudge("b")
	warned()
	// Another manager writes nothing, and tells what is still missing.
	b.restart()
	b.nudge("b")
	warned()
	b.quiet()
}

func TestInvariant11ReplicasAreTheAutoscalers(t *testing.T) {
	b := open(t, options{})
	b.apply("b", one(deployment(b.ns, "app", false), configMap(b.ns, "one", "v")))
	b.ready("b")
	// Below its minimum an autoscaler scales without any metric.
	b.c.Apply(t, `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"app"},"spec":{
		"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"app"},"minReplicas":2,"maxReplicas":4,
		"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}]}}
`, b.ns)
	b.field(deploymentGVK, b.ns, "app", "2", "spec", "replicas")
	b.ready("b")
	b.settle()
	// A later change leaves the replicas alone too.
	changed := deployment(b.ns, "app", false)
	changed.Manifest.Raw = []byte(strings.ReplaceAll(string(changed.Manifest.Raw), "image:1", "image:2"))
	b.apply("b", one(changed, configMap(b.ns, "one", "v")))
	cluster.Eventually(t, patience, func() error {
		u := b.must(deploymentGVK, b.ns, "app")
		replicas, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
		if replicas != 2 {
			t.Fatalf("the replicas became %d", replicas)
		}
		if !strings.Contains(fmt.Sprint(u.Object["spec"]), "image:2") {
			return fmt.Errorf("the change is not there")
		}
		return nil
	})
	b.ready("b")
	for _, c := range b.bundle("b").Status.Conditions {
		if c.Type == "FieldManagerConflict" {
			t.Errorf("there was a fight: %s", c.Message)
		}
	}
}
