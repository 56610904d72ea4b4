package cli

// kubeflowAdvice is on the reasons of the room of KfDef.
var kubeflowAdvice = map[string]advice{
	"NotTrusted": {
		meaning: "The applications of a KfDef are applied with the operator's own rights, which its administrator has not allowed.",
		remedy:  "Install config/trusted, which starts the manager with --kubeflow-trusted.", stalled: true,
	},
	"Fetching": {meaning: "Its repositories are being fetched and rendered.", quiet: true},
	"ApplicationFailed": {
		meaning: "An application cannot be rendered; the others are applied.", stalled: true,
		remedy: "Correct what the message names.",
	},
}
