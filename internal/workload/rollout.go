package workload

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// Rollout is how far a Deployment has come, as its status says.
type Rollout struct {
	// Observed says that the deployment controller has seen the latest generation; the counts are of an earlier one before.
	Observed bool
	// Desired, Total, Updated, Ready and Available count pods.
	Desired, Total, Updated, Ready, Available int64
	// Exceeded says that the rollout exceeded its deadline.
	Exceeded bool
}

// RolloutOf reads the status of a Deployment.
func RolloutOf(u *unstructured.Unstructured) Rollout {
	number := func(missing int64, path ...string) int64 {
		if n, found, err := unstructured.NestedInt64(u.Object, path...); err == nil && found {
			return max(n, 0)
		}
		return missing
	}
	r := Rollout{
		Observed:  number(-1, "status", "observedGeneration") >= u.GetGeneration(),
		Desired:   number(1, "spec", "replicas"),
		Total:     number(0, "status", "replicas"),
		Updated:   number(0, "status", "updatedReplicas"),
		Ready:     number(0, "status", "readyReplicas"),
		Available: number(0, "status", "availableReplicas"),
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, item := range conditions {
		c, _ := item.(map[string]any)
		if c["type"] == "Progressing" && c["status"] == "False" && c["reason"] == "ProgressDeadlineExceeded" {
			r.Exceeded = true
		}
	}
	return r
}

// Serves says that as many pods are available as are declared, and that some are.
func (r Rollout) Serves() bool { return r.Observed && r.Desired > 0 && r.Available >= r.Desired }

// Complete says that every pod runs the latest template and is available.
func (r Rollout) Complete() bool {
	return r.Serves() && r.Updated >= r.Desired && r.Total == r.Updated
}
