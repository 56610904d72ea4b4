package cli

// kubeflowAdvice is on the reasons of the controller of KfDef.
var kubeflowAdvice = map[string]advice{
	"ServiceAccountRequired": {
		meaning: "What users bring is written with the rights of a ServiceAccount of the namespace, and none is named.",
		remedy: "Name one in spec.serviceAccountName and grant it what the objects need, as the message shows; or, if all authors are " +
			"trusted, switch on config/components/trusted.", stalled: true,
	},
	"ServiceAccountNotFound": {
		meaning: "The ServiceAccount whose rights the objects are written with does not exist.",
		remedy:  "Create it and grant it what the objects need, as the message shows.",
	},
	"KeyMissing": {
		meaning: "The ConfigMap or Secret that is to hold an archive or values has no such entry.",
		remedy:  "Put it there under the key that the message names.",
	},
	"Fetching": {meaning: "Its repositories or charts are being fetched and rendered.", quiet: true},
	"ApplicationFailed": {
		meaning: "An application cannot be rendered or put in order; the others are applied.", stalled: true,
		remedy: "Correct what the message names.",
	},
}
