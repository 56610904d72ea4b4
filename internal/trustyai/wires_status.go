package trustyai

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/wiring"
)

// Reasons in the wiring status of targets that a service does not wire.
const (
	ReasonPending                 = "Pending"
	ReasonNotReachable            = "NotReachable"
	ReasonNotServed               = "NotServed"
	ReasonNotSelected             = "NotSelected"
	ReasonOptedOut                = "OptedOut"
	ReasonSelectorBroken          = "SelectorInvalid"
	ReasonManagedByAnotherService = "ManagedByAnotherService"
	ReasonModelMesh               = "ModelMesh"
	ReasonModeUnknown             = "DeploymentModeUnknown"
	ReasonModePending             = "DeploymentModePending"
)

const (
	maxWirings       = 100
	maxWiringMessage = 1024
)

// meshSends tells of an InferenceService of ModelMesh, which has one list of payload processors for all of its models.
const meshSends = "ModelMesh sends the payloads of all its models: neither the annotation " + keeper.WireAnnotation +
	" nor spec.inferenceServices.selector applies to it"

// Wired is what the wiring status of a service is computed from.
type Wired struct {
	// Services are the custom resources of the namespace that are alive; whether the service itself is among them
	// makes no difference.
	Services []client.Object
	// Targets are the watched objects of the namespace by wire, as Reader.Targets returns them.
	Targets map[string][]*unstructured.Unstructured
	// Reported are the outcomes that the wiring reconcilers reported for the service last; they tell of refused and
	// conflicting writes, which the objects themselves do not show. It may be nil.
	Reported map[plan.Key][]wiring.Outcome
	// ClusterDomain is the DNS domain of the cluster; the default is cluster.local.
	ClusterDomain string
}

// WiringOf is the wiring status of a service, sorted by kind and name. Of more than a hundred targets those that are
// not wired are kept, since they are the ones to act on. It is pure.
func WiringOf(cr *v1.TrustyAIService, in Wired) []v1.WiringStatus {
	// The service counts as it is about to be told, not as it was gathered.
	others := slices.DeleteFunc(slices.Clone(in.Services), func(o client.Object) bool {
		return o.GetUID() == cr.UID && o.GetName() == cr.Name
	})
	in.Services = append([]client.Object{cr}, others...)
	var out []v1.WiringStatus
	meshed := false
	for _, wire := range WiresIn(in.ClusterDomain) {
		if wire.Name == WireMeshConfig && !ADRShape(cr) || wire.Name == WireMeshDeployments && ADRShape(cr) {
			continue
		}
		for _, target := range in.Targets[wire.Name] {
			if target == nil || target.GetDeletionTimestamp() != nil {
				continue
			}
			s := wiringOfTarget(cr, &wire, target, &in)
			s.Name, s.Kind, s.Message = target.GetName(), wire.GVK.Kind, controller.Cut(s.Message, maxWiringMessage)
			meshed = meshed || s.Wired == metav1.ConditionTrue && wire.Name != WireKServe
			out = append(out, s)
		}
	}
	for i := range out {
		if out[i].Reason == ReasonModelMesh && meshed {
			out[i].Wired, out[i].Message = metav1.ConditionTrue, meshSends
		}
	}
	return firstWirings(out)
}

func firstWirings(all []v1.WiringStatus) []v1.WiringStatus {
	byName := func(a, b v1.WiringStatus) int {
		if c := strings.Compare(a.Kind, b.Kind); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	}
	slices.SortStableFunc(all, byName)
	if len(all) <= maxWirings {
		return all
	}
	// "False" sorts before "True".
	slices.SortStableFunc(all, func(a, b v1.WiringStatus) int { return strings.Compare(string(a.Wired), string(b.Wired)) })
	all = all[:maxWirings]
	slices.SortStableFunc(all, byName)
	return all
}

func wiringOfTarget(cr *v1.TrustyAIService, wire *wiring.Wire, target *unstructured.Unstructured, in *Wired) v1.WiringStatus {
	owner := ownerID(cr)
	key := plan.Key{GroupKind: wire.GVK.GroupKind(), Namespace: target.GetNamespace(), Name: target.GetName()}
	for _, o := range in.Reported[key] {
		if o.Entry.Owner == owner && (o.Reason == wiring.ReasonRefused || o.Reason == wiring.ReasonCeded) {
			return unwired(o.Reason, o.Message)
		}
	}
	recorded := entriesIn(wire, target, in.Services)
	wanted := wire.Wanted(target, in.Services)
	at := slices.IndexFunc(wanted, func(e wiring.Entry) bool { return e.Owner == owner })
	if at < 0 {
		return whyUnwired(cr, wire, target, wanted, in)
	}
	edited, outcomes, err := wire.Edit(target, recorded, wanted)
	if err != nil {
		return unwired(wiring.ReasonNotEditable, err.Error()+"; correct the object by hand")
	}
	for _, o := range outcomes {
		if o.Entry.Owner != owner || o.Entry.Value != wanted[at].Value {
			continue
		}
		if o.Wired && (edited != nil || o.Record && !slices.Contains(recorded, o.Entry)) {
			return unwired(ReasonPending, "it is being wired")
		}
		if !o.Wired {
			return unwired(o.Reason, o.Message)
		}
		if cr.Status.URL == "" {
			return unwired(ReasonNotServed, "its payloads are sent where the image of the service does not receive them, or is not known to: see the condition Ready")
		}
		if shutOut(o.Entry, target) {
			return unwired(ReasonNotServed, "its logger has no TLS and is not let in: remove spec.predictor.logger, and MLKeeper sets one with TLS")
		}
		message := o.Message
		if message == "" && wire.Name == WireKServe && strings.HasPrefix(o.Entry.Value, "https://") {
			message = "payloads arrive if KServe's configuration names " + loggerCA + " as logger.caBundle"
		}
		return v1.WiringStatus{Wired: metav1.ConditionTrue, Reason: o.Reason, Message: message}
	}
	return unwired(ReasonPending, "it is being wired")
}

// whyUnwired names the reason why a service wants no entry in a target.
func whyUnwired(cr *v1.TrustyAIService, wire *wiring.Wire, target *unstructured.Unstructured, wanted []wiring.Entry,
	in *Wired,
) v1.WiringStatus {
	eligible := func(o *v1.TrustyAIService) bool { return ADRShape(o) == ADRShape(cr) }
	if wire.Name == WireKServe {
		eligible = kserveEligible(target, entriesIn(wire, target, in.Services))
		mode := kserveModeOf(target)
		selected, err := selects(cr, target.GetLabels())
		switch {
		case mode == kserveMesh:
			return unwired(ReasonModelMesh, "Once it is wired itself, "+meshSends)
		case optedOut(target):
			return unwired(ReasonOptedOut, fmt.Sprintf("its annotation %s is false", keeper.WireAnnotation))
		case err != nil:
			return unwired(ReasonSelectorBroken, fmt.Sprintf("spec.inferenceServices.selector cannot be used: %v", err))
		case !selected:
			return unwired(ReasonNotSelected, "spec.inferenceServices.selector does not select it")
		}
		switch mode {
		case kservePending:
			if len(wanted) == 0 {
				return unwired(ReasonModePending, fmt.Sprintf("KServe has not told yet how it deploys it: it is wired once KServe's "+
					"controller has set its status.deploymentMode; a KServe before 0.9 sets none: give it the annotation %s", deploymentMode))
			}
		case kserveUnknown:
			return unwired(ReasonModeUnknown, fmt.Sprintf("its %s is none that is known: use Standard, RawDeployment, "+
				"Knative, Serverless or ModelMesh", deploymentMode))
		}
	}
	return whyWaiting(cr, services(in.Services, eligible), wanted)
}

// whyWaiting names what a service waits for that may wire a target, as far as the others that may are concerned, oldest first.
func whyWaiting(cr *v1.TrustyAIService, oldestFirst []*v1.TrustyAIService, wanted []wiring.Entry) v1.WiringStatus {
	if len(wanted) > 0 {
		return unwired(ReasonManagedByAnotherService, fmt.Sprintf("%s is the one that wires it", wanted[0].Owner))
	}
	if len(oldestFirst) > 0 && ownerID(oldestFirst[0]) != ownerID(cr) {
		until := "wires it once it is reachable"
		if suspended(oldestFirst[0]) {
			until = "is to wire it, but it is suspended: resume it, or delete it"
		}
		return unwired(ReasonManagedByAnotherService, fmt.Sprintf("TrustyAIService %s is the oldest of the namespace and %s", oldestFirst[0].Name, until))
	}
	if suspended(cr) {
		return unwired(ReasonNotReachable, "it is wired once the service is resumed and reachable")
	}
	return unwired(ReasonNotReachable, "it is wired once the service is reachable")
}

func unwired(reason, message string) v1.WiringStatus {
	return v1.WiringStatus{Wired: metav1.ConditionFalse, Reason: reason, Message: message}
}
