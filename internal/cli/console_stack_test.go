package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/console"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/wiring"
)

var (
	inferenceGVK = schema.GroupVersionKind{Group: "serving.kserve.io", Version: "v1beta1", Kind: "InferenceService"}
	consoleKinds = append([]schema.GroupVersionKind{replicaSetKind, inferenceGVK}, explainKinds...)
	theService   = console.Ref{Group: serviceKind.Group, Kind: serviceKind.Kind, Namespace: "default", Name: "s"}
)

// ownedBy makes an object of a controller.
func ownedBy(u *unstructured.Unstructured, uid types.UID) *unstructured.Unstructured {
	yes := true
	u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "X", Name: "x", UID: uid, Controller: &yes}})
	return u
}

func podOf(name string, uid types.UID, status map[string]any) *unstructured.Unstructured {
	u := object(podKind, "default", name, map[string]any{
		"spec":   map[string]any{"containers": []any{map[string]any{"name": "c", "env": []any{map[string]any{"name": "PASSWORD", "value": "hunter2"}}}}},
		"status": status,
	})
	u.SetUID(types.UID("uid-" + name))
	return ownedBy(u, uid)
}

func running(restarts int64) map[string]any {
	return map[string]any{
		"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
		"containerStatuses": []any{map[string]any{"name": "c", "ready": true, "restartCount": restarts}},
	}
}

func crashing() map[string]any {
	return map[string]any{"phase": "Running", "containerStatuses": []any{map[string]any{
		"name": "c", "ready": false, "restartCount": int64(7), "state": map[string]any{"waiting": map[string]any{"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
	}}}
}

// stackSource has a custom resource with a Deployment whose ReplicaSet has two pods.
func stackSource(t *testing.T, r fakeController, more ...*unstructured.Unstructured) (*consoleSource, *dynamicfake.FakeDynamicClient) {
	t.Helper()
	_, objects := waiting()
	for _, u := range objects {
		if u.GetKind() == "Deployment" {
			u.SetUID("deployment")
			if err := unstructured.SetNestedSlice(u.Object, []any{
				map[string]any{"name": "data", "persistentVolumeClaim": map[string]any{"claimName": "claim"}},
			}, "spec", "template", "spec", "volumes"); err != nil {
				t.Fatal(err)
			}
		}
	}
	rs := ownedBy(object(replicaSetKind, "default", "d-1", nil), "deployment")
	rs.SetUID("replicaset")
	objects = append(objects, rs, podOf("d-1-a", "replicaset", running(2)), podOf("d-1-b", "replicaset", crashing()), podOf("foreign", "other", running(0)))
	c, dyn := fakeCluster(t, consoleKinds, append(objects, more...)...)
	env := environment(r, c)
	resolver, err := newResolver(env)
	if err != nil {
		t.Fatal(err)
	}
	return newConsoleSource(resolver, env, ""), dyn
}

// rowOf decodes a row.
func rowOf[T any](t *testing.T, rows map[string]string, key string) (out T) {
	t.Helper()
	if err := json.Unmarshal([]byte(rows[key]), &out); err != nil {
		t.Fatalf("%s: %v in %v", key, err, rows)
	}
	return out
}

func stackRows(t *testing.T, s *consoleSource, wanted ...string) map[string]string {
	t.Helper()
	return feeding(t, func(ctx context.Context, feed *console.Feed) error { return s.Stack(ctx, theService, feed) }, func(rows map[string]string) bool {
		return !slices.ContainsFunc(wanted, func(key string) bool { return rows[key] == "" })
	})
}

func TestAStackHasThePodsOfItsWorkloads(t *testing.T) {
	s, dyn := stackSource(t, fakeController{})
	rows := stackRows(t, s, "pod/default/d-1-a", "pod/default/d-1-b")
	bad, good := rowOf[podRow](t, rows, "pod/default/d-1-b"), rowOf[podRow](t, rows, "pod/default/d-1-a")
	if bad.Parent != "object/Deployment.apps/default/d" || bad.Health != "Failed" || bad.Reason != "CrashLoopBackOff" || bad.Containers != "0/1" ||
		bad.Restarts != 7 || bad.Order != 0 || bad.Message != "back-off 5m0s" {
		t.Errorf("%+v", bad)
	}
	if good.Health != "Current" || good.Containers != "1/1" || good.Restarts != 2 || good.Order != 1 {
		t.Errorf("%+v", good)
	}
	if rows["pod/default/foreign"] != "" || strings.Contains(fmt.Sprint(rows), "hunter2") {
		t.Errorf("it has what is not its own: %v", rows)
	}
	for _, a := range dyn.Actions() {
		if a.GetVerb() != "list" && a.GetVerb() != "watch" && a.GetVerb() != "get" {
			t.Errorf("%s of %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
}

// TestPodsOfOthersAreHeldInShort holds that a pod which is kept has nothing that its row does not need.
func TestPodsOfOthersAreHeldInShort(t *testing.T) {
	u := podOf("p", "x", crashing())
	u.SetAnnotations(map[string]string{"large": strings.Repeat("x", 1<<10)})
	out, err := reduceOwned(u)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(out)
	if err != nil || len(data) > 700 || strings.Contains(string(data), "hunter2") {
		t.Errorf("%v, %d bytes: %s", err, len(data), data)
	}
	if a, b := podRowOf("", u), podRowOf("", out.(*unstructured.Unstructured)); a != b {
		t.Errorf("the row of what is kept is another one:\n%+v\n%+v", a, b)
	}
}

func TestManyPodsOfAWorkloadAreCounted(t *testing.T) {
	var pods []*unstructured.Unstructured
	for i := range maxPods + 9 {
		pods = append(pods, podOf(fmt.Sprintf("many-%03d", i), "replicaset", running(0)))
	}
	s, _ := stackSource(t, fakeController{}, pods...)
	rows := stackRows(t, s, "more/object/Deployment.apps/default/d")
	listed := 0
	for key := range rows {
		if strings.HasPrefix(key, "pod/") {
			listed++
		}
	}
	if more := rowOf[moreRow](t, rows, "more/object/Deployment.apps/default/d"); listed != maxPods || more.More != "11 more pods: 11 Current" || rows["pod/default/d-1-b"] == "" {
		t.Errorf("%d are listed, %+v", listed, more)
	}
}

func TestAStackSaysWhatWaitsForWhat(t *testing.T) {
	s, _ := stackSource(t, fakeController{render: func(read controller.Reader, cr *v1.TrustyAIService) (plan.Plan, error) {
		p, err := simplePlan(read, cr)
		p.Stages[0].WaitHealthy = true
		p.Stages = append(p.Stages, plan.Stage{Name: "third", After: []string{"second"}, Objects: []plan.Object{
			{Desired: object(configGVK, cr.Namespace, cr.Name, nil)},
		}})
		return p, err
	}})
	rows := stackRows(t, s, "stage/2", "object/Deployment.apps/default/d", "object/PersistentVolumeClaim/default/claim")
	for key, want := range map[string]string{"stage/0": "[]", "stage/1": "[stage/0]", "stage/2": "[stage/0 stage/1]"} {
		if got := rowOf[stageRow](t, rows, key); fmt.Sprint(got.Waits) != want {
			t.Errorf("%s waits for %v, want %s", key, got.Waits, want)
		}
	}
	if d := rowOf[objectRow](t, rows, "object/Deployment.apps/default/d"); fmt.Sprint(d.Waits) != "[object/PersistentVolumeClaim/default/claim]" {
		t.Errorf("the Deployment waits for %v", d.Waits)
	}
}

// TestAStackShowsItsWiring has an InferenceService of another custom resource with an entry of the TrustyAIService, one with an entry of
// somebody else, and one whose record is damaged.
func TestAStackShowsItsWiring(t *testing.T) {
	entry := func(owner string) string { return `{"entries":[{"owner":"` + owner + `","value":"http://x"}]}` }
	self := "TrustyAIService." + serviceKind.Group + "/default/s"
	monitored, other, damaged := object(inferenceGVK, "default", "monitored", nil), object(inferenceGVK, "default", "other", nil), object(inferenceGVK, "default", "damaged", nil)
	monitored.SetAnnotations(map[string]string{keeper.WiringAnnotation: entry(self), keeper.OwnerAnnotation: "CompositionElement.keeper.mlkeeper.dev//e"})
	other.SetAnnotations(map[string]string{keeper.WiringAnnotation: entry(self + "x")})
	damaged.SetAnnotations(map[string]string{keeper.WiringAnnotation: "{"})
	s, _ := stackSource(t, fakeController{wires: []wiring.Wire{{Name: "kserve", GVK: inferenceGVK}}}, monitored, other, damaged)
	const key = "wired/InferenceService.serving.kserve.io/default/"
	rows := stackRows(t, s, key+"monitored", "stage/wired")
	got := rowOf[wiredRow](t, rows, key+"monitored")
	if got.Owner == nil || *got.Owner != (console.Ref{Group: "keeper.mlkeeper.dev", Kind: "CompositionElement", Name: "e"}) || got.Health != healthWired {
		t.Errorf("%+v", got)
	}
	if rows[key+"other"] != "" || rows[key+"damaged"] != "" {
		t.Errorf("%v", rows)
	}
	if got := wiredTo(monitored); len(got) != 1 || got[0] != theService {
		t.Errorf("%v", got)
	}
}

// TestReadyThatFlapsIsExplainedSeldom changes the condition Ready of a custom resource all the time while two look.
func TestReadyThatFlapsIsExplainedSeldom(t *testing.T) {
	s, dyn := stackSource(t, fakeController{})
	rows := stackRows(t, s, "explanation")
	if e := rowOf[Explanation](t, rows, "explanation"); e.Reason != "ComponentsNotReady" || len(e.Clues) == 0 {
		t.Errorf("%+v", e)
	}
	dyn.ClearActions()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	feed := console.NewFeed()
	ended := make(chan error, 1)
	go func() { ended <- s.Stack(ctx, theService, feed) }()
	begun := time.Now()
	const flaps = 12
	for i := range flaps {
		live := s.cluster.read(ctx, t, "tas/s")
		withReady(live, "False", "ComponentsNotReady", fmt.Sprint("flap ", i))
		mustUpdate(ctx, t, dyn, serviceGVR, live)
		time.Sleep(explainEvery / 8)
	}
	await(t, func() bool { return strings.Contains(string(feed.Rows()["explanation"]), fmt.Sprint("flap ", flaps-1)) })
	most := 2 + int(time.Since(begun)/explainEvery)
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, a := range dyn.Actions() {
		if a.GetVerb() == "list" && a.GetResource().Resource == "events" {
			asked++
		}
	}
	// Each explanation asks once for the warnings of the pod that does not run.
	if asked == 0 || asked > most {
		t.Errorf("events were asked for %d times in %s, want at most %d", asked, time.Since(begun), most)
	}
	for _, resource := range []string{"deployments", "trustyaiservices"} {
		lists := 0
		for _, a := range dyn.Actions() {
			if a.GetVerb() == "list" && a.GetResource().Resource == resource {
				lists++
			}
		}
		if lists > 1 {
			t.Errorf("%s, which are watched, are listed %d times", resource, lists)
		}
	}
}

// await waits until something is so.
func await(t *testing.T, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen")
		}
	}
}

func TestProgressIsThatOfApplicationsAndComponents(t *testing.T) {
	for _, field := range []string{"applications", "components"} {
		u := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{field: []any{
			map[string]any{"name": "jupyter", "phase": "Progressing", "ready": int64(3), "objects": int64(9), "message": "waits for istio\x1b[2J"}, "malformed",
		}}}}
		got := progressOf(u)
		if len(got) != 1 || got[0].Name != "jupyter" || got[0].Ready != 3 || got[0].Objects != 9 || strings.Contains(got[0].Message, "\x1b") {
			t.Errorf("%s: %+v", field, got)
		}
	}
}

// TestTheTimelineIsThatOfTheStack has events of the custom resource, a pod of its Deployment and others, and a change of Ready.
func TestTheTimelineIsThatOfTheStack(t *testing.T) {
	about := func(apiVersion, kind, name, reason string) *unstructured.Unstructured {
		return object(eventKind, "default", strings.ToLower(name+"-"+reason), map[string]any{
			"involvedObject": map[string]any{"apiVersion": apiVersion, "kind": kind, "namespace": "default", "name": name},
			"type":           "Warning", "reason": reason, "message": "text", "lastTimestamp": "2026-01-02T03:03:05Z",
		})
	}
	s, dyn := stackSource(t, fakeController{}, about("v1", "Pod", "d-1-b", "BackOff"), about(serviceKind.GroupVersion().String(), serviceKind.Kind, "s", "Drift"),
		about("v1", "Pod", "other-1", "Foreign"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stack, timeline := console.NewFeed(), console.NewFeed()
	ended := make(chan error, 2)
	go func() { ended <- s.Timeline(ctx, theService, timeline) }()
	go func() { ended <- s.Stack(ctx, theService, stack) }()
	has := func(wanted ...string) func() bool {
		return func() bool {
			text := ""
			for _, row := range timeline.Rows() {
				text += string(row) + "\n"
			}
			if strings.Contains(text, "Foreign") {
				t.Fatalf("it has an event of others:\n%s", text)
			}
			return !slices.ContainsFunc(wanted, func(want string) bool { return !strings.Contains(text, want) })
		}
	}
	await(t, has(`"reason":"BackOff"`, `"reason":"Drift"`, `"what":"Created"`, `"what":"Condition"`))
	mustUpdate(ctx, t, dyn, serviceGVR, withReady(s.cluster.read(ctx, t, "tas/s"), "True", "AllComponentsReady", "fine"))
	await(t, has(`"what":"Ready","bad":false`))
	cancel()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestAnEventIsHeldInShort holds that ten thousand events of a namespace take ten megabytes at most.
func TestAnEventIsHeldInShort(t *testing.T) {
	u := object(eventKind, "default", "e", map[string]any{"message": strings.Repeat("x", 1<<16), "reason": "R", "involvedObject": map[string]any{"kind": "Pod"}})
	u.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: strings.Repeat("m", 1<<10)}})
	out, err := reduceEvent(u)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := json.Marshal(out); err != nil || len(data) > 4*maxEventText {
		t.Errorf("%d bytes: %v", len(data), err)
	}
}

// TestTheConsoleComparesWithoutDryRuns compares a Deployment with another number of replicas than declared, and a Secret.
func TestTheConsoleComparesWithoutDryRuns(t *testing.T) {
	u := liveService("s", "1", "2026-01-01T03:04:05Z")
	d := child(deployGVK, u, "s", map[string]any{"spec": map[string]any{"replicas": int64(5)}})
	secret := child(secretGVK, u, "s", map[string]any{"data": map[string]any{"password": "aHVudGVyMw=="}, "type": "Opaque"})
	c, dyn := fakeCluster(t, statusKinds, u, d, secret)
	env := environment(fakeController{}, c)
	r, err := newResolver(env)
	if err != nil {
		t.Fatal(err)
	}
	s := newConsoleSource(r, env, "")
	for _, dryRun := range []bool{false, true} {
		dyn.ClearActions()
		got, err := s.Diff(t.Context(), theService, dryRun)
		if err != nil {
			t.Fatal(err)
		}
		view := got.(*diffView)
		data, err := json.Marshal(view)
		if err != nil {
			t.Fatal(err)
		}
		if text := string(data); !strings.Contains(text, `-  replicas: 5`) || strings.Contains(text, "aHVudGVy") || strings.Contains(text, "hunter2") || view.DryRun != dryRun {
			t.Errorf("dry run %t: %s", dryRun, text)
		}
		writes := 0
		for _, a := range dyn.Actions() {
			if !slices.Contains([]string{"get", "list", "watch"}, a.GetVerb()) {
				writes++
			}
		}
		if (writes > 0) != dryRun {
			t.Errorf("dry run %t: %d requests to write", dryRun, writes)
		}
	}
}

func TestHunksAreCutForAPage(t *testing.T) {
	v := &diffView{DiffReport: DiffReport{Objects: make([]Difference, 100)}}
	for i := range v.Objects {
		v.Objects[i].Diff = strings.Repeat("+ line\n", 1<<14)
	}
	v.limit()
	all := 0
	for i := range v.Objects {
		all += len(v.Objects[i].Diff)
	}
	if all > maxAllHunks+100*100 || !strings.Contains(v.Objects[0].Diff, "mlkeeper diff prints the whole") {
		t.Errorf("%d bytes", all)
	}
}
