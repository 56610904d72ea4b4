package tfserving

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
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

// templateLabels are the labels of the pods: those that select them, and the owner's.
func (r *renderer) templateLabels() map[string]string {
	out := make(map[string]string, len(r.cr.Spec.PodLabels)+1)
	for key, value := range r.cr.Spec.PodLabels {
		out[key] = string(value)
	}
	maps.Copy(out, podLabels(r.cr))
	return out
}

// templateAnnotations are the annotations of the pods: those that replace them, and the owner's.
func (r *renderer) templateAnnotations() map[string]string {
	out := make(map[string]string, len(r.cr.Spec.PodAnnotations)+2)
	for key, value := range r.cr.Spec.PodAnnotations {
		out[key] = string(value)
	}
	out[configHashAnnotation] = r.configs.podHash
	if r.facts.CredentialsDigest != "" {
		out[credentialsAnnotation] = r.facts.CredentialsDigest
	}
	if r.facts.Restart != "" {
		out[restartedAnnotation] = r.facts.Restart
	}
	return out
}

// environment holds the credentials of the tutorial, those of S3 where the server reads it itself, and the owner's variables.
func (r *renderer) environment() []corev1.EnvVar {
	var out []corev1.EnvVar
	if usesSecret(r.cr) && r.facts.CredentialsFile != "" {
		out = append(out, corev1.EnvVar{Name: credentialsEnv, Value: join(secretPath(r.cr), r.facts.CredentialsFile)})
	}
	if s := r.cr.Spec.S3; s != nil && s.ImageReadsS3 {
		out = append(out, r.s3Environment()...)
	}
	for _, e := range r.cr.Spec.Env {
		out = append(out, corev1.EnvVar{Name: e.Name, Value: e.Value, ValueFrom: source(e.ValueFrom)})
	}
	return out
}

func source(from *v1alpha1.EnvVarSource) *corev1.EnvVarSource {
	if from == nil {
		return nil
	}
	return &corev1.EnvVarSource{
		SecretKeyRef: from.SecretKeyRef, ConfigMapKeyRef: from.ConfigMapKeyRef, FieldRef: from.FieldRef, ResourceFieldRef: from.ResourceFieldRef,
	}
}
