package cli

// kubeflowAdvice is on the reasons of the controller of KfDef.
var kubeflowAdvice = map[string]advice{
	"ServiceAccountRequired": {
		meaning: "MLKeeper applies manifests and charts of users with the rights of a ServiceAccount of the namespace, and none is named.",
		remedy: "Name one in spec.serviceAccountName and grant it the rights that the objects need, as the message shows; or, if all authors are " +
			"trusted, switch on config/components/trusted.", stalled: true,
	},
	"ServiceAccountNotFound": {
		meaning: "The ServiceAccount with whose rights the objects are applied does not exist.",
		remedy:  "Create it and grant it the rights that the objects need, as the message shows.",
	},
	"KeyMissing": {
		meaning: "The ConfigMap or Secret with an archive or values does not have the key.",
		remedy:  "Add the key that the message names.",
	},
	"ServiceAccountRefused": {
		meaning: "It is in a namespace of the control plane or of MLKeeper, whose ServiceAccounts nothing is applied as.", stalled: true,
		remedy: "Create it in another namespace.",
	},
	"ServiceAccountTokenRefused": {
		meaning: "A Secret that it names for a repository, an archive or values is the token of a ServiceAccount, which MLKeeper sends nowhere.", stalled: true,
		remedy: "Name a Secret that holds what the repository or the chart needs.",
	},
	"Fetching": {meaning: "Its repositories or charts are being fetched and rendered.", quiet: true},
	"ApplicationFailed": {
		meaning: "An application cannot be rendered or ordered; the others are applied.", stalled: true,
		remedy: "Correct the application as the message says; set spec.rendering where it names that.",
	},
	"DependencyUnknown": {
		meaning: "It depends on a KfDef that does not exist, or that is in another namespace and its ServiceAccount may not read.",
		remedy:  "Create that KfDef or correct its name, or have the right get on it granted to the ServiceAccount.",
	},
	"DependencyCycle": {
		meaning: "Its dependsOn leads back to itself by way of other KfDefs, so that none of them would ever begin.", stalled: true,
		remedy: "Remove one of the dependencies that the message names.",
	},
	"ResultTooLarge": {
		meaning: "What it renders takes more of the manager's memory than one namespace may have; what was rendered before stays declared.",
		stalled: true,
		remedy:  "Split it among namespaces, leave out what is not needed, or have an administrator raise --result-memory.",
	},
	"RenderingAmbiguous": {
		meaning: "Some of its applications are those of kfctl, and others are such as kfctl could not render, so that either rendering would be a guess.",
		stalled: true,
		remedy:  "Set spec.rendering to Kfctl or to Kustomize; the message names an application of each kind.",
	},
}
