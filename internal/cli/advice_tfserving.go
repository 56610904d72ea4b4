package cli

// tfservingAdvice is on the reasons of the controller of Tfserv.
var tfservingAdvice = map[string]advice{
	"ModelsNotDeclared": {
		meaning: "It names neither a ConfigMap with a model config nor models.", stalled: true,
		remedy: "Name a ConfigMap in spec.configMap, or declare spec.models.",
	},
	"ConfigMapNotFound": {
		meaning: "The ConfigMap with the model config does not exist.",
		remedy:  "Create it, or name the one that there is in spec.configMap; nothing else has to be done.",
	},
	"ConfigMapKeyNotFound": {
		meaning: "The ConfigMap has no key of the name in spec.configFileName.",
		remedy:  "Add the model config under that key, or name the key that there is.",
	},
	"ConfigInvalid": {
		meaning: "TensorFlow Serving would refuse the model config, so that the servers keep the one they were started with.", stalled: true,
		remedy: "Correct what the message names.",
	},
	"SecretNotFound": {
		meaning: "The Secret with the credentials does not exist.",
		remedy:  "Create it, or take secretName and secretFileName out for models that need none.",
	},
	"SecretKeyNotFound": {
		meaning: "The Secret has no key of the name in spec.secretFileName, or several of that form.",
		remedy:  "Add the credentials under that key, or name the one that there is.",
	},
	"ClaimNotFound": {
		meaning: "The claim with the models does not exist.",
		remedy:  "Create the PersistentVolumeClaim that spec.modelVolume.claimName names, and put the models onto it.",
	},
	"S3NotReadable": {
		meaning: "A model is below s3://, which TensorFlow Serving has not been able to read since 2.7.", stalled: true,
		remedy: "Name an image that downloads it in spec.s3.downloader.image, or declare one that reads S3 with spec.s3.imageReadsS3.",
	},
	"PathTaken": {
		meaning: "Two of its volumes would be mounted at one path.", stalled: true,
		remedy: "Choose another path for one of the two.",
	},
	"ConfigAccepted": {meaning: "TensorFlow Serving takes the model config.", quiet: true},
	"RollingOut":     {meaning: "The pods are being replaced.", quiet: true},
	"RolledOut":      {meaning: "Every pod is as declared.", quiet: true},
	"Waiting":        {meaning: "The Deployment is left as it is until a problem is solved.", quiet: true, vague: true},
	"InvalidInterval": {
		stalled: true,
		meaning: "The scrape interval is shorter than a second, or no duration; the default is used meanwhile.",
		remedy:  "Set spec.monitoring.interval to 1s or more.",
	},
	"ModelsAvailable":     {meaning: "Every server has every model available.", quiet: true},
	"EndpointUnreachable": {meaning: "No model server answers at its REST endpoint.", quiet: true},
	"ModelsUnavailable": {
		meaning: "A server has a model that is not available.",
		remedy:  "Look at the path of the model and at the credentials; status.models has what the servers say.",
	},
	"ProgressDeadlineExceeded": {
		meaning: "The new pods did not become ready in time; those before serve on.",
		remedy:  "Look at the events and the log of the new pods.",
	},
}
