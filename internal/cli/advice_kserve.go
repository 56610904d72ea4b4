package cli

// kserveAdvice is on the reasons of the controller of CompositionElement.
var kserveAdvice = map[string]advice{
	"InvalidProperties": {
		meaning: "No InferenceService can be made of the properties that the ACM runtime has ordered.", stalled: true,
		remedy: "Correct the property that the message names, and give the order again.",
	},
	"NamespaceAbsent": {
		meaning: "The ACM runtime has ordered a service into a namespace that does not exist.",
		remedy:  "Create it with the label keeper.mlkeeper.dev/compositions=allowed, which lets orders in.",
	},
	"NamespaceNotAllowed": {
		meaning: "The ACM runtime has ordered a service into a namespace that takes no orders.", stalled: true,
		remedy: "kubectl label namespace NAME keeper.mlkeeper.dev/compositions=allowed, if orders may go there; then give the order again.",
	},
	"NotHandedOver": {
		meaning: "The ACM runtime calls a service deployed that nothing says is the element's, so it is left alone.",
		remedy:  "If the participant before us made it, set the annotation keeper.mlkeeper.dev/element on it, as the message says.",
	},
	"OrderFailed": {
		meaning: "The last order of the ACM runtime has failed; the runtime was told why, and keeps it until its next order.",
		remedy:  "Mend what the message names, and give the order again.",
	},
}
