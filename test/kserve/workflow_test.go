package kserve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/test/acmruntime"
	"mlkeeper.dev/test/ports"
)

// TestWorkflow is that of the seed: register, prime, instantiate, DEPLOYED when the service is Ready, UNDEPLOYED when it is gone.
func TestWorkflow(t *testing.T) {
	for name, site := range map[string]func(*testing.T) *site{
		"Kafka, London": func(t *testing.T) *site { return onKafka(t, acmruntime.London) },
		"Kafka, 9.1.0":  func(t *testing.T) *site { return onKafka(t, acmruntime.V910) },
		"Kafka, master": func(t *testing.T) *site { return onKafka(t, acmruntime.Master) },
		"DMaaP":         onDMaaP,
	} {
		t.Run(name, func(t *testing.T) {
			s := site(t)
			s.start()
			c := s.primed(map[string]any{"provider": "ONAP", "startPhase": 0})
			i := s.deployed(c, s.model("sklearn-iris", sklearn(1)))
			e := i.Elements[0]
			if got := s.service("sklearn-iris"); replicas(got) != 1 {
				t.Errorf("the service is %v", got)
			}
			cr := s.element(e.ID)
			if cr == nil || cr.Status.DeployState != "DEPLOYED" || !strings.HasPrefix(cr.Status.URL, "http://sklearn-iris-") {
				t.Errorf("the element is %+v", cr)
			}
			// The URL and the state of the model follow.
			s.must(s.runtime.Await(within(t), "the URL is reported", func() bool {
				return strings.HasPrefix(e.Reported.Text("url"), "http://sklearn-iris-") && e.Reported.OperationalState == "ENABLED"
			}))
			s.must(s.runtime.Undeploy(within(t), i))
			s.must(s.runtime.AwaitInstance(within(t), i, "UNDEPLOYED", "NO_ERROR"))
			if got := s.service("sklearn-iris"); got != nil {
				t.Errorf("after the removal there is %v", got)
			}
			s.must(s.runtime.Delete(within(t), i))
			s.must(s.runtime.AwaitInstance(within(t), i, "DELETED", "NO_ERROR"))
			s.c.Eventually(t, patience, func() error {
				if s.element(e.ID) != nil {
					return errors.New("the element is still there")
				}
				return nil
			})
			s.must(s.runtime.Deprime(within(t), c))
			s.must(s.runtime.AwaitComposition(within(t), c, "COMMISSIONED NO_ERROR"))
		})
	}
}

// TestManyServices: the list of the participant's code, applied in parallel.
func TestManyServices(t *testing.T) {
	s := onKafka(t, acmruntime.V910)
	s.start()
	c := s.primed(map[string]any{}, map[string]any{})
	var entities []map[string]any
	for n := range 5 {
		entities = append(entities, s.model(fmt.Sprintf("m%d", n), sklearn(1)))
	}
	i := s.deployed(c, map[string]any{"kserveInferenceEntities": entities}, s.model("alone", sklearn(1)))
	if cr := s.element(i.Elements[0].ID); cr.Status.ServicesReady != "5/5" {
		t.Errorf("the element is %+v", cr.Status)
	}
	// KServe tells that the model is loaded after it tells that the service is Ready.
	s.c.Eventually(t, patience, func() error {
		if cr := s.element(i.Elements[0].ID); len(cr.Status.OutProperties) != 10 {
			return fmt.Errorf("%w: the element is %+v", errNotYet, cr.Status)
		}
		return nil
	})
}

// TestOrders gives every other order of the protocol.
func TestOrders(t *testing.T) {
	s := onKafka(t, acmruntime.V910)
	s.start()
	c := s.primed(map[string]any{})
	i := s.deployed(c, s.model("sklearn-iris", sklearn(1)))
	e := i.Elements[0]

	// said checks what the element is acknowledged as, and how many replicas its service has.
	said := func(lock, message string, want int64) {
		t.Helper()
		got := s.runtime.Element(e.ID)
		if got.LockState != lock || !strings.Contains(got.Message, message) || replicas(s.service("sklearn-iris")) != want {
			t.Errorf("%s: the element is %+v, the service has %d replicas", message, got, replicas(s.service("sklearn-iris")))
		}
	}
	done := func(err error) {
		t.Helper()
		s.must(err)
		s.must(s.runtime.AwaitInstance(within(t), i, "DEPLOYED", "NO_ERROR"))
	}
	done(s.runtime.Lock(within(t), i, false))
	said("UNLOCKED", "Unlocked", 1)
	done(s.runtime.Lock(within(t), i, true))
	said("LOCKED", "Locked", 1)
	done(s.runtime.Update(within(t), i, s.model("sklearn-iris", sklearn(3))))
	said("LOCKED", "Updated", 3)
	done(s.runtime.Review(within(t), i))
	said("LOCKED", "Review completed", 3)

	other := s.primed(map[string]any{"provider": "another"})
	done(s.runtime.Precheck(within(t), i, other, s.model("sklearn-iris", sklearn(4))))
	said("LOCKED", "Migration precheck completed", 3)
	done(s.runtime.Migrate(within(t), i, other, s.model("sklearn-iris", sklearn(4))))
	said("LOCKED", "Migrated", 4)

	s.must(s.runtime.Update(within(t), i, map[string]any{"payload": "{"}))
	s.must(s.runtime.AwaitInstance(within(t), i, "DEPLOYED", "FAILED"))
	said("LOCKED", "payload", 4)
	done(s.runtime.Rollback(within(t), i))
	said("LOCKED", "Updated", 4)

	s.must(s.runtime.Migrate(within(t), i, c, map[string]any{"payload": "{"}))
	s.must(s.runtime.AwaitInstance(within(t), i, "DEPLOYED", "FAILED"))
	done(s.runtime.Rollback(within(t), i))
	said("LOCKED", "Migrated", 4)

	s.must(s.runtime.Undeploy(within(t), i))
	s.must(s.runtime.AwaitInstance(within(t), i, "UNDEPLOYED", "NO_ERROR"))
	s.must(s.runtime.Prepare(within(t), i))
	s.must(s.runtime.AwaitInstance(within(t), i, "UNDEPLOYED", "NO_ERROR"))
	said("NONE", "Prepare completed", -1)
}

// TestFailures: every failure carries the reason. What may still come is none: a namespace that is absent, say.
func TestFailures(t *testing.T) {
	privileged := map[string]any{"predictor": map[string]any{"containers": []any{map[string]any{
		"name": "kserve-container", "image": "model", "securityContext": map[string]any{"privileged": true},
	}}}}
	s := onKafka(t, acmruntime.London)
	s.start()
	c := s.primed(map[string]any{})
	foreign := s.model("foreign", sklearn(1))
	s.create(foreign)
	closed := s.c.Namespace(t)
	for name, want := range map[string]struct {
		properties map[string]any
		message    string
	}{
		"a name held by another": {foreign, "foreign"},
		"another name":           {merge(s.model("a", sklearn(1)), "name", "b"), "the payload says a"},
		"a namespace of others":  {modelIn(closed, "a", sklearn(1)), "kubectl label namespace " + closed + " keeper.mlkeeper.dev/compositions=allowed"},
		"a privileged pod":       {s.model("a", privileged), "privileged"},
		"no InferenceService":    {merge(s.model("a", sklearn(1)), "payload", `{"apiVersion":"v1","kind":"Pod"}`), "v1 Pod"},
	} {
		i := s.instance(c, want.properties)
		s.must(s.runtime.Deploy(within(t), i))
		if err := s.runtime.AwaitInstance(within(t), i, "UNDEPLOYED", "FAILED"); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := s.runtime.Element(i.Elements[0].ID).Message; !strings.Contains(got, want.message) {
			t.Errorf("%s: said was %q", name, got)
		}
	}
	if got := s.service("foreign"); got == nil || len(got.GetOwnerReferences()) != 0 {
		t.Errorf("the service of another is %v", got)
	}

	late := s.ns + "-late"
	i := s.instance(c, merge(modelIn(late, "patient", sklearn(1)), "deployTimeoutMs", 1500))
	e := i.Elements[0]
	s.must(s.runtime.Deploy(within(t), i))
	s.must(s.runtime.Await(within(t), "the namespace is named", func() bool {
		got := e.Reported.Text("message")
		return strings.Contains(got, late) && strings.Contains(got, "there is no such namespace")
	}))
	s.c.Consistently(t, time.Second, func() error { return s.unacknowledged(i) })
	s.c.Apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+late+", labels: {"+keeper.CompositionsLabel+": allowed}}\n")
	s.must(s.runtime.AwaitInstance(within(t), i, "DEPLOYED", "NO_ERROR"))
}

// TestKServeComesLater: without KServe readiness says so. Orders to deploy wait for it, and what they wait for is told when their
// time is up.
func TestKServeComesLater(t *testing.T) {
	s := onKafka(t, acmruntime.V910)
	health := s.health()
	install := s.removeKServe()
	t.Cleanup(install)
	s.start()
	if got := health(); !strings.Contains(got, "install KServe") {
		t.Errorf("readiness says %s", got)
	}
	c := s.primed(map[string]any{})
	slow := s.instance(c, merge(alone(s.model("slow", sklearn(1))), "deployTimeoutMs", 1500))
	s.must(s.runtime.Deploy(within(t), slow))
	s.must(s.runtime.Await(within(t), "what it waits for is told", func() bool {
		return strings.Contains(slow.Elements[0].Reported.Text("message"), "waiting for the API of InferenceService")
	}))
	s.must(s.runtime.AwaitInstance(within(t), slow, "DEPLOYING", "TIMEOUT"))
	i := s.instance(c, alone(s.model("patient", sklearn(1))))
	s.must(s.runtime.Deploy(within(t), i))
	s.c.Consistently(t, 2*time.Second, func() error { return errors.Join(s.unacknowledged(i), s.unacknowledged(slow)) })

	install()
	for _, name := range []string{"patient", "slow"} {
		s.c.Eventually(t, patience, func() error { return s.c.There(t, services, s.ns, name) })
		s.status(name, 1, "Ready=True")
		s.serve(name)
	}
	s.must(s.runtime.AwaitInstance(within(t), i, "DEPLOYED", "NO_ERROR"))
	s.must(s.runtime.AwaitInstance(within(t), slow, "DEPLOYED", "NO_ERROR"))
	s.c.Eventually(t, patience, func() error {
		if got := health(); !strings.Contains(got, "UP") {
			return fmt.Errorf("readiness says %s", got)
		}
		return nil
	})
}

// health has the participant serve its health, and returns a function that asks for it.
func (s *site) health() func() string {
	s.t.Helper()
	port, err := ports.Free()
	s.must(err)
	s.yaml += fmt.Sprintf("server: {port: %d, servlet: {context-path: /kserve}}\n", port)
	return func() string {
		answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/kserve/health/readiness", port))
		if err != nil {
			return err.Error()
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		s.must(err)
		return string(text)
	}
}

// removeKServe removes the definition of InferenceService, and returns a function that installs it again if it is absent.
func (s *site) removeKServe() (install func()) {
	s.t.Helper()
	const name = "inferenceservices.serving.kserve.io"
	kind := schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	crd := s.c.Get(s.t, kind, "", name)
	s.c.Kubectl(s.t, "delete", "crd", name)
	s.c.Eventually(s.t, patience, func() error { return s.c.Gone(s.t, kind, "", name) })
	return func() {
		if s.c.Get(s.t, kind, "", name) != nil {
			return
		}
		again := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": kind.Kind, "metadata": map[string]any{"name": name}, "spec": crd.Object["spec"],
		}}
		s.must(s.c.Client.Create(context.Background(), again))
	}
}

func merge(values map[string]any, key string, value any) map[string]any {
	out := map[string]any{}
	for k, v := range values {
		out[k] = v
	}
	out[key] = value
	return out
}
