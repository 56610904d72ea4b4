package simkubelet

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"sigs.k8s.io/yaml"
)

// stage is a kubelet whose caches hold what the test puts there, before an API server that answers at once.
type stage struct {
	t *testing.T
	*kubelet
	clock time.Time
}

func setUp(t *testing.T, podRange string) *stage {
	t.Helper()
	k, err := newKubelet(fake.NewClientset(), netip.MustParsePrefix(podRange))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.queue.ShutDown)
	t.Cleanup(k.broadcaster.Shutdown)
	s := &stage{t: t, kubelet: k, clock: time.Unix(1_700_000_000, 0)}
	k.now = func() time.Time { return s.clock }
	for _, name := range []string{"here", "elsewhere"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := k.factory.Core().V1().Nodes().Informer().GetStore().Add(node); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// create makes a pod in the API server and in the cache.
func (s *stage) create(name, spec string) {
	s.t.Helper()
	p := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(spec), p); err != nil {
		s.t.Fatal(err)
	}
	p.Namespace, p.Name, p.UID = "ns", name, types.UID(name)
	if p.Spec.NodeName == "" {
		p.Spec.NodeName = "here"
	}
	if _, err := s.client.CoreV1().Pods("ns").Create(context.Background(), p, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.see(s.live(name))
}

// live is a pod as the API server has it.
func (s *stage) live(name string) *corev1.Pod {
	s.t.Helper()
	p, err := s.client.CoreV1().Pods("ns").Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// change changes a pod in the API server alone.
func (s *stage) change(name string, change func(*corev1.Pod)) {
	s.t.Helper()
	p := s.live(name)
	change(p)
	if _, err := s.client.CoreV1().Pods("ns").Update(context.Background(), p, metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// see brings a pod into the cache.
func (s *stage) see(p *corev1.Pod) {
	s.t.Helper()
	if err := s.factory.Core().V1().Pods().Informer().GetStore().Add(p); err != nil {
		s.t.Fatal(err)
	}
}

// blind takes a step when so much time has passed, with the cache as it is.
func (s *stage) blind(name string, after time.Duration) {
	s.t.Helper()
	s.clock = s.clock.Add(after)
	if err := s.sync(context.Background(), "ns/"+name); err != nil {
		s.t.Fatal(err)
	}
}

// play takes steps until a pod without probes runs.
func (s *stage) play(name string) {
	s.t.Helper()
	for range 3 {
		s.blind(name, creating)
		s.see(s.live(name))
	}
}

func isReady(p *corev1.Pod) bool { return podutil.IsPodReady(p) }

// TestALaggingCacheLosesNothing: the cache has the status of a moment ago, in which the pod was not Ready yet either.
func TestALaggingCacheLosesNothing(t *testing.T) {
	s := setUp(t, "10.244.0.0/16")
	s.create("p", plain)
	s.blind("p", 0)
	before := s.live("p")
	s.see(before)
	s.blind("p", creating)
	if !isReady(s.live("p")) {
		t.Fatal("the pod is not Ready, so that there is nothing to lose")
	}
	before = before.DeepCopy()
	before.Annotations = map[string]string{failAnnotation: "Unready"}
	s.see(before)
	s.blind("p", 0)
	if isReady(s.live("p")) {
		t.Error("the pod stays Ready in the API server")
	}
}

// TestWhatOthersWriteStays: the cache does not have the condition of a readiness gate yet.
func TestWhatOthersWriteStays(t *testing.T) {
	s := setUp(t, "10.244.0.0/16")
	s.create("p", plain)
	s.blind("p", 0)
	s.see(s.live("p"))
	gate := corev1.PodCondition{Type: "example.test/gate", Status: corev1.ConditionTrue}
	s.change("p", func(p *corev1.Pod) { p.Status.Conditions = append(p.Status.Conditions, gate) })
	s.blind("p", creating)
	live := s.live("p")
	if _, c := podutil.GetPodCondition(&live.Status, gate.Type); c == nil || !isReady(live) {
		t.Errorf("the conditions are %+v", live.Status.Conditions)
	}
}

// TestNothingIsAskedForASettledPod: what is written and seen costs no request.
func TestNothingIsAskedForASettledPod(t *testing.T) {
	s := setUp(t, "10.244.0.0/16")
	s.create("p", plain)
	s.play("p")
	client, ok := s.client.(*fake.Clientset)
	if !ok {
		t.Fatalf("the client is a %T", s.client)
	}
	client.ClearActions()
	s.blind("p", time.Hour)
	if actions := client.Actions(); len(actions) != 0 {
		t.Errorf("asked was %v", actions)
	}
}

const withClaim = "spec: {nodeName: %, volumes: [{name: v, persistentVolumeClaim: {claimName: c}}], containers: [{name: a, image: i}]}"

// TestAPodThatSomebodyElseMadeTerminalEnds: as the pod garbage collector and the taint manager do with pods that still run. Its
// volume is free for another node before it is deleted.
func TestAPodThatSomebodyElseMadeTerminalEnds(t *testing.T) {
	s := setUp(t, "10.244.0.0/16")
	claims := s.factory.Core().V1().PersistentVolumeClaims().Informer().GetStore()
	if err := claims.Add(bound("c", corev1.ReadWriteOnce)); err != nil {
		t.Fatal(err)
	}
	s.create("p", strings.ReplaceAll(withClaim, "%", "here"))
	s.create("other", strings.ReplaceAll(withClaim, "%", "elsewhere"))
	s.play("p")
	s.play("other")
	if !isReady(s.live("p")) || isReady(s.live("other")) {
		t.Fatal("the volume is not held by the first pod")
	}
	s.change("p", func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted" })
	s.see(s.live("p"))
	s.blind("p", 0)
	live := s.live("p")
	if live.Status.Phase != corev1.PodFailed || live.Status.Reason != "Evicted" || isReady(live) {
		t.Errorf("the pod is %s for %q, Ready %v", live.Status.Phase, live.Status.Reason, isReady(live))
	}
	if state := live.Status.ContainerStatuses[0].State; state.Terminated == nil || state.Running != nil {
		t.Errorf("its container has the states %+v", state)
	}
	s.play("other")
	if !isReady(s.live("other")) {
		t.Error("its volume is not free")
	}
}

// TestAnOldTerminalPodHoldsNothing: it was left alone while it became terminal, so that no step has ended it.
func TestAnOldTerminalPodHoldsNothing(t *testing.T) {
	s := setUp(t, "10.244.0.0/16")
	s.create("p", plain)
	s.change("p", func(p *corev1.Pod) { p.Status.Phase, p.Status.PodIP = corev1.PodRunning, "10.244.0.9" })
	s.see(s.live("p"))
	s.attachRunning()
	s.change("p", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	s.see(s.live("p"))
	s.blind("p", 0)
	if len(s.addresses) != 0 {
		t.Errorf("it holds %v", s.addresses)
	}
}

// TestAnAddressInUseIsNotGivenAgain: the range of six addresses wraps round.
func TestAnAddressInUseIsNotGivenAgain(t *testing.T) {
	s := setUp(t, "10.0.0.0/29")
	ip := func(name string) string {
		s.play(name)
		return s.live(name).Status.PodIP
	}
	s.create("stays", plain)
	if got := ip("stays"); got != "10.0.0.1" {
		t.Fatalf("the first address is %s", got)
	}
	var given []string
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		s.create(name, plain)
		given = append(given, ip(name))
	}
	if want := []string{"10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"}; !slices.Equal(given, want) {
		t.Errorf("given were %v", given)
	}
	s.create("late", plain)
	if got := ip("late"); got != "" {
		t.Errorf("the range is used up, and %s is given", got)
	}
	s.change("c", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	s.see(s.live("c"))
	s.blind("c", 0)
	if got := ip("late"); got != "10.0.0.4" {
		t.Errorf("given is %q, and not the address that is free", got)
	}
}

// TestAddressesOutliveTheProcess: another process goes on with what the pods have.
func TestAddressesOutliveTheProcess(t *testing.T) {
	s := setUp(t, "10.0.0.0/29")
	for name, ip := range map[string]string{"old": "10.0.0.2", "older": "10.0.0.6"} {
		s.create(name, plain)
		s.change(name, func(p *corev1.Pod) { p.Status.Phase, p.Status.PodIP = corev1.PodRunning, ip })
		s.see(s.live(name))
	}
	s.attachRunning()
	var given []string
	for range 4 {
		given = append(given, s.nextIP("new"))
	}
	if want := []string{"10.0.0.1", "10.0.0.3", "10.0.0.4", "10.0.0.5"}; !slices.Equal(given, want) {
		t.Errorf("given were %v", given)
	}
}

// TestStatusesAreFoundByTheirNames: a status that was not written here has other entries, in another order, and one without a state.
func TestStatusesAreFoundByTheirNames(t *testing.T) {
	s := setUp(t, "10.244.0.0/16")
	s.create("p", `
spec:
  initContainers: [{name: x, image: i}, {name: z, image: i}]
  containers: [{name: a, image: i}, {name: b, image: i}]
status:
  startTime: "2026-01-01T00:00:00Z"
  initContainerStatuses: [{name: z, image: i, imageID: "", ready: false, restartCount: 0}]
  containerStatuses:
  - {name: foreign, image: i, imageID: "", ready: true, restartCount: 0}
  - {name: b, image: i, imageID: kept, ready: false, restartCount: 7}`)
	for range 6 {
		s.blind("p", creating)
		s.see(s.live("p"))
	}
	live := s.live("p")
	var told []string
	for _, c := range slices.Concat(live.Status.InitContainerStatuses, live.Status.ContainerStatuses) {
		told = append(told, c.Name)
	}
	if !slices.Equal(told, []string{"x", "z", "a", "b"}) || !isReady(live) || live.Status.ContainerStatuses[1].RestartCount != 7 {
		t.Errorf("Ready is %v, and the statuses are those of %v: %+v", isReady(live), told, live.Status)
	}
}
