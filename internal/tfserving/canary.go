package tfserving

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
)

// availableAnnotation records on the Service of a canary which version its servers were found to have available: while they have not
// answered, as after each start of the manager, the weights stay as they are.
const availableAnnotation = keeper.AnnotationPrefix + "available"

// Canary is the track of spec.canary, and what was decided about it.
type Canary struct {
	// Facts are what its objects are rendered from; they have no config where the model config has no such model, or could not be read.
	Facts Facts
	// There says that its objects are declared.
	There bool
	// Available says that every ready server of it has the version available, and Weight how many of a hundred requests they get.
	Available bool
	Weight    int32
	// State is what has become of it.
	State v1alpha1.CanaryState
	// Status, Reason and Message are those of its condition. The share of an available one follows the message, and then what completes a
	// promotion.
	Status                     metav1.ConditionStatus
	Reason, Message, Promotion string
}

// canaryOf is the Tfserv whose objects are those of the canary track: servers as those of the stable track, of which nothing but the
// routes knows. They are replaced for another version, which is another canary.
func canaryOf(cr *v1alpha1.Tfserv) *v1alpha1.Tfserv {
	out, spec := cr.DeepCopy(), cr.Spec.Canary
	out.Name = canaryNamed(cr).Name
	out.Spec.Replicas = ptr.To(ptr.Deref(spec.Replicas, 1))
	if paused(cr) {
		out.Spec.Replicas = ptr.To[int32](0)
	}
	out.Spec.ServiceType, out.Spec.Service = corev1.ServiceTypeClusterIP, nil
	out.Spec.ConfigReload = v1alpha1.ConfigRestart
	out.Spec.Autoscaling, out.Spec.PodDisruptionBudget = nil, nil
	out.Spec.ExposureSpec, out.Spec.Canary = v1alpha1.ExposureSpec{}, nil
	return out
}

// canaryNamed has the name of the canary track of a custom resource, also of one that has none any more.
func canaryNamed(cr *v1alpha1.Tfserv) *v1alpha1.Tfserv {
	out := &v1alpha1.Tfserv{}
	out.Name, out.Namespace = cr.Name+"-canary", cr.Namespace
	return out
}

// canaryTrack is the canary track of a custom resource in what is remembered of it; no custom resource has such a name.
func canaryTrack(of types.NamespacedName) types.NamespacedName {
	of.Name += "/canary"
	return of
}

// promoted is a canary that is to go when the stable track has its version; nil for none.
func promoted(cr *v1alpha1.Tfserv) *v1alpha1.CanarySpec {
	if c := cr.Spec.Canary; c != nil && c.State == v1alpha1.CanaryPromoted {
		return c
	}
	return nil
}

// decideCanary decides about a canary from what is known of both tracks and of the routes, and from the version that was recorded as
// available. It is pure.
func decideCanary(cr *v1alpha1.Tfserv, stable, track Facts, recorded string) Canary {
	spec, promoting := cr.Spec.Canary, promoted(cr) != nil
	c := Canary{Facts: track, State: v1alpha1.CanaryRunning, Status: metav1.ConditionFalse}
	served, known := stable.Answer.has(spec.Model, spec.Version)
	complete := served && known && stable.Running != nil && stable.Running.Current
	switch {
	case spec.State == v1alpha1.CanaryAborted:
		c.State, c.Reason = v1alpha1.CanaryAborted, reasonAborted
		c.Message = "The canary was aborted. Take spec.canary out, or set its state to Running to begin again."
	case promoting && (complete || track.Running == nil || wasPromoted(cr)):
		// One that has gone does not come again when the other servers go on to another version.
		c.State, c.Reason = v1alpha1.CanaryPromoted, reasonPromoted
		c.Message = "The canary was promoted and gets no requests. Take spec.canary out."
	case track.ConfigText == "" && len(stable.Problems) == 0:
		c.Reason, c.Message = reasonModelNotFound, fmt.Sprintf("The model config has no model %s: correct spec.canary.model.", spec.Model)
	default:
		c.There = true
		c.availability(cr, recorded)
		if promoting {
			c.Promotion = promotion(cr, stable)
		}
	}
	return c
}

// wasPromoted says that the canary was found to be promoted before. Its servers are kept for a while then, whether or not the others answer, as
// after a start of the manager.
func wasPromoted(cr *v1alpha1.Tfserv) bool {
	spec, told := cr.Spec.Canary, cr.Status.Canary
	return told != nil && told.State == v1alpha1.CanaryPromoted && told.Model == spec.Model && told.Version == spec.Version
}

// availability decides whether the servers of a canary get requests. What nobody has answered changes nothing.
func (c *Canary) availability(cr *v1alpha1.Tfserv, recorded string) {
	spec, running := cr.Spec.Canary, c.Facts.Running
	version := fmt.Sprintf("version %d of model %s", spec.Version, spec.Model)
	available, known := c.Facts.Answer.has(spec.Model, spec.Version)
	switch {
	case running == nil || running.Ready == 0:
		available = false
	case !known:
		available = recorded == versionOf(spec)
	}
	switch failure := c.Facts.Failure; {
	case available:
		c.Available, c.Weight = true, ptr.Deref(spec.Weight, 0)
		c.Status, c.Reason = metav1.ConditionTrue, reasonCanaryAvailable
		c.Message = fmt.Sprintf("Every ready server of the canary has %s available;", version)
	case failure != nil:
		c.Reason, c.Message = failure.Reason, failure.Message
	case paused(cr):
		c.Reason, c.Message = reasonPaused, "spec.replicas is 0, which stops the canary too."
	case running == nil || !running.Current || running.Ready == 0:
		c.Reason, c.Message = reasonRollingOut, "The servers of the canary are being rolled out."
	case known:
		c.Reason = reasonVersionUnavailable
		c.Message = fmt.Sprintf("Not every ready server of the canary has %s available%s.", version, c.said(spec.Version))
	default:
		c.Status, c.Reason = metav1.ConditionUnknown, reasonEndpointUnreachable
		c.Message = "Not every server of the canary has said yet that it has " + version + " available."
	}
}

// told is the whole message, with what Gateways have made of the routes.
func (c *Canary) told(mode v1alpha1.CanaryMode, by routing) string {
	parts := []string{c.Message}
	if c.Available {
		parts = append(parts, c.share(mode, by))
	}
	if c.Promotion != "" {
		parts = append(parts, c.Promotion)
	}
	return strings.Join(parts, " ")
}

// share says how many of the requests the servers of a canary get.
func (c *Canary) share(mode v1alpha1.CanaryMode, by routing) string {
	switch {
	case c.Weight > 0 && by.unrouted != "":
		return "it gets no requests. " + by.unrouted
	case c.Weight > 0 && by.outdated:
		return fmt.Sprintf("its share is %d %% when a Gateway has read the routes as they are now.", c.Weight)
	case mode == v1alpha1.CanaryShadow:
		return fmt.Sprintf("%d %% of the requests are copied there.", c.Weight)
	}
	return fmt.Sprintf("%d %% of the requests go there.", c.Weight)
}

// said is what the server that is behind says of a version; empty where it says nothing.
func (c *Canary) said(number int64) string {
	for _, m := range c.Facts.Answer.Models {
		if m.State == stateAvailable || m.Version != "" && m.Version != strconv.FormatInt(number, 10) {
			continue
		}
		if m.Error != "" {
			return fmt.Sprintf(": it is %s (%s)", m.State, m.Error)
		}
		return ": it is " + m.State
	}
	return ""
}

// versionOf is the version of a canary as it is recorded.
func versionOf(spec *v1alpha1.CanarySpec) string {
	return spec.Model + "/" + strconv.FormatInt(spec.Version, 10)
}

// promotion says what completes a promotion: the owner changes the model config, which MLKeeper never edits.
func promotion(cr *v1alpha1.Tfserv, stable Facts) string {
	spec := cr.Spec.Canary
	const then = "The canary goes when every other server has it available."
	listed := stable.Config.Specific()[spec.Model]
	switch {
	case !stable.Config.Valid():
		return then
	case slices.Contains(listed, spec.Version):
		return fmt.Sprintf("The model config lists version %d already. ", spec.Version) + then
	}
	set := fmt.Sprintf("Set model_version_policy of model %s in the ConfigMap %s to { specific { versions: %d } }. ",
		spec.Model, cr.Spec.ConfigMap, spec.Version)
	if len(cr.Spec.Models) > 0 {
		set = fmt.Sprintf("Set versionPolicy of model %s in spec.models to {specific: {versions: [%d]}}. ", spec.Model, spec.Version)
	}
	if len(listed) == 0 {
		set = fmt.Sprintf("The policy of model %s does not list version %d, so that the other servers may serve others without it. ",
			spec.Model, spec.Version) + set
	}
	return set + then
}

// has says whether every server has a version available, and whether that is known: where some have not answered, it is known only of a
// version that one of the others has not.
func (a *Answer) has(model string, number int64) (available, known bool) {
	if a == nil || a.Answered == 0 {
		return false, false
	}
	if a.Answered < a.Servers {
		lacks := func(m v1alpha1.ModelStatus) bool {
			return m.Name == model && m.State != stateAvailable && (m.Version == "" || m.Version == strconv.FormatInt(number, 10))
		}
		return false, slices.ContainsFunc(a.Models, lacks)
	}
	return a.Loaded[LoadedVersion{model, number}], true
}
