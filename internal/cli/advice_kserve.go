package cli

// kserveAdvice is on the reasons of the room of CompositionElement.
var kserveAdvice = map[string]advice{
	"InvalidProperties": {
		meaning: "No InferenceService can be made of the properties that the ACM runtime has ordered.", stalled: true,
		remedy: "Correct the property that the message names, and give the order again.",
	},
	"OrderFailed": {
		meaning: "The last order of the ACM runtime has failed; the runtime was told why.",
		remedy:  "Mend what the message names, and give the order again; a deployment that succeeds late is acknowledged by itself.",
	},
}
