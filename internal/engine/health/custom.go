package health

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// awaited are the custom kinds whose controllers always report a summary condition, so that an object without one was
// not seen yet and is in progress. For every other kind silence means current, which is the convention of kstatus.
// Knative kinds implement duckv1.KRShaped and get their conditions in the first reconcile (knative.dev/pkg/apis), as does
// an InferenceService (kserve pkg/apis/serving/v1beta1/inference_service_status.go); cert-manager documents Ready.
var awaited = func() map[schema.GroupKind]bool {
	out := map[schema.GroupKind]bool{}
	for group, kinds := range map[string]string{
		"serving.kserve.io":                "InferenceService InferenceGraph LLMInferenceService",
		"serving.knative.dev":              "Service Route Configuration Revision DomainMapping",
		"networking.internal.knative.dev":  "Ingress ServerlessService Certificate",
		"autoscaling.internal.knative.dev": "PodAutoscaler",
		"eventing.knative.dev":             "Broker Trigger",
		"cert-manager.io":                  "Certificate CertificateRequest Issuer ClusterIssuer",
	} {
		for _, kind := range strings.Fields(kinds) {
			out[schema.GroupKind{Group: group, Kind: kind}] = true
		}
	}
	return out
}()

// inferenceService is the kind of KServe that has a rule of its own, and whose URL and model state are told in status.
var inferenceService = schema.GroupKind{Group: "serving.kserve.io", Kind: "InferenceService"}

// copiesGeneration are the kinds whose status.observedGeneration is copied from an object that their controller made, a Deployment
// or a Knative Service, which counts its own changes and each scaling (kserve, inference_service_status.go, PropagateRawStatus and
// PropagateStatus; raw_ig.go; issue kserve#6081). It says nothing of the object's own generation.
var copiesGeneration = map[schema.GroupKind]bool{
	inferenceService: true,
	{Group: "serving.kserve.io", Kind: "InferenceGraph"}: true,
}

// route is the kind of OpenShift that reports per router and not in one list of conditions.
var route = schema.GroupKind{Group: "route.openshift.io", Kind: "Route"}

// gatewayRoutes are the kinds of the Gateway API that report per Gateway. Whether one accepts a route says nothing of its health.
var gatewayRoutes = map[schema.GroupKind]bool{
	{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute"}: true,
	{Group: "gateway.networking.k8s.io", Kind: "GRPCRoute"}: true,
}

// summaries are the conditions that say by themselves whether an object does what it declares, most telling first. The
// first one that an object has decides. Progressing and Degraded aren't among them: the first stays true after success
// in the convention of Deployments, the second leaves an object working in that of OpenShift.
var summaries = []string{
	"Ready", "Available", "Established", "Succeeded", "Complete", "Completed", "Admitted", "Programmed", "Accepted",
}

// custom is the health of an object of a custom kind, in this order:
//
//  1. status.observedGeneration other than metadata.generation: in progress (done by Of, but for the kinds of copiesGeneration);
//  2. Stalled=True: failed, and Reconciling=True: in progress (the conditions of kstatus);
//  3. Failed=True: failed (the convention of batch jobs, such as those of Kubeflow);
//  4. the first of the summary conditions: True is current, anything else in progress, but for Succeeded=False, which is
//     final in the conventions of Knative and Tekton;
//  5. none of them: in progress for the awaited kinds, else current.
//
// A condition in 2 to 4 whose own observedGeneration is older than the object's means in progress, whatever it says.
func custom(gk schema.GroupKind, o object) Result {
	if gk == route {
		return openshiftRoute(o)
	}
	if gk == inferenceService {
		if res, decides := model(o); decides {
			return res
		}
	}
	conds := o.conditions()
	generation := o.count(0, "metadata", "generation")
	for _, name := range append([]string{"Stalled", "Reconciling", "Failed"}, summaries...) {
		c, found := conds[name]
		if !found {
			continue
		}
		res, decides := byCondition(name, c)
		if !decides {
			continue
		}
		if c.generation > 0 && c.generation < generation {
			return inProgress(ReasonNotObserved, "The condition "+name+" does not speak of the latest generation yet.")
		}
		return res
	}
	if awaited[gk] {
		return inProgress(ReasonNotObserved, "The controller has not reported a condition yet.")
	}
	return current(ReasonExists, "The object exists and reports no trouble.")
}

// byCondition is the health that one condition of custom's list tells, if it tells any.
func byCondition(name string, c condition) (Result, bool) {
	abnormal := name == "Stalled" || name == "Reconciling" || name == "Failed"
	switch {
	case abnormal && !c.isTrue():
		return Result{}, false
	case name == "Reconciling":
		return inProgress(reasonOr(c.reason, name), sentence(c.message, "The object is being reconciled.")), true
	case abnormal, name == "Succeeded" && c.isFalse():
		return failed(reasonOr(c.reason, ReasonFailed), sentence(c.message, "The object reports that it has failed.")), true
	case c.isTrue():
		return current(reasonOr(c.reason, name), "The condition "+name+" is true."), true
	}
	return inProgress(reasonOr(c.reason, ReasonNotReady), sentence(c.message, "The condition "+name+" is not true yet.")), true
}

// modelFields are what model reads.
var modelFields = []string{"status.modelStatus.transitionStatus", "status.modelStatus.lastFailureInfo.reason"}

// model is what KServe's predictor says of the model of an InferenceService, if that decides: a spec that it could not act on and a
// model that does not load leave the conditions as they were for what ran before. InProgress decides nothing: it is also what is
// told of a service that is scaled to zero and of each new replica (inference_service_status.go, PropagateModelStatus). Nor does
// UpToDate, which may be that of what ran before. The failure's message is a container's, which may say anything.
func model(o object) (Result, bool) {
	reason := o.text("status", "modelStatus", "lastFailureInfo", "reason")
	switch transition := o.text("status", "modelStatus", "transitionStatus"); transition {
	case "InvalidSpec":
		return failed(reasonOr(reason, transition), "KServe cannot act on the spec; status.modelStatus says why."), true
	case "BlockedByFailedLoad":
		return failed(reasonOr(reason, transition), "The model cannot be loaded; status.modelStatus says why."), true
	}
	return Result{}, false
}

// openshiftRoute is the rule of a Route (openshift/api route/v1, RouteIngress). Every router that selects the route answers
// with Admitted; one True is enough to serve. False is an answer that stays until the route or the one that holds its
// host changes (HostAlreadyClaimed, ExtendedValidationFailed), and no answer means that none has looked at it.
func openshiftRoute(o object) Result {
	refused, found := condition{}, false
	for _, ingress := range o.list("status", "ingress") {
		c := conditions(ingress)["Admitted"]
		if c.isTrue() {
			return current("Admitted", "A router has admitted the route.")
		}
		if c.isFalse() && !found {
			refused, found = c, true
		}
	}
	if found {
		return failed(reasonOr(refused.reason, "NotAdmitted"), sentence(refused.message, "No router has admitted the route."))
	}
	return inProgress(ReasonNotObserved, "No router has looked at the route yet.")
}
