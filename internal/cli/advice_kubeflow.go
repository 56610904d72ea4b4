package cli

// kubeflowAdvice is on the reasons of the room of KfDef.
var kubeflowAdvice = map[string]advice{
	"NotTrusted": {
		meaning: "The applications of a KfDef are written with the rights of a ServiceAccount of its namespace, and it names none.",
		remedy: "Name one in spec.serviceAccountName and grant it what the applications need, as the message shows; or, if all authors of " +
			"KfDefs are trusted, install config/trusted.", stalled: true,
	},
	"ServiceAccountNotFound": {
		meaning: "The ServiceAccount whose rights the applications are written with does not exist.",
		remedy:  "Create it and grant it what the applications need, as the message shows.",
	},
	"KeyMissing": {
		meaning: "The ConfigMap or Secret that is to hold an archive has no such entry.",
		remedy:  "Put the archive there under the key that the message names.",
	},
	"Fetching": {meaning: "Its repositories are being fetched and rendered.", quiet: true},
	"ApplicationFailed": {
		meaning: "An application cannot be rendered or put in order; the others are applied.", stalled: true,
		remedy: "Correct what the message names.",
	},
}
