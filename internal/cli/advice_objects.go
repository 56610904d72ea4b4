package cli

// objectAdvice is on the reasons of objects that are not healthy: those of internal/engine/health and of the kubelet.
// Only the remedies are used, since the health has a sentence of its own.
var objectAdvice = map[string]string{
	"ImagePullBackOff": "Check that the image's name and tag exist in the registry, that the nodes reach it, and that the " +
		"pod's imagePullSecrets or service account may pull it.",
	"ErrImageNeverPull":          "Load the image onto the node, or let its pull policy pull it.",
	"InvalidImageName":           "Correct the name of the image.",
	"ImageInspectError":          "Look at the node: its image store is damaged.",
	"CrashLoopBackOff":           "Read the logs of the container with `kubectl logs --previous`.",
	"CreateContainerConfigError": "Create the ConfigMap, Secret or key that the event names.",
	"CreateContainerError":       "Look at the events of the pod; the node cannot create the container.",
	"Unschedulable":              "Add nodes, or lower the requests of the pod.",
	"NotScheduled":               "Check that the cluster has a scheduler and nodes that are ready.",
	"NodeLost":                   "Look at the node of the pod; it does not report its status.",
	"Evicted":                    "Free the resource that the node has too little of.",
	"ProgressDeadlineExceeded":   "Look at the pods of the Deployment: the new ones do not become ready.",
	"FailedCreate":               "Correct the cause of the refused pods: a quota, a policy or a missing service account.",
	"ReplicaFailure":             "Correct the cause of the refused pods: a quota, a policy or a missing service account.",
	"Pending":                    "Provide a PersistentVolume that fits the claim, or a default StorageClass with a provisioner.",
	"Lost":                       "Restore the volume from a backup, or delete the claim to start empty.",
	"Paused":                     "Resume the rollout with `kubectl rollout resume`.",
	"NotFound":                   "Nothing, if a manager runs: it recreates the object. Otherwise start one.",
	"NotServed":                  "Install the CustomResourceDefinition of the kind again.",
	"Deleting":                   "Wait, or look at the finalizers of the object: the controller that set one has to remove it.",
	"NotObserved":                "Check that the controller of the kind runs; it has not observed the object yet.",
	"ExpressionsCostTooMuch": "Write cheaper healthCheckExprs, or for fewer kinds: their cost for one custom resource is bounded, and the rest " +
		"is evaluated ten seconds later.",
	"Malformed": "Look at the object: its status does not fit its API.",
}
