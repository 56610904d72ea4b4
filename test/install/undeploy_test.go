package install

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"mlkeeper.dev/test/cluster"
)

// TestUndeployKeepsDefinitionsOfOthers: MLKeeper's definitions go with their custom resources. Those of an operator that runs beside it, for
// kinds whose controllers are off, stay with theirs, and so does one that an original operator has taken back.
func TestUndeployKeepsDefinitionsOfOthers(t *testing.T) {
	c := cluster.Start(t)
	run := maker(t, c)
	kfdef := originals["Open Data Hub"]
	old := stands(t, c, kfdef, "apply")
	gone := []string{"inventories.keeper.mlkeeper.dev", "tfservs.servapi.dev-state.com"}
	for _, uninstall := range []string{"undeploy", "uninstall"} {
		t.Run(uninstall, func(t *testing.T) {
			out, err := run("deploy", "IMG="+image, "CONTROLLERS=trustyai tfserving")
			must(t, out, err)
			c.AwaitServed(t, gone...)
			c.Kubectl(t, "patch", "crd", tasDefinition, "--type=merge", "-p", `{"spec":{"conversion":{"strategy":"Webhook","webhook":{
				"conversionReviewVersions":["v1"],"clientConfig":{"service":{"namespace":"opendatahub","name":"webhook"}}}}}}`)
			out, err = run(uninstall)
			must(t, out, err)
			// While the operator runs, it removes what it has written to objects of others.
			last, operator := strings.LastIndex(out, `customresourcedefinition.apiextensions.k8s.io "`), strings.Index(out, `deployment.apps "`+manager)
			if uninstall == "undeploy" && (last < 0 || operator < last) {
				t.Errorf("the operator goes before the custom resources:\n%s", out)
			}
			for _, name := range []string{kfdef.definition, tasDefinition} {
				if d := definitionOf(t, c, name); d == nil || d.DeletionTimestamp != nil {
					t.Errorf("make %s deletes %s of another operator", uninstall, name)
				} else if !strings.Contains(out, name+" is another operator's") {
					t.Errorf("make %s does not say that %s stays:\n%s", uninstall, name, out)
				}
			}
			for _, u := range old.objects {
				if now := c.Kubectl(t, "get", kfdef.resource("v1"), u.GetName(), "-o", "jsonpath={.metadata.uid}"); now != string(u.GetUID()) {
					t.Errorf("the KfDef %s had the UID %s and has %s", u.GetName(), u.GetUID(), now)
				}
			}
			for _, name := range gone {
				if definitionOf(t, c, name) != nil {
					t.Errorf("make %s leaves %s", uninstall, name)
				}
			}
		})
	}
}

// TestDefinitionThatIsBeingDeleted: custom resources with the finalizer of an original operator, which is gone, hold their definition. The
// uninstallation ends, and says how to remove the finalizers. Nothing is installed over what is about to go.
func TestDefinitionThatIsBeingDeleted(t *testing.T) {
	c := cluster.Start(t)
	run := maker(t, c)
	out, err := run("install")
	must(t, out, err)
	c.AwaitServed(t, tasDefinition, "inventories.keeper.mlkeeper.dev")
	c.Apply(t, tasObject("v1", "held"))
	c.Kubectl(t, "patch", "trustyaiservice", "held", "--type=merge", "-p", `{"metadata":{"finalizers":["trustyai.opendatahub.io/finalizer"]}}`)
	const remedy = "kubectl -n default patch trustyaiservices.trustyai.opendatahub.io held --type=merge -p "
	out, err = run("uninstall", "TIMEOUT=10s")
	if err == nil || !strings.Contains(out, remedy) || !strings.Contains(out, "trustyai.opendatahub.io/finalizer") {
		t.Errorf("%v: it does not say %q:\n%s", err, remedy, out)
	}
	for _, args := range [][]string{{"install"}, {"install", "FORCE=1"}, {"deploy", "IMG=" + image}} {
		out, err := run(args...)
		if err == nil || !strings.Contains(out, tasDefinition+" is being deleted") || !strings.Contains(out, remedy) {
			t.Errorf("make %v: %v\n%s", args, err, out)
		}
		if definitionOf(t, c, "inventories.keeper.mlkeeper.dev") != nil {
			t.Errorf("make %v installs the half", args)
		}
	}
	if status, report := check(t, c, "--pre"); status == 0 || !strings.Contains(report[tasDefinition].Message, "is being deleted") {
		t.Errorf("check --pre ends with %d: %+v", status, report[tasDefinition])
	}
	// What it prints does it.
	_, command, _ := strings.Cut(out, "  kubectl ")
	command, _, _ = strings.Cut(command, " #")
	c.Kubectl(t, strings.Fields(strings.ReplaceAll(command, "'", ""))...)
	cluster.Eventually(t, time.Minute, func() error {
		if d := definitionOf(t, c, tasDefinition); d != nil {
			return fmt.Errorf("it is there: %+v", d.Status.Conditions)
		}
		return nil
	})
	out, err = run("install")
	must(t, out, err)
}

// TestNamespaceOfOthersStays: a deployment takes no namespace that it did not make, with the pods that run there, and an uninstallation
// deletes MLKeeper's only where nothing of others is in it.
func TestNamespaceOfOthersStays(t *testing.T) {
	c := cluster.Start(t)
	run := maker(t, c)
	c.Kubectl(t, "create", "namespace", "models")
	out, err := run("deploy", "IMG="+image, "NAMESPACE=models")
	if remedy := "kubectl label namespace models app.kubernetes.io/name=mlkeeper"; err == nil || !strings.Contains(out, remedy) {
		t.Errorf("%v: the message does not say %q:\n%s", err, remedy, out)
	}
	if definitionOf(t, c, "inventories.keeper.mlkeeper.dev") != nil {
		t.Error("half of it is installed")
	}
	if labels := namespaceOf(t, c, "models").Labels; labels["pod-security.kubernetes.io/enforce"] != "" {
		t.Errorf("the namespace has the labels %v", labels)
	}
	out, err = run("undeploy", "NAMESPACE=models")
	must(t, out, err)
	if namespaceOf(t, c, "models") == nil {
		t.Error("undeploy deletes a namespace that it did not make")
	}

	c.Kubectl(t, "label", "namespace", "models", "app.kubernetes.io/name=mlkeeper")
	out, err = run("deploy", "IMG="+image, "NAMESPACE=models", "COMPONENTS=participant")
	must(t, out, err)
	c.Kubectl(t, "-n", "models", "rollout", "status", "deployment/"+manager, "--timeout=1m")
	deployedBefore(t, c, "models")
	out, err = run("deploy", "IMG="+image, "NAMESPACE=models", "COMPONENTS=participant")
	must(t, out, err)
	if names := generated(t, c, "models"); len(names) != 1 {
		t.Errorf("after a deployment there are the ConfigMaps %v", names)
	}
	deployedBefore(t, c, "models")
	c.Kubectl(t, "-n", "models", "create", "secret", "generic", "mlkeeper-digest-key")
	c.Kubectl(t, "-n", "models", "create", "configmap", "weights")
	out, err = run("undeploy", "NAMESPACE=models")
	must(t, out, err)
	for _, part := range []string{"ConfigMap/weights", "kubectl delete namespace models"} {
		if !strings.Contains(out, part) || strings.Contains(out, "Secret/mlkeeper") || strings.Contains(out, "ConfigMap/mlkeeper") {
			t.Errorf("undeploy does not say %q, and what of others is in the namespace:\n%s", part, out)
		}
	}
	if n := namespaceOf(t, c, "models"); n == nil || n.DeletionTimestamp != nil {
		t.Fatalf("undeploy deletes a namespace with what others made: %v", n)
	}
	c.Kubectl(t, "-n", "models", "delete", "configmap", "weights")
	out, err = run("undeploy", "NAMESPACE=models")
	must(t, out, err)
	cluster.Eventually(t, time.Minute, func() error {
		if n := namespaceOf(t, c, "models"); n != nil {
			return fmt.Errorf("%s is there: %v\n%s", n.Name, n.Status, out)
		}
		return nil
	})
}

// deployedBefore creates the ConfigMap that a deployment with another configuration of the participant has left.
func deployedBefore(t *testing.T, c *cluster.Cluster, namespace string) {
	t.Helper()
	const name = "mlkeeper-participant-before"
	c.Kubectl(t, "-n", namespace, "create", "configmap", name)
	c.Kubectl(t, "-n", namespace, "label", "configmap", name, generatedLabel+"=participant")
}

// generatedLabel is that of the ConfigMaps that kustomize generates.
const generatedLabel = "keeper.mlkeeper.dev/generated"

// generated are the names of the ConfigMaps that kustomize generated.
func generated(t *testing.T, c *cluster.Cluster, namespace string) []string {
	t.Helper()
	return strings.Fields(c.Kubectl(t, "-n", namespace, "get", "configmaps", "-l", generatedLabel, "-o", "name"))
}

func namespaceOf(t *testing.T, c *cluster.Cluster, name string) *corev1.Namespace {
	t.Helper()
	out := &corev1.Namespace{}
	if !found(t, c, name, out) {
		return nil
	}
	return out
}
