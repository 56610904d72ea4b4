package trustyai

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/workload"
)

// The conditions of a TrustyAIService beside Ready, Reconciling and Stalled: those of TrustyAI ADR 3, and those of
// trustyai-service-operator HEAD 11c335b.
const (
	ConditionStorageReady             = "StorageReady"
	ConditionModelMeshReady           = "ModelMeshReady"
	ConditionInferenceServicesPresent = "InferenceServicesPresent"
	ConditionPVCAvailable             = "PVCAvailable"
	ConditionDBAvailable              = "DBAvailable"
	ConditionRouteAvailable           = "RouteAvailable"
	ConditionAvailable                = "Available"
	ConditionProvisioningSucceeded    = "ProvisioningSucceeded"
	ConditionDegraded                 = "Degraded"
)

// Reasons that occur more than once.
const (
	reasonDBCredentialsNotFound = "DBCredentialsNotFound"
	reasonDBCredentialsError    = "DBCredentialsError"
	reasonDBNotChecked          = "DBNotChecked"
	reasonDBServiceNotFound     = "DBServiceNotFound"
	reasonDBPortNotFound        = "DBPortNotFound"
	reasonDBServiceNotReady     = "DBServiceNotReady"
)

const (
	phaseReady    = "Ready"
	phaseNotReady = "Not Ready"
)

// Limits of the schema on lists and texts of the status.
const (
	maxSkipped, maxSkippedText  = 32, 512
	maxWarnings, maxWarningText = 32, 1024
)

// view is what the conditions are judged from.
type view struct {
	cr       *v1.TrustyAIService
	facts    Facts
	seen     controller.ObservedState
	names    names
	template Template
	plan     plan.Plan
	settings Settings
}

// Project writes what was observed onto the status. It is pure.
func (s *system) Project(cr *v1.TrustyAIService, facts Facts, seen controller.ObservedState) controller.Verdict {
	// The step of a migration that is stored now is acted upon in the next pass: until then nothing is settled.
	stepping := !sameMigration(facts.Migration, facts.Next)
	seen.Ready = seen.Ready && !stepping
	v := &view{
		cr: cr, facts: facts, seen: seen, names: namesOf(cr), settings: s.settings,
		template: templateOf(cr.Spec.Storage.Format, facts), plan: seen.Plan,
	}
	status := &cr.Status
	status.Phase, status.Ready = phaseNotReady, "False"
	// A service that is scaled to zero is as declared and serves nobody, for which upstream's phase is "Not Ready".
	total, ready := v.pods()
	scaledToZero := seen.Ready && ready == 0
	if seen.Ready && !scaledToZero {
		status.Phase, status.Ready = phaseReady, "True"
	}
	served := facts.served(cr)
	// What is wired follows from what is stored of them.
	moves := status.Exposure != "" && (status.Exposure != served.Exposure || status.TLSSecretName != served.Secret)
	status.URL, status.Exposure, status.TLSSecretName, status.ImageGeneration = "", served.Exposure, served.Secret, served.Generation
	if l, known := layouts[status.ImageGeneration]; facts.First == "" && known && l.serves(exposureNow(cr)) {
		status.URL = ConsumerURLIn(cr, s.settings.ClusterDomain)
	}
	status.ExternalURL = v.externalURL()
	status.Replicas = int32(min(total, 1<<30))
	status.Selector = v.selector()
	status.Skipped = limit(seen.Skipped, maxSkipped, maxSkippedText)
	status.Warnings = limit(union(seen.Plan.Warnings, seen.Warnings), maxWarnings, maxWarningText)
	v.conditions()
	// Whether it is wired follows from whether it is reachable now, and the condition of ModelMesh from both.
	status.InferenceServices = v.wirings()
	v.modelMesh()
	// Last, since everything above is judged by what was stored before.
	status.Migration = facts.Next.DeepCopy()
	status.StorageFormat = v.format()
	if scaledToZero {
		return controller.Verdict{Reason: "ScaledToZero", Message: "Everything is as declared; no pod runs, since spec.replicas is 0"}
	}
	if seen.Ready {
		return controller.Verdict{Reason: "AllComponentsReady", Message: "All service components are ready"}
	}
	verdict := controller.Verdict{
		Reason: "ComponentsNotReady", Message: "Not all service components are ready", Hold: stepping, Step: stepping || moves,
	}
	if seen.Waiting != "" {
		verdict.Message += ": " + seen.Waiting
	}
	if f, fails := v.databaseFailure(); fails {
		verdict.Reason, verdict.Progress = f.reason, f.message
	}
	return verdict
}

// format is the format that the pods use: that of the migration's source until it is done, and nothing before there is
// a Deployment of ours, so that one of upstream is still looked for.
func (v *view) format() v1.StorageFormat {
	if m := v.facts.Next; m != nil && m.Phase == v1.MigrationDone {
		return m.To
	}
	written := v.deployment() != nil || v.facts.Deployment != nil && v.facts.Deployment.Template != ""
	if !written && v.cr.Status.StorageFormat == "" {
		return ""
	}
	return v.facts.Running
}

// union joins two lists and leaves out what is there twice.
func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// limit cuts a list and its texts to what the schema allows.
func limit(list []string, items, text int) []string {
	if len(list) > items {
		rest := len(list) - items + 1
		list = append(append([]string(nil), list[:items-1]...), fmt.Sprintf("and %d more", rest))
	}
	var out []string
	for _, s := range list {
		out = append(out, cut(s, text))
	}
	return out
}

// cut shortens a text to a number of characters.
func cut(s string, characters int) string {
	if runes := []rune(s); len(runes) > characters {
		return string(runes[:characters-3]) + "..."
	}
	return s
}

// deployment is the Deployment as observed after this reconcile's writes; nil while there is none.
func (v *view) deployment() *unstructured.Unstructured {
	state, found := v.state(plan.Key{GroupKind: gvkDeployment.GroupKind(), Namespace: v.cr.Namespace, Name: v.names.base})
	if !found || state.Observed == nil {
		return nil
	}
	return state.Observed.Stripped()
}

func (v *view) state(key plan.Key) (controller.State, bool) {
	state, found := v.seen.Objects[key]
	return state, found
}

// pods counts all pods of the Deployment, and those that are ready.
func (v *view) pods() (total, ready int64) {
	r := v.rollout()
	return r.Total, r.Ready
}

// rollout is how far the Deployment has come. One that a problem keeps out of the plan still runs.
func (v *view) rollout() workload.Rollout {
	if u := v.deployment(); u != nil {
		return workload.RolloutOf(u)
	}
	if d := v.facts.Deployment; d != nil {
		return d.Rollout
	}
	return workload.Rollout{}
}

// externalURL is where the service is reached from outside of the cluster: at the host for which a router has admitted its Route, else
// at that of its Ingress.
func (v *view) externalURL() string {
	if host := v.routeHost(); host != "" {
		if exposureNow(v.cr) == v1.ExposureSecured {
			return "https://" + host
		}
		return "http://" + host
	}
	state, _ := v.state(plan.Key{GroupKind: gvkIngress.GroupKind(), Namespace: v.cr.Namespace, Name: v.names.base})
	if spec := v.cr.Spec.Ingress; spec != nil && state.Observed != nil {
		return workload.IngressURL(spec)
	}
	return ""
}

// routeHost is the host for which a router has admitted the Route.
func (v *view) routeHost() string {
	state, _ := v.state(plan.Key{GroupKind: gvkRoute.GroupKind(), Namespace: v.cr.Namespace, Name: v.names.route})
	u := state.Observed.Stripped()
	if u == nil {
		return ""
	}
	ingress, _, _ := unstructured.NestedSlice(u.Object, "status", "ingress")
	for _, item := range ingress {
		router, _ := item.(map[string]any)
		host, _ := router["host"].(string)
		conditions, _ := router["conditions"].([]any)
		for _, one := range conditions {
			if c, _ := one.(map[string]any); c["type"] == "Admitted" && c["status"] == "True" && host != "" {
				return host
			}
		}
	}
	return ""
}

// selector selects the pods, for the scale subresource.
func (v *view) selector() string {
	if d := v.facts.Deployment; d != nil && len(d.Selector) > 0 {
		return labels.SelectorFromSet(d.Selector).String()
	}
	if v.facts.First != "" {
		return ""
	}
	scene := scene{settings: v.settings, cr: v.cr}
	return labels.SelectorFromSet(scene.podSelector()).String()
}

// set sets one condition; the time changes only with the status.
func (v *view) set(kind string, status metav1.ConditionStatus, reason, message string) {
	const maxMessage = 32768
	meta.SetStatusCondition(&v.cr.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: cut(message, maxMessage), ObservedGeneration: v.cr.Generation,
		LastTransitionTime: metav1.NewTime(v.seen.Now),
	})
}

// problem finds a problem of the plan by its reason.
func (v *view) problem(reasons ...string) *plan.Problem {
	for i := range v.plan.Problems {
		for _, reason := range reasons {
			if v.plan.Problems[i].Reason == reason {
				return &v.plan.Problems[i]
			}
		}
	}
	return nil
}
