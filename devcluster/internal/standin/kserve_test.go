package standin

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// valueAt reads a value in an object.
func valueAt(in map[string]any, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(in, path...)
	return value
}

// inferenceService reads one as a user writes it.
func inferenceService(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	content, err := yaml.ToJSON([]byte("---\n" + text))
	if err == nil {
		err = json.Unmarshal(content, &obj.Object)
	}
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

// told are the conditions that a Deployment is told to have: their status, reason and message.
type told map[string]condition

func deploymentWith(all told) *unstructured.Unstructured {
	d := &unstructured.Unstructured{Object: map[string]any{}}
	list := conditionsOf(nil, "then")
	for kind, c := range all {
		if c.status != "" {
			list.put(kind, c)
		}
	}
	d.Object["status"] = map[string]any{"observedGeneration": int64(7), "conditions": list.list()}
	return d
}

// TestInferenceServiceFollowsItsDeployment: the status is what KServe makes of the Deployment's, its counter included.
func TestInferenceServiceFollowsItsDeployment(t *testing.T) {
	for _, c := range []struct {
		name string
		told told
		want condition
	}{
		{"new", told{}, condition{"False", "", ""}},
		{"starting", told{"Available": {"False", "Minimum", "m"}, "Progressing": {"True", "ReplicaSetUpdated", ""}}, condition{"False", "Minimum", "m"}},
		{"not told yet", told{"Progressing": {"True", "NewReplicaSetCreated", "m"}}, condition{"Unknown", "NewReplicaSetCreated", "m"}},
		{"serving", told{"Available": {"True", "", ""}, "Progressing": {"True", "NewReplicaSetAvailable", ""}}, condition{"True", "", ""}},
		{"the old one serves while the new one comes", told{"Available": {"True", "", ""}, "Progressing": {"True", "ReplicaSetUpdated", ""}}, condition{"True", "", ""}},
		{"stuck", told{"Available": {"True", "", ""}, "Progressing": {"False", "ProgressDeadlineExceeded", "m"}}, condition{"False", "ProgressDeadlineExceeded", "m"}},
	} {
		obj := object()
		s := statusOf(obj, standard, "now")
		s.standard("predictor", deploymentWith(c.told))
		s.ingress([]string{"predictor"})
		ready := s.get(readyCondition)
		if c.want.status == isFalse {
			c.want = condition{isFalse, "Predictor ingress not created", ""} // It is set last.
		}
		if c.want.status == isUnknown {
			c.want = condition{isFalse, "Predictor ingress not created", ""}
		}
		if ready != c.want || s.done()["observedGeneration"] != int64(7) {
			t.Errorf("%s: Ready is %v, not %v", c.name, ready, c.want)
		}
	}
}

// TestConditionsBeginUnknown: before anything was made of a service, nothing is known of it; what is not set later stays.
func TestConditionsBeginUnknown(t *testing.T) {
	s := statusOf(object(), standard, "now")
	for _, kind := range []string{"Ready", "PredictorReady", "IngressReady"} {
		if got := s.get(kind).status; got != isUnknown {
			t.Errorf("%s is %q", kind, got)
		}
	}
	s.set(predictorCondition, condition{status: isTrue})
	if got := s.get(readyCondition).status; got != isUnknown {
		t.Errorf("Ready is %s while the ingress is not known", got)
	}
	s.set("RoutesReady", condition{status: isFalse})
	if got := s.get(readyCondition).status; got != isUnknown || s.all["RoutesReady"]["severity"] != "Info" {
		t.Errorf("Ready is %s for the sake of a condition that it does not depend on", got)
	}
	s.set(ingressCondition, condition{status: isTrue})
	if got := s.get(readyCondition).status; got != isTrue {
		t.Errorf("Ready is %s", got)
	}
}

// TestModelStatesFollowThePods: the first pod speaks for the model, and a new one that fails says nothing in the conditions.
func TestModelStatesFollowThePods(t *testing.T) {
	pod := func(list, container string, state map[string]any) []unstructured.Unstructured {
		return []unstructured.Unstructured{{Object: map[string]any{"status": map[string]any{
			list: []any{map[string]any{
				"name": container, "state": state, "lastState": map[string]any{"terminated": map[string]any{"message": "no such bucket", "exitCode": int64(1)}},
			}},
		}}}}
	}
	crashing := map[string]any{"waiting": map[string]any{"reason": "CrashLoopBackOff"}}
	for _, c := range []struct {
		name, transition, target string
		ready                    bool
		pods                     []unstructured.Unstructured
	}{
		{"no pods", "InProgress", "Pending", false, nil},
		{"none, though ready", "InProgress", "Pending", true, nil},
		{"fetching fails", "BlockedByFailedLoad", "FailedToLoad", true, pod("initContainerStatuses", "storage-initializer", crashing)},
		{"the server crashes", "BlockedByFailedLoad", "FailedToLoad", false, pod("containerStatuses", "kserve-container", crashing)},
		{"another container crashes", "", "", false, pod("containerStatuses", "other", crashing)},
		{"ready", "UpToDate", "Loaded", true, pod("containerStatuses", "kserve-container", map[string]any{"running": map[string]any{}})},
	} {
		s := statusOf(object(), standard, "now")
		if c.ready {
			s.set(predictorCondition, condition{status: isTrue})
			s.set(ingressCondition, condition{status: isTrue})
		}
		s.model(c.pods)
		got, _ := s.fields["modelStatus"].(map[string]any)
		transition, _ := got["transitionStatus"].(string)
		target, _ := valueAt(got, "states", "targetModelState").(string)
		if transition != c.transition || target != c.target {
			t.Errorf("%s: %v", c.name, got)
		}
		if failure := valueAt(got, "lastFailureInfo", "message"); (failure == "no such bucket") != (c.transition == "BlockedByFailedLoad") {
			t.Errorf("%s: the failure is %v", c.name, failure)
		}
	}
}

// TestRuntimeOfAModel: the choice and the refusals of reconcileModel.
func TestRuntimeOfAModel(t *testing.T) {
	own := servingRuntime{name: "mine", formats: []modelFormat{{name: "sklearn", auto: true}}}
	off := servingRuntime{name: "off", disabled: true, formats: []modelFormat{{name: "sklearn", auto: true, priority: 9}}}
	for _, c := range []struct {
		named                               any
		format, version, protocol           string
		all                                 []servingRuntime
		wantName, wantReason, wantInMessage string
	}{
		{nil, "sklearn", "", "", builtin, "kserve-sklearnserver", "", ""},
		{nil, "sklearn", "", "v2", builtin, "kserve-mlserver", "", ""},
		{nil, "sklearn", "", "", append([]servingRuntime{own, off}, builtin...), "mine", "", ""},
		{nil, "sklearn", "9", "", builtin, "", "NoSupportingRuntime", "No runtime found"},
		{nil, "cobol", "", "", builtin, "", "NoSupportingRuntime", "No runtime found"},
		{"kserve-predictiveserver", "sklearn", "", "", builtin, "kserve-predictiveserver", "", ""},
		{"kserve-predictiveserver", "onnx", "", "", builtin, "", "NoSupportingRuntime", "framework"},
		{"kserve-mlserver", "sklearn", "", "v1", builtin, "", "NoSupportingRuntime", "protocol"},
		{"off", "sklearn", "", "", []servingRuntime{off}, "", "RuntimeDisabled", ""},
		{"nobody", "sklearn", "", "", builtin, "", "RuntimeNotRecognized", ""},
	} {
		got, reason, message := choose(c.all, c.named, c.format, c.version, c.protocol)
		if got.name != c.wantName || reason != c.wantReason || !strings.Contains(message, c.wantInMessage) {
			t.Errorf("%+v: %s %s %s", c, got.name, reason, message)
		}
	}
}

// TestServiceIsDefaulted: what the webhook makes of a framework, of a mode's old name and of a container.
func TestServiceIsDefaulted(t *testing.T) {
	obj := inferenceService(t, `{metadata: {name: m, annotations: {serving.kserve.io/deploymentMode: RawDeployment}},
		spec: {predictor: {triton: {storageUri: s3://a}}, transformer: {containers: [{name: t, image: i}]}}}`)
	defaultInferenceService(obj)
	if valueAt(obj.Object, "spec", "predictor", "triton") != nil ||
		valueAt(obj.Object, "spec", "predictor", "model", "modelFormat", "name") != "triton" ||
		valueAt(obj.Object, "spec", "predictor", "model", "storageUri") != "s3://a" ||
		valueAt(obj.Object, "spec", "predictor", "model", "protocolVersion") != "v2" {
		t.Errorf("the model: %v", obj.Object)
	}
	if a := obj.GetAnnotations(); a[modeAnnotation] != standard || a["modelFormat"] != "triton" {
		t.Errorf("the annotations: %v", a)
	}
	containers, _, _ := unstructured.NestedSlice(obj.Object, "spec", "transformer", "containers")
	first, _ := containers[0].(map[string]any)
	if first["name"] != kserveContainer || valueAt(first, "resources", "limits", "cpu") != "1" {
		t.Errorf("the container: %v", containers)
	}
	again := obj.DeepCopy()
	defaultInferenceService(again)
	if !settled(obj.Object, again.Object) {
		t.Error("the defaults do not settle")
	}
}

// TestServiceIsRefused: what the webhook says no to, and that it says it of updates too.
func TestServiceIsRefused(t *testing.T) {
	for _, c := range []struct{ spec, want string }{
		{`{metadata: {name: m}, spec: {predictor: {model: {modelFormat: {name: sklearn}}}}}`, ""},
		{`{metadata: {name: 1m}, spec: {predictor: {model: {}}}}`, "InferenceService name must"},
		{`{metadata: {name: a.b}, spec: {predictor: {model: {}}}}`, "InferenceService name must"},
		{`{metadata: {name: m}, spec: {predictor: {}}}`, "in PredictorSpec"},
		{`{metadata: {name: m}, spec: {predictor: {sklearn: {}, model: {}}}}`, "in PredictorSpec"},
		{`{metadata: {name: m}, spec: {predictor: {model: {}, containers: [{name: kserve-container}]}}}`, "in PredictorSpec"},
		{`{metadata: {name: m}, spec: {predictor: {model: {}, containers: [{name: transformer-container}]}}}`, ""},
		{`{metadata: {name: m}, spec: {predictor: {model: {name: x}}}}`, "'name' field"},
		{`{metadata: {name: m}, spec: {predictor: {minReplicas: 3, maxReplicas: 2, model: {}}}}`, "greater than MaxReplicas"},
		{`{metadata: {name: m}, spec: {predictor: {minReplicas: -1, model: {}}}}`, "less than 0"},
		{`{metadata: {name: m}, spec: {predictor: {model: {}}, transformer: {}}}`, "in TransformerSpec"},
		{`{metadata: {name: m}, spec: {predictor: {logger: {mode: all, url: "http://l"}, model: {}}}}`, ""},
		{`{metadata: {name: m}, spec: {predictor: {logger: {url: "http://l"}, model: {}}}}`, "invalid logger type"},
		{`{metadata: {name: m}, spec: {predictor: {logger: {mode: all, storage: {path: p}}, model: {}}}}`, "invalid logger storage"},
		{`{metadata: {name: m, annotations: {serving.kserve.io/autoscalerClass: mine}}, spec: {predictor: {model: {}}}}`, "autoscaler class"},
		{`{metadata: {name: m, annotations: {serving.kserve.io/deploymentMode: Knative}}, spec: {predictor: {scaleMetric: cpu, model: {}}}}`, "supported metric"},
	} {
		err := validateInferenceService(inferenceService(t, c.spec), nil)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.spec, err)
		}
	}
	was := inferenceService(t, `{metadata: {name: m}, spec: {predictor: {model: {}}}, status: {deploymentMode: Standard}}`)
	is := was.DeepCopy()
	is.SetAnnotations(map[string]string{modeAnnotation: knative})
	if err := validateInferenceService(is, was); err == nil || !strings.Contains(err.Error(), "cannot be changed from 'Standard' to 'Knative'") {
		t.Errorf("another mode: %v", err)
	}
}
