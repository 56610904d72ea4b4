//go:build realkserve

package kserve

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"mlkeeper.dev/test/acmruntime"
)

// recording is what KServe made of some services, and what it refused. The stand-in's own test reads it.
type recording struct {
	Version  string     `json:"version"`
	Services []recorded `json:"services"`
	Refused  []refused  `json:"refused"`
}

// recorded is the life of one service: what was declared, what admission made of it, the agent in its pods and the volume of that, and
// everything that its Deployments, its pods and its status told, each in the order in which it was told.
type recorded struct {
	Name        string           `json:"name"`
	Declared    map[string]any   `json:"declared"`
	Admitted    map[string]any   `json:"admitted"`
	Agent       map[string]any   `json:"agent,omitempty"`
	Deployments []map[string]any `json:"deployments"`
	Pods        [][]any          `json:"pods"`
	Statuses    []map[string]any `json:"statuses"`
}

type refused struct {
	Declared map[string]any `json:"declared"`
	Message  string         `json:"message"`
}

// lives are the services that are recorded: how each is declared, what it is waited for, and what is done to it then.
var lives = []struct {
	name, declared string
	until          func(status map[string]any) bool
	then           string
	finally        func(status map[string]any) bool
}{
	{
		name: "model", declared: `{predictor: {model: {modelFormat: {name: sklearn}, storageUri: "gs://a/b"}}}`, until: ready,
		then: `{"spec":{"predictor":{"model":{"storageUri":"gs://a/c"}}}}`, finally: ready,
	},
	{
		name: "rolling", declared: `{predictor: {model: {modelFormat: {name: sklearn}, storageUri: "gs://a/b"}}}`, until: ready,
		then: `{"spec":{"predictor":{"nodeSelector":{"kserve.test/node":"none"}}}}`, finally: unsure,
	},
	{
		name: "framework", declared: `{predictor: {minReplicas: 1, sklearn: {storageUri: "gs://a/b"}}}`, until: ready,
		then: `{"metadata":{"annotations":{"serving.kserve.io/stop":"true"}}}`, finally: stopped,
	},
	{name: "triton", declared: `{predictor: {triton: {storageUri: "gs://a/b"}}}`, until: ready},
	{
		name: "logged", declared: `{predictor: {logger: {mode: all, url: "https://receiver.test"}, model: {modelFormat: {name: sklearn}, storageUri: "gs://a/b"}}}`,
		until: ready, then: `{"spec":{"predictor":{"logger":null}}}`, finally: ready,
	},
	{name: "custom", declared: `{predictor: {containers: [{name: mine, image: "devcluster.test/server"}]}}`, until: ready},
	{name: "transformed", declared: `{predictor: {model: {modelFormat: {name: xgboost}, storageUri: "gs://a/b"}},
		transformer: {containers: [{name: mine, image: "devcluster.test/transformer"}]}}`, until: ready},
	{name: "unsupported", declared: `{predictor: {model: {modelFormat: {name: cobol}, storageUri: "gs://a/b"}}}`, until: invalid},
	{name: "unknown-runtime", declared: `{predictor: {model: {modelFormat: {name: sklearn}, runtime: nobody, storageUri: "gs://a/b"}}}`, until: invalid},
	{
		name: "spoilt", declared: `{predictor: {model: {modelFormat: {name: sklearn}, storageUri: "gs://a/b"}}}`, until: ready,
		then: `{"spec":{"predictor":{"model":{"runtime":"nobody"}}}}`, finally: invalid,
	},
}

// bad are services that are refused.
var bad = []string{
	`{metadata: {name: 1m}, spec: {predictor: {model: {modelFormat: {name: sklearn}}}}}`,
	`{metadata: {name: a.b}, spec: {predictor: {model: {modelFormat: {name: sklearn}}}}}`,
	`{metadata: {name: none}, spec: {predictor: {}}}`,
	`{metadata: {name: two}, spec: {predictor: {sklearn: {storageUri: "gs://a"}, xgboost: {storageUri: "gs://a"}}}}`,
	`{metadata: {name: both}, spec: {predictor: {model: {modelFormat: {name: sklearn}}, containers: [{name: kserve-container, image: i}]}}}`,
	`{metadata: {name: named}, spec: {predictor: {model: {name: x, modelFormat: {name: sklearn}}}}}`,
	`{metadata: {name: bounds}, spec: {predictor: {minReplicas: 3, maxReplicas: 2, model: {modelFormat: {name: sklearn}}}}}`,
	`{metadata: {name: negative}, spec: {predictor: {minReplicas: -1, model: {modelFormat: {name: sklearn}}}}}`,
	`{metadata: {name: concurrency}, spec: {predictor: {containerConcurrency: -1, model: {modelFormat: {name: sklearn}}}}}`,
	`{metadata: {name: logger}, spec: {predictor: {logger: {url: "http://a"}, model: {modelFormat: {name: sklearn}}}}}`,
	`{metadata: {name: empty}, spec: {predictor: {model: {modelFormat: {name: sklearn}}}, transformer: {}}}`,
	`{metadata: {name: explained}, spec: {predictor: {model: {modelFormat: {name: sklearn}}}, explainer: {}}}`,
	`{metadata: {name: scaler, annotations: {serving.kserve.io/autoscalerClass: mine}}, spec: {predictor: {model: {modelFormat: {name: sklearn}}}}}`,
	`{metadata: {name: metric, annotations: {serving.kserve.io/autoscalerClass: hpa}}, spec: {predictor: {scaleMetric: rps, model: {modelFormat: {name: sklearn}}}}}`,
}

func ready(status map[string]any) bool {
	return told(status, "Ready") == "True" && transition(status) == "UpToDate"
}
func unsure(status map[string]any) bool  { return told(status, "PredictorReady") == "Unknown" }
func stopped(status map[string]any) bool { return told(status, "Stopped") == "True" }
func invalid(status map[string]any) bool { return transition(status) == "InvalidSpec" }

func told(status map[string]any, kind string) string {
	return conditionOf(&unstructured.Unstructured{Object: map[string]any{"status": status}}, kind)
}

func transition(status map[string]any) string {
	out, _, _ := unstructured.NestedString(status, "modelStatus", "transitionStatus")
	return out
}

// recorder follows the services of one namespace and what is made of them.
type recorder struct {
	mu  sync.Mutex
	all map[string]*recorded
	// pods are the latest, by service and name.
	pods map[string]map[string]any
}

// follow takes down what every object of a kind tells.
func (r *recorder) follow(ctx context.Context, t *testing.T, client dynamic.ResourceInterface, note func(*recorder, *recorded, *unstructured.Unstructured)) {
	t.Helper()
	watcher, err := client.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for event := range watcher.ResultChan() {
			u, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			name := cmp.Or(u.GetLabels()["serving.kserve.io/inferenceservice"], u.GetName())
			r.mu.Lock()
			one := r.all[name]
			if one == nil {
				one = &recorded{Name: name}
				r.all[name] = one
			}
			timeless(u.Object)
			note(r, one, u)
			r.mu.Unlock()
		}
	}()
}

// timeless removes what is another at each run.
func timeless(value any) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range []string{"lastTransitionTime", "lastUpdateTime", "lastProbeTime", "startedAt", "finishedAt", "startTime"} {
			delete(v, key)
		}
		for _, one := range v {
			timeless(one)
		}
	case []any:
		for _, one := range v {
			timeless(one)
		}
	}
}

func noteService(_ *recorder, one *recorded, u *unstructured.Unstructured) {
	if one.Admitted == nil {
		spec, _, _ := unstructured.NestedMap(u.Object, "spec")
		one.Admitted = map[string]any{"annotations": u.GetAnnotations(), "spec": spec}
	}
	status, found, _ := unstructured.NestedMap(u.Object, "status")
	if found && (len(one.Statuses) == 0 || !same(one.Statuses[len(one.Statuses)-1], status)) {
		one.Statuses = append(one.Statuses, status)
	}
}

func noteDeployment(_ *recorder, one *recorded, u *unstructured.Unstructured) {
	status, _, _ := unstructured.NestedMap(u.Object, "status")
	one.Deployments = append(one.Deployments, map[string]any{"component": u.GetLabels()["component"], "status": status})
}

// notePod takes down all pods of the predictor, with what KServe reads of them.
func notePod(r *recorder, one *recorded, u *unstructured.Unstructured) {
	if u.GetLabels()["component"] != "predictor" {
		return
	}
	if r.pods[one.Name] == nil {
		r.pods[one.Name] = map[string]any{}
	}
	one.noteAgent(u)
	read := map[string]any{}
	for _, field := range []string{"phase", "conditions", "initContainerStatuses", "containerStatuses"} {
		if value, found, _ := unstructured.NestedFieldCopy(u.Object, "status", field); found {
			read[field] = value
		}
	}
	r.pods[one.Name][u.GetName()] = map[string]any{"status": read}
	if u.GetDeletionTimestamp() != nil {
		delete(r.pods[one.Name], u.GetName())
	}
	var now []any
	for _, name := range slices.Sorted(maps.Keys(r.pods[one.Name])) {
		now = append(now, runtime.DeepCopyJSONValue(r.pods[one.Name][name]))
	}
	if len(one.Pods) == 0 || !same(one.Pods[len(one.Pods)-1], now) {
		one.Pods = append(one.Pods, now)
	}
}

// noteAgent takes down the agent of the first pod that has one, without what the API server fills in.
func (one *recorded) noteAgent(pod *unstructured.Unstructured) {
	containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
	volumes, _, _ := unstructured.NestedSlice(pod.Object, "spec", "volumes")
	named := func(list []any, name string) map[string]any {
		for _, item := range list {
			if m, ok := item.(map[string]any); ok && m["name"] == name {
				return m
			}
		}
		return nil
	}
	agent := named(containers, "agent")
	if agent == nil || one.Agent != nil {
		return
	}
	mounts, _ := agent["volumeMounts"].([]any)
	probe, _, _ := unstructured.NestedMap(agent, "readinessProbe", "httpGet")
	one.Agent = map[string]any{
		"args": agent["args"], "env": agent["env"], "ports": agent["ports"], "resources": agent["resources"], "probe": probe,
		"mount": named(mounts, "agent-ca-bundle"), "volume": named(volumes, "agent-ca-bundle"),
	}
}

func same(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// latest is the status that was told last.
func (r *recorder) latest(name string) map[string]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.all[name]; one != nil && len(one.Statuses) > 0 {
		return one.Statuses[len(one.Statuses)-1]
	}
	return nil
}

func (r *recorder) await(t *testing.T, name string, until func(map[string]any) bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !until(r.latest(name)); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("%s: it does not come to the status that is waited for: %v", name, r.latest(name))
			return
		}
	}
}

// TestRealKServeIsRecorded takes down what the controller and its webhooks do.
func TestRealKServeIsRecorded(t *testing.T) {
	if os.Getenv("KSERVE_RECORDING") == "" {
		t.Skip("the stand-in plays another version of KServe, of which make test-kserve with RECORD=1 records this one")
	}
	s := onKafka(t, acmruntime.Master)
	client, err := dynamic.NewForConfig(s.c.Config)
	s.must(err)
	const namespace = "recording"
	s.must(s.c.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	// KServe keeps trying what it cannot reconcile, in the other tests of this cluster too.
	t.Cleanup(func() { s.c.Kubectl(t, "delete", "namespace", namespace) })
	r := &recorder{all: map[string]*recorded{}, pods: map[string]map[string]any{}}
	inferenceServices := client.Resource(schema.GroupVersionResource{Group: "serving.kserve.io", Version: "v1beta1", Resource: "inferenceservices"}).Namespace(namespace)
	r.follow(t.Context(), t, inferenceServices, noteService)
	r.follow(t.Context(), t, client.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace(namespace), noteDeployment)
	r.follow(t.Context(), t, client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(namespace), notePod)
	out := recording{Version: os.Getenv("KSERVE_VERSION")}
	declared := map[string]map[string]any{}
	for _, life := range lives {
		u := inNamespace(t, namespace, "{metadata: {name: "+life.name+"}, spec: "+life.declared+"}")
		declared[life.name] = runtime.DeepCopyJSON(u.Object)
		_, err := inferenceServices.Create(t.Context(), u, metav1.CreateOptions{})
		s.must(err)
	}
	for _, life := range lives {
		r.await(t, life.name, life.until)
		if life.then != "" {
			s.c.Kubectl(t, "patch", "inferenceservice", life.name, "-n", namespace, "--type=merge", "-p", life.then)
		}
	}
	for _, life := range lives {
		if life.finally != nil {
			r.await(t, life.name, life.finally)
		}
	}
	for _, text := range bad {
		u := inNamespace(t, namespace, text)
		_, err := inferenceServices.Create(t.Context(), u.DeepCopy(), metav1.CreateOptions{})
		if err == nil {
			t.Errorf("this is not refused: %s", text)
			continue
		}
		out.Refused = append(out.Refused, refused{u.Object, err.Error()})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, life := range lives {
		one := *r.all[life.name]
		one.Declared = declared[life.name]
		out.Services = append(out.Services, one)
	}
	content, err := json.MarshalIndent(out, "", " ")
	s.must(err)
	s.must(os.WriteFile(os.Getenv("KSERVE_RECORDING"), content, 0o600))
}

func inNamespace(t *testing.T, namespace, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	content, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = json.Unmarshal(content, &u.Object)
	}
	if err != nil {
		t.Fatal(err)
	}
	u.SetAPIVersion("serving.kserve.io/v1beta1")
	u.SetKind("InferenceService")
	u.SetNamespace(namespace)
	return u
}
