package greeting

import (
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// ready waits until Ready of the Greeting has a status and a reason.
func ready(t *testing.T, c *cluster.Cluster, ns string, want metav1.ConditionStatus, reason string) *Greeting {
	t.Helper()
	g := &Greeting{}
	cluster.Eventually(t, 30*time.Second, func() error {
		u := c.Get(t, GVK, ns, "hello")
		if u == nil {
			return fmt.Errorf("the Greeting does not exist")
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, g); err != nil {
			return err
		}
		got := meta.FindStatusCondition(g.Status.Conditions, "Ready")
		if got == nil || got.Status != want || got.Reason != reason {
			return fmt.Errorf("Ready is %+v", got)
		}
		return nil
	})
	return g
}

func page(t *testing.T, c *cluster.Cluster, ns, want string) {
	t.Helper()
	cluster.Eventually(t, 30*time.Second, func() error {
		u := c.Get(t, configMap, ns, "hello")
		if u == nil {
			return fmt.Errorf("the page does not exist")
		}
		if got, _, _ := unstructured.NestedString(u.Object, "data", "index.html"); got != want {
			return fmt.Errorf("the page says %q", got)
		}
		return nil
	})
}

// TestGreetingBecomesReady runs the example: it waits for what it refers to, follows it, and repairs its children.
func TestGreetingBecomesReady(t *testing.T) {
	c := cluster.Shared(t)
	c.InstallCRDs(t)
	c.Apply(t, "crd.yaml")
	harness.Start(t, c, harness.Options{Verbose: testing.Verbose()}, harness.Controller(Definition(), System{Image: "web"}))
	ns := c.Namespace(t)
	words := func(text string) {
		c.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: words}, data: {words: %s}}\n", text), ns)
	}
	c.Apply(t, "{apiVersion: example.mlkeeper.dev/v1, kind: Greeting, metadata: {name: hello}, spec: {wordsFrom: words, replicas: 2}}\n", ns)
	ready(t, c, ns, metav1.ConditionFalse, "WordsNotFound")
	words("world")
	if g := ready(t, c, ns, metav1.ConditionTrue, "Ready"); g.Status.Replicas != 2 {
		t.Errorf("status.replicas is %d", g.Status.Replicas)
	}
	page(t, c, ns, "Hello, world!\n")
	words("moon")
	page(t, c, ns, "Hello, moon!\n")
	c.Kubectl(t, "-n", ns, "delete", "configmap", "hello")
	page(t, c, ns, "Hello, moon!\n")
}

// fence is a code block of the page that shows a file of this folder.
var fence = regexp.MustCompile("(?ms)^```[a-z]+ file=(\\S+)\n(.*?)^```$")

// TestPageShowsTheFiles keeps docs/adding-a-system.md and the example one.
func TestPageShowsTheFiles(t *testing.T) {
	text, err := os.ReadFile("../../adding-a-system.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, block := range fence.FindAllStringSubmatch(string(text), -1) {
		shown[block[1]] = true
		file, err := os.ReadFile(block[1])
		if err != nil {
			t.Error(err)
		} else if string(file) != block[2] {
			t.Errorf("the block %s of docs/adding-a-system.md differs from the file", block[1])
		}
	}
	for _, name := range []string{"types.go", "controller.go", "crd.yaml"} {
		if !shown[name] {
			t.Errorf("docs/adding-a-system.md does not show %s", name)
		}
	}
}
