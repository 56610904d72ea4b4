package health

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// stuck maps the reasons of a waiting container that don't pass by themselves to the reason that is reported
// (pkg/kubelet/kuberuntime and pkg/kubelet/images of Kubernetes). A pull alternates between the error and its
// backoff, so both are reported as the backoff, as are the two faces of a start that fails.
var stuck = map[string]string{
	"CrashLoopBackOff":           "CrashLoopBackOff",
	"RunContainerError":          "CrashLoopBackOff",
	"ImagePullBackOff":           "ImagePullBackOff",
	"ErrImagePull":               "ImagePullBackOff",
	"ErrImageNeverPull":          "ErrImageNeverPull",
	"InvalidImageName":           "InvalidImageName",
	"ImageInspectError":          "ImageInspectError",
	"CreateContainerConfigError": "CreateContainerConfigError",
	"CreateContainerError":       "CreateContainerError",
}

// stuckMessage explains the reasons in sentences of our own: those of the kubelet name the length of the backoff.
var stuckMessage = map[string]string{
	"CrashLoopBackOff":           "A container of the Pod fails each time it is started; see its logs.",
	"ImagePullBackOff":           "An image of the Pod cannot be pulled; check its name and the pull Secret.",
	"ErrImageNeverPull":          "An image of the Pod is not on the node, and its policy forbids to pull it.",
	"InvalidImageName":           "An image of the Pod has an invalid name.",
	"ImageInspectError":          "An image of the Pod cannot be inspected on the node.",
	"CreateContainerConfigError": "A container of the Pod refers to a ConfigMap, a Secret or a key that does not exist.",
	"CreateContainerError":       "A container of the Pod cannot be created on its node.",
}

// pod is the rule of a Pod. Where kstatus lets 15 seconds pass before it calls an unschedulable Pod failed, this rule, which
// has no clock, never does: a node may come.
func pod(o object) Result {
	conds := o.conditions()
	switch phase := o.text("status", "phase"); phase {
	case "Succeeded":
		return current("Succeeded", "The Pod has completed.")
	case "Failed":
		return failed(reasonOr(o.text("status", "reason"), "PodFailed"), "The Pod has failed and is not started again.")
	case "Unknown":
		return unknown("NodeLost", "The node of the Pod does not report.")
	case "", "Pending", "Running":
	default:
		return unknown(ReasonMalformed, "The Pod has a phase that Kubernetes does not define.")
	}
	if c := conds["Ready"]; c.isTrue() {
		return current(ReasonReady, "The Pod is ready.")
	}
	for _, field := range []string{"initContainerStatuses", "containerStatuses"} {
		for _, container := range o.list("status", field) {
			if reason := stuck[container.text("state", "waiting", "reason")]; reason != "" {
				return failed(reason, stuckMessage[reason])
			}
		}
	}
	if c := conds["PodScheduled"]; c.isFalse() {
		return inProgress(reasonOr(c.reason, "NotScheduled"), "The Pod is not scheduled to a node yet.")
	}
	return inProgress(ReasonNotReady, "The Pod is not ready yet.")
}

// Completed says that an object is a Job or a Pod that has completed, also while it is being deleted.
func Completed(obj *unstructured.Unstructured) bool {
	switch obj.GroupVersionKind().GroupKind() {
	case jobs:
		return object(obj.Object).conditions()["Complete"].isTrue()
	case pods:
		return object(obj.Object).text("status", "phase") == "Succeeded"
	}
	return false
}

// jobs and pods are the kinds that end.
var (
	jobs = schema.GroupKind{Group: "batch", Kind: "Job"}
	pods = schema.GroupKind{Kind: "Pod"}
)

// job is the rule of a Job (pkg/controller/job). It is current when it is complete, not while it runs as in kstatus: who
// waits for a Job waits for what it does. FailureTarget comes before Failed, while its Pods are still terminated.
func job(o object) Result {
	conds := o.conditions()
	for _, bad := range []string{"Failed", "FailureTarget"} {
		if c := conds[bad]; c.isTrue() {
			return failed(reasonOr(c.reason, "JobFailed"), sentence(c.message, "The Job has failed."))
		}
	}
	if c := conds["Complete"]; c.isTrue() {
		return current("Complete", "The Job has completed.")
	}
	if o.truth("spec", "suspend") {
		if o.count(0, "status", "active") > 0 {
			return inProgress(ReasonSuspended, "The Job is suspended, and its Pods are still to be terminated.")
		}
		return current(ReasonSuspended, "The Job is suspended, as declared.")
	}
	return inProgress("Running", "The Job has not completed yet.")
}
