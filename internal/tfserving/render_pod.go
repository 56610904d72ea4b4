package tfserving

import (
	"k8s.io/utils/ptr"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
)

const (
	// drain is how many seconds a pod that is being deleted still serves, until no proxy sends to it any more.
	drain = 10
	// grace is how many seconds it then has for the requests under way, where no longer ones are declared.
	grace = 60
	// maxDefaultGrace is the longest grace period that is not declared: every pod takes all of it.
	maxDefaultGrace = 3600
)

// gracePeriod is how many seconds a pod lives on after its deletion. TensorFlow Serving has no handler for SIGTERM (tensorflow/serving #1853):
// it serves until the period is over.
func gracePeriod(cr *v1alpha1.Tfserv) int64 {
	if declared := cr.Spec.TerminationGracePeriodSeconds; declared != nil {
		return *declared
	}
	return min(drain+max(grace, restTimeout(cr)), maxDefaultGrace)
}

// restTimeout is how many seconds a request to the REST API may take; 0 where that is not declared.
func restTimeout(cr *v1alpha1.Tfserv) int64 {
	if cr.Spec.Server == nil {
		return 0
	}
	return (int64(ptr.Deref(cr.Spec.Server.RESTTimeoutMillis, 0)) + 999) / 1000
}

// progressDeadline is how many seconds a rollout may take for a pod. A server that may take long to load must not be called stuck before, nor
// one that waits for the end of the pod whose GPU it gets.
func (r *renderer) progressDeadline() int32 {
	longer := max(gracePeriod(r.cr)-(drain+grace), 0)
	return max(ptr.Deref(r.cr.Spec.StartupTimeoutSeconds, defaultStartup)+120+int32(longer), 600) //nolint:gosec // The schema has a day at most.
}
