package kserve

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/test/acmruntime"
)

// alone makes the stand-in leave the service of properties alone, so that the test plays KServe.
func alone(properties map[string]any) map[string]any {
	text, _ := properties["payload"].(string)
	return merge(properties, "payload", strings.Replace(text, `"metadata":{`, `"metadata":{"annotations":{"devcluster.mlkeeper.dev/stand-in":"off"},`, 1))
}

// status writes conditions as KServe does, in the order of their types.
func (s *site) status(name string, generation int64, conditions ...string) {
	s.t.Helper()
	list := []any{}
	for _, c := range conditions {
		kind, status, _ := strings.Cut(c, "=")
		list = append(list, map[string]any{"type": kind, "status": status})
	}
	body, _ := json.Marshal(map[string]any{"status": map[string]any{"conditions": list, "observedGeneration": generation}})
	s.c.Kubectl(s.t, "patch", "inferenceservice", name, "-n", s.ns, "--subresource=status", "--type=merge", "-p", string(body))
}

// TestReadyByType: the original reads the third condition, which in serverless mode is not Ready.
func TestReadyByType(t *testing.T) {
	s := onKafka(t, acmruntime.London)
	s.start()
	i := s.instance(s.primed(map[string]any{}), alone(s.model("sklearn-iris", sklearn(1))))
	s.must(s.runtime.Deploy(within(t), i))
	s.c.Eventually(t, patience, func() error { return s.c.There(t, services, s.ns, "sklearn-iris") })
	s.status("sklearn-iris", 1, "IngressReady=True", "LatestDeploymentReady=True", "PredictorConfigurationReady=True", "PredictorReady=False", "Ready=False")
	s.c.Consistently(t, 2*time.Second, func() error { return s.unacknowledged(i) })
	// Ready, but of what ran before for all that it says: nothing runs of what was ordered.
	s.status("sklearn-iris", 1, "IngressReady=True", "PredictorReady=True", "Ready=True")
	s.c.Consistently(t, 3*time.Second, func() error { return s.unacknowledged(i) })
	// The generation that it has observed is a Deployment's.
	s.status("sklearn-iris", 4, "IngressReady=True", "PredictorReady=True", "Ready=True")
	s.serve("sklearn-iris")
	s.must(s.runtime.AwaitInstance(within(t), i, "DEPLOYED", "NO_ERROR"))
}

// TestScalingIsNoTrouble: an InferenceService copies the generation that its Deployment has observed, which counts each scaling, so
// that it says nothing of the service (kserve#6081).
func TestScalingIsNoTrouble(t *testing.T) {
	s := onKafka(t, acmruntime.V910)
	s.start()
	model := sklearn(1)
	model["predictor"].(map[string]any)["maxReplicas"] = 5
	i := s.deployed(s.primed(map[string]any{}), s.model("sklearn-iris", model))
	e := i.Elements[0]
	for _, replicas := range []string{"2", "3"} {
		s.c.Kubectl(t, "scale", "deployment", "sklearn-iris-predictor", "-n", s.ns, "--replicas="+replicas)
	}
	s.c.Eventually(t, patience, func() error {
		u := s.service("sklearn-iris")
		seen, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
		if seen <= u.GetGeneration() {
			return fmt.Errorf("%w: it has counted to %d, and its generation is %d", errNotYet, seen, u.GetGeneration())
		}
		return nil
	})
	// Until the new replicas run KServe itself says that it is not Ready.
	s.c.Eventually(t, patience, func() error {
		if got := s.element(e.ID).Status; got.ServicesReady != "1/1" || got.OperationalState != "ENABLED" {
			return fmt.Errorf("the element is %+v", got)
		}
		return nil
	})
	s.must(s.runtime.Await(within(t), "it is enabled", func() bool { return e.Reported.OperationalState == "ENABLED" }))
	s.must(s.runtime.Update(within(t), i, s.model("sklearn-iris", sklearn(2))))
	s.must(s.runtime.AwaitInstance(within(t), i, "DEPLOYED", "NO_ERROR"))
}

// TestUpdateIsRolledOut: while an update is rolled out the conditions of the service stay True for what ran before (kserve#4626). It
// is told as done when what was ordered runs.
func TestUpdateIsRolledOut(t *testing.T) {
	s := onKafka(t, acmruntime.V910)
	s.start()
	i := s.deployed(s.primed(map[string]any{}), s.model("sklearn-iris", sklearn(1)))
	e := i.Elements[0]
	slow := sklearn(1)
	slow["predictor"].(map[string]any)["nodeSelector"] = map[string]any{"kserve.test/node": s.ns}
	s.must(s.runtime.Update(within(t), i, merge(s.model("sklearn-iris", slow), "updateTimeoutMs", 1500)))
	s.must(s.runtime.Await(within(t), "what it waits for is told", func() bool {
		return strings.Contains(e.Reported.Text("message"), "sklearn-iris")
	}))
	s.c.Consistently(t, 3*time.Second, func() error {
		ready := conditionOf(s.service("sklearn-iris"), "Ready")
		if got := s.runtime.Element(e.ID); got.DeployState != "UPDATING" || ready != whileRolledOut {
			return fmt.Errorf("%w: the service is Ready=%s, told is %+v", errTooEarly, ready, got)
		}
		return nil
	})
	nodes := &corev1.NodeList{}
	s.must(s.c.Client.List(context.Background(), nodes))
	s.c.Kubectl(t, "label", "node", nodes.Items[0].Name, "--overwrite", "kserve.test/node="+s.ns)
	s.must(s.runtime.AwaitInstance(within(t), i, "DEPLOYED", "NO_ERROR"))
	if got := s.runtime.Element(e.ID); got.Message != "Updated" {
		t.Errorf("told was %+v", got)
	}
}

// TestUpdateToABadModelAndBack: an update to a model that cannot be served is not told as done, the one before serves on, and an update
// back is.
func TestUpdateToABadModelAndBack(t *testing.T) {
	// A field that comes and goes would not go: KServe 0.15 patches a Deployment with everything that it had
	// (strategicpatch.StrategicMergePatch in its deployment_reconciler.go), so the annotation is emptied.
	fails := func(how string) func(map[string]any) {
		return func(predictor map[string]any) {
			predictor["annotations"] = map[string]any{"devcluster.mlkeeper.dev/fail": how}
		}
	}
	format := func(name string) func(map[string]any) {
		return func(predictor map[string]any) {
			predictor["model"].(map[string]any)["modelFormat"] = map[string]any{"name": name}
		}
	}
	for what, change := range map[string]struct {
		mend, spoil func(predictor map[string]any)
	}{
		"its pods end":              {fails(""), fails("Error")},
		"no runtime has its format": {format("sklearn"), format("cobol")},
	} {
		t.Run(what, func(t *testing.T) {
			s := onKafka(t, acmruntime.V910)
			s.start()
			with := func(change func(map[string]any)) map[string]any {
				model := sklearn(1)
				change(model["predictor"].(map[string]any))
				return model
			}
			good, bad := s.model("sklearn-iris", with(change.mend)), with(change.spoil)
			i := s.deployed(s.primed(map[string]any{}), good)
			e := i.Elements[0]
			s.must(s.runtime.Update(within(t), i, merge(s.model("sklearn-iris", bad), "updateTimeoutMs", 1500)))
			s.must(s.runtime.Await(within(t), "what it waits for is told", func() bool {
				return strings.Contains(e.Reported.Text("message"), "sklearn-iris")
			}))
			s.c.Consistently(t, 3*time.Second, func() error {
				if got := s.runtime.Element(e.ID); got.DeployState != "UPDATING" {
					return fmt.Errorf("%w: told is %+v", errTooEarly, got)
				}
				d := &appsv1.Deployment{}
				err := s.c.Client.Get(t.Context(), client.ObjectKey{Namespace: s.ns, Name: "sklearn-iris-predictor"}, d)
				if err == nil && d.Status.AvailableReplicas != 1 {
					err = fmt.Errorf("the model before does not serve: %+v", d.Status)
				}
				return err
			})
			s.must(s.runtime.Update(within(t), i, good))
			s.must(s.runtime.AwaitInstance(within(t), i, "DEPLOYED", "NO_ERROR"))
			s.must(s.runtime.Undeploy(within(t), i))
			s.must(s.runtime.AwaitInstance(within(t), i, "UNDEPLOYED", "NO_ERROR"))
			if got := s.service("sklearn-iris"); got != nil {
				t.Errorf("after the removal there is %v", got)
			}
		})
	}
}

// TestKnativeMode: what is waited for in Knative mode is the Knative Service.
func TestKnativeMode(t *testing.T) {
	s := onKafka(t, acmruntime.V910)
	s.start()
	model := func(replicas int) map[string]any {
		text, _ := s.model("sklearn-iris", sklearn(replicas))["payload"].(string)
		return merge(s.model("sklearn-iris", nil), "payload",
			strings.Replace(text, `"metadata":{`, `"metadata":{"annotations":{"serving.kserve.io/deploymentMode":"Serverless"},`, 1))
	}
	i := s.deployed(s.primed(map[string]any{}), model(1))
	s.must(s.runtime.Update(within(t), i, model(2)))
	s.must(s.runtime.AwaitInstance(within(t), i, "DEPLOYED", "NO_ERROR"))
	kind := schema.GroupVersionKind{Group: "serving.knative.dev", Version: "v1", Kind: "Service"}
	if u := s.c.Get(t, kind, s.ns, "sklearn-iris-predictor"); u == nil || u.GetGeneration() != 2 {
		t.Errorf("the Knative Service is %v", u)
	}
}

// serve makes the Deployment of a service, as KServe does of one that the stand-in leaves alone.
func (s *site) serve(name string) {
	s.t.Helper()
	u, yes := s.service(name), true
	labels := map[string]string{"serving.kserve.io/inferenceservice": name, "component": "predictor", "app": "isvc." + name}
	s.must(s.c.Client.Create(context.Background(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: name + "-predictor", Namespace: s.ns, Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: name, UID: u.GetUID(), Controller: &yes}},
		},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: u.GetAnnotations()},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "kserve-container", Image: "kserve.test/kserve"}}},
			},
		},
	}))
}

// conditionOf is the status of a condition.
func conditionOf(u *unstructured.Unstructured, kind string) string {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, one := range list {
		if c, ok := one.(map[string]any); ok && c["type"] == kind {
			status, _ := c["status"].(string)
			return status
		}
	}
	return ""
}

// TestUndeployWaits: a service that a finalizer holds is not gone.
func TestUndeployWaits(t *testing.T) {
	s := onKafka(t, acmruntime.London)
	s.start()
	i := s.deployed(s.primed(map[string]any{}), s.model("sklearn-iris", sklearn(1)))
	acks := s.runtime.Element(i.Elements[0].ID).Acks
	s.c.Kubectl(t, "patch", "inferenceservice", "sklearn-iris", "-n", s.ns, "--type=merge", "-p", `{"metadata":{"finalizers":["kserve.test/hold"]}}`)
	s.must(s.runtime.Undeploy(within(t), i))
	s.c.Eventually(t, patience, func() error {
		if u := s.service("sklearn-iris"); u == nil || u.GetDeletionTimestamp() == nil {
			return errNotYet
		}
		return nil
	})
	s.c.Consistently(t, 2*time.Second, func() error {
		if s.runtime.Element(i.Elements[0].ID).Acks != acks {
			return errTooEarly
		}
		return nil
	})
	s.c.Kubectl(t, "patch", "inferenceservice", "sklearn-iris", "-n", s.ns, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	s.must(s.runtime.AwaitInstance(within(t), i, "UNDEPLOYED", "NO_ERROR"))
}

// TestLateSuccess: a model that takes longer than its timeout is no failure, which the runtime would never take back. What it
// waits for is told, and its success when it serves.
func TestLateSuccess(t *testing.T) {
	s := onKafka(t, acmruntime.V910)
	s.start()
	i := s.instance(s.primed(map[string]any{}), merge(alone(s.model("sklearn-iris", sklearn(1))), "deployTimeoutMs", 1500))
	e := i.Elements[0]
	s.must(s.runtime.Deploy(within(t), i))
	s.must(s.runtime.Await(within(t), "what it waits for is told", func() bool {
		return strings.Contains(e.Reported.Text("message"), "not done after 1.5s") && e.Reported.OperationalState == "DISABLED"
	}))
	s.must(s.runtime.AwaitInstance(within(t), i, "DEPLOYING", "TIMEOUT"))
	s.c.Consistently(t, time.Second, func() error { return s.unacknowledged(i) })
	s.status("sklearn-iris", 1, "Ready=True")
	s.serve("sklearn-iris")
	s.must(s.runtime.AwaitInstance(within(t), i, "DEPLOYED", "NO_ERROR"))
	if got := s.runtime.Element(e.ID); got.Acks != 1 || got.Reported.Text("message") != "" {
		t.Errorf("the runtime knows %+v", got)
	}
}

// TestFailedStays: the runtime takes no FAILED back before its next order, although the element is deployed once what was in the
// way has gone.
func TestFailedStays(t *testing.T) {
	s := onKafka(t, acmruntime.V910)
	s.start()
	foreign := s.model("foreign", sklearn(1))
	s.create(foreign)
	i := s.instance(s.primed(map[string]any{}), foreign)
	s.must(s.runtime.Deploy(within(t), i))
	s.must(s.runtime.AwaitInstance(within(t), i, "UNDEPLOYED", "FAILED"))
	s.c.Kubectl(t, "delete", "inferenceservice", "foreign", "-n", s.ns)
	s.must(s.runtime.AwaitInstance(within(t), i, "DEPLOYED", "FAILED"))
	s.must(s.runtime.Deploy(within(t), i))
	s.must(s.runtime.AwaitInstance(within(t), i, "DEPLOYED", "NO_ERROR"))
	s.c.Eventually(t, patience, func() error {
		return s.wantEvents(i, "Warning ResourceConflict", "Warning OrderFailed", "Normal OrderCompleted")
	})
}

// wantEvents is an error where these are not among the events of an instance's element, each a type and a reason.
func (s *site) wantEvents(i *acmruntime.Instance, want ...string) error {
	list := &eventsv1.EventList{}
	if err := s.c.Client.List(context.Background(), list); err != nil {
		return err
	}
	var got []string
	for _, e := range list.Items {
		if e.Regarding.Name == i.Elements[0].ID {
			got = append(got, e.Type+" "+e.Reason)
		}
	}
	for _, one := range want {
		if !slices.Contains(got, one) {
			return fmt.Errorf("the events are %q, without %q", got, one)
		}
	}
	return nil
}

// TestBrokerDown: an acknowledgement that the broker does not take is sent again.
func TestBrokerDown(t *testing.T) {
	down := atomic.Bool{}
	router := &acmruntime.Router{Refuse: func(r *http.Request) (int, int) {
		if down.Load() && r.Method == http.MethodPost {
			return http.StatusServiceUnavailable, 3002
		}
		return 0, 0
	}}
	server := httptest.NewServer(router)
	t.Cleanup(server.Close)
	s := newSite(t, acmruntime.London, router.Side(), "dmaap", []string{server.URL}, nil)
	s.start()
	c := s.primed(map[string]any{})
	down.Store(true)
	i := s.instance(c, s.model("sklearn-iris", sklearn(1)))
	s.must(s.runtime.Deploy(within(t), i))
	s.c.Eventually(t, patience, func() error {
		if cr := s.element(i.Elements[0].ID); cr == nil || cr.Status.Outcome == nil {
			return errNotYet
		}
		return nil
	})
	s.c.Consistently(t, 2*time.Second, func() error { return s.unacknowledged(i) })
	down.Store(false)
	s.must(s.runtime.AwaitInstance(within(t), i, "DEPLOYED", "NO_ERROR"))
}

// TestAdoptionAfterSync: the runtime says that an element is deployed, and the service of that name is somebody's. It is adopted
// when somebody who may write it hands it over, and not on the message's word; nor is it deleted on one.
func TestAdoptionAfterSync(t *testing.T) {
	s := onKafka(t, acmruntime.V910)
	model := s.model("sklearn-iris", sklearn(1))
	s.create(model) // As the previous participant made it, or a user.
	c := s.runtime.Commission(map[string]any{})
	i := s.runtime.Stored(c, model)
	s.start()
	id := i.Elements[0].ID
	s.c.Eventually(t, patience, func() error {
		cr := s.element(id)
		if cr == nil {
			return errNotYet
		}
		ready := meta.FindStatusCondition(cr.Status.Conditions, "Ready")
		if ready == nil || ready.Reason != "NotHandedOver" || !strings.Contains(ready.Message, keeper.ElementAnnotation+"="+id) {
			return fmt.Errorf("the element is %+v", cr.Status)
		}
		return nil
	})
	before := s.service("sklearn-iris")
	s.must(s.runtime.Undeploy(within(t), i))
	s.must(s.runtime.AwaitInstance(within(t), i, "UNDEPLOYED", "NO_ERROR"))
	if u := s.service("sklearn-iris"); u == nil || u.GetUID() != before.GetUID() || len(u.GetOwnerReferences())+len(u.GetLabels()) != 0 {
		t.Fatalf("the service of somebody else is %v", u)
	}

	// The same with a mark.
	i = s.runtime.Stored(c, model)
	id = i.Elements[0].ID
	s.c.Kubectl(t, "annotate", "inferenceservice", "sklearn-iris", "-n", s.ns, keeper.ElementAnnotation+"="+id)
	s.runtime.SyncAll(within(t))
	s.c.Eventually(t, patience, func() error {
		if cr := s.element(id); cr == nil || cr.Status.ServicesReady != "1/1" {
			return errNotYet
		}
		return nil
	})
	if u := s.service("sklearn-iris"); u.GetUID() != before.GetUID() || len(u.GetOwnerReferences()) != 1 {
		t.Errorf("the service that was adopted is %v", u)
	}
	s.must(s.runtime.Undeploy(within(t), i))
	s.must(s.runtime.AwaitInstance(within(t), i, "UNDEPLOYED", "NO_ERROR"))
	if u := s.service("sklearn-iris"); u != nil {
		t.Errorf("the service that was handed over is still there: %v", u)
	}
}
