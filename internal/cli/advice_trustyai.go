package cli

// trustyAIAdvice is on the reasons of TrustyAIService. The command line imports no controller, so that the words stand here; a
// test compares them with the reasons in the code of the controller.
var trustyAIAdvice = map[string]advice{
	"AllComponentsReady": {meaning: "All of its components are ready.", quiet: true},
	"ComponentsNotReady": {
		meaning: "Some of its objects are not ready yet.", remedy: "Wait; it goes on by itself.", vague: true,
	},
	"NotAllComponentsReady": {meaning: "Some of its components do not serve.", remedy: "Look at the objects.", vague: true},

	"DuplicateService": {
		stalled: true,
		meaning: "An older TrustyAIService of the same shape is in the namespace, and both would have the same fixed object names.",
		remedy: "Delete one of the two, or give this one spec.metrics instead of spec.trustyaiMetrics, with which its objects are " +
			"named after it.",
	},
	"InvalidSchedule": {
		stalled: true,
		meaning: "The schedule of the metrics is no duration.", remedy: "Set a duration such as 5s or 1m.",
	},
	"ScheduleAmbiguous": {
		stalled: true,
		meaning: "spec.trustyaiMetrics and spec.metrics name different schedules.", remedy: "Remove one of the two.",
	},
	"ImageNotConfigured": {
		stalled: true,
		meaning: "Neither the custom resource nor the operator names an image for the service.",
		remedy:  "Set spec.image, or the operator's flag --trustyai-image.",
	},
	"ImageGenerationUnknown": {
		stalled: true,
		meaning: "The name of the image does not tell on which ports it serves, so nothing of it is changed.",
		remedy: "Set spec.imageGeneration to Java (before v0.16.0), JavaTLS (v0.16.0 to v0.28.0) or Python; for the image of the operator, " +
			"its flag --trustyai-image-generation.",
	},
	"ExposureNotServed": {
		stalled: true,
		meaning: "The image does not serve what spec.exposure needs: Java knows no TLS, and Python serves its API to other pods over TLS alone.",
		remedy:  "Change spec.exposure or spec.image; if the image is of another generation than status.imageGeneration says, set spec.imageGeneration.",
	},
	"ProxyImageNotConfigured": {
		stalled: true,
		meaning: "A Secured service needs a proxy, and the operator has no image for it.",
		remedy:  "Set the operator's flag --trustyai-proxy-image, or spec.exposure to Plain.",
	},
	"ReplicasShareVolume": {
		stalled: true,
		meaning: "More than one pod would write to the volume, which loses data; the pods that run are left as they are.",
		remedy:  "Set spec.replicas to 1, or spec.storage.format to DATABASE.",
	},
	"FolderMissing": {
		stalled: true,
		meaning: "The folder of the data is not named.", remedy: "Set spec.storage.folder to an absolute path such as /inputs.",
	},
	"InvalidFolder": {
		stalled: true,
		meaning: "The folder of the data is no absolute path without ':' and '..'.",
		remedy:  "Set spec.storage.folder to an absolute path such as /inputs.",
	},
	"InvalidSize": {
		stalled: true,
		meaning: "The size of the storage is no positive quantity.", remedy: "Set spec.storage.size to a quantity such as 1Gi.",
	},
	"SizeDecreased": {
		stalled: true,
		meaning: "The size is less than the claim has already, and a claim cannot shrink.",
		remedy:  "Set spec.storage.size to at least what the claim has.",
	},
	"VolumeNotFound": {
		meaning: "The PersistentVolume that spec.storage.pv names does not exist, so the claim cannot be bound and no pod can start.",
		remedy: "Create that PersistentVolume; the service goes on by itself as soon as it is there. If the name is wrong, " +
			"delete the custom resource and its claim, and create it with the right one: a claim cannot change its volume.",
	},
	"VolumeBoundElsewhere": {
		meaning: "The PersistentVolume that spec.storage.pv names belongs to the claim of somebody else.",
		remedy:  "Free the PersistentVolume, or create the custom resource with another one.",
	},
	"VolumeReleased": {
		meaning: "The PersistentVolume still belongs to a claim that was deleted, and Kubernetes keeps its data from a new one.",
		remedy:  "Remove spec.claimRef.uid of the PersistentVolume if its data may be used.",
	},
	"VolumeClassDiffers": {
		meaning: "The claim and the PersistentVolume have different storage classes, so they are never bound.",
		remedy:  "Give both the same storage class.",
	},
	"VolumeTooSmall": {
		stalled: true,
		meaning: "The PersistentVolume has less than spec.storage.size.",
		remedy:  "Lower spec.storage.size, or use a larger PersistentVolume.",
	},
	"DBCredentialsNotFound": {
		meaning: "The Secret with the database's credentials does not exist; no pod is started without it.",
		remedy:  "Create the Secret that the message names; the service goes on by itself.",
	},
	"DBCredentialsError": {
		meaning: "The Secret with the database's credentials lacks keys; no pod is started without them.",
		remedy:  "Add the keys that the message names; the service goes on by itself.",
	},
	"DBConnectionError": {
		meaning: "The pods did not become ready in time, most likely for want of a connection to the database.",
		remedy:  "Look at the logs of the pods, and check address, port and password in the Secret of the database.",
	},
	"DBNotChecked": {
		meaning: "Whether the database answers is known once a pod is ready.", remedy: "Look at the pods.", vague: true,
	},
	"TLSSecretNotFound": {
		meaning: "The Secret that spec.tls.secretName names does not exist.", remedy: "Create it; the service goes on by itself.",
	},
	"TLSSecretIncomplete": {
		meaning: "The Secret that spec.tls.secretName names lacks a certificate or a key, or they do not fit.",
		remedy:  "Complete the Secret as the message says.",
	},
	"CertManagerNotServed": {
		meaning: "spec.tls.issuerRef needs cert-manager, which is not installed.",
		remedy:  "Install cert-manager, or remove spec.tls.issuerRef; then another source of certificates is used.",
	},
	"InvalidServiceMonitoring": {
		stalled: true,
		meaning: "A field of spec.serviceMonitoring is wrong, or not the custom resource's to choose; the default ServiceMonitor is used meanwhile.",
		remedy:  "Correct or remove the field that the message names.",
	},
	"MigrationFailed": {
		stalled: true,
		meaning: "The migration of the data to the database failed, and the service is back on the volume.",
		remedy: "Look at the message and the logs of the new pod, mend the cause, then set the annotation " +
			"trustyai.opendatahub.io/db-migration to another value to try again, or spec.storage.format back to PVC.",
	},
	"MigrationSourceUnknown": {
		stalled: true,
		meaning: "The data cannot be migrated without knowing in which folder and file it is.",
		remedy:  "Set spec.storage.folder and spec.data.filename as they were.",
	},
	"MigrationNeedsPod": {
		stalled: true,
		meaning: "A pod has to copy the data to the database, and none is asked for.", remedy: "Set spec.replicas to 1 or more.",
	},

	"StorageHealthy": {meaning: "The storage works.", quiet: true},
	"PVCFound":       {meaning: "The claim is bound.", quiet: true},
	"PVCNotFound": {
		meaning: "The claim of the service does not exist.", remedy: "Look why it was not made: the condition Ready says so.",
	},
	"PVCNotBound": {
		meaning: "The claim of the service is not bound to a volume.",
		remedy:  "Provide a PersistentVolume that fits, or a default StorageClass.",
	},
	"PVCLost": {
		meaning: "The volume of the claim is gone, and its data with it.",
		remedy:  "Restore the PersistentVolume from a backup, or delete the claim; it is made anew, and empty.",
	},
	"DBAvailable": {meaning: "Pods with these credentials are ready.", quiet: true},
	"RouteFound":  {meaning: "The Route is admitted.", quiet: true},
	"RouteNotFound": {
		meaning: "The Route does not exist yet.", remedy: "Look why it was not made: the condition Ready says so.",
	},
	"RouteNotAdmitted": {
		meaning: "No router has admitted the Route.", remedy: "Look at the status of the Route: its host may be taken, or no router selects it.",
	},
	"RouteAPINotServed":      {meaning: "The cluster has no Routes, so there is none; that is no fault.", quiet: true},
	"PartialFunctionality":   {meaning: "Some of its components serve and others do not.", remedy: "Look at the objects.", vague: true},
	"NoFunctionality":        {meaning: "None of its components serves.", remedy: "Look at the objects.", vague: true},
	"FullyFunctional":        {meaning: "All components work.", quiet: true},
	"ProvisioningComplete":   {meaning: "It has been made in full.", quiet: true},
	"ProvisioningInProgress": {meaning: "It is being made.", remedy: "Wait; it goes on by itself.", vague: true},

	"InferenceServicesFound":    {meaning: "There are InferenceServices in the namespace.", quiet: true},
	"InferenceServicesNotFound": {meaning: "There are no InferenceServices in the namespace; that is no fault.", quiet: true},
	"ModelMeshHealthy":          {meaning: "ModelMesh runs and sends its payloads.", quiet: true},
	"NotInstalled":              {meaning: "ModelMesh is not in the namespace; that is no fault.", quiet: true},
	"ModelMeshNotAvailable": {
		meaning: "ModelMesh does not have all its pods.", remedy: "Look at the Deployment that the message names.",
	},
	"NotWired": {
		meaning: "ModelMesh does not send its payloads to the service yet.", remedy: "Wait; it is wired once the service is available.",
	},

	"Wired":       {meaning: "Payloads arrive.", quiet: true},
	"PreExisting": {meaning: "The user had this very entry before; it stays when the service goes.", quiet: true},
	"Pending":     {meaning: "It is being wired.", remedy: "Wait a moment.", quiet: true},
	"NotServed": {
		meaning: "The entry is there, and the image of the service does not serve that address, or is not known to.",
		remedy:  "Look at the condition Ready of the service: spec.image, spec.imageGeneration and spec.exposure must fit together.",
	},
	"NotReachable": {meaning: "It is wired once the service is available.", remedy: "Wait until the service is Ready."},
	"NotSelected": {
		meaning: "spec.inferenceServices.selector does not select it.", remedy: "Change the selector or its labels if it should.", quiet: true,
	},
	"SelectorInvalid": {
		meaning: "spec.inferenceServices.selector cannot be used.", remedy: "Correct the selector.",
	},
	"ManagedByAnotherService": {
		meaning: "Another TrustyAIService wires it.", remedy: "Nothing, if that is wanted; else delete the one that the message names.", quiet: true,
	},
	"UserConfigured": {
		meaning: "It has a logger of its user, which is never overwritten.", remedy: "Remove spec.predictor.logger to have it wired.",
	},
	"NoPredictor":  {meaning: "It has no predictor to set a logger on.", remedy: "Give it a predictor."},
	"NoContainers": {meaning: "The Deployment has no containers that could be read.", remedy: "Correct the Deployment."},
	"ModelMesh":    {meaning: "ModelMesh sends its payloads, once ModelMesh itself is wired.", quiet: true},
	"DeploymentModeUnknown": {
		meaning: "Its deployment mode is none that is known.", remedy: "Use Standard, RawDeployment, Serverless, Knative or ModelMesh.",
	},
	"DeploymentModePending": {
		meaning: "KServe has not told yet how it deploys it, and where payloads go depends on that.",
		remedy: "See that KServe's controller runs; it is wired once status.deploymentMode of the InferenceService is set. Where KServe " +
			"is older than 0.9, set its annotation serving.kserve.io/deploymentMode.",
	},
	"EnvFromSource": {
		meaning: "A container takes the variable of the payload processors from elsewhere, to which nothing can be added.",
		remedy:  "Give the variable a plain value, or none.",
	},
	"MountPathConflict": {
		meaning: "Another volume is mounted where the certificate belongs.", remedy: "Remove that mount.",
	},
	"VolumeConflict": {
		meaning: "A volume of another kind has the name of the certificate's.", remedy: "Rename that volume.",
	},
	"ConfigNotYAML": {
		meaning: "The configuration of ModelMesh is not one YAML mapping, so it stays as it is.", remedy: "Correct config.yaml.",
	},
	"ConfigTooLarge": {
		meaning: "The configuration of ModelMesh is too large to be edited safely.", remedy: "Add the URL by hand, or shorten config.yaml.",
	},
	"ConfigNotEditable": {
		meaning: "The configuration of ModelMesh is written in a way that cannot be edited safely.", remedy: "Write payloadProcessors as plain text.",
	},
	"ConfigImmutable": {
		meaning: "The ConfigMap of ModelMesh is immutable.", remedy: "Replace it by one that is not.",
	},
}
