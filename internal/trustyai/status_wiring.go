package trustyai

import (
	"fmt"
	"slices"
	"strings"

	v1 "mlkeeper.dev/api/trustyai/v1"
)

const kindInferenceService = "InferenceService"

// wired says that the object has an entry of this custom resource.
func (v *view) wired(t Target) bool {
	if slices.Contains(t.WiredBy, wireOwner(v.cr)) {
		return true
	}
	return t.Logger != "" && (t.Logger == LoggerURLIn(v.cr, v.settings.ClusterDomain) ||
		t.Logger == ServerlessLoggerURL(v.cr, v.settings.ClusterDomain))
}

// otherOf names another custom resource that has an entry in the object.
func (v *view) otherOf(t Target) string {
	for _, owner := range t.WiredBy {
		if owner != wireOwner(v.cr) {
			return owner[strings.LastIndex(owner, "/")+1:]
		}
	}
	return ""
}

// wirings tells of each object whether payloads of its models reach this service, and why not.
func (v *view) wirings() []v1.WiringStatus {
	var out []v1.WiringStatus
	for _, t := range v.facts.Inference.Targets {
		w := v.wiring(t)
		w.Kind, w.Name, w.Message = t.Kind, t.Name, cut(w.Message, maxWiringMessage)
		out = append(out, w)
	}
	if len(out) > maxWirings {
		rest := len(out) - maxWirings + 1
		out = out[:maxWirings]
		out[maxWirings-1] = v1.WiringStatus{Kind: "More", Name: "more", Wired: unknown, Reason: "NotListed",
			Message: fmt.Sprintf("%d more are not listed", rest)}
	}
	return out
}

// wiring tells of one object.
func (v *view) wiring(t Target) v1.WiringStatus {
	refuse := func(reason, message string) v1.WiringStatus {
		return v1.WiringStatus{Wired: no, Reason: reason, Message: message}
	}
	if v.wired(t) {
		return v1.WiringStatus{Wired: yes, Reason: ReasonWired}
	}
	if t.Kind == kindInferenceService {
		if selected, err := selects(v.cr, t.Labels); err != nil {
			return refuse("InvalidSelector", "spec.inferenceServices.selector cannot be read: "+err.Error())
		} else if !selected {
			return refuse("NotSelected", "spec.inferenceServices.selector does not select it")
		}
	}
	if other := v.otherOf(t); other != "" {
		return refuse("WiredByOther", "the TrustyAIService "+other+" has it")
	}
	if t.Kind == kindInferenceService {
		switch {
		case t.Mode == kserveMesh:
			return v.throughMesh()
		case t.Mode == kserveUnknown:
			return refuse("UnknownDeploymentMode", "its deployment mode is unknown to MLKeeper")
		case t.Logger != "" || t.HasLogger:
			return refuse(ReasonUserLogger, "it has a logger of its own, which is never overwritten: remove spec.predictor.logger to have it wired")
		}
	}
	if older := v.older(); older != "" {
		return refuse("OlderFirst", "the older TrustyAIService "+older+" wires the namespace")
	}
	return refuse("Pending", "it is wired once the service is available")
}

// throughMesh tells of an InferenceService whose payloads come through ModelMesh.
func (v *view) throughMesh() v1.WiringStatus {
	for _, t := range v.facts.Inference.Targets {
		if t.Kind != kindInferenceService && v.wired(t) {
			return v1.WiringStatus{Wired: yes, Reason: "ThroughModelMesh", Message: "its payloads come through " + t.Kind + " " + t.Name}
		}
	}
	return v1.WiringStatus{Wired: no, Reason: "ModelMeshNotWired", Message: "its payloads come through ModelMesh, which is not wired to this service"}
}

// older names the oldest custom resource of the namespace that comes before this one.
func (v *view) older() string {
	for _, sibling := range v.facts.Siblings {
		if sibling.Older {
			return sibling.Name
		}
	}
	return ""
}
