package cli

// seldonAdvice is on the reasons of the controller of SeldonOperator.
var seldonAdvice = map[string]advice{
	"ChartFailed": {
		meaning: "A chart cannot be read or rendered with its values; its running objects are unchanged.", stalled: true,
		remedy: "Correct the values or the chart that the message names; helm template shows the same.",
	},
	"ValuesInvalid": {
		meaning: "The values of a component are not a map in YAML.", stalled: true,
		remedy: "Correct the field, or the key of the ConfigMap or Secret, that the message names.",
	},
	"RolledBack": {
		meaning: "A revision of a component has failed, and the last one that was ready is applied again, as its upgrade.onFailure asks.", stalled: true,
		remedy: "Correct the values or the chart; the message says why it failed. `mlkeeper reconcile` tries it again as it is; delete a hook that has " +
			"failed before.",
	},
	"GeneratingCredentials": {meaning: "Generated credentials are being stored in a Secret.", quiet: true},
	"ComponentNotReady":     {meaning: "A component that is switched on is not ready yet.", quiet: true},
	"CredentialsMissing": {
		meaning: "The values of Seldon Deploy name a Secret that does not exist or misses a key; its pods would not start.",
		remedy:  "Create the Secret with the keys that the message names.",
	},
	"IstioNotInstalled": {
		meaning: "Routing needs Istio, whose APIs the cluster does not serve.",
		remedy:  "Install Istio, for instance with istioctl install -y, or set spec.enable.routing to false.",
	},
	"KnativeNotInstalled": {
		meaning: "Detectors need Knative Eventing and Serving, whose APIs the cluster does not serve.",
		remedy:  "Install them, or set spec.enable.detectors to false.",
	},
	"RoutingDisabled": {
		meaning: "Detectors are reached through routing, which is switched off.",
		remedy:  "Set spec.enable.routing to true.",
	},
}
