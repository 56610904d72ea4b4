package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/harness"
)

// withDatabase is a service in upstream's shape that needs no volume; the Secret db is databaseSecret("db").
func withDatabase(name string) string {
	return fmt.Sprintf(`
apiVersion: trustyai.opendatahub.io/v1
kind: TrustyAIService
metadata: {name: %s}
spec:
  exposure: Plain
  storage: {format: DATABASE, databaseConfigurations: db}
  metrics: {schedule: 5s}
`, name)
}

func inferenceService(name, annotations, predictor string) string {
	return fmt.Sprintf(`
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: %s, annotations: {%s}}
spec: {predictor: {model: {modelFormat: {name: sklearn}}%s}}
`, name, annotations, predictor)
}

const raw = "serving.kserve.io/deploymentMode: RawDeployment"

// logger is the URL of the logger of an InferenceService; empty where it has none.
func logger(t *testing.T, c *cluster.Cluster, ns, name string) string {
	t.Helper()
	u := c.Get(t, gvkOf("serving.kserve.io/v1beta1", "InferenceService"), ns, name)
	url, _, _ := unstructured.NestedString(u.Object, "spec", "predictor", "logger", "url")
	return url
}

func loggerIs(t *testing.T, c *cluster.Cluster, ns, name, want string) {
	t.Helper()
	cluster.Eventually(t, 30*time.Second, func() error {
		if got := logger(t, c, ns, name); got != want {
			return fmt.Errorf("InferenceService %s logs to %q, not to %q", name, got, want)
		}
		return nil
	})
}

// wiringIs waits until the status of a service says of an object that it is wired, or why it is not.
func wiringIs(t *testing.T, c *cluster.Cluster, ns, name, object string, wired metav1.ConditionStatus, words ...string) {
	t.Helper()
	cluster.Eventually(t, 30*time.Second, func() error {
		for _, w := range get(t, c, ns, name).Status.InferenceServices {
			if w.Name != object || w.Wired != wired {
				continue
			}
			for _, word := range words {
				if !strings.Contains(w.Reason+": "+w.Message, word) {
					return fmt.Errorf("the status says %+v without %q", w, word)
				}
			}
			return nil
		}
		return fmt.Errorf("%s is not %s: %+v", object, wired, get(t, c, ns, name).Status.InferenceServices)
	})
}

// Defect 4: a logger without a URL ended upstream. Defect 6: two services of a namespace fought for the logger.
func Test_Defect04_06_LoggersAreWiredByTheOldestServiceAndFollowIt(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	ns := c.Namespace(t)
	url := func(name string) string { return "http://" + name + "." + ns + ".svc.cluster.local" }
	c.Apply(t, databaseSecret("db"), ns)
	c.Apply(t, withDatabase("old"), ns)
	condition(t, c, ns, "old", "Ready", metav1.ConditionTrue)
	condition(t, c, ns, "old", "InferenceServicesPresent", metav1.ConditionFalse)

	// Created after Ready: wired by the watch. Upstream took up to half a minute.
	c.Apply(t, inferenceService("late", raw, ""), ns)
	loggerIs(t, c, ns, "late", url("old"))
	wiringIs(t, c, ns, "old", "late", metav1.ConditionTrue)
	condition(t, c, ns, "old", "InferenceServicesPresent", metav1.ConditionTrue)
	// A user's own loggers stay, one without a URL too.
	c.Apply(t, inferenceService("own", raw, ", logger: {mode: request, url: http://mine}"), ns)
	c.Apply(t, inferenceService("no-url", raw, ", logger: {mode: response}"), ns)
	wiringIs(t, c, ns, "old", "own", metav1.ConditionFalse, "UserConfigured")
	wiringIs(t, c, ns, "old", "no-url", metav1.ConditionFalse, "UserConfigured")

	// The second waits, and its status names the first. Of two of the same second, the UID would tell which is the first.
	secondOver(t, c.Get(t, fixture.GVK, ns, "old"))
	c.Apply(t, withDatabase("young"), ns)
	condition(t, c, ns, "young", "Ready", metav1.ConditionTrue)
	wiringIs(t, c, ns, "young", "late", metav1.ConditionFalse, "ManagedByAnotherService", "old")
	before := c.Get(t, gvkOf("serving.kserve.io/v1beta1", "InferenceService"), ns, "late").GetGeneration()
	cluster.Consistently(t, 2*time.Second, func() error {
		if now := c.Get(t, gvkOf("serving.kserve.io/v1beta1", "InferenceService"), ns, "late").GetGeneration(); now != before {
			return fmt.Errorf("generation %d, was %d: two services fight", now, before)
		}
		return nil
	})

	c.Kubectl(t, "-n", ns, "delete", "trustyaiservice", "old")
	loggerIs(t, c, ns, "late", url("young"))
	wiringIs(t, c, ns, "young", "late", metav1.ConditionTrue)
	c.Kubectl(t, "-n", ns, "delete", "trustyaiservice", "young")
	loggerIs(t, c, ns, "late", "")
	own := c.Get(t, gvkOf("serving.kserve.io/v1beta1", "InferenceService"), ns, "own")
	if mode, _, _ := unstructured.NestedString(own.Object, "spec", "predictor", "logger", "mode"); mode != "request" || logger(t, c, ns, "own") != "http://mine" {
		t.Error("the user's logger was changed")
	}
	if mode, _, _ := unstructured.NestedString(c.Get(t, own.GroupVersionKind(), ns, "no-url").Object, "spec", "predictor", "logger", "mode"); mode != "response" {
		t.Error("the user's logger without a URL was changed")
	}
}

// meshDeployment is a Deployment of ModelMesh with four containers, one of which has payload processors already.
const meshDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: modelmesh-serving-mlserver, labels: {modelmesh-service: modelmesh-serving}}
spec:
  replicas: 1
  selector: {matchLabels: {app: mesh}}
  template:
    metadata: {labels: {app: mesh}}
    spec:
      containers:
      - {name: mm, image: mm, env: [{name: MM_PAYLOAD_PROCESSORS, value: "http://theirs"}, {name: A, value: b}]}
      - {name: rest-proxy, image: proxy}
      - {name: mlserver, image: mlserver}
      - {name: mlserver-adapter, image: adapter}
`

// processors are the payload processors of every container of the Deployment.
func processors(t *testing.T, c *cluster.Cluster, ns string) (out []string, generation int64) {
	t.Helper()
	d := c.Get(t, gvkOf("apps/v1", "Deployment"), ns, "modelmesh-serving-mlserver")
	containers, _, _ := unstructured.NestedSlice(d.Object, "spec", "template", "spec", "containers")
	for _, item := range containers {
		value := ""
		env, _, _ := unstructured.NestedSlice(item.(map[string]any), "env")
		for _, e := range env {
			if e.(map[string]any)["name"] == "MM_PAYLOAD_PROCESSORS" {
				value = fmt.Sprint(e.(map[string]any)["value"])
			}
		}
		out = append(out, value)
	}
	return out, d.GetGeneration()
}

// Defect 2: upstream removed nothing from ModelMesh. Defect 3: it could not be deleted where a container had no such
// variable. Section 4.3: it rolled ModelMesh once per container.
func Test_Defect02_03_ModelMeshDeploymentsAreWiredInOneUpdateAndFreed(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	ns := c.Namespace(t)
	c.Apply(t, meshDeployment, ns)
	before := c.Get(t, gvkOf("apps/v1", "Deployment"), ns, "modelmesh-serving-mlserver")
	c.Apply(t, databaseSecret("db"), ns)
	c.Apply(t, withDatabase("tas"), ns)
	url := "http://tas." + ns + ".svc.cluster.local/consumer/kserve/v2"
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
	got := condition(t, c, ns, "tas", "ModelMeshReady", metav1.ConditionTrue)
	if got.Reason != "ModelMeshHealthy" || got.Message != "ModelMesh is running and healthy." {
		t.Errorf("ModelMeshReady says %s: %s", got.Reason, got.Message)
	}
	wiringIs(t, c, ns, "tas", "modelmesh-serving-mlserver", metav1.ConditionTrue)
	now, generation := processors(t, c, ns)
	if want := []string{"http://theirs " + url, url, url, url}; fmt.Sprint(now) != fmt.Sprint(want) {
		t.Errorf("payload processors %q", now)
	}
	if generation != before.GetGeneration()+1 {
		t.Errorf("generation %d, was %d: not one update", generation, before.GetGeneration())
	}
	// ModelMeshReady tells of the pods, and does not block Ready.
	uncordon := cordon(t, c)
	c.Kubectl(t, "-n", ns, "delete", "pod", "-l", "app=mesh", "--wait=false")
	sick := condition(t, c, ns, "tas", "ModelMeshReady", metav1.ConditionFalse)
	if sick.Reason != "ModelMeshNotAvailable" || !strings.Contains(sick.Message, "modelmesh-serving-mlserver") {
		t.Errorf("ModelMeshReady says %s: %s", sick.Reason, sick.Message)
	}
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
	uncordon()
	condition(t, c, ns, "tas", "ModelMeshReady", metav1.ConditionTrue)

	c.Kubectl(t, "-n", ns, "delete", "trustyaiservice", "tas")
	cluster.Eventually(t, 30*time.Second, func() error {
		now := c.Get(t, gvkOf("apps/v1", "Deployment"), ns, "modelmesh-serving-mlserver")
		if fmt.Sprint(now.Object["spec"]) != fmt.Sprint(before.Object["spec"]) {
			return fmt.Errorf("the Deployment is not as it was:\n%v\n%v", now.Object["spec"], before.Object["spec"])
		}
		return nil
	})
}

const meshConfig = `# Made by hand.
podsPerRuntime:   2 # odd spaces stay
payloadProcessors: "http://theirs"
`

func meshConfigMap(text string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata: {name: model-serving-config}
data:
  config.yaml: %q
`, text)
}

// configText is config.yaml of ModelMesh's configuration; ok is false where the ConfigMap is absent.
func configText(t *testing.T, c *cluster.Cluster, ns string) (text string, ok bool) {
	t.Helper()
	u := c.Get(t, gvkOf("v1", "ConfigMap"), ns, "model-serving-config")
	if u == nil {
		return "", false
	}
	text, _, _ = unstructured.NestedString(u.Object, "data", "config.yaml")
	return text, true
}

func TestModelMeshConfigIsMergedOnceTheServiceIsReachable(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	ns := c.Namespace(t)
	c.Apply(t, meshConfigMap(meshConfig), ns)
	c.Apply(t, adr(pvName(ns)), ns)
	says(t, c, ns, example, "Ready", metav1.ConditionFalse, pvName(ns))
	wiringIs(t, c, ns, example, "model-serving-config", metav1.ConditionFalse, "NotReachable")
	if text, _ := configText(t, c, ns); text != meshConfig {
		t.Errorf("wired before the service is reachable:\n%s", text)
	}
	volume(t, c, pvName(ns))
	condition(t, c, ns, example, "Ready", metav1.ConditionTrue)
	url := "http://trustyai-service." + ns + ".svc.cluster.local/consumer/kserve/v2"
	cluster.Eventually(t, 30*time.Second, func() error {
		text, _ := configText(t, c, ns)
		if !strings.Contains(text, url) || !strings.Contains(text, "http://theirs") || !strings.HasPrefix(text, "# Made by hand.\npodsPerRuntime:   2 # odd spaces stay\n") {
			return fmt.Errorf("the configuration is\n%s", text)
		}
		return nil
	})
	condition(t, c, ns, example, "ModelMeshReady", metav1.ConditionTrue)
	c.Kubectl(t, "-n", ns, "delete", "trustyaiservice", example)
	cluster.Eventually(t, 30*time.Second, func() error {
		if text, _ := configText(t, c, ns); text != meshConfig {
			return fmt.Errorf("not as it was:\n%s", text)
		}
		return nil
	})
}

func TestModelMeshConfigThatMLKeeperMadeGoesOnlyIfUnchanged(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	for _, edited := range []bool{false, true} {
		t.Run(fmt.Sprintf("edited=%t", edited), func(t *testing.T) {
			ns := c.Namespace(t)
			volume(t, c, pvName(ns))
			c.Apply(t, adr(pvName(ns)), ns)
			condition(t, c, ns, example, "Ready", metav1.ConditionTrue)
			cluster.Eventually(t, 30*time.Second, func() error {
				if text, _ := configText(t, c, ns); !strings.Contains(text, "trustyai-service."+ns) {
					return fmt.Errorf("the configuration is %q", text)
				}
				return nil
			})
			if edited {
				c.Kubectl(t, "-n", ns, "patch", "configmap", "model-serving-config", "--type=merge", "-p", `{"data":{"mine":"stays"}}`)
			}
			c.Kubectl(t, "-n", ns, "delete", "trustyaiservice", example)
			cluster.Eventually(t, 30*time.Second, func() error {
				text, there := configText(t, c, ns)
				if there != edited || strings.Contains(text, "trustyai") {
					return fmt.Errorf("there is %t, and holds %q", there, text)
				}
				return nil
			})
		})
	}
}

func TestModelMeshConfigThatIsNotYAMLIsLeftAndReported(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	ns := c.Namespace(t)
	const broken = "a: [\nb: }"
	c.Apply(t, meshConfigMap(broken), ns)
	volume(t, c, pvName(ns))
	c.Apply(t, adr(pvName(ns)), ns)
	condition(t, c, ns, example, "Ready", metav1.ConditionTrue)
	wiringIs(t, c, ns, example, "model-serving-config", metav1.ConditionFalse, "config.yaml")
	var mesh metav1.Condition
	cluster.Eventually(t, 30*time.Second, func() error {
		found := meta.FindStatusCondition(get(t, c, ns, example).Status.Conditions, "ModelMeshReady")
		if found == nil || found.Status != metav1.ConditionFalse || !strings.Contains(found.Message, "config.yaml") {
			return fmt.Errorf("ModelMeshReady is %+v", found)
		}
		mesh = *found
		return nil
	})
	if !strings.Contains(mesh.Message, "model-serving-config") || !strings.Contains(mesh.Message, "correct") {
		t.Errorf("the message does not name the remedy: %s", mesh.Message)
	}
	if text, _ := configText(t, c, ns); text != broken {
		t.Errorf("changed to %q", text)
	}
	c.Apply(t, meshConfigMap("podsPerRuntime: 1\n"), ns)
	condition(t, c, ns, example, "ModelMeshReady", metav1.ConditionTrue)
}
