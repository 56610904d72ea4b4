package tfserving

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/workload"
)

// The conditions of a Tfserv beside Ready, Reconciling and Stalled.
const (
	ConditionProgressing     = "Progressing"
	ConditionConfigValid     = "ConfigValid"
	ConditionModelsAvailable = "ModelsAvailable"
	// ConditionCanaryAvailable is there with spec.canary only.
	ConditionCanaryAvailable = "CanaryAvailable"
)

// Limits of the schema on lists and texts of the status.
const (
	maxSkipped, maxSkippedText  = 32, 512
	maxWarnings, maxWarningText = 32, 1024
	maxConditionMessage         = 2048
)

// Project writes what was observed onto the status. It is pure.
func (s *system) Project(cr *v1alpha1.Tfserv, facts Facts, seen controller.ObservedState) controller.Verdict {
	v := &view{cr: cr, facts: facts, seen: seen}
	status := &cr.Status
	status.URL = fmt.Sprintf("http://%s.%s.svc.%s:%d", serviceName(cr), cr.Namespace, s.settings.ClusterDomain, restPort(cr))
	status.ExternalURL = v.externalURL()
	status.Selector = labels.SelectorFromSet(podLabels(cr)).String()
	status.Skipped = limit(seen.Skipped, maxSkipped, maxSkippedText)
	status.Active = v.active()
	status.Replicas, status.ReadyReplicas = v.pods()
	v.progressing()
	v.configValid()
	v.models()
	v.canary()
	status.Warnings = limit(slices.Concat(v.unscaled(), v.lacking(), seen.Warnings), maxWarnings, maxWarningText)
	return v.verdict()
}

// view is what the conditions are judged from.
type view struct {
	cr    *v1alpha1.Tfserv
	facts Facts
	seen  controller.ObservedState
}

// externalURL is where the Ingress leads to the servers, once it exists.
func (v *view) externalURL() string {
	state := v.seen.Objects[plan.Key{GroupKind: gvkIngress.GroupKind(), Namespace: v.cr.Namespace, Name: v.cr.Name}]
	if spec := v.cr.Spec.Ingress; spec != nil && state.Observed != nil {
		return workload.IngressURL(spec)
	}
	return ""
}

// active are references to the Deployment and the Service, as the seed has them.
func (v *view) active() []corev1.ObjectReference {
	var out []corev1.ObjectReference
	for _, child := range []struct {
		gvk  schema.GroupVersionKind
		name string
	}{{gvkDeployment, v.cr.Name}, {gvkService, serviceName(v.cr)}} {
		state, found := v.seen.Objects[plan.Key{GroupKind: child.gvk.GroupKind(), Namespace: v.cr.Namespace, Name: child.name}]
		if !found || state.Observed == nil {
			// What a problem keeps out of the plan may run nevertheless.
			for _, e := range v.cr.Status.Active {
				if e.Kind == child.gvk.Kind && !found && v.problems() {
					out = append(out, e)
				}
			}
			continue
		}
		out = append(out, corev1.ObjectReference{
			APIVersion: child.gvk.GroupVersion().String(), Kind: child.gvk.Kind, Namespace: v.cr.Namespace, Name: child.name,
			UID: state.Observed.UID,
		})
	}
	return out
}

func (v *view) problems() bool { return len(v.seen.Problems) > 0 }

// deployment is the Deployment as observed after this reconcile's writes; nil while there is none.
func (v *view) deployment() *unstructured.Unstructured {
	state := v.seen.Objects[plan.Key{GroupKind: gvkDeployment.GroupKind(), Namespace: v.cr.Namespace, Name: v.cr.Name}]
	if state.Observed == nil {
		return nil
	}
	return state.Observed.Stripped()
}

// rollout is how far the Deployment has come, and whether there is one. One that a problem keeps out of the plan still runs.
func (v *view) rollout() (rollout workload.Rollout, there bool) {
	if u := v.deployment(); u != nil {
		return workload.RolloutOf(u), true
	}
	if r := v.facts.Running; r != nil && v.problems() {
		return r.Rollout, true
	}
	return workload.Rollout{}, false
}

// pods counts the pods.
func (v *view) pods() (replicas, ready int32) {
	rollout, _ := v.rollout()
	return bounded(rollout.Total), bounded(rollout.Ready)
}

func bounded(n int64) int32 { return int32(min(max(n, 0), 1<<30)) } //nolint:gosec // Bounded here.

// progressing says how the rollout is.
func (v *view) progressing() {
	state, found := v.seen.Objects[plan.Key{GroupKind: gvkDeployment.GroupKind(), Namespace: v.cr.Namespace, Name: v.cr.Name}]
	switch {
	case v.problems():
		v.set(ConditionProgressing, metav1.ConditionFalse, reasonWaiting, "The Deployment is left as it is until the problem is solved.")
	case found && state.Current:
		v.set(ConditionProgressing, metav1.ConditionFalse, reasonRolledOut, "Every pod is as declared.")
	case found && state.Observed != nil && state.Observed.Health.Reason == reasonDeadlineExceeded:
		serve := "; those that are ready serve on. "
		if v.cr.Status.ReadyReplicas == 0 {
			serve = ", and none serves. "
		}
		v.set(ConditionProgressing, metav1.ConditionFalse, reasonDeadlineExceeded, "The new pods did not become ready in time"+serve+v.failure())
	default:
		v.set(ConditionProgressing, metav1.ConditionTrue, reasonRollingOut, "The pods are being rolled out.")
	}
}

// configValid says whether TensorFlow Serving would take the model config.
func (v *view) configValid() {
	for i := range v.facts.Problems {
		p := &v.facts.Problems[i]
		switch p.Reason {
		case reasonConfigInvalid, reasonModelsNotDeclared, reasonS3NotReadable:
			v.set(ConditionConfigValid, metav1.ConditionFalse, p.Reason, p.Error())
			return
		case reasonConfigMapNotFound, reasonConfigKeyNotFound:
			v.set(ConditionConfigValid, metav1.ConditionUnknown, p.Reason, p.Error())
			return
		}
	}
	n := len(v.facts.Config.Models())
	v.set(ConditionConfigValid, metav1.ConditionTrue, reasonConfigAccepted, fmt.Sprintf("The config declares %s.", counted(n, "model")))
	if r := v.facts.Running; r != nil && r.Current {
		v.cr.Status.ConfigHash = r.Hash
	}
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// set sets one condition; the time changes only with the status.
func (v *view) set(kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&v.cr.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: controller.Cut(message, maxConditionMessage), ObservedGeneration: v.cr.Generation,
		LastTransitionTime: metav1.NewTime(v.seen.Now),
	})
}

// limit cuts a list and its texts to what the schema allows.
func limit(list []string, items, text int) []string {
	var out []string
	for _, s := range list[:min(len(list), items)] {
		out = append(out, controller.Cut(s, text))
	}
	return out
}
