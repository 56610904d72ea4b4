package cli

// tfservingAdvice is on the reasons of the controller of Tfserv.
var tfservingAdvice = map[string]advice{
	"ModelsNotDeclared": {
		meaning: "It names neither a ConfigMap with a model config nor models.", stalled: true,
		remedy: "Name a ConfigMap in spec.configMap, or declare spec.models.",
	},
	"ConfigMapNotFound": {
		meaning: "The ConfigMap with the model config does not exist.",
		remedy:  "Create it, or name the existing one in spec.configMap.",
	},
	"ConfigMapKeyNotFound": {
		meaning: "The ConfigMap has no key with the name in spec.configFileName.",
		remedy:  "Add the model config under that key, or name the existing key.",
	},
	"ConfigInvalid": {
		meaning: "TensorFlow Serving would refuse the model config, or the TLS of spec.server.tls, so the servers keep their current one.", stalled: true,
		remedy: "Correct the model config, or the Secret with the TLS, as the message says.",
	},
	"SecretNotFound": {
		meaning: "The Secret with the credentials does not exist.",
		remedy:  "Create it, or remove secretName and secretFileName if the models need no credentials.",
	},
	"SecretKeyNotFound": {
		meaning: "The Secret has no key with the name in spec.secretFileName, or several that match it.",
		remedy:  "Add the credentials under that key, or name the existing key.",
	},
	"ClaimNotFound": {
		meaning: "The claim that the spec names does not exist.",
		remedy:  "Create the PersistentVolumeClaim that the message names; a Tfserv needs the models in it.",
	},
	"S3NotReadable": {
		meaning: "A model is below s3://, which TensorFlow Serving has not been able to read since 2.7.", stalled: true,
		remedy: "Name an image that downloads it in spec.s3.downloader.image, or set spec.s3.imageReadsS3 if spec.image reads S3.",
	},
	"PathTaken": {
		meaning: "Two of its volumes have the same mount path.", stalled: true,
		remedy: "Choose another path for one of the two.",
	},
	"ConfigAccepted": {meaning: "TensorFlow Serving accepts the model config.", quiet: true},
	"RollingOut":     {meaning: "The pods are being replaced.", quiet: true},
	"RolledOut":      {meaning: "Every pod is as declared.", quiet: true},
	"Waiting":        {meaning: "The Deployment is not modified until a problem is solved.", quiet: true, vague: true},
	"InvalidInterval": {
		stalled: true,
		meaning: "The scrape interval is shorter than a second, or not a duration; the Deployment is left as it is meanwhile.",
		remedy:  "Set spec.monitoring.interval to 1s or more.",
	},
	"ModelsAvailable":     {meaning: "Every server has every model available.", quiet: true},
	"EndpointUnreachable": {meaning: "No model server is ready, or none answers at its REST endpoint.", quiet: true},
	"ModelsUnavailable": {
		meaning: "A server has a model that is not available, or is not ready since that is so of the first one.",
		remedy:  "Check the path of the model and the credentials; status.models has the errors of the servers that are ready.",
	},
	"ProgressDeadlineExceeded": {
		meaning: "The new pods did not become ready in time; the previous pods still serve.",
		remedy:  "Look at the events and the logs of the new pods.",
	},
	"ImagePullBackOff": {
		meaning: "The image of a pod cannot be pulled.",
		remedy:  "Check that the image exists in the registry, that the nodes reach it, and that spec.imagePullSecrets may pull it.",
	},
	"CreateContainerConfigError": {
		meaning: "A container of a pod cannot be started.",
		remedy:  "Create the ConfigMap, Secret or key that the message names.",
	},
	"CrashLoopBackOff": {
		meaning: "A container of a pod ends each time it is started; the message has its exit code and the end of its log.",
		remedy:  "Correct what it says: mostly a model that does not load, an argument, or credentials.",
	},
	"OOMKilled": {
		meaning: "A container of a pod needed more memory than its limit allows.",
		remedy:  "Raise spec.resources.limits.memory: a model needs twice its size while a new version replaces the old one.",
	},
	"FailedCreate": {
		meaning: "A further pod was refused, such as by a quota; the previous pods still serve.",
		remedy:  "Correct what refuses it, as the message says, or let a pod stop before another starts with spec.strategy.",
	},
	"Unschedulable": {
		meaning: "No node has room for a pod, such as a free GPU.",
		remedy:  "Add nodes, lower spec.resources, or let a pod stop before another starts with spec.strategy.",
	},
	"InitialModelsNotLoaded": {
		meaning: "A server runs and has not loaded its initial models, for which TensorFlow Serving waits without an error.",
		remedy:  "Check that each base path exists, has a folder with a number as its name, and that the credentials may read it.",
	},
	"CanaryAvailable": {meaning: "Every ready server of the canary has its version available.", quiet: true},
	"VersionUnavailable": {
		meaning: "A ready server of the canary does not have its version available, so that the canary gets no requests.",
		remedy:  "Check that the folder of the version exists below the base path of the model; status.canary has what the server says.",
	},
	"ModelNotFound": {
		meaning: "The model config has no model with the name in spec.canary.model, so that there is no canary.",
		remedy:  "Correct spec.canary.model, or add the model to the config.",
	},
	"Paused":   {meaning: "spec.replicas is 0, which stops the servers of the canary too.", quiet: true},
	"Promoted": {meaning: "The canary was promoted and gets no requests; spec.canary can go.", quiet: true},
	"Aborted":  {meaning: "The canary was aborted and gets no requests; spec.canary can go.", quiet: true},
}
