package standin

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// stoppedReason is that of what a service with the annotation serving.kserve.io/stop does not run.
const stoppedReason = "Stopped"

// serviceStatus is the status of an InferenceService while it is reconciled. Like KServe's it starts with what was told before:
// what a reconcile says nothing of stays, URLs and revisions among it.
type serviceStatus struct {
	service *unstructured.Unstructured
	mode    string
	// runtime is the one that the predictor's model runs on.
	runtime *servingRuntime
	fields  map[string]any
	*conditions
}

func statusOf(obj *unstructured.Unstructured, mode, now string) *serviceStatus {
	fields, _, _ := unstructured.NestedMap(obj.Object, "status")
	fields = runtime.DeepCopyJSON(fields)
	if fields == nil {
		fields = map[string]any{}
	}
	out := &serviceStatus{service: obj, mode: mode, fields: fields, conditions: conditionsOf(fields, now)}
	if out.get(readyCondition).status == "" {
		out.initialize()
	}
	return out
}

// done is the status as it is written (updateStatus).
func (s *serviceStatus) done() map[string]any {
	s.fields["deploymentMode"], s.fields["conditions"] = s.mode, s.list()
	return s.fields
}

// component is what is told of a component, made where there is none.
func (s *serviceStatus) component(name string) map[string]any {
	return s.within(s.within(s.fields, "components"), name)
}

func (s *serviceStatus) within(in map[string]any, name string) map[string]any {
	out, ok := in[name].(map[string]any)
	if !ok {
		out = map[string]any{}
		in[name] = out
	}
	return out
}

// standard is PropagateRawStatus. observedGeneration is that of the child that is looked at last; a child that was made just now
// has none.
func (s *serviceStatus) standard(component string, deployment *unstructured.Unstructured) {
	ready := standardReady(deployment)
	told := s.component(component)
	if ready.status == isTrue {
		told["url"] = fmt.Sprintf("http://%s-%s-%s.%s", s.service.GetName(), component, s.service.GetNamespace(), servingDomain)
	}
	s.set(conditionNames[component][0], ready)
	s.observed(deployment)
}

func (s *serviceStatus) observed(child *unstructured.Unstructured) {
	seen, _, _ := unstructured.NestedInt64(child.Object, "status", "observedGeneration")
	if seen == 0 {
		delete(s.fields, "observedGeneration") // The field is omitted when empty.
		return
	}
	s.fields["observedGeneration"] = seen
}

// standardReady is what a Deployment comes to. In v0.17.0 whatever still progresses is Unknown. Here it is True while the Deployment
// is available, which is the rule since (kserve aaac4e294) and harder on who reads it: the old pods answer for the new ones.
func standardReady(deployment *unstructured.Unstructured) condition {
	available, progressing := conditionIn(deployment, "Available"), conditionIn(deployment, "Progressing")
	out := condition{status: isFalse}
	if available.status == isTrue {
		out = available
	}
	switch {
	case progressing.status == isFalse && progressing.message != "":
		out = progressing
	case progressing.status == isTrue && progressing.reason == "NewReplicaSetAvailable":
		out = progressing
	case progressing.status == isTrue && available.status != isTrue:
		out = condition{isUnknown, progressing.reason, progressing.message}
	}
	if available.status == isFalse {
		out = available
	}
	if failure := conditionIn(deployment, "ReplicaFailure"); failure.status == isTrue {
		out = condition{isFalse, failure.reason, failure.message}
	}
	return out
}

// knative is PropagateStatus. What the Knative Service does not tell yet stays as it was.
func (s *serviceStatus) knative(component string, service *unstructured.Unstructured) {
	told := s.component(component)
	for to, from := range map[string]string{"latestCreatedRevision": "latestCreatedRevisionName", "latestReadyRevision": "latestReadyRevisionName"} {
		if revision, _, _ := unstructured.NestedString(service.Object, "status", from); revision != "" {
			told[to] = revision
		}
	}
	if url, _, _ := unstructured.NestedString(service.Object, "status", "url"); url != "" && conditionIn(service, "Ready").status == isTrue {
		told["url"] = url
	}
	for i, kind := range []string{"Ready", "RoutesReady", "ConfigurationsReady"} {
		s.set(conditionNames[component][i], conditionIn(service, kind))
	}
	s.observed(service)
}

// crossComponents is PropagateCrossComponentStatus, for the routes and for the configurations of all components.
func (s *serviceStatus) crossComponents(components []string) {
	for i, kind := range []string{"RoutesReady", "LatestDeploymentReady"} {
		out := condition{status: isTrue}
		for _, component := range components {
			name := conditionNames[component][i+1]
			switch s.get(name).status {
			case isTrue:
			case isFalse:
				out = condition{status: isFalse, reason: name + " not ready"}
			default:
				out = condition{status: isUnknown, reason: name + " not ready"}
			}
		}
		s.set(kind, out)
	}
}

// ingress is what becomes of the way in: it is made once every component is ready (kube_ingress_reconciler.go, createRawIngress,
// and ingress_reconciler.go, createIngress, which leaves Unknown what is not known).
func (s *serviceStatus) ingress(components []string) {
	name, namespace, entry := s.service.GetName(), s.service.GetNamespace(), "predictor"
	for _, component := range components {
		if ready := s.get(conditionNames[component][0]).status; ready != isTrue {
			status := isFalse
			if s.mode == knative && ready != isFalse {
				status = isUnknown
			}
			s.set(ingressCondition, condition{status: status, reason: titles[component] + " ingress not created"})
			return
		}
		if component == "transformer" {
			entry = component
		}
	}
	s.fields["url"] = fmt.Sprintf("http://%s-%s.%s", name, namespace, servingDomain)
	s.fields["address"] = map[string]any{"url": fmt.Sprintf("http://%s-%s.%s.svc.cluster.local", name, entry, namespace)}
	s.set(ingressCondition, condition{status: isTrue})
}

// stop is what is told of a service that is stopped: everything is cleared when that is first seen (predictor.go, Reconcile), and
// the ingress is only told of where there was one.
func (s *serviceStatus) stop(components []string) {
	if s.get(predictorCondition) != (condition{status: isFalse, reason: stoppedReason}) {
		hadIngress := s.get(ingressCondition).status == isTrue
		s.fields, s.conditions = map[string]any{"modelStatus": map[string]any{"transitionStatus": ""}}, conditionsOf(nil, s.now)
		for _, component := range components {
			s.set(conditionNames[component][0], condition{status: isFalse, reason: stoppedReason})
		}
		if hadIngress {
			s.set(ingressCondition, condition{status: isFalse, reason: stoppedReason})
		}
	}
	s.set("Stopped", condition{status: isTrue})
}

// transition is UpdateModelRevisionStates and UpdateModelTransitionStatus. What was loaded once stays the active state, and the last
// failure is told until there is another.
func (s *serviceStatus) transition(to, target string, failure map[string]any) {
	status := s.within(s.fields, "modelStatus")
	states := s.within(status, "states")
	status["transitionStatus"] = to
	states["targetModelState"] = target
	switch {
	case target == "Loaded":
		states["activeModelState"] = target
	case states["activeModelState"] == nil:
		states["activeModelState"] = ""
	}
	if failure != nil {
		status["lastFailureInfo"] = failure
	}
}

// invalid tells that KServe cannot act on the spec. The conditions stay as they were.
func (s *serviceStatus) invalid(reason, message string) {
	s.transition("InvalidSpec", "FailedToLoad", map[string]any{"reason": reason, "message": message})
}

// model is PropagateModelStatus: what the predictor's pods say of the model. Of several pods the first listed speaks for all.
func (s *serviceStatus) model(pods []unstructured.Unstructured) {
	ready := int64(0)
	for i := range pods {
		if phase, _, _ := unstructured.NestedString(pods[i].Object, "status", "phase"); phase == "Running" && conditionIn(&pods[i], "Ready").status == isTrue {
			ready++
		}
	}
	copies := map[string]any{"failedCopies": int64(0)} // Nobody counts them.
	if ready > 0 {
		copies["totalCopies"] = ready
	}
	s.within(s.fields, "modelStatus")["copies"] = copies
	if len(pods) == 0 {
		s.transition("InProgress", "Pending", nil)
		return
	}
	state, failure := containerState(&pods[0], "initContainerStatuses", "storage-initializer")
	predictor := s.component("predictor")
	switch {
	case failure != nil:
		s.transition("BlockedByFailedLoad", "FailedToLoad", failure)
		return
	case state == "running":
		s.transition("InProgress", "Loading", nil)
		return
	case s.get(readyCondition).status == isTrue && (s.mode == standard || predictor["latestCreatedRevision"] == predictor["latestReadyRevision"]):
		s.transition("UpToDate", "Loaded", nil)
		return
	}
	switch state, failure := containerState(&pods[0], "containerStatuses", "kserve-container"); {
	case failure != nil:
		s.transition("BlockedByFailedLoad", "FailedToLoad", failure)
	case state != "":
		s.transition("InProgress", "Pending", nil)
	}
}

// containerState is the state that a container of a pod is in, empty where it is not told, and its failure if it has one.
func containerState(pod *unstructured.Unstructured, list, name string) (string, map[string]any) {
	all, _, _ := unstructured.NestedSlice(pod.Object, "status", list)
	for _, one := range all {
		status, ok := one.(map[string]any)
		if !ok || status["name"] != name {
			continue
		}
		field := func(path ...string) any {
			value, _, _ := unstructured.NestedFieldNoCopy(status, path...)
			return value
		}
		ended := "state"
		if field("state", "waiting", "reason") == "CrashLoopBackOff" {
			ended = "lastState"
		}
		if ended == "lastState" || field("state", "terminated", "reason") == "Error" {
			failure := map[string]any{"reason": "ModelLoadFailed"}
			for _, key := range []string{"message", "exitCode"} {
				if value := field(ended, "terminated", key); value != nil {
					failure[key] = value
				}
			}
			return "failed", failure
		}
		for _, state := range []string{"running", "waiting", "terminated"} {
			if field("state", state) != nil {
				return state, nil
			}
		}
	}
	return "", nil
}
