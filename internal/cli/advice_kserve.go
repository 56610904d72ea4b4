package cli

// kserveAdvice is on the reasons of the controller of CompositionElement.
var kserveAdvice = map[string]advice{
	"InvalidProperties": {
		meaning: "The properties that the ACM runtime has ordered do not describe a valid InferenceService.", stalled: true,
		remedy: "Correct the property that the message names, and give the order again.",
	},
	"NamespaceAbsent": {
		meaning: "The ACM runtime has ordered a service into a namespace that does not exist.",
		remedy:  "Create it with the label keeper.mlkeeper.dev/compositions=allowed, which admits orders.",
	},
	"NamespaceNotAllowed": {
		meaning: "The ACM runtime has ordered a service into a namespace that does not accept orders.", stalled: true,
		remedy: "kubectl label namespace NAME keeper.mlkeeper.dev/compositions=allowed, if orders may go there; then give the order again.",
	},
	"NotHandedOver": {
		meaning: "The ACM runtime reports a service as deployed that does not belong to the element, so MLKeeper does not modify it.",
		remedy:  "If the previous participant created it, set the annotation keeper.mlkeeper.dev/element on it, as the message says.",
	},
	"AnnotationNotAllowed": {
		meaning: "The ACM runtime has ordered a service with an annotation by which a webhook may add to its pods what nothing has judged.", stalled: true,
		remedy: "Remove the annotation and give the order again, or label the namespace pod-security.kubernetes.io/enforce=baseline.",
	},
	"PodSecurityViolation": {
		meaning: "The ACM runtime has ordered pods that violate the level baseline of the Pod Security Standards.", stalled: true,
		remedy: "Remove the fields that the message names and give the order again, or label the namespace pod-security.kubernetes.io/enforce=privileged.",
	},
	"ServiceAccountNotAllowed": {
		meaning: "The ACM runtime has ordered pods that run as a ServiceAccount which does not accept orders.", stalled: true,
		remedy: "kubectl label serviceaccount -n NAMESPACE NAME keeper.mlkeeper.dev/compositions=allowed, if orders may have its rights; then give the order again.",
	},
	"PayloadNotFound": {
		meaning: "The Secret with what the ACM runtime has ordered, in the operator's namespace, was deleted or replaced, so that the services stay as they are.",
		remedy:  "Restore the Secret that the message names, or give the order again.",
	},
	"OrderFailed": {
		meaning: "The last order of the ACM runtime has failed; MLKeeper reported the cause to the runtime, which keeps that state until its next order.",
		remedy:  "Correct the cause that the message names, and give the order again.",
	},
}
