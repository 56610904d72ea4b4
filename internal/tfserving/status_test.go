package tfserving

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
)

// allReady is the question of which the seed's pods are asked.
const allReady = "models of generation 1, rolled out to 3 pods"

// project gathers, renders and writes the status, with the Deployment in the cluster as what is seen.
func project(t testing.TB, c *controllertest.Cluster, cr *v1alpha1.Tfserv) {
	t.Helper()
	verdict(t, c, cr, false)
}

// verdict is project with how Ready is worded, where everything else is ready or not.
func verdict(t testing.TB, c *controllertest.Cluster, cr *v1alpha1.Tfserv, ready bool) controller.Verdict {
	t.Helper()
	facts, p := gatherAndRender(t, c, cr)
	return projected(c, cr, facts, p, ready)
}

// projected is verdict with what was gathered before: the cluster is as the writes have left it.
func projected(c *controllertest.Cluster, cr *v1alpha1.Tfserv, facts Facts, p plan.Plan, ready bool) controller.Verdict {
	seen := controller.ObservedState{Objects: map[plan.Key]controller.State{}, Problems: p.Problems, Now: c.Time, Warnings: p.Warnings, Ready: ready}
	for _, stage := range p.Stages {
		for _, o := range stage.Objects {
			var state controller.State
			if child := c.Child(o.Desired.GroupVersionKind(), o.Desired.GetNamespace(), o.Desired.GetName()); child != nil {
				state = controller.State{Observed: child, Current: child.Health.Status == "Current"}
			}
			seen.Objects[o.Key()] = state
		}
	}
	return testSystem().Project(cr, facts, seen)
}

func condition(t testing.TB, cr *v1alpha1.Tfserv, kind, status, reason string) {
	t.Helper()
	c := meta.FindStatusCondition(cr.Status.Conditions, kind)
	if c == nil || string(c.Status) != status || c.Reason != reason || c.ObservedGeneration != cr.Generation {
		t.Errorf("%s is %+v, not %s/%s", kind, c, status, reason)
	}
}

func checkStatus(t *testing.T) {
	c, cr := seed(t)
	_, p := gatherAndRender(t, c, cr)
	c.Written(p, ownerOf(cr))
	rolledOut(t, c, cr, p, true)
	project(t, c, cr)
	s := cr.Status
	if len(s.Active) != 2 || s.Active[0].Kind != "Deployment" || s.Active[1].Name != "tfserv-sample-service" || s.Active[0].UID == "" {
		t.Errorf("active %+v", s.Active)
	}
	if s.Replicas != 3 || s.ReadyReplicas != 3 || s.Selector != "tfsName=tfserv-sample" {
		t.Errorf("%d of %d pods, selector %q", s.ReadyReplicas, s.Replicas, s.Selector)
	}
	if s.URL != "http://tfserv-sample-service.ns.svc.cluster.local:8500" {
		t.Errorf("url %s", s.URL)
	}
	condition(t, cr, ConditionProgressing, "False", reasonRolledOut)
	condition(t, cr, ConditionConfigValid, "True", reasonConfigAccepted)
	condition(t, cr, ConditionModelsAvailable, "Unknown", reasonEndpointUnreachable)
}

func TestABrokenConfigIsToldAndLeavesWhatRuns(t *testing.T) {
	c, cr := seed(t)
	_, p := gatherAndRender(t, c, cr)
	c.Written(p, ownerOf(cr))
	rolledOut(t, c, cr, p, true)
	project(t, c, cr)
	hash := cr.Status.ConfigHash
	c.Get(key("ConfigMap", cr.Spec.ConfigMap)).Object["data"] = map[string]any{"models.conf": "model_config_list {"}
	_, p = gatherAndRender(t, c, cr)
	if got := controllertest.Reasons(p); got != "Terminal ConfigInvalid" || controllertest.Find(p, "Deployment", cr.Name) != nil {
		t.Fatalf("problems %q", got)
	}
	for _, want := range []string{"spec.configMap", "tf-serving-models-config/models.conf", "TensorFlow Serving would refuse it", "correct the ConfigMap"} {
		if !strings.Contains(p.Problems[0].Error(), want) {
			t.Errorf("%q lacks %q", p.Problems[0].Error(), want)
		}
	}
	project(t, c, cr)
	condition(t, cr, ConditionConfigValid, "False", reasonConfigInvalid)
	condition(t, cr, ConditionProgressing, "False", reasonWaiting)
	if cr.Status.ReadyReplicas != 3 || len(cr.Status.Active) != 2 || cr.Status.ConfigHash != hash || hash == "" {
		t.Errorf("what runs is forgotten: %+v", cr.Status)
	}
}

func TestWhatTheServersSaidIsTold(t *testing.T) {
	c, cr := seed(t)
	_, p := gatherAndRender(t, c, cr)
	c.Written(p, ownerOf(cr))
	rolledOut(t, c, cr, p, true)
	c.Answers[allReady] = &Answer{
		Servers: 3, Answered: 3, Asked: 1, Available: 1,
		Models: []v1alpha1.ModelStatus{{Name: "resnet", Version: "1538687457", State: stateAvailable}},
	}
	project(t, c, cr)
	condition(t, cr, ConditionModelsAvailable, "True", reasonModelsAvailable)
	if cr.Status.ModelsAvailable != "1/1" || len(cr.Status.Models) != 1 {
		t.Errorf("models %+v", cr.Status.Models)
	}
	// Without another answer it stands, as long as somebody is ready.
	delete(c.Answers, allReady)
	cr.Generation++
	project(t, c, cr)
	condition(t, cr, ConditionModelsAvailable, "True", reasonModelsAvailable)
	u := c.Get(key("Deployment", cr.Name)).DeepCopy()
	_ = unstructured.SetNestedField(u.Object, int64(0), "status", "readyReplicas")
	c.Own(u, ownerOf(cr))
	project(t, c, cr)
	condition(t, cr, ConditionModelsAvailable, "Unknown", reasonEndpointUnreachable)
	if len(cr.Status.Models) > 0 || cr.Status.ModelsAvailable != "" {
		t.Error("models of servers that are gone are told")
	}
}

// TestAnAnswerThatIsAsBeforeChangesNothing: each question would cost a status write otherwise.
func TestAnAnswerThatIsAsBeforeChangesNothing(t *testing.T) {
	c, cr := seed(t)
	_, p := gatherAndRender(t, c, cr)
	c.Written(p, ownerOf(cr))
	rolledOut(t, c, cr, p, true)
	serves := func(version string) {
		c.Time = c.Time.Add(DefaultModelsEvery)
		c.Answers[allReady] = &Answer{
			Servers: 3, Answered: 3, Asked: 1, Available: 1, Settled: true,
			Models: []v1alpha1.ModelStatus{{Name: "resnet", Version: version, State: stateAvailable}},
		}
		project(t, c, cr)
	}
	serves("6")
	before, began := cr.Status.DeepCopy(), c.Time
	serves("6")
	if !reflect.DeepEqual(&cr.Status, before) || !cr.Status.ModelsChangedAt.Time.Equal(began) {
		t.Errorf("the same answer has changed the status to %+v", cr.Status)
	}
	serves("7")
	if got := cr.Status; got.Models[0].Version != "7" || !got.ModelsChangedAt.Time.Equal(c.Time) {
		t.Errorf("version 7 is not told: %+v", got)
	}
	c.Answers[allReady] = &Answer{Servers: 3}
	project(t, c, cr)
	if got := cr.Status; got.ModelsChangedAt != nil || len(got.Models) > 0 {
		t.Errorf("nobody answers, and the status is %+v", got)
	}
}

// TestEachVersionTellsSinceWhen, and who wants to know when the servers were asked says how often.
func TestEachVersionTellsSinceWhen(t *testing.T) {
	c, cr := seed(t)
	_, p := gatherAndRender(t, c, cr)
	c.Written(p, ownerOf(cr))
	rolledOut(t, c, cr, p, true)
	say := func(models ...v1alpha1.ModelStatus) {
		c.Time = c.Time.Add(time.Minute)
		c.Answers[allReady] = &Answer{Servers: 3, Answered: 3, Asked: 1, Available: 1, Settled: true, At: c.Time.Add(-time.Second / 2), Models: models}
		project(t, c, cr)
	}
	six, seven := v1alpha1.ModelStatus{Name: "resnet", Version: "6", State: stateAvailable}, v1alpha1.ModelStatus{Name: "resnet", Version: "7", State: stateLoading}
	say(six)
	first := c.Time
	say(six, seven)
	second := c.Time
	seven.State = stateAvailable
	say(six, seven)
	if got := cr.Status; !got.Models[0].LastChange.Time.Equal(first) || !got.Models[1].LastChange.Time.Equal(c.Time) || !got.ModelsChangedAt.Time.Equal(c.Time) {
		t.Errorf("version 6 since %s, version 7 since %s", got.Models[0].LastChange, got.Models[1].LastChange)
	}
	asked := cr.Status.ModelsAskedAt.Time
	if want := c.Time.Add(-time.Second); !asked.Equal(want) {
		t.Errorf("asked at %s, not %s", asked, want)
	}
	say(six, seven)
	if got := cr.Status; !got.ModelsAskedAt.Time.Equal(asked) || got.Models[1].LastChange.Time.Equal(c.Time) || second.Equal(asked) {
		t.Error("an answer that is as before changes the status")
	}
	hour := int32(3600)
	cr.Spec.ModelStatusSeconds = &hour
	say(six, seven)
	if got := cr.Status; got.ModelsAskedAt.Time.Equal(asked) || got.Models[1].LastChange.Time.Equal(c.Time) {
		t.Errorf("asked at %s, and told is %s", c.Time, got.ModelsAskedAt)
	}
}

// TestColumnsDoNotContradictEachOther: kubectl get shows no plain Ready beside models that are missing.
func TestColumnsDoNotContradictEachOther(t *testing.T) {
	c, cr := seed(t)
	_, p := gatherAndRender(t, c, cr)
	c.Written(p, ownerOf(cr))
	rolledOut(t, c, cr, p, true)
	c.Answers[allReady] = &Answer{Servers: 3, Answered: 3, Asked: 1, Models: []v1alpha1.ModelStatus{{Name: "resnet", Version: "7", State: stateEnd}}}
	if got := verdict(t, c, cr, true); got.Reason != reasonModelsUnavailable || !strings.Contains(got.Message, "resnet version 7 is END") || got.Hold {
		t.Errorf("%+v", got)
	}
	c.Answers[allReady] = &Answer{Servers: 3, Answered: 3, Asked: 1, Available: 1, Models: []v1alpha1.ModelStatus{{Name: "resnet", Version: "7", State: stateAvailable}}}
	if got := verdict(t, c, cr, true); got.Reason != "" {
		t.Errorf("%+v", got)
	}
}

func TestAModelThatIsNotServedIsNamed(t *testing.T) {
	c, cr := seed(t)
	_, p := gatherAndRender(t, c, cr)
	c.Written(p, ownerOf(cr))
	rolledOut(t, c, cr, p, true)
	c.Answers[allReady] = &Answer{
		Servers: 3, Answered: 3, Asked: 1,
		Models: []v1alpha1.ModelStatus{{Name: "resnet", Version: "7", State: stateEnd, Error: "NOT_FOUND: no such file"}},
	}
	project(t, c, cr)
	condition(t, cr, ConditionModelsAvailable, "False", reasonModelsUnavailable)
	got := meta.FindStatusCondition(cr.Status.Conditions, ConditionModelsAvailable).Message
	if !strings.Contains(got, "resnet version 7 is END (NOT_FOUND: no such file)") {
		t.Errorf("message %q", got)
	}
}

func TestTheStatusFitsItsSchema(t *testing.T) {
	c, cr := seed(t)
	project(t, c, cr)
	v := &view{cr: cr, seen: controller.ObservedState{Now: testNow}}
	v.set(ConditionReadyForTest, metav1.ConditionFalse, "X", strings.Repeat("ü", 5000))
	if got := meta.FindStatusCondition(cr.Status.Conditions, ConditionReadyForTest).Message; len(got) > maxConditionMessage {
		t.Errorf("%d bytes", len(got))
	}
	if got := limit([]string{strings.Repeat("x", 100)}, 1, 10); len(got[0]) != 10 {
		t.Errorf("%q", got)
	}
}

// ConditionReadyForTest is a condition of no meaning.
const ConditionReadyForTest = "Test"

// TestServersThatAreNotWantedAreNotMissed: nobody answers where nobody is to.
func TestServersThatAreNotWantedAreNotMissed(t *testing.T) {
	const scaler = "  autoscaling: {minReplicas: 0, maxReplicas: 3, keda: {triggers: [{type: cron, metadata: {}}]}}\n"
	for name, c := range map[string]struct {
		spec            string
		replicas, ready int64
		want            string
	}{
		"paused":                  {"  replicas: 0\n", 0, 0, "spec.replicas is 0, so that no model server runs."},
		"paused under a scaler":   {"  replicas: 0\n" + scaler, 0, 0, "spec.replicas is 0, so that no model server runs."},
		"about to be paused":      {"  replicas: 0\n", 2, 0, "spec.replicas is 0, so that no model server runs."},
		"scaled to zero":          {scaler, 0, 0, "The autoscaler has scaled to zero, so that no model server runs."},
		"scaled up":               {scaler, 1, 0, "No pod is ready, so that no model server is asked."},
		"by somebody else":        {"", 0, 0, "The Deployment is scaled to zero, so that no model server runs."},
		"as many as are declared": {"", 1, 0, "No pod is ready, so that no model server is asked."},
		"one is silent":           {"", 2, 1, "No model server answers at its REST endpoint."},
		"a Secret is missing":     {scaler + "  secretName: missing\n", 0, 0, "The autoscaler has scaled to zero, so that no model server runs."},
	} {
		cluster, cr := controllertest.New(testNow, gvkScaledObject), custom(t, inline+c.spec)
		plain := cr.DeepCopy()
		plain.Spec.SecretName = ""
		_, p := gatherAndRender(t, cluster, plain)
		cluster.Written(p, ownerOf(cr))
		u := cluster.Get(key("Deployment", "tfs"))
		_ = unstructured.SetNestedField(u.Object, c.replicas, "spec", "replicas")
		u.Object["status"] = map[string]any{"observedGeneration": int64(0), "replicas": c.replicas, "readyReplicas": c.ready}
		project(t, cluster, cr)
		condition(t, cr, ConditionModelsAvailable, "Unknown", reasonEndpointUnreachable)
		if got := meta.FindStatusCondition(cr.Status.Conditions, ConditionModelsAvailable).Message; got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}
