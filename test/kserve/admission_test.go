package kserve

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/test/acmruntime"
)

// TestRefusedByKServe: a spec that KServe's webhook refuses is told as what hinders the order, and not as its failure,
// since it is tried again.
func TestRefusedByKServe(t *testing.T) {
	s := onKafka(t, acmruntime.V910)
	s.start()
	spec := sklearn(3)
	spec["predictor"].(map[string]any)["maxReplicas"] = 2
	i := s.instance(s.primed(map[string]any{}), merge(s.model("bounds", spec), "deployTimeoutMs", 1500))
	s.must(s.runtime.Deploy(within(t), i))
	e := i.Elements[0]
	s.must(s.runtime.Await(within(t), "KServe's words are told", func() bool {
		return strings.Contains(e.Reported.Text("message"), "'MinReplicas' cannot be greater than MaxReplicas")
	}))
	if got := s.service("bounds"); got != nil {
		t.Errorf("there is %v", got)
	}
}

// TestDefaultsOfKServe: what KServe's webhook makes of a framework and of a mode's old name stays, and nobody writes again.
func TestDefaultsOfKServe(t *testing.T) {
	s := onKafka(t, acmruntime.V910)
	s.start()
	legacy := s.model("legacy", map[string]any{"predictor": map[string]any{"sklearn": map[string]any{"storageUri": "gs://a/b"}}})
	text, _ := legacy["payload"].(string)
	legacy["payload"] = strings.Replace(text, `"metadata":{`, `"metadata":{"annotations":{"serving.kserve.io/deploymentMode":"RawDeployment"},`, 1)
	i := s.deployed(s.primed(map[string]any{}), legacy)
	got := s.service("legacy")
	if mode := got.GetAnnotations()["serving.kserve.io/deploymentMode"]; mode != withoutKnative {
		t.Errorf("the mode is %s: %v", mode, got.Object)
	}
	generation := got.GetGeneration()
	s.c.Consistently(t, 5*time.Second, func() error {
		if now := s.service("legacy").GetGeneration(); now != generation {
			return fmt.Errorf("the service is written again: generation %d after %d", now, generation)
		}
		return nil
	})
	// Another framework takes the place of what the webhook made of the first.
	another := map[string]any{"predictor": map[string]any{"xgboost": map[string]any{"storageUri": "gs://a/c"}}}
	s.must(s.runtime.Update(within(t), i, s.model("legacy", another)))
	s.must(s.runtime.AwaitInstance(within(t), i, "DEPLOYED", "NO_ERROR"))
	model, _, _ := unstructured.NestedMap(s.service("legacy").Object, "spec", "predictor", "model")
	if format, _, _ := unstructured.NestedString(model, "modelFormat", "name"); format != "xgboost" || model["storageUri"] != "gs://a/c" {
		t.Errorf("the model is %v", model)
	}
	if message := s.runtime.Element(i.Elements[0].ID).Message; message != "Updated" {
		t.Errorf("told was %q", message)
	}
}

// Known defect: KServe's webhook moves a framework to model, which MLKeeper's apply does not own then and cannot remove, so that an
// update to a container of one's own is refused until the service is undeployed. This test asserts what is, and fails once the
// update goes through. An update from model to a container does.
func TestKnownDefectFrameworkToContainer(t *testing.T) {
	s := onKafka(t, acmruntime.V910)
	s.start()
	own := map[string]any{"predictor": map[string]any{"containers": []any{map[string]any{"name": "kserve-container", "image": "devcluster.test/server"}}}}
	c := s.primed(map[string]any{})
	i := s.deployed(c, s.model("modern", sklearn(1)))
	s.must(s.runtime.Update(within(t), i, s.model("modern", own)))
	s.must(s.runtime.AwaitInstance(within(t), i, "DEPLOYED", "NO_ERROR"))

	i = s.deployed(c, s.model("legacy", map[string]any{"predictor": map[string]any{"sklearn": map[string]any{"storageUri": "gs://a/b"}}}))
	s.must(s.runtime.Update(within(t), i, merge(s.model("legacy", own), "updateTimeoutMs", 1500)))
	e := i.Elements[0]
	s.must(s.runtime.Await(within(t), "KServe's words are told", func() bool {
		return strings.Contains(strings.ToLower(e.Reported.Text("message")), "exactly one of")
	}))
	if _, found, _ := unstructured.NestedMap(s.service("legacy").Object, "spec", "predictor", "model"); !found {
		t.Error("the model is removed: the defect is mended")
	}
}
