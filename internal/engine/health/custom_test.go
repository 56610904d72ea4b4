package health

import "testing"

const (
	thing    = "a.example/v1 Thing"
	unread   = "kstatus does not read this condition"
	byRouter = "kstatus does not read the answers of routers"
	awaits   = "kstatus takes silence for current"
	counter  = "kstatus takes it for the object's own"
	isvc     = "serving.kserve.io/v1beta1 InferenceService"
)

var customSamples = []sample{
	{"no status", thing, `spec: {a: b}`, Current, ReasonExists, ""},
	{"no known condition", thing, `status: {conditions: [{type: Painted, status: "False"}]}`, Current, ReasonExists, ""},
	{"ready", thing, `status: {conditions: [{type: Ready, status: "True", reason: AllWell}]}`, Current, "AllWell", ""},
	{"ready without a word", thing, `status: {conditions: [{type: Ready, status: "True", reason: all well}]}`, Current, "Ready", ""},
	{
		"not ready", thing, `
status: {conditions: [{type: Ready, status: "False", reason: Loading, message: "since 2026-01-02T03:04:05Z, for 12s"}]}`,
		InProgress, "Loading", "",
	},
	{"unknown", thing, `status: {conditions: [{type: Ready, status: Unknown}]}`, InProgress, ReasonNotReady, ""},
	{
		"strange status", thing, `status: {conditions: [{type: Ready, status: Perhaps}]}`, InProgress, ReasonNotReady,
		"kstatus passes over it",
	},
	{
		"stalled", thing, `
status: {conditions: [{type: Ready, status: "True"}, {type: Stalled, status: "True", reason: BadSpec, message: It cannot be.}]}`,
		Failed, "BadSpec", "",
	},
	{
		"stalled wins", thing, `
status: {conditions: [{type: Reconciling, status: "True"}, {type: Stalled, status: "True", reason: BadSpec}]}`,
		Failed, "BadSpec", "kstatus takes the first one in the list",
	},
	{"not stalled", thing, `status: {conditions: [{type: Stalled, status: "False"}, {type: Ready, status: "True"}]}`, Current, "Ready", ""},
	{
		"reconciling", thing, `
status: {conditions: [{type: Ready, status: "True"}, {type: Reconciling, status: "True", reason: Progressing}]}`,
		InProgress, "Progressing", "",
	},
	{"stale", thing, `
metadata: {generation: 3}
status: {conditions: [{type: Ready, status: "True", observedGeneration: 2}]}`, InProgress, ReasonNotObserved, unread},
	{"stale stall", thing, `
metadata: {generation: 3}
status: {conditions: [{type: Stalled, status: "True", observedGeneration: 2}]}`, InProgress, ReasonNotObserved, unread},
	{"fresh", thing, `
metadata: {generation: 3}
status: {observedGeneration: 3, conditions: [{type: Ready, status: "True", observedGeneration: 3}]}`, Current, "Ready", ""},
	{
		"stale and unread", thing, `
metadata: {generation: 3}
status: {conditions: [{type: Ready, status: "True", observedGeneration: 3}, {type: Painted, status: "True", observedGeneration: 1}]}`,
		Current, "Ready", "",
	},
	{"available", thing, `status: {conditions: [{type: Available, status: "True"}]}`, Current, "Available", ""},
	{"not available", thing, `status: {conditions: [{type: Available, status: "False"}]}`, InProgress, ReasonNotReady, unread},
	{"ready before available", thing, `
status: {conditions: [{type: Available, status: "True"}, {type: Ready, status: "False"}]}`, InProgress, ReasonNotReady, ""},
	{"established", thing, `status: {conditions: [{type: Established, status: "False"}]}`, InProgress, ReasonNotReady, unread},
	{"succeeded", thing, `status: {conditions: [{type: Succeeded, status: "True"}]}`, Current, "Succeeded", ""},
	{"running", thing, `status: {conditions: [{type: Succeeded, status: Unknown, reason: Running}]}`, InProgress, "Running", unread},
	{"not succeeded", thing, `status: {conditions: [{type: Succeeded, status: "False", reason: Broken}]}`, Failed, "Broken", unread},
	{"failed", "kubeflow.org/v1 TFJob", `
status: {conditions: [{type: Running, status: "False"}, {type: Failed, status: "True", reason: TFJobFailed}]}`, Failed, "TFJobFailed", unread},
	{"not failed", thing, `status: {conditions: [{type: Failed, status: "False"}, {type: Complete, status: "True"}]}`, Current, "Complete", ""},
	{
		"waits for quota", "kueue.x-k8s.io/v1beta1 Workload", `status: {conditions: [{type: Admitted, status: "False", reason: NoReservation}]}`,
		InProgress, "NoReservation", unread,
	},
	{"duplicate", thing, `status: {conditions: [{type: Ready, status: "True"}, {type: Ready, status: "False"}]}`, Current, "Ready", ""},

	{"silent", "serving.kserve.io/v1beta1 InferenceService", ``, InProgress, ReasonNotObserved, awaits},
	{"silent status", "serving.kserve.io/v1beta1 InferenceService", `status: {conditions: []}`, InProgress, ReasonNotObserved, awaits},
	{"ready", "serving.kserve.io/v1beta1 InferenceService", `
status: {conditions: [{type: PredictorReady, status: "True"}, {type: Ready, status: "True"}]}`, Current, "Ready", ""},
	{"not ready", "serving.kserve.io/v1beta1 InferenceService", `
status: {conditions: [{type: Ready, status: "False", reason: PredictorNotReady}]}`, InProgress, "PredictorNotReady", ""},
	{"a counter of another object", isvc, `
metadata: {generation: 3}
status: {observedGeneration: 4, conditions: [{type: Ready, status: "True"}]}`, Current, "Ready", counter},
	{"a counter of another object", "serving.kserve.io/v1alpha1 InferenceGraph", `
metadata: {generation: 1}
status: {observedGeneration: 2, conditions: [{type: Ready, status: "True"}]}`, Current, "Ready", counter},
	{
		"scaled to zero", isvc, `
status: {modelStatus: {transitionStatus: InProgress, states: {activeModelState: Loaded, targetModelState: Pending}}, conditions: [{type: Ready, status: "True"}]}`,
		Current, "Ready", "",
	},
	{
		"a spec that it cannot act on", isvc, `
status: {modelStatus: {transitionStatus: InvalidSpec, lastFailureInfo: {reason: NoSupportingRuntime, message: none}}, conditions: [{type: Ready, status: "True"}]}`,
		Failed, "NoSupportingRuntime", unread,
	},
	{"a model that does not load", isvc, `
status: {modelStatus: {transitionStatus: BlockedByFailedLoad}, conditions: [{type: Ready, status: "False"}]}`, Failed, "BlockedByFailedLoad", unread},
	{"never reports", "serving.kserve.io/v1alpha1 ServingRuntime", ``, Current, ReasonExists, ""},
	{"silent", "serving.knative.dev/v1 Service", ``, InProgress, ReasonNotObserved, awaits},
	{"ready", "serving.knative.dev/v1 Service", `
metadata: {generation: 1}
status: {observedGeneration: 1, conditions: [{type: Ready, status: "True"}]}`, Current, "Ready", ""},
	{"silent", "cert-manager.io/v1 Certificate", ``, InProgress, ReasonNotObserved, awaits},
}

var routeSamples = []sample{
	{"silent", "route.openshift.io/v1 Route", ``, InProgress, ReasonNotObserved, byRouter},
	{"no router", "route.openshift.io/v1 Route", `status: {ingress: []}`, InProgress, ReasonNotObserved, byRouter},
	{"no answer", "route.openshift.io/v1 Route", `status: {ingress: [{routerName: a}, 7]}`, InProgress, ReasonNotObserved, byRouter},
	{"admitted", "route.openshift.io/v1 Route", `
status: {ingress: [{routerName: a, conditions: [{type: Admitted, status: "True"}]}]}`, Current, "Admitted", ""},
	{"admitted by one", "route.openshift.io/v1 Route", `
status:
  ingress:
  - {conditions: [{type: Admitted, status: "False", reason: RouteNotAdmitted}]}
  - {conditions: [{type: Admitted, status: "True"}]}`, Current, "Admitted", ""},
	{
		"refused", "route.openshift.io/v1 Route", `
status:
  ingress:
  - {conditions: [{type: Admitted, status: "False", reason: HostAlreadyClaimed, message: route a already exposes b.example}]}`,
		Failed, "HostAlreadyClaimed", byRouter,
	},
	{
		"refused in wrong types", "route.openshift.io/v1 Route", `status: {ingress: [{conditions: {}}, {conditions: [[], {type: 7}]}]}`,
		InProgress, ReasonNotObserved, byRouter,
	},
}

func TestCustom(t *testing.T) { check(t, customSamples) }

func TestRoute(t *testing.T) { check(t, routeSamples) }
