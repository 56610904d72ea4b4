package invariants

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"

	"mlkeeper.dev/test/bundle"
	"mlkeeper.dev/test/cluster"
)

// gated is a bundle whose second stage waits for the first to be healthy.
func (b *bench) gated(stuck bool, timeout int, later ...bundle.Object) bundle.Spec {
	first := stage("first", deployment(b.ns, "app", stuck))
	first.WaitHealthy, first.TimeoutSeconds = true, timeout
	return bundle.Spec{Stages: []bundle.Stage{first, stage("second", later...)}}
}

func TestInvariant14GateHoldsCreationAndLetsUpdatesPass(t *testing.T) {
	b := open(t, options{})
	b.apply("b", b.gated(true, 0, configMap(b.ns, "one", "v")))
	got := b.condition("b", "Ready", metav1.ConditionFalse, "Progressing")
	if !strings.Contains(got.Message, "app") {
		t.Errorf("the message does not name what is waited for: %s", got.Message)
	}
	absent := func(name string) func() error {
		return func() error {
			if b.c.Get(t, configMapGVK, b.ns, name) != nil {
				return fmt.Errorf("%s was made behind a closed gate", name)
			}
			return nil
		}
	}
	cluster.Consistently(t, while, absent("one"))
	b.apply("b", b.gated(false, 0, configMap(b.ns, "one", "v")))
	b.ready("b")
	b.value("one", "v")
	// The gate closes again: what exists is still updated, what does not is held.
	b.apply("b", b.gated(true, 0, configMap(b.ns, "one", "changed"), configMap(b.ns, "two", "v")))
	b.value("one", "changed")
	cluster.Consistently(t, while, absent("two"))
	b.apply("b", b.gated(false, 0, configMap(b.ns, "one", "changed"), configMap(b.ns, "two", "v")))
	b.ready("b")
	b.value("two", "v")
}

func TestInvariant14GateOpensWithAWarningAfterItsTimeout(t *testing.T) {
	b := open(t, options{})
	b.apply("b", b.gated(true, 2, configMap(b.ns, "one", "v")))
	b.value("one", "v")
	b.condition("b", "Ready", metav1.ConditionFalse, "Progressing")
	cluster.Eventually(t, patience, func() error {
		if got := b.bundle("b").Status.Warnings; len(got) != 1 || !strings.Contains(got[0], "first") {
			return fmt.Errorf("warnings are %v", got)
		}
		return nil
	})
	b.apply("b", b.gated(false, 2, configMap(b.ns, "one", "v")))
	b.ready("b")
	cluster.Eventually(t, patience, func() error {
		if got := b.bundle("b").Status.Warnings; len(got) != 0 {
			return fmt.Errorf("warnings are %v", got)
		}
		return nil
	})
}

// TestInvariant14ANamesakeHasGatesOfItsOwn: a bundle is deleted and made anew under its name while a pass is under way, so that none sees the
// name without one. The gate of its first stage holds for the whole of its timeout again.
func TestInvariant14ANamesakeHasGatesOfItsOwn(t *testing.T) {
	const timeout = 8 * time.Second
	b := open(t, options{})
	spec := b.gated(true, int(timeout.Seconds()), configMap(b.ns, "one", "v"))
	b.apply("b", spec)
	warned := func() error {
		if got := b.bundle("b").Status.Warnings; len(got) != 1 || !strings.Contains(got[0], "first") {
			return fmt.Errorf("warnings are %v", got)
		}
		return nil
	}
	cluster.Eventually(t, patience, warned)
	b.value("one", "v")
	held, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	b.journal.hook(func(r *http.Request) *http.Response {
		if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/configmaps/one") {
			once.Do(func() {
				close(held)
				<-release
			})
		}
		return nil
	})
	b.apply("b", b.gated(true, int(timeout.Seconds()), configMap(b.ns, "one", "changed")))
	<-held
	b.delete(bundleGVK, b.ns, "b")
	b.gone(bundleGVK, b.ns, "b")
	b.apply("b", spec)
	close(release)
	cluster.Eventually(t, patience, warned)
	if age := time.Since(b.bundle("b").CreationTimestamp.Time); age < timeout {
		t.Errorf("%s after the bundle was made anew, its gate is said to have held for %s", age, timeout)
	}
}

func TestInvariant14NamespacesAndDefinitionsGateByThemselves(t *testing.T) {
	group := "gate-" + rand.String(6) + ".test"
	gvk := schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Thing"}
	b := open(t, options{Children: []schema.GroupVersionKind{gvk}})
	made := b.ns + "-made"
	b.apply("b", bundle.Spec{Stages: []bundle.Stage{
		stage("first", object(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, made), definition(group, "Thing")),
		stage("second", configMap(made, "inside", "v"),
			object(`{"apiVersion":"%s/v1","kind":"Thing","metadata":{"namespace":%q,"name":"thing"}}`, group, made)),
	}})
	b.Cleanup(func() {
		b.delete(namespaceGVK, "", made)
		b.delete(definitionGVK, "", "things."+group)
	})
	b.ready("b")
	b.must(configMapGVK, made, "inside")
	b.must(gvk, made, "thing")
	b.comesOfAge("things."+group, made+"/things")
	posts := b.journal.writes(0, "POST", "")
	at := func(suffix string) int {
		for i, r := range posts {
			if strings.HasSuffix(r.path, suffix) {
				return i
			}
		}
		t.Fatalf("no create at %s:\n%s", suffix, lines(posts))
		return 0
	}
	if at("/namespaces") > at(made+"/configmaps") || at("/customresourcedefinitions") > at(made+"/things") {
		t.Errorf("the order is:\n%s", lines(posts))
	}
	// Every create succeeds at once, since what it needs is there.
	for _, suffix := range []string{made + "/configmaps", made + "/things", "/namespaces"} {
		if n := len(b.journal.writes(0, "POST", suffix)); n != 1 {
			t.Errorf("%d creates at %s", n, suffix)
		}
	}
}

// comesOfAge shows that the first custom resource of a definition is created when the API server takes it at once: within two
// seconds of the time that the definition tells, it would sleep over it for two more.
func (b *bench) comesOfAge(definition, path string) {
	b.Helper()
	first := b.journal.writes(0, "POST", path)[0]
	conditions, _, _ := unstructured.NestedSlice(b.must(definitionGVK, "", definition).Object, "status", "conditions")
	for _, item := range conditions {
		c, _ := item.(map[string]any)
		since, err := time.Parse(time.RFC3339, fmt.Sprint(c["lastTransitionTime"]))
		if c["type"] == "Established" && (err != nil || first.at.Before(since.Add(2*time.Second))) {
			b.Errorf("%s was asked for at %s, and %s is established since %s", path, first.at, definition, since)
		}
	}
}

// TestInvariant14WorkloadsBeginLast shows that pods find what they read, whatever the order of the stages, as far as sixteen writes in flight
// let them, but that what cannot be created holds no workload back.
func TestInvariant14WorkloadsBeginLast(t *testing.T) {
	b := open(t, options{})
	first := stage("first", append(served(b.ns), deployment(b.ns, "app", false), deployment(b.ns, "server", false))...)
	second := stage("second", secret(b.ns, "refused", "v"))
	const many, inFlight = 40, 16
	for i := range many {
		second.Objects = append(second.Objects, configMap(b.ns, fmt.Sprintf("c-%d", i), "v"))
	}
	var mu sync.Mutex
	var begun []string
	var granted atomic.Bool
	b.journal.hook(func(r *http.Request) *http.Response {
		var o metav1.PartialObjectMetadata
		if r.Method != http.MethodPost || !strings.Contains(r.URL.Path, "/namespaces/"+b.ns+"/") || r.GetBody == nil {
			return nil
		}
		body, err := r.GetBody()
		if err != nil || json.NewDecoder(body).Decode(&o) != nil || o.Kind == "Secret" && !granted.Load() {
			return answer(r, http.StatusInternalServerError, "InternalError")
		}
		mu.Lock()
		defer mu.Unlock()
		begun = append(begun, o.Kind+" "+o.Name)
		return nil
	})
	b.apply("b", bundle.Spec{Stages: []bundle.Stage{first, second}})
	b.field(deploymentGVK, b.ns, "app", "app", "metadata", "name")
	if b.c.Get(t, secretGVK, b.ns, "refused") != nil {
		t.Error("the Secret was made")
	}
	granted.Store(true)
	b.ready("b")
	mu.Lock()
	defer mu.Unlock()
	for _, workload := range []string{"Deployment app", "Deployment server"} {
		if at := slices.Index(begun, workload); at < many-inFlight {
			t.Errorf("%s is the %d. of %q", workload, at+1, begun)
		}
	}
}

// served are a webhook configuration and the Service of its server.
func served(ns string) []bundle.Object {
	return []bundle.Object{
		object(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration",
			"metadata":{"name":"%s-hook"},"webhooks":[{"name":"hook.invariants.test","sideEffects":"None","admissionReviewVersions":["v1"],
			"rules":[{"apiGroups":["nothing.test"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["things"]}],
			"clientConfig":{"service":{"namespace":%q,"name":"server","port":443}}}]}`, ns, ns),
		object(`{"apiVersion":"v1","kind":"Service","metadata":{"namespace":%q,"name":"server"},
			"spec":{"selector":{"app":"server"},"ports":[{"port":443}]}}`, ns),
	}
}

func TestInvariant14WebhookComesAfterItsServer(t *testing.T) {
	b := open(t, options{})
	hook := b.ns + "-hook"
	spec := func(stuck bool, timeout int) bundle.Spec {
		all := stage("all", append(served(b.ns), deployment(b.ns, "server", stuck))...)
		all.TimeoutSeconds = timeout
		return bundle.Spec{Stages: []bundle.Stage{all}}
	}
	b.apply("b", spec(true, 0))
	b.field(deploymentGVK, b.ns, "server", "server", "metadata", "name")
	cluster.Consistently(t, while, func() error {
		if b.c.Get(t, webhookGVK, "", hook) != nil {
			return fmt.Errorf("the webhook was made before its server")
		}
		return nil
	})
	b.apply("b", spec(false, 0))
	b.ready("b")
	b.must(webhookGVK, "", hook)
	b.delete(bundleGVK, b.ns, "b")
	b.noInventories("b")
	b.gone(webhookGVK, "", hook)
	b.apply("b", spec(true, 1))
	b.field(webhookGVK, "", hook, hook, "metadata", "name")
}
