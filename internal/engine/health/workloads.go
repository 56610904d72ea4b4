package health

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// lessReplicas is one sentence for two steps of a rollout, so that a status that quotes it is not written for each.
const lessReplicas = "Fewer replicas are updated and available than declared."

// deployment follows `kubectl rollout status` (kubectl pkg/polymorphichelpers/rollout_status.go) and the deployment
// controller (pkg/controller/deployment/progress.go). Its conditions Progressing and Available aren't asked for: with all
// declared replicas updated and available they say nothing more.
func deployment(o object) Result {
	// A controller keeps this reason until the rollout is complete.
	if c := o.conditions()["Progressing"]; c.reason == "ProgressDeadlineExceeded" && c.isFalse() {
		return failed(c.reason, "The rollout did not progress within its deadline.")
	}
	want := o.count(1, "spec", "replicas")
	have := o.count(0, "status", "replicas")
	updated := o.count(0, "status", "updatedReplicas")
	available := o.count(0, "status", "availableReplicas")
	if o.truth("spec", "paused") {
		// The template is held back on purpose, the number of replicas isn't.
		if available >= want {
			return current(ReasonPaused, "The Deployment is available, and its rollout is paused.")
		}
		return inProgress(ReasonPaused, "The Deployment is paused with fewer replicas available than declared.")
	}
	if reason, message := refusal(o); reason != "" {
		return inProgress(reason, message)
	}
	switch {
	case updated < want:
		return inProgress("LessUpdated", lessReplicas)
	case have > updated:
		return inProgress("ExtraPods", "Replicas of an older template are still to be terminated.")
	case have > want:
		return inProgress("ExtraPods", "Replicas more than declared are still to be terminated.")
	case available < updated:
		return inProgress("LessAvailable", lessReplicas)
	}
	return current("Available", "All declared replicas are updated and available.")
}

// refusal says why pods that a Deployment lacks cannot be created or deleted; empty where none is refused. While old pods serve, it lacks those of a
// new template. The deployment controller takes the condition from the ReplicaSets, and removes it when it has ended there (syncRolloutStatus in
// pkg/controller/deployment/progress.go).
func refusal(o object) (reason, message string) {
	want := o.count(1, "spec", "replicas")
	lacks := o.count(0, "status", "availableReplicas") < want || o.count(0, "status", "updatedReplicas") < want
	if c := o.conditions()["ReplicaFailure"]; c.isTrue() && lacks {
		return reasonOr(c.reason, "ReplicaFailure"), sentence(c.message, "Pods of the Deployment cannot be created.")
	}
	return "", ""
}

// Uncreated says why pods that a Deployment lacks cannot be created, such as for a quota; empty where none is refused.
func Uncreated(deployment *unstructured.Unstructured) string {
	if reason, message := refusal(object(deployment.Object)); reason == "FailedCreate" {
		return message
	}
	return ""
}

// replicaSet is the rule of a ReplicaSet and a ReplicationController (pkg/controller/replicaset/replica_set_utils.go). A
// refused creation is retried for ever, so it is no failure: the quota may be raised.
func replicaSet(o object) Result {
	want := o.count(1, "spec", "replicas")
	available := o.count(0, "status", "availableReplicas")
	if c := o.conditions()["ReplicaFailure"]; c.isTrue() {
		return inProgress(reasonOr(c.reason, "ReplicaFailure"), sentence(c.message, "Pods cannot be created or deleted."))
	}
	switch {
	case o.count(0, "status", "replicas") > want:
		return inProgress("ExtraPods", "Replicas more than declared are still to be terminated.")
	case o.count(0, "status", "readyReplicas") < want:
		return inProgress("LessReady", "Fewer replicas are ready than declared.")
	case available < want:
		return inProgress("LessAvailable", "Fewer replicas are available than declared.")
	}
	return current("Available", "All declared replicas are available.")
}

// statefulSet follows `kubectl rollout status` and the StatefulSet controller (pkg/controller/statefulset). With OnDelete
// the owner replaces the Pods, so only their readiness counts; with a partition, only the Pods above it are updated.
func statefulSet(o object) Result {
	want := o.count(1, "spec", "replicas")
	have := o.count(0, "status", "replicas")
	ready := o.count(0, "status", "readyReplicas")
	switch {
	case have > want:
		return inProgress("ExtraPods", "Replicas more than declared are still to be terminated.")
	case have < want:
		return inProgress("LessReplicas", "Fewer replicas exist than declared.")
	case ready < want:
		return inProgress("LessReady", "Fewer replicas are ready than declared.")
	case o.count(ready, "status", "availableReplicas") < want:
		return inProgress("LessAvailable", "Fewer replicas are available than declared.")
	}
	if o.text("spec", "updateStrategy", "type") == "OnDelete" {
		return current("Available", "All declared replicas are ready; they are updated when they are deleted.")
	}
	partition := o.count(0, "spec", "updateStrategy", "rollingUpdate", "partition")
	// Neither number may overflow or count below zero, whatever the object says.
	target := want
	if partition > 0 {
		target = max(0, want-min(partition, want))
	}
	if o.count(0, "status", "updatedReplicas") < target {
		return inProgress("LessUpdated", "Fewer replicas are updated than declared.")
	}
	if partition > 0 {
		return current("Available", "All declared replicas are ready, and those above the partition are updated.")
	}
	if o.text("status", "currentRevision") != o.text("status", "updateRevision") {
		return inProgress("RevisionMismatch", "The controller has not concluded the rollout yet.")
	}
	return current("Available", "All declared replicas are updated and available.")
}

// daemonSet follows `kubectl rollout status` and the DaemonSet controller (pkg/controller/daemon). With OnDelete the owner
// replaces the Pods, so that updated ones are not waited for.
func daemonSet(o object) Result {
	want, found := o.number("status", "desiredNumberScheduled")
	switch {
	case !found:
		return inProgress(ReasonNotObserved, "The controller has not counted the nodes yet.")
	case o.count(0, "status", "currentNumberScheduled") < want:
		return inProgress("LessReplicas", "Pods are still to be created on some nodes.")
	case o.text("spec", "updateStrategy", "type") != "OnDelete" && o.count(0, "status", "updatedNumberScheduled") < want:
		return inProgress("LessUpdated", "Pods are still to be updated on some nodes.")
	case o.count(0, "status", "numberReady") < want:
		return inProgress("LessReady", "Pods are not ready on some nodes.")
	case o.count(0, "status", "numberAvailable") < want:
		return inProgress("LessAvailable", "Pods are not available on some nodes.")
	}
	return current("Available", "The Pods are updated and available on all nodes.")
}
