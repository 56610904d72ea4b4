package trustyai

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/wiring"
)

// Names of the wires, for Reader.Targets.
const (
	WireMeshConfig      = "modelmesh-config"
	WireMeshDeployments = "modelmesh-deployments"
	WireKServe          = "kserve-inferenceservices"
)

// Reasons of wiring outcomes.
const (
	ReasonWired       = "Wired"
	ReasonPreExisting = "PreExisting"
)

// Wires are the objects of others that a TrustyAI service has entries in, in a cluster with the default domain.
func Wires() []wiring.Wire { return WiresIn(DefaultClusterDomain) }

// WiresIn is Wires in a cluster with the given domain.
func WiresIn(clusterDomain string) []wiring.Wire {
	return []wiring.Wire{meshConfigWire(clusterDomain), meshDeploymentWire(clusterDomain), kserveWire(clusterDomain)}
}

// ownerID names a custom resource as the owner of its children, and of its entries in objects of others.
func ownerID(cr *v1.TrustyAIService) string { return stackOf(cr).ID() }

func stackOf(cr *v1.TrustyAIService) plan.Stack {
	return plan.Stack{GVK: v1.GroupVersion.WithKind("TrustyAIService"), Namespace: cr.Namespace, Name: cr.Name, UID: cr.UID}
}

// services returns the custom resources that a wire is for, oldest first. One that another keeps the names from makes no service, so
// that nothing waits for it to be reachable.
func services(alive []client.Object, eligible func(*v1.TrustyAIService) bool) []*v1.TrustyAIService {
	var out []*v1.TrustyAIService
	for _, o := range alive {
		if cr, ok := o.(*v1.TrustyAIService); ok && cr != nil && eligible(cr) && first(alive, cr, olderByStatus) == "" {
			out = append(out, cr)
		}
	}
	// An order that changed when one of them gets children would have the predictors roll.
	slices.SortFunc(out, func(a, b *v1.TrustyAIService) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	return out
}

// wirer is the one custom resource that wires a target, or nil: the oldest, for two that take turns would roll the pods
// for ever (defect 6 of reference/trustyai.md). It wires once it is reachable, and then stays wired while it is alive,
// so that a restart of its pod does not roll every predictor. Until the oldest is reachable, a younger one that is
// wired already stays, and a younger one that is not waits, since it would be replaced in a moment. One that is
// suspended keeps what it has and gets nothing new.
func wirer(oldestFirst []*v1.TrustyAIService, recorded []wiring.Entry) *v1.TrustyAIService {
	holds := func(cr *v1.TrustyAIService) bool {
		return slices.ContainsFunc(recorded, func(e wiring.Entry) bool { return e.Owner == ownerID(cr) })
	}
	for i, cr := range oldestFirst {
		if holds(cr) || i == 0 && reachable(cr) && !suspended(cr) {
			return cr
		}
	}
	return nil
}

// reachable says that payloads sent to the service arrive.
func reachable(cr *v1.TrustyAIService) bool {
	return cr.Status.URL != "" && meta.IsStatusConditionTrue(cr.Status.Conditions, "Available")
}

// recordedIn are the entries that the wiring annotation of a target names; a damaged annotation names none.
func recordedIn(target *unstructured.Unstructured) []wiring.Entry {
	record, err := wiring.Recorded(target)
	if err != nil {
		return nil
	}
	return record.Entries
}

// entriesIn are the entries that are recorded in a target of a wire, or claimed.
func entriesIn(wire *wiring.Wire, target *unstructured.Unstructured, alive []client.Object) []wiring.Entry {
	record, err := wire.Recorded(target, alive)
	if err != nil {
		return nil
	}
	return record.Entries
}

// keptOfTargets is what is kept of the metadata of an object that a wire edits. An InferenceService is selected by its labels.
var keptOfTargets = observe.Metadata{
	Annotations: []string{keeper.WireAnnotation, keeper.WiringAnnotation, deploymentMode, istioInject}, Labels: true,
}

// stripTo keeps the identity of an object and what is read of its metadata, of managedFields the claims, and what keep copies.
func stripTo(u *unstructured.Unstructured, keep func(out *unstructured.Unstructured)) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	for _, field := range []string{"apiVersion", "kind"} {
		if v, ok := u.Object[field]; ok {
			out.Object[field] = v
		}
	}
	if metadata, ok := u.Object["metadata"].(map[string]any); ok {
		kept := make(map[string]any, len(metadata))
		for k, v := range metadata {
			kept[k] = v
		}
		out.Object["metadata"] = kept
		keptOfTargets.Reduce(out)
		if claims := wiring.Claims(u); len(claims) > 0 {
			kept["managedFields"] = claims
		}
	}
	keep(out)
	return out
}

// maxField is the number of bytes of a field that is kept of an object that a wire edits. No value that MLKeeper writes or knows is as long.
const maxField = 1 << 10

// copyField copies one field of an object to its stripped form, where it exists, and of a text that is too long the beginning.
func copyField(from, to *unstructured.Unstructured, path ...string) {
	if v, ok, err := unstructured.NestedFieldNoCopy(from.Object, path...); ok && err == nil {
		// The parents are maps that only this function made, so setting cannot fail.
		_ = unstructured.SetNestedField(to.Object, shortened(v), path...)
	}
}

// shortened is a value as it is kept: of a text the beginning, of maps and lists nothing but that they are there.
func shortened(v any) any {
	switch v := v.(type) {
	case string:
		return v[:min(len(v), maxField)]
	case map[string]any:
		return map[string]any{}
	case []any:
		return []any{}
	}
	return v
}

// maxLoggerFields is the number of the fields that are kept of a logger. One that MLKeeper set has two.
const maxLoggerFields = 16

// copyLogger copies the logger of an InferenceService to its stripped form: whether it is MLKeeper's is seen by its fields, their number, its
// mode and its address.
func copyLogger(from, to *unstructured.Unstructured) {
	path := []string{"spec", "predictor", "logger"}
	logger, _, _ := unstructured.NestedFieldNoCopy(from.Object, path...)
	fields, ok := logger.(map[string]any)
	if !ok {
		copyField(from, to, path...)
		return
	}
	kept := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if own := name == "mode" || name == "url"; own || len(kept) < maxLoggerFields {
			kept[shortened(name).(string)] = shortened(fields[name]) //nolint:forcetypeassert // A shortened text is one.
		}
	}
	// The parents are maps that only the caller made, so setting cannot fail.
	_ = unstructured.SetNestedMap(to.Object, kept, path...)
}

// optedOut says that an InferenceService is not to be wired, whatever selects it.
func optedOut(target *unstructured.Unstructured) bool {
	return target.GetAnnotations()[keeper.WireAnnotation] == "false"
}

// selects says whether the custom resource wires an InferenceService with these labels; err names a selector that
// cannot be read.
func selects(cr *v1.TrustyAIService, labels map[string]string) (bool, error) {
	if cr.Spec.InferenceServices == nil || cr.Spec.InferenceServices.Selector == nil {
		return true, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(cr.Spec.InferenceServices.Selector.Kubernetes())
	if err != nil {
		return false, err
	}
	// The cache has no more of them, and a live object is judged alike.
	return selector.Matches(labelSet(observe.BoundLabels(labels))), nil
}

// checkSelector reports a selector that cannot be read. What is wired stays wired until it can.
func (r *scene) checkSelector() {
	if _, err := selects(r.cr, nil); err != nil {
		r.problem(plan.Terminal, ReasonSelectorBroken, "spec.inferenceServices.selector", "", "it cannot be read: "+err.Error(),
			"use a label selector of Kubernetes with the operators In, NotIn, Exists and DoesNotExist, or remove the field")
	}
}

type labelSet map[string]string

func (l labelSet) Has(k string) bool              { _, ok := l[k]; return ok }
func (l labelSet) Get(k string) string            { return l[k] }
func (l labelSet) Lookup(k string) (string, bool) { v, ok := l[k]; return v, ok }
