package kserve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kfake"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/internal/kserve"
	"mlkeeper.dev/internal/participant"
	"mlkeeper.dev/test/acmruntime"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// options are those of the cluster, and prepare is done to it before a test. whileRolledOut is what the condition Ready of a service
// is while an update is rolled out, and withoutKnative the name of the mode without Knative. All may be others where KServe itself runs.
var (
	whileRolledOut = "True"
	withoutKnative = "Standard"
	options        = []cluster.Option{cluster.WithCRDs("inferenceservice", "knative")}
	prepare        = func(*testing.T, *cluster.Cluster) {}
)

func TestMain(m *testing.M) { cluster.Main(m, options...) }

var services = schema.GroupVersionKind{Group: "serving.kserve.io", Version: "v1beta1", Kind: "InferenceService"}

// patience is how long the test waits for what takes seconds.
const patience = time.Minute

const topic = acmruntime.Topic

// within bounds a step of a test.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// site is an ACM runtime, a broker and a cluster with a participant.
type site struct {
	t       *testing.T
	c       *cluster.Cluster
	runtime *acmruntime.Runtime
	// yaml is the participant's application.yaml.
	yaml     string
	operator *harness.Operator
	// wrap changes the participant's connection to the cluster; nil for none.
	wrap func(*rest.Config)
	// transport changes the participant's way to the broker; nil for none.
	transport func(acm.Transport) acm.Transport
	ns        string
}

// newSite makes a runtime on a broker. Every site has a participant of its own, since the cluster is shared.
func newSite(
	t *testing.T, release acmruntime.Release, side acmruntime.Bus, infrastructure string, servers []string, properties map[string]string,
) *site {
	t.Helper()
	id := uuid.NewString()
	s := newCluster(t, acmruntime.Application(id, infrastructure, servers, properties))
	s.runtime = acmruntime.New(release, id, side)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.runtime.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		side.Close()
		if err := s.runtime.Faults(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// newCluster makes a site without a runtime: a cluster with a namespace that accepts orders, for a participant with an application.yaml.
func newCluster(t *testing.T, yaml string) *site {
	t.Helper()
	s := &site{t: t, c: cluster.Shared(t), yaml: yaml}
	s.c.InstallCRDs(t)
	prepare(t, s.c)
	s.ns = s.c.Namespace(t)
	s.allow(s.ns)
	t.Cleanup(s.clean)
	return s
}

// allow lets orders into a namespace.
func (s *site) allow(namespace string) {
	s.t.Helper()
	s.c.Kubectl(s.t, "label", "namespace", namespace, keeper.CompositionsLabel+"="+keeper.CompositionsAllowed)
}

// clean removes what the participant remembers.
func (s *site) clean() {
	for _, kind := range []client.Object{&keeper.CompositionElement{}, &keeper.CompositionDefinition{}, &keeper.PendingOrder{}} {
		if err := s.c.Client.DeleteAllOf(context.Background(), kind); err != nil {
			s.t.Error(err)
		}
	}
}

// onKafka makes a site on the in-process broker.
func onKafka(t *testing.T, release acmruntime.Release) *site {
	t.Helper()
	topics := []string{topic}
	if release != acmruntime.London {
		topics = append(topics, acmruntime.SyncTopic)
	}
	broker, err := kfake.NewCluster(kfake.SeedTopics(acmruntime.Partitions, topics...), kfake.BrokerConfigs(map[string]string{"message.max.bytes": "4194304"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	side, err := acmruntime.OnKafka(broker.ListenAddrs())
	if err != nil {
		t.Fatal(err)
	}
	return newSite(t, release, side, "kafka", broker.ListenAddrs(), nil)
}

// onDMaaP makes a site on a Message Router.
func onDMaaP(t *testing.T) *site {
	t.Helper()
	router := &acmruntime.Router{}
	server := httptest.NewServer(router)
	t.Cleanup(server.Close)
	return newSite(t, acmruntime.London, router.Side(), "dmaap", []string{server.URL}, nil)
}

// start runs the operator with the participant, and waits until the runtime has heard of it.
func (s *site) start() {
	s.t.Helper()
	s.run()
	s.must(s.runtime.AwaitRegistered(within(s.t)))
}

// run runs the operator with the participant.
func (s *site) run() {
	s.t.Helper()
	s.operator = harness.Start(s.t, s.c, harness.Options{
		Verbose: testing.Verbose(), Config: s.wrap,
		Add: func(mgr manager.Manager, e *engine.Engine) error {
			return participant.Add(mgr, []byte(s.yaml), participant.Options{
				Version: "test", Alone: true, Transport: s.transport,
				Elements:  engine.ResourcesOf(e, kserve.Definition()),
				Missing:   func() error { return kserve.Missing(e.Serves) },
				Namespace: e.OperatorNamespace, Key: e.DigestKey,
			})
		},
	}, harness.Controller(kserve.Definition(), kserve.New()))
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// primed makes a primed composition.
func (s *site) primed(properties ...map[string]any) *acmruntime.Composition {
	s.t.Helper()
	c := s.runtime.Commission(properties...)
	s.must(s.runtime.Prime(within(s.t), c))
	s.must(s.runtime.AwaitComposition(within(s.t), c, "PRIMED NO_ERROR"))
	return c
}

// instance makes an instance.
func (s *site) instance(c *acmruntime.Composition, properties ...map[string]any) *acmruntime.Instance {
	s.t.Helper()
	i, err := s.runtime.Instantiate(c, properties...)
	s.must(err)
	return i
}

// deployed makes an instance that is deployed.
func (s *site) deployed(c *acmruntime.Composition, properties ...map[string]any) *acmruntime.Instance {
	s.t.Helper()
	i := s.instance(c, properties...)
	s.must(s.runtime.Deploy(within(s.t), i))
	s.must(s.runtime.AwaitInstance(within(s.t), i, "DEPLOYED", "NO_ERROR"))
	return i
}

// model are the properties of an element with one service, in the flat form of the seed.
func (s *site) model(name string, spec map[string]any) map[string]any {
	return modelIn(s.ns, name, spec)
}

func modelIn(namespace, name string, spec map[string]any) map[string]any {
	payload, _ := json.Marshal(map[string]any{
		"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService",
		"metadata": map[string]any{"name": name, "namespace": namespace}, "spec": spec,
	})
	return map[string]any{
		"kserveInferenceEntityId": map[string]any{"name": "entity1", "version": "1.0.0"},
		"name":                    name, "namespace": namespace, "payload": string(payload),
	}
}

// sklearn is a predictor with a number of replicas.
func sklearn(replicas int) map[string]any {
	return map[string]any{"predictor": map[string]any{
		"minReplicas": replicas,
		"model": map[string]any{
			"modelFormat": map[string]any{"name": "sklearn"}, "storageUri": "gs://kfserving-examples/models/sklearn/1.0/model",
		},
	}}
}

// element reads the custom resource of an element; nil where there is none.
func (s *site) element(id string) *keeper.CompositionElement {
	s.t.Helper()
	cr := &keeper.CompositionElement{}
	err := s.c.Client.Get(context.Background(), client.ObjectKey{Name: id}, cr)
	if client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return cr
}

// service reads an InferenceService; nil where there is none.
func (s *site) service(name string) *unstructured.Unstructured {
	s.t.Helper()
	return s.c.Get(s.t, services, s.ns, name)
}

// create makes the service of properties as somebody else would.
func (s *site) create(properties map[string]any) {
	s.t.Helper()
	u := &unstructured.Unstructured{}
	text, _ := properties["payload"].(string)
	s.must(u.UnmarshalJSON([]byte(text)))
	s.must(s.c.Client.Create(context.Background(), u))
}

func wantReplicas(u *unstructured.Unstructured, want int64) error {
	if got := replicas(u); got != want {
		return fmt.Errorf("there are %d replicas, not %d", got, want)
	}
	return nil
}

func replicas(u *unstructured.Unstructured) int64 {
	if u == nil {
		return -1
	}
	n, _, _ := unstructured.NestedInt64(u.Object, "spec", "predictor", "minReplicas")
	return n
}

var (
	errNotYet   = errors.New("not yet")
	errTooEarly = errors.New("the runtime was told too early")
)

// unacknowledged is an error when the runtime has heard of an instance.
func (s *site) unacknowledged(i *acmruntime.Instance) error {
	for _, e := range i.Elements {
		if got := s.runtime.Element(e.ID); got.Acks > 0 {
			return fmt.Errorf("%w: %+v", errTooEarly, got)
		}
	}
	return nil
}
