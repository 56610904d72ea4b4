package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kfake"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/acm/config"
	"mlkeeper.dev/test/acmruntime"
	"mlkeeper.dev/test/bench/internal/audit"
	"mlkeeper.dev/test/bench/internal/report"
	"mlkeeper.dev/test/bench/internal/stat"
	"mlkeeper.dev/test/bench/internal/world"
)

const (
	elementsPath = "/apis/keeper.mlkeeper.dev/v1alpha1/compositionelements"
	servicesPath = "/apis/serving.kserve.io/v1beta1/namespaces/" + acmNamespace + "/inferenceservices"
	acmNamespace = "kserve-bench"
	// acmCaptured begins the name of the service of a captured element.
	acmCaptured = "captured-service-"
	// acmBatch is how many elements an automation composition has at most.
	acmBatch = 50
	// acmIdle is how long nobody may write afterwards.
	acmIdle = time.Minute
)

// acmStack is what the operator writes for one element: the Secret with what was ordered, the element, which then owns the Secret, its
// service, and the statuses, of which those after the first wait for the service to be Ready.
type acmStack struct {
	element, uid string
	// name is that of the service, payload that of the Secret.
	name, payload                string
	secret, create, own, service world.Request
	accepted, settle             []world.Request
}

func (s acmStack) writes() int { return 4 + len(s.accepted) + len(s.settle) }

// acm compares the deployment of automation compositions with bare writes of the same objects.
func (b *Bench) acm(ctx context.Context) error {
	stack, err := b.captureElement(ctx)
	if err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	b.say("an element: %d writes", stack.writes())
	var baselines, operators, idle []float64
	sent, most := 0, 0
	for i := range b.Config.Pairs {
		for _, bare := range []bool{i%2 == 0, i%2 == 1} {
			if bare {
				seconds, err := b.acmBaseline(ctx, stack)
				if err != nil {
					return fmt.Errorf("baseline of pair %d: %w", i+1, err)
				}
				baselines = append(baselines, seconds)
				continue
			}
			seconds, writes, after, err := b.acmOperator(ctx)
			if err != nil {
				return fmt.Errorf("operator of pair %d: %w", i+1, err)
			}
			operators, idle, sent = append(operators, seconds), append(idle, float64(after)), writes
			most = max(most, writes)
		}
		b.say("pair %d of %d: %.2f s over %.2f s = %.3f", i+1, b.Config.Pairs, operators[i], baselines[i], operators[i]/baselines[i])
	}
	r := ratios(operators, baselines)
	b.Result.Add(report.Measure{
		ID: "acm.deploy", What: fmt.Sprintf("deploy %d elements by orders over Kafka, until the last write", b.Config.Services), Value: stat.Median(r),
		Samples: r, Statistic: fmt.Sprintf("median of %d interleaved pairs", len(r)),
		Detail: fmt.Sprintf("operator %.2f s, baseline %.2f s (medians); %d writes by the operator, %d by the baseline", stat.Median(operators),
			stat.Median(baselines), sent, stack.writes()*b.Config.Services),
	})
	b.Result.Add(report.Measure{
		ID: "acm.efficiency", What: "least number of writes over those sent, elements", Value: float64(stack.writes()*b.Config.Services) / float64(most),
		Statistic: "worst run", Detail: fmt.Sprintf("least: %d per element", stack.writes()),
	})
	b.Result.Add(report.Measure{
		ID: "acm.idle", What: fmt.Sprintf("writes in %s after the last acknowledgement", acmIdle), Value: stat.Quantile(idle, 1), Samples: idle, Statistic: "worst run",
	})
	return nil
}

// acmSite is a cluster with a namespace, and a broker with a runtime.
type acmSite struct {
	c       *world.Cluster
	id      *world.Identity
	broker  *kfake.Cluster
	runtime *acmruntime.Runtime
	yaml    string
	stop    func()
}

func (b *Bench) acmSite(ctx context.Context) (*acmSite, error) {
	c, id, err := b.boot(ctx, "--crds", "inferenceservice")
	if err != nil {
		return nil, err
	}
	s := &acmSite{c: c, id: id, stop: c.Stop}
	ns := namespace(acmNamespace)
	ns.SetLabels(map[string]string{keeper.CompositionsLabel: keeper.CompositionsAllowed})
	if err := errors.Join(c.Apply(ctx, []*unstructured.Unstructured{ns}), s.connect(ctx)); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// connect starts the broker and the runtime, and writes the participant's file.
func (s *acmSite) connect(ctx context.Context) error {
	broker, err := kfake.NewCluster(kfake.SeedTopics(acmruntime.Partitions, acmruntime.Topic, acmruntime.SyncTopic))
	if err != nil {
		return err
	}
	side, err := acmruntime.OnKafka(broker.ListenAddrs())
	if err != nil {
		broker.Close()
		return err
	}
	s.broker, s.runtime = broker, acmruntime.New(acmruntime.V910, config.DefaultParticipantID, side)
	ctx, cancel := context.WithCancel(ctx)
	go func() { _ = s.runtime.Run(ctx) }()
	down := s.stop
	s.stop = func() {
		cancel()
		side.Close()
		broker.Close()
		down()
	}
	s.yaml = filepath.Join(s.c.Dir, "application.yaml")
	text := acmruntime.Application(config.DefaultParticipantID, "kafka", broker.ListenAddrs(), nil)
	return os.WriteFile(s.yaml, []byte(text), 0o600)
}

// begin starts the operator, and primes a composition whose instances have some elements.
func (s *acmSite) begin(ctx context.Context, binary, kubeconfig string, elements int) (*world.Operator, *acmruntime.Composition, error) {
	op, err := s.c.Run(ctx, binary, "mlkeeper", kubeconfig, world.DefaultLease, "--participant-config", s.yaml)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	composition := s.runtime.Commission(slices.Repeat([]map[string]any{{"uninitializedToPassiveTimeout": 600}}, elements)...)
	err = errors.Join(op.AwaitLeading(ctx, time.Minute), s.runtime.AwaitRegistered(ctx))
	if err == nil {
		err = s.runtime.Prime(ctx, composition)
	}
	if err == nil {
		err = s.runtime.AwaitComposition(ctx, composition, "PRIMED NO_ERROR")
	}
	if err == nil {
		err = s.c.Quiet(ctx, settled, time.Minute)
	}
	if err != nil {
		op.Stop(30 * time.Second)
		return nil, nil, err
	}
	return op, composition, nil
}

// acmModel are the properties of an element.
func acmModel(name string) map[string]any {
	payload := fmt.Sprintf(`{"apiVersion":"serving.kserve.io/v1beta1","kind":"InferenceService","metadata":{"name":%q,"namespace":%q},`+
		`"spec":{"predictor":{"model":{"modelFormat":{"name":"sklearn"},"storageUri":"gs://kfserving-examples/models/sklearn/1.0/model"}}}}`,
		name, acmNamespace)
	return map[string]any{
		"kserveInferenceEntityId": map[string]any{"name": "entity", "version": "1.0.0"}, "name": name, "namespace": acmNamespace, "payload": payload,
	}
}

// captureElement keeps what the operator writes for one element.
func (b *Bench) captureElement(ctx context.Context) (acmStack, error) {
	s, err := b.acmSite(ctx)
	if err != nil {
		return acmStack{}, err
	}
	defer s.stop()
	recorder, err := s.id.Record()
	if err != nil {
		return acmStack{}, err
	}
	defer recorder.Stop()
	kubeconfig, err := s.id.WriteKubeconfig("recorded.kubeconfig", recorder.URL)
	if err != nil {
		return acmStack{}, err
	}
	op, composition, err := s.begin(ctx, b.Config.Operator, kubeconfig, 2)
	if err != nil {
		return acmStack{}, err
	}
	defer op.Stop(30 * time.Second)
	i, err := s.runtime.Instantiate(composition, acmModel(acmCaptured+"0"), acmModel(acmCaptured+"1"))
	if err != nil {
		return acmStack{}, err
	}
	if err := s.deploy(ctx, i); err != nil {
		return acmStack{}, err
	}
	if err := s.c.Quiet(ctx, settled, time.Minute); err != nil {
		return acmStack{}, err
	}
	// What is written once for an instance is written to the element whose ID is the first.
	n := 0
	if i.Elements[1].ID > i.Elements[0].ID {
		n = 1
	}
	stack := acmStack{element: i.Elements[n].ID, name: acmCaptured + strconv.Itoa(n)}
	u, err := s.c.Read(ctx, elementsPath+"/"+stack.element)
	if err != nil {
		return acmStack{}, err
	}
	stack.uid = string(u.GetUID())
	stack.payload, _, _ = unstructured.NestedString(u.Object, "spec", "content", "payload", "name")
	writes := recorder.Writes()
	if err := b.keep("element", writes, stack.element, stack.name); err != nil {
		return acmStack{}, err
	}
	return stack, stack.pick(writes)
}

// pick picks the writes of the element out of those that were recorded. The statuses from the first that says DEPLOYED follow when the
// service is Ready.
func (s *acmStack) pick(writes []world.Request) error {
	for _, r := range writes {
		switch path := r.Path(); {
		case r.Method == http.MethodPost && strings.HasSuffix(path, "/secrets") && bytes.Contains(r.Body, []byte(s.payload)):
			s.secret = r
		case r.Method == http.MethodPatch && strings.HasSuffix(path, "/secrets/"+s.payload):
			s.own = r
		case r.Method == http.MethodPost && path == elementsPath && bytes.Contains(r.Body, []byte(s.element)):
			s.create = r
		case r.Method == http.MethodPost && path == servicesPath && bytes.Contains(r.Body, []byte(s.name)):
			s.service = r
		case path != elementsPath+"/"+s.element+"/status":
		case len(s.settle) == 0 && !bytes.Contains(r.Body, []byte("DEPLOYED")):
			s.accepted = append(s.accepted, r)
		default:
			s.settle = append(s.settle, r)
		}
	}
	if s.secret.Method == "" || s.own.Method == "" || s.create.Method == "" || s.service.Method == "" || len(s.settle) < 2 {
		return fmt.Errorf("the operator wrote %d statuses of the element, or no Secret, or no element, or no service", len(s.accepted)+len(s.settle))
	}
	return nil
}

func (s *acmSite) deploy(ctx context.Context, instances ...*acmruntime.Instance) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for _, i := range instances {
		if err := s.runtime.Deploy(ctx, i); err != nil {
			return err
		}
	}
	for _, i := range instances {
		if err := s.runtime.AwaitInstance(ctx, i, "DEPLOYED", "NO_ERROR"); err != nil {
			return err
		}
	}
	return nil
}

// acmOperator deploys all elements by orders, and returns how long it took until the last write, how many there were, and how
// many came afterwards.
func (b *Bench) acmOperator(ctx context.Context) (seconds float64, writes, after int, err error) {
	s, err := b.acmSite(ctx)
	if err != nil {
		return 0, 0, 0, err
	}
	defer s.stop()
	batch := acmBatch
	for b.Config.Services%batch != 0 {
		batch--
	}
	op, composition, err := s.begin(ctx, b.Config.Operator, s.id.Kubeconfig, batch)
	if err != nil {
		return 0, 0, 0, err
	}
	defer op.Stop(30 * time.Second)
	var instances []*acmruntime.Instance
	for n := 0; n < b.Config.Services; n += batch {
		var models []map[string]any
		for m := n; m < n+batch; m++ {
			models = append(models, acmModel(fmt.Sprintf("service-%05d", m)))
		}
		i, err := s.runtime.Instantiate(composition, models...)
		if err != nil {
			return 0, 0, 0, err
		}
		instances = append(instances, i)
	}
	mark := s.c.Audit.Mark()
	profiled := make(chan error, 1)
	go func() {
		profiled <- b.profile(ctx, op, fmt.Sprintf("profile?seconds=%d", max(3, min(20, b.Config.Services/50))), "acm-cpu.pprof")
	}()
	if err := errors.Join(s.deploy(ctx, instances...), <-profiled); err != nil {
		return 0, 0, 0, err
	}
	if err := s.c.Quiet(ctx, settled, readyTimeout); err != nil {
		return 0, 0, 0, err
	}
	if seconds, writes, err = s.span(mark); err != nil {
		return 0, 0, 0, err
	}
	mark = s.c.Audit.Mark()
	if err := world.Pause(ctx, acmIdle); err != nil {
		return 0, 0, 0, err
	}
	entries, err := s.c.Audit.Entries(mark, s.id.User)
	for _, e := range entries {
		if e.Class() == audit.Write {
			after++
		}
	}
	return seconds, writes, after, err
}

// span is the time from the first write to the acknowledgement of the last, and how many there were.
func (s *acmSite) span(mark audit.Mark) (seconds float64, writes int, err error) {
	entries, err := s.c.Audit.Entries(mark, s.id.User)
	var first, last time.Time
	for _, e := range entries {
		if e.Class() != audit.Write {
			continue
		}
		writes++
		if first.IsZero() || e.Received.Before(first) {
			first = e.Received
		}
		if e.Done.After(last) {
			last = e.Done
		}
	}
	return last.Sub(first).Seconds(), writes, err
}

// acmBaseline writes the same without deciding anything: elements, services and first statuses as fast as it goes, and the statuses
// that follow when a service is Ready.
func (b *Bench) acmBaseline(ctx context.Context, stack acmStack) (float64, error) {
	s, err := b.acmSite(ctx)
	if err != nil {
		return 0, err
	}
	defer s.stop()
	wire, err := world.NewWire(s.id.Config)
	if err != nil {
		return 0, err
	}
	f := &elementBaseline{wire: wire, stack: stack, queue: newQueue(), made: map[string]*floorElement{}, left: b.Config.Services, done: make(chan struct{})}
	follower, err := s.c.Follow(ctx, strings.Replace(servicesPath, "/namespaces/"+acmNamespace, "", 1),
		func(d world.Followed) bool { return d.True("Ready") }, f.ready)
	if err != nil {
		return 0, err
	}
	defer follower.Stop()
	if err := s.c.Quiet(ctx, settled, readyTimeout); err != nil {
		return 0, err
	}
	mark := s.c.Audit.Mark()
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return f.queue.work(running, b.Config.Concurrency) })
	for n := range b.Config.Services {
		f.deploy(uuid.NewString(), fmt.Sprintf("service-%05d", n))
	}
	group.Go(func() error {
		defer f.queue.close()
		select {
		case <-f.done:
			return nil
		case <-running.Done():
			return running.Err()
		case <-time.After(readyTimeout):
			return fmt.Errorf("%d services of the baseline are not Ready after %s", f.left, readyTimeout)
		}
	})
	if err := group.Wait(); err != nil {
		return 0, err
	}
	seconds, _, err := s.span(mark)
	return seconds, err
}

// elementBaseline knows every answer.
type elementBaseline struct {
	wire  *world.Wire
	stack acmStack
	queue *queue

	mu sync.Mutex
	// made are the elements by the name of their service.
	made map[string]*floorElement
	left int
	done chan struct{}
}

// floorElement is an element of the baseline.
type floorElement struct {
	sent replay
	// named makes what was captured that of the element.
	named func([]byte) []byte
}

// deploy queues an element with its service and the first statuses.
func (f *elementBaseline) deploy(element, service string) {
	named := func(text []byte) []byte {
		text = bytes.ReplaceAll(text, []byte(f.stack.element), []byte(element))
		text = bytes.ReplaceAll(text, []byte(f.stack.payload), []byte("mlkeeper-payload-"+strings.ReplaceAll(element, "-", "")))
		return bytes.ReplaceAll(text, []byte(f.stack.name), []byte(service))
	}
	f.queue.add(func(ctx context.Context) error {
		e := &floorElement{named: named}
		e.sent.wire = f.wire
		if _, err := f.send(ctx, f.stack.secret, e); err != nil {
			return err
		}
		answer, err := f.send(ctx, f.stack.create, e)
		if err != nil {
			return err
		}
		e.named = func(text []byte) []byte {
			return bytes.ReplaceAll(named(text), []byte(f.stack.uid), []byte(answer.Metadata.UID))
		}
		e.sent.mu.Lock()
		defer e.sent.mu.Unlock()
		f.mu.Lock()
		f.made[acmNamespace+"/"+service] = e
		f.mu.Unlock()
		for _, r := range append([]world.Request{f.stack.own, f.stack.service}, f.stack.accepted...) {
			if _, err := f.send(ctx, r, e); err != nil {
				return err
			}
		}
		return nil
	})
}

// ready queues what follows when a service is Ready.
func (f *elementBaseline) ready(service world.Followed) {
	f.mu.Lock()
	e := f.made[service.Key()]
	f.mu.Unlock()
	if e == nil {
		return
	}
	f.queue.add(func(ctx context.Context) error {
		e.sent.mu.Lock()
		defer e.sent.mu.Unlock()
		for _, r := range f.stack.settle {
			if _, err := f.send(ctx, r, e); err != nil {
				return err
			}
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.left--; f.left == 0 {
			close(f.done)
		}
		return nil
	})
}

// send sends what was captured for an element.
func (f *elementBaseline) send(ctx context.Context, r world.Request, e *floorElement) (world.Followed, error) {
	r.URI, r.Body = string(e.named([]byte(r.URI))), e.named(r.Body)
	return e.sent.send(ctx, r)
}
