package standin

import (
	"encoding/json"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"
)

// recording is what KServe's own controller and webhooks did, which make test-kserve records (test/kserve, TestRealKServeIsRecorded).
type recording struct {
	Version  string     `json:"version"`
	Services []recorded `json:"services"`
	Refused  []struct {
		Declared map[string]any `json:"declared"`
		Message  string         `json:"message"`
	} `json:"refused"`
}

type recorded struct {
	Name        string           `json:"name"`
	Declared    map[string]any   `json:"declared"`
	Admitted    map[string]any   `json:"admitted"`
	Agent       map[string]any   `json:"agent"`
	Deployments []map[string]any `json:"deployments"`
	Pods        [][]any          `json:"pods"`
	Statuses    []map[string]any `json:"statuses"`
}

// readRecording reads the recording that is kept, or the one that was just made.
func readRecording(t *testing.T) recording {
	t.Helper()
	path := os.Getenv("KSERVE_RECORDING")
	if path == "" {
		path = "testdata/kserve.json"
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// The numbers in objects are int64 as in those that a cluster answers with.
	all := map[string]any{}
	if err := utiljson.Unmarshal(content, &all); err != nil {
		t.Fatal(err)
	}
	out := recording{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(all, &out); err != nil {
		t.Fatal(err)
	}
	if len(out.Services) == 0 || len(out.Refused) == 0 {
		t.Fatalf("the recording of KServe %s is empty", out.Version)
	}
	return out
}

// TestRecordingOfAdmission: the stand-in makes of what was declared what KServe's webhook made of it, and refuses with its words.
func TestRecordingOfAdmission(t *testing.T) {
	r := readRecording(t)
	for _, one := range r.Services {
		obj := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(one.Declared)}
		defaultInferenceService(obj)
		if err := validateInferenceService(obj, nil); err != nil {
			t.Errorf("%s: it is refused: %v", one.Name, err)
		}
		got := map[string]any{"spec": obj.Object["spec"], "annotations": anyOf(obj.GetAnnotations())}
		if a, b := text(t, got), text(t, one.Admitted); a != b {
			t.Errorf("%s: made of it is\n%s, and KServe %s made\n%s", one.Name, a, r.Version, b)
		}
	}
	for _, one := range r.Refused {
		obj := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(one.Declared)}
		defaultInferenceService(obj)
		err := validateInferenceService(obj, nil)
		want := `admission webhook "inferenceservice.kserve-webhook-server.validator" denied the request: `
		if err == nil || want+err.Error() != one.Message {
			t.Errorf("%s: said is\n%v, and by KServe %s\n%s", obj.GetName(), err, r.Version, one.Message)
		}
	}
}

// TestRecordingOfAgents: the agent in the stand-in's pods is the one that KServe's webhook put into its own.
func TestRecordingOfAgents(t *testing.T) {
	r, agents := readRecording(t), 0
	for _, one := range r.Services {
		if one.Agent == nil {
			continue
		}
		agents++
		content, err := json.Marshal(one.Declared)
		if err != nil {
			t.Fatal(err)
		}
		pod := deploymentOf(t, "predictor", string(content)).Spec.Template.Spec
		agent, bundle := pod.Containers[len(pod.Containers)-1], pod.Volumes[len(pod.Volumes)-1]
		bundle.ConfigMap.DefaultMode = ptr.To(corev1.ConfigMapVolumeSourceDefaultMode) // The API server fills it in.
		for field, value := range map[string]any{
			"args": agent.Args, "env": agent.Env, "ports": agent.Ports, "resources": agent.Resources, "probe": agent.ReadinessProbe.HTTPGet,
			"mount": agent.VolumeMounts[0], "volume": bundle,
		} {
			var of any
			if err := decode(value, &of); err != nil {
				t.Fatal(err)
			}
			if got, want := text(t, map[string]any{field: of}), text(t, map[string]any{field: one.Agent[field]}); got != want {
				t.Errorf("%s: the agent has\n%s, and that of KServe %s\n%s", one.Name, got, r.Version, want)
			}
		}
	}
	if agents != 1 {
		t.Errorf("%d agents were recorded", agents)
	}
}

// TestRecordingOfStatuses: each status that KServe told follows by the stand-in's rules from the one before and from something that
// the Deployments and the pods told. The one rule that is younger than the recording is named.
func TestRecordingOfStatuses(t *testing.T) {
	r := readRecording(t)
	younger := 0
	for _, one := range r.Services {
		before := map[string]any{}
		for i, want := range one.Statuses {
			switch {
			case one.follows(t, before, want, false):
			case one.follows(t, before, want, true):
				younger++
			default:
				t.Errorf("%s: the status %d of KServe %s follows from nothing:\n%s\nbefore it was\n%s", one.Name, i, r.Version, text(t, want), text(t, before))
			}
			before = want
		}
		if len(one.Statuses) == 0 {
			t.Errorf("%s: nothing was told", one.Name)
		}
	}
	if younger == 0 {
		t.Error("KServe tells no Unknown of what is available and progresses: the rule of standardReady is no longer younger than the recording")
	}
}

// follows says whether a status is what the stand-in tells after another, by any of what was told. old is for the rule of v0.17.0.
func (r recorded) follows(t *testing.T, before, want map[string]any, old bool) bool {
	t.Helper()
	services := []map[string]any{r.Declared, changed(r.Declared)}
	for _, declared := range services {
		for _, predictor := range r.children("predictor") {
			for _, transformer := range r.children("transformer") {
				for _, pods := range r.podLists() {
					got := r.tell(declared, before, predictor, transformer, pods, old)
					if text(t, got) == text(t, want) {
						return true
					}
				}
			}
		}
	}
	return false
}

// changed is a service after what the recording did to it.
func changed(declared map[string]any) map[string]any {
	out := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(declared)}
	switch out.GetName() {
	case "framework":
		out.SetAnnotations(map[string]string{stopAnnotation: "true"})
	case "spoilt":
		_ = unstructured.SetNestedField(out.Object, "nobody", "spec", "predictor", "model", "runtime")
	}
	return out.Object
}

// children are the states of a component's Deployment, that it is new first.
func (r recorded) children(component string) []map[string]any {
	out := []map[string]any{{}}
	for _, one := range r.Deployments {
		if one["component"] == component {
			status, _ := one["status"].(map[string]any)
			out = append(out, status)
		}
	}
	return out
}

// podLists are those that KServe may have read: of several pods any may have been the first, and it may not have seen the latest.
func (r recorded) podLists() [][]unstructured.Unstructured {
	out := [][]unstructured.Unstructured{nil}
	for _, list := range r.Pods {
		for first := range list {
			var all []unstructured.Unstructured
			for i := range list {
				pod, _ := list[(first+i)%len(list)].(map[string]any)
				all = append(all, unstructured.Unstructured{Object: pod})
			}
			out = append(out, all)
		}
	}
	return out
}

// tell is what the stand-in makes of one state of everything.
func (r recorded) tell(declared, before, predictor, transformer map[string]any, pods []unstructured.Unstructured, old bool) map[string]any {
	obj := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(declared)}
	defaultInferenceService(obj)
	obj.Object["status"] = runtime.DeepCopyJSON(before)
	out := statusOf(obj, modeOf(obj), "")
	components := componentsOf(obj)
	if obj.GetAnnotations()[stopAnnotation] == "true" {
		_ = out.runOn(builtin)
		out.stop(components)
		return out.done()
	}
	if out.runOn(builtin) != nil {
		return out.done()
	}
	for _, component := range components {
		child, err := out.child(component)
		if err != nil {
			return map[string]any{"error": err.Error()}
		}
		child.Object["status"] = predictor
		if component == "transformer" {
			child.Object["status"] = transformer
		}
		out.standard(component, child)
		if component != "predictor" {
			continue
		}
		if c := conditionIn(child, "Progressing"); old && c.status == isTrue && c.reason != "NewReplicaSetAvailable" {
			out.set(predictorCondition, condition{isUnknown, c.reason, c.message})
		}
		out.model(pods)
	}
	out.set("Stopped", condition{status: isFalse})
	out.ingress(components)
	return out.done()
}

// text is an object without the times.
func text(t *testing.T, value map[string]any) string {
	t.Helper()
	value = runtime.DeepCopyJSON(value)
	list, _ := value["conditions"].([]any)
	for _, one := range list {
		delete(one.(map[string]any), "lastTransitionTime")
	}
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
