package trustyai

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/wiring"
)

// Reasons why an InferenceService is not wired.
const (
	// ReasonUserConfigured is the reason while it has a logger of its user.
	ReasonUserConfigured = "UserConfigured"
	// ReasonNoPredictor is the reason while it has nothing to set a logger on.
	ReasonNoPredictor = "NoPredictor"
)

const (
	loggerMode     = "all"
	deploymentMode = "serving.kserve.io/deploymentMode"
	// The details of an entry are the mode of the logger and, for a service in upstream's shape, the word upstream: a
	// logger that looks just like its own may have been set by the original operator. One that the original set without TLS
	// has a word of its own.
	loggerDetail         = loggerMode
	loggerUpstreamDetail = loggerMode + " upstream"
	loggerOpenDetail     = loggerMode + " upstream-http"
	// istioInject is the annotation by whose value true the original operator knows an InferenceService with a sidecar of Istio. Only for such a one
	// it makes the VirtualService that sends what has no TLS to the port with TLS (trustyai-service-operator HEAD 11c335b
	// controllers/tas/inference_services.go, patchKServe).
	istioInject = "sidecar.istio.io/inject"
)

// loggerAnnotations are what KServe derives from the logger and leaves behind without it; upstream drops them too.
var loggerAnnotations = []string{
	"internal.serving.kserve.io/logger",
	"internal.serving.kserve.io/logger-mode",
	"internal.serving.kserve.io/logger-sink-url",
}

// kserveMode is how KServe deploys an InferenceService, as far as it matters to the logger.
type kserveMode string

const (
	kserveRaw        kserveMode = "Raw"
	kserveServerless kserveMode = "Serverless"
	kserveMesh       kserveMode = "ModelMesh"
	kservePending    kserveMode = "Pending"
	kserveUnknown    kserveMode = "Unknown"
)

// hasLogger says that the logger of an InferenceService of this mode sends payloads.
func (m kserveMode) hasLogger() bool { return m == kserveRaw || m == kserveServerless }

// kserveModeOf is what KServe reports in status, else what the annotation says: in this order KServe itself decides
// (controller/v1beta1/inferenceservice/utils/utils.go, GetDeploymentMode; status has it since v0.15.1). Without both the default
// mode rules. KServe's webhook writes a default of Standard or ModelMesh into the annotation, and leaves it out for Knative
// (apis/serving/v1beta1/inference_service_defaults.go, since v0.9.0). So before v0.15.1 a Knative service tells its mode by its
// conditions alone, and what tells nothing is one that KServe has not seen yet.
func kserveModeOf(target *unstructured.Unstructured) kserveMode {
	mode, _, _ := unstructured.NestedString(target.Object, "status", "deploymentMode")
	if mode == "" {
		mode = target.GetAnnotations()[deploymentMode]
	}
	switch mode {
	case "":
		if len(knativeConditionsOf(target)) > 0 {
			return kserveServerless
		}
		return kservePending
	case "RawDeployment", "Standard":
		return kserveRaw
	case "Serverless", "Knative":
		return kserveServerless
	case "ModelMesh":
		return kserveMesh
	default:
		return kserveUnknown
	}
}

// knativeConditions are those that the predictor of an InferenceService has of its Knative Service, and no other predictor has
// (apis/serving/v1beta1/inference_service_status.go, PropagateStatus and PropagateRawStatus).
var knativeConditions = []string{"PredictorRouteReady", "PredictorConfigurationReady"}

// knativeConditionsOf are the types of these conditions that an InferenceService has, in the form that conditions have.
func knativeConditionsOf(target *unstructured.Unstructured) []any {
	status, _ := target.Object["status"].(map[string]any)
	list, _ := status["conditions"].([]any)
	var out []any
	for _, one := range list {
		fields, _ := one.(map[string]any)
		if name, _ := fields["type"].(string); slices.Contains(knativeConditions, name) {
			out = append(out, map[string]any{"type": name})
		}
	}
	return out
}

// kserveWire sets the logger of KServe's InferenceServices, for services of both shapes.
func kserveWire(clusterDomain string) wiring.Wire {
	wire := wiring.Wire{
		Name: WireKServe,
		GVK:  schema.GroupVersionKind{Group: "serving.kserve.io", Version: "v1beta1", Kind: "InferenceService"},
		Strip: func(u *unstructured.Unstructured) *unstructured.Unstructured {
			return stripTo(u, func(out *unstructured.Unstructured) {
				if hasPredictor(u) {
					out.Object["spec"] = map[string]any{"predictor": map[string]any{}}
				}
				copyLogger(u, out)
				copyField(u, out, "status", "deploymentMode")
				if told := knativeConditionsOf(u); len(told) > 0 {
					// Only this function makes the status, so setting cannot fail.
					_ = unstructured.SetNestedSlice(out.Object, told, "status", "conditions")
				}
			})
		},
		Edit: editLogger,
		Claim: &wiring.Claim{
			Fields: loggerFields,
			Words:  map[string]string{loggerUpstreamDetail: "declared", loggerOpenDetail: "without-tls"},
			Entry: func(target *unstructured.Unstructured, alive []client.Object, detail string) (wiring.Entry, bool) {
				return adoptedLogger(target, alive, clusterDomain, detail)
			},
		},
	}
	wire.Wanted = func(target *unstructured.Unstructured, alive []client.Object) []wiring.Entry {
		recorded := entriesIn(&wire, target, alive)
		oldestFirst := services(alive, kserveEligible(target, recorded))
		mode := kserveModeOf(target)
		if mode == kservePending {
			return heldBy(oldestFirst, recorded)
		}
		cr := wirer(oldestFirst, recorded)
		if cr == nil {
			return nil
		}
		if !mode.hasLogger() {
			return nil
		}
		if open, set := openLogger(cr, target, recorded, clusterDomain); set {
			return []wiring.Entry{open}
		}
		detail := loggerUpstreamDetail
		if ADRShape(cr) {
			detail = loggerDetail
		}
		return []wiring.Entry{{Owner: ownerID(cr), Value: LoggerURLIn(cr, clusterDomain), Detail: detail}}
	}
	return wire
}

// loggerFields are those of a logger, as managedFields name them. KServe copies annotations of an InferenceService to its pods (v0.17.0
// pkg/controller/v1beta1/inferenceservice/components/predictor.go, buildObjectMeta), so that one more would restart the predictor.
var loggerFields = map[string]any{"f:spec": map[string]any{"f:predictor": map[string]any{"f:logger": map[string]any{
	"f:mode": map[string]any{}, "f:url": map[string]any{},
}}}}

// adoptedLogger is the entry that a logger stands for which was the original operator's: that of the service at its address, if there is one. A
// service that was Plain and is Secured has the address of one without TLS, which was adopted as what it declared: the claim says that by its
// detail. A claim of an earlier build has none, and its logger is what it would be adopted as today.
func adoptedLogger(target *unstructured.Unstructured, alive []client.Object, clusterDomain, detail string) (wiring.Entry, bool) {
	logger, _, _ := unstructured.NestedFieldNoCopy(target.Object, "spec", "predictor", "logger")
	fields, _ := logger.(map[string]any)
	url, _ := fields["url"].(string)
	if url == "" {
		return wiring.Entry{}, false
	}
	for _, cr := range services(alive, func(cr *v1.TrustyAIService) bool { return !ADRShape(cr) }) {
		switch url {
		case LoggerURLIn(cr, clusterDomain):
			return wiring.Entry{Owner: ownerID(cr), Value: url, Detail: cmp.Or(detail, loggerUpstreamDetail)}, true
		case openLoggerURL(cr, clusterDomain):
			return wiring.Entry{Owner: ownerID(cr), Value: url, Detail: cmp.Or(detail, loggerOpenDetail)}, true
		}
	}
	return wiring.Entry{Value: url, Detail: cmp.Or(detail, loggerUpstreamDetail)}, true
}

// heldBy is the entry that one of some services has in an InferenceService whose mode is not told: it stays as it is, since each
// change of it restarts the predictor.
func heldBy(oldestFirst []*v1.TrustyAIService, recorded []wiring.Entry) []wiring.Entry {
	for _, e := range recorded {
		if slices.ContainsFunc(oldestFirst, func(cr *v1.TrustyAIService) bool { return ownerID(cr) == e.Owner }) {
			return []wiring.Entry{e}
		}
	}
	return nil
}

// kserveEligible says which services may wire an InferenceService: those whose selector selects it, and none where its owner has opted
// out. A selector that cannot be read selects nothing new, but what it wired keeps running.
func kserveEligible(target *unstructured.Unstructured, recorded []wiring.Entry) func(*v1.TrustyAIService) bool {
	return func(cr *v1.TrustyAIService) bool {
		if optedOut(target) {
			return false
		}
		selected, err := selects(cr, target.GetLabels())
		if err != nil {
			return slices.ContainsFunc(recorded, func(e wiring.Entry) bool { return e.Owner == ownerID(cr) })
		}
		return selected
	}
}

// openLogger is the entry of a logger without TLS that the original operator has set for a Secured service. It stays as long
// as it is there: another address would restart the predictor (invariant 8), and where the original used it in earnest, Istio
// redirects it to the port with TLS. Without Istio, the status says that nothing is let in there (shutOut).
func openLogger(
	cr *v1.TrustyAIService, target *unstructured.Unstructured, recorded []wiring.Entry, clusterDomain string,
) (entry wiring.Entry, set bool) {
	if ADRShape(cr) || exposureNow(cr) != v1.ExposureSecured {
		return wiring.Entry{}, false
	}
	entry = wiring.Entry{Owner: ownerID(cr), Value: openLoggerURL(cr, clusterDomain), Detail: loggerOpenDetail}
	logger, _, _ := unstructured.NestedFieldNoCopy(target.Object, "spec", "predictor", "logger")
	if slices.Contains(recorded, entry) {
		return entry, isLogger(logger, entry)
	}
	return entry, len(recorded) == 0 && upstreamLogger(logger, entry)
}

// shutOut says that nothing arrives of what the logger of an entry sends: it has no TLS, and no sidecar that adds it.
func shutOut(entry wiring.Entry, target *unstructured.Unstructured) bool {
	return entry.Detail == loggerOpenDetail && target.GetAnnotations()[istioInject] != "true"
}

// editLogger sets or takes out the one logger that an InferenceService can have. A logger that MLKeeper did not record is
// its user's and stays, whatever it holds; one without a URL is no exception (defect 4 of reference/trustyai.md).
func editLogger(live *unstructured.Unstructured, recorded, wanted []wiring.Entry) (*unstructured.Unstructured, []wiring.Outcome, error) {
	logger, present, err := unstructured.NestedFieldNoCopy(live.Object, "spec", "predictor", "logger")
	if err != nil {
		return nil, nil, err
	}
	present = present && logger != nil
	ours := present && slices.ContainsFunc(recorded, func(r wiring.Entry) bool { return isLogger(logger, r) })
	if len(wanted) == 0 {
		// A user who added fields of his own to our logger has made it his.
		if fields, _ := logger.(map[string]any); ours && len(fields) == 2 {
			return withoutLogger(live), nil, nil
		}
		return nil, nil, nil
	}
	// An InferenceService has one logger, and Wanted returns one entry.
	want := wanted[0]
	outcomes := []wiring.Outcome{{Entry: want, Wired: true, Record: true, Reason: ReasonWired}}
	switch {
	case !hasPredictor(live):
		outcomes[0].Wired, outcomes[0].Record, outcomes[0].Reason = false, false, ReasonNoPredictor
		outcomes[0].Message = "it has no spec.predictor that a logger could be set on"
		return nil, outcomes, nil
	case present && isLogger(logger, want):
		if !ours && !upstreamLogger(logger, want) {
			outcomes[0].Record, outcomes[0].Reason = false, ReasonPreExisting
			outcomes[0].Message = "its user had set this logger before; it stays when the service goes"
		}
		return nil, outcomes, nil
	case present && !ours:
		outcomes[0].Wired, outcomes[0].Record, outcomes[0].Reason = false, false, ReasonUserConfigured
		outcomes[0].Message = "it has a logger of its own, which is never overwritten: remove spec.predictor.logger to have it wired"
		return nil, outcomes, nil
	}
	edited := live.DeepCopy()
	if ours {
		// Only the address changes, and fields that a user has added stay.
		err = unstructured.SetNestedField(edited.Object, want.Value, "spec", "predictor", "logger", "url")
	} else {
		err = unstructured.SetNestedField(edited.Object, map[string]any{"mode": loggerMode, "url": want.Value},
			"spec", "predictor", "logger")
	}
	return edited, outcomes, err
}

// isLogger says that a logger is the one that an entry stands for.
func isLogger(logger any, e wiring.Entry) bool {
	fields, ok := logger.(map[string]any)
	return ok && fields["url"] == e.Value && fields["mode"] == loggerMode
}

// upstreamLogger says that an unrecorded logger is one that the original operator has set, as found at the adoption (invariant
// 8): in upstream's shape it looks exactly as ours, and upstream too would have taken it out.
func upstreamLogger(logger any, want wiring.Entry) bool {
	fields, _ := logger.(map[string]any)
	return len(fields) == 2 && isLogger(logger, want) && want.Detail != loggerDetail
}

func hasPredictor(u *unstructured.Unstructured) bool {
	predictor, _, err := unstructured.NestedFieldNoCopy(u.Object, "spec", "predictor")
	_, ok := predictor.(map[string]any)
	return ok && err == nil
}

func withoutLogger(live *unstructured.Unstructured) *unstructured.Unstructured {
	out := live.DeepCopy()
	unstructured.RemoveNestedField(out.Object, "spec", "predictor", "logger")
	annotations := out.GetAnnotations()
	for _, name := range loggerAnnotations {
		delete(annotations, name)
	}
	if len(annotations) == 0 {
		annotations = nil
	}
	out.SetAnnotations(annotations)
	return out
}
