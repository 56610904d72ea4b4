package cli

// trustyAIAdvice is on the reasons of TrustyAIService. The command line imports no controller, so the texts are here; a
// test compares them with the reasons in the code of the controller.
var trustyAIAdvice = map[string]advice{
	"AllComponentsReady": {meaning: "All of its components are ready.", quiet: true},
	"ScaledToZero": {
		meaning: "It is as declared, and serves nobody: spec.replicas is 0.", remedy: "Raise spec.replicas when it is to serve.",
	},
	"ComponentsNotReady": {
		meaning: "Some of its objects are not ready yet.", remedy: "Wait; it recovers automatically.", vague: true,
	},
	"NotAllComponentsReady": {meaning: "Some of its components are not available.", remedy: "Look at the objects.", vague: true},

	"DuplicateService": {
		stalled: true,
		meaning: "An older TrustyAIService of the same shape is in the namespace, and both would use the same fixed object names.",
		remedy: "Delete one of the two, or recreate this one with spec.metrics instead of spec.trustyaiMetrics: its objects are then " +
			"named after it.",
	},
	"InvalidSchedule": {
		stalled: true,
		meaning: "The schedule of the metrics is not a duration.", remedy: "Set a duration such as 5s or 1m.",
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
		meaning: "The name of the image does not identify the ports on which it serves, so MLKeeper does not modify its objects.",
		remedy: "Set spec.imageGeneration to Java (before v0.16.0), JavaTLS (v0.16.0 to v0.28.0) or Python; for the image of the operator, " +
			"its flag --trustyai-image-generation.",
	},
	"ExposureNotServed": {
		stalled: true,
		meaning: "The image does not support spec.exposure: Java has no TLS, and Python serves its API to other pods only over TLS.",
		remedy:  "Change spec.exposure or spec.image; if the image is of another generation than status.imageGeneration says, set spec.imageGeneration.",
	},
	"ProxyImageNotConfigured": {
		stalled: true,
		meaning: "A Secured service needs a proxy, and the operator has no image for it.",
		remedy:  "Set the operator's flag --trustyai-proxy-image, or spec.exposure to Plain.",
	},
	"ReplicasShareVolume": {
		stalled: true,
		meaning: "More than one pod would write to the volume, which loses data; the running pods are unchanged.",
		remedy:  "Set spec.replicas to 1, or spec.storage.format to DATABASE.",
	},
	"FolderMissing": {
		stalled: true,
		meaning: "The folder of the data is not named.", remedy: "Set spec.storage.folder to an absolute path such as /inputs.",
	},
	"InvalidFolder": {
		stalled: true,
		meaning: "The folder of the data is not an absolute path without ':' and '..'.",
		remedy:  "Set spec.storage.folder to an absolute path such as /inputs.",
	},
	"InvalidSize": {
		stalled: true,
		meaning: "The size of the storage is not a positive quantity.", remedy: "Set spec.storage.size to a quantity such as 1Gi.",
	},
	"SizeDecreased": {
		stalled: true,
		meaning: "The size is less than that of the claim, and a claim cannot shrink.",
		remedy:  "Set spec.storage.size to at least the size of the claim.",
	},
	"VolumeNotFound": {
		meaning: "The PersistentVolume that spec.storage.pv names does not exist, so the claim cannot be bound and no pod can start.",
		remedy: "Create that PersistentVolume; the service then recovers automatically. If the name is wrong, " +
			"delete the custom resource and its claim, and create it with the right one: a claim cannot change its volume.",
	},
	"VolumeBoundElsewhere": {
		meaning: "The PersistentVolume that spec.storage.pv names belongs to another claim.",
		remedy:  "Free the PersistentVolume, or create the custom resource with another one.",
	},
	"VolumeReleased": {
		meaning: "The PersistentVolume still belongs to a deleted claim, and Kubernetes does not give its data to a new one.",
		remedy:  "Remove spec.claimRef.uid of the PersistentVolume if its data may be used.",
	},
	"VolumeClassDiffers": {
		meaning: "The claim and the PersistentVolume have different storage classes, so they are never bound.",
		remedy:  "Give both the same storage class.",
	},
	"VolumeTooSmall": {
		stalled: true,
		meaning: "The PersistentVolume is smaller than spec.storage.size.",
		remedy:  "Lower spec.storage.size, or use a larger PersistentVolume.",
	},
	"DBCredentialsNotFound": {
		meaning: "The Secret with the database's credentials does not exist; no pod starts without it.",
		remedy:  "Create the Secret that the message names; the service then recovers automatically.",
	},
	"DBCredentialsError": {
		meaning: "The Secret with the database's credentials, or that with its authority, misses keys; no pod starts without them.",
		remedy:  "Add the keys that the message names; the service then recovers automatically.",
	},
	"DBNotChecked": {
		meaning: "Whether the database answers is known once a pod is ready.", vague: true,
		remedy: "Look at the events and logs of the pods; where they cannot connect, check address, port and password in the Secret of the database.",
	},
	"DBServiceNotFound": {
		meaning: "The namespace has no Service of the name that the Secret of the database has as databaseService, and no pod is ready.",
		remedy: "Create the Service, or correct databaseService in the Secret; name a host outside of the cluster with its domain. The service " +
			"recovers once its pods reach the database.",
	},
	"DBPortNotFound": {
		meaning: "The Service of the database does not have the port that its Secret has as databasePort, and no pod is ready.",
		remedy:  "Correct databasePort in the Secret, or add the port to the Service.",
	},
	"DBServiceNotReady": {
		meaning: "The Service of the database has no ready endpoint, and no pod is ready.",
		remedy: "Look at the pods of the database, and whether the selector of its Service matches their labels; the service recovers once its " +
			"pods reach the database.",
	},
	"TLSSecretNotFound": {
		meaning: "The Secret that spec.tls.secretName names does not exist.", remedy: "Create it; the service then recovers automatically.",
	},
	"TLSSecretIncomplete": {
		meaning: "The Secret that spec.tls.secretName names misses a certificate or a key, or they do not match.",
		remedy:  "Complete the Secret as the message says.",
	},
	"EnvReserved": {
		stalled: true,
		meaning: "A variable of spec.env is one that MLKeeper sets itself; the pods that run are left as they are.",
		remedy:  "Remove the variable that the message names.",
	},
	"ClaimLost": {
		meaning: "The claim that spec.storage.existingClaim names has lost its volume.",
		remedy:  "Restore the PersistentVolume, or recreate the TrustyAIService with another claim.",
	},
	"ClaimShared": {
		stalled: true,
		meaning: "An older TrustyAIService keeps its files on the claim that spec.storage.existingClaim names.",
		remedy:  "Delete one of the two, or recreate this one with another claim.",
	},
	"CertificateExpired": {
		meaning: "The certificate of the service has expired, so that its callers refuse it.",
		remedy:  "Replace the certificate in the Secret that the message names, or let its issuer renew it as the message says.",
	},
	"CertManagerNotServed": {
		meaning: "spec.tls.issuerRef needs cert-manager, which is not installed.",
		remedy:  "Install cert-manager, or remove spec.tls.issuerRef; then another source of certificates is used.",
	},
	"InvalidServiceMonitoring": {
		stalled: true,
		meaning: "A field of spec.serviceMonitoring is wrong, or may not be set there; the ServiceMonitor stays as it is.",
		remedy:  "Correct or remove the field that the message names.",
	},
	"MigrationFailed": {
		stalled: true,
		meaning: "The migration of the data to the database failed, and the service uses the volume again.",
		remedy: "Look at the message and the logs of the new pod, correct the cause, then set the annotation " +
			"trustyai.opendatahub.io/db-migration to another value to try again, or spec.storage.format back to PVC.",
	},
	"MigrationSourceUnknown": {
		stalled: true,
		meaning: "The data cannot be migrated, since its folder and file are not known.",
		remedy:  "Set spec.storage.folder and spec.data.filename to their previous values.",
	},
	"MigrationNeedsPod": {
		stalled: true,
		meaning: "A pod has to copy the data to the database, and spec.replicas is 0.", remedy: "Set spec.replicas to 1 or more.",
	},

	"StorageHealthy": {meaning: "The storage works.", quiet: true},
	"PVCFound":       {meaning: "The claim is bound.", quiet: true},
	"PVCNotFound": {
		meaning: "The claim of the service does not exist.", remedy: "Look at the condition Ready, which says why it was not created.",
	},
	"PVCNotBound": {
		meaning: "The claim of the service is not bound to a volume.",
		remedy:  "Provide a PersistentVolume that fits, or a default StorageClass.",
	},
	"PVCLost": {
		meaning: "The volume of the claim is gone, and its data with it.",
		remedy:  "Restore the PersistentVolume from a backup, or delete the claim; MLKeeper recreates it, without data.",
	},
	"DBAvailable": {meaning: "Pods are ready, which they are with a connection to the database.", quiet: true},
	"RouteFound":  {meaning: "The Route is admitted.", quiet: true},
	"RouteNotFound": {
		meaning: "The Route does not exist yet.", remedy: "Look at the condition Ready, which says why it was not created.",
	},
	"RouteNotAdmitted": {
		meaning: "No router has admitted the Route.", remedy: "Look at the status of the Route: its host may be in use, or no router selects it.",
	},
	"RouteAPINotServed":      {meaning: "The cluster has no Routes, so there is none; that is not a problem.", quiet: true},
	"PartialFunctionality":   {meaning: "Some of its components are available and others are not.", remedy: "Look at the objects.", vague: true},
	"NoFunctionality":        {meaning: "None of its components is available.", remedy: "Look at the objects.", vague: true},
	"FullyFunctional":        {meaning: "All components work.", quiet: true},
	"ProvisioningComplete":   {meaning: "All of its objects have been created.", quiet: true},
	"ProvisioningInProgress": {meaning: "Its objects are being created.", remedy: "Wait; it recovers automatically.", vague: true},

	"InferenceServicesFound":    {meaning: "There are InferenceServices in the namespace.", quiet: true},
	"InferenceServicesNotFound": {meaning: "There are no InferenceServices in the namespace; that is not a problem.", quiet: true},
	"ModelMeshHealthy":          {meaning: "ModelMesh runs and sends its payloads.", quiet: true},
	"NotInstalled":              {meaning: "ModelMesh is not in the namespace; that is not a problem.", quiet: true},
	"ModelMeshNotAvailable": {
		meaning: "Some pods of ModelMesh are missing.", remedy: "Look at the Deployment that the message names.",
	},
	"NotWired": {
		meaning: "ModelMesh does not send its payloads to the service yet.", remedy: "Wait; it is wired once the service is available.",
	},

	"Wired":       {meaning: "Payloads arrive.", quiet: true},
	"PreExisting": {meaning: "The same entry existed before; it stays when the service is deleted.", quiet: true},
	"Pending":     {meaning: "It is being wired.", remedy: "Wait a moment.", quiet: true},
	"NotServed": {
		meaning: "The entry exists, but the image of the service does not serve that address, its generation is unknown, or the logger has no TLS.",
		remedy: "Look at the condition Ready of the service: spec.image, spec.imageGeneration and spec.exposure must fit together. Remove " +
			"spec.predictor.logger of an InferenceService whose logger has no TLS: MLKeeper sets another one.",
	},
	"NotReachable": {meaning: "It is wired once the service is available.", remedy: "Wait until the service is Ready."},
	"OptedOut": {
		meaning: "The InferenceService has the annotation keeper.mlkeeper.dev/wire with the value false.",
		remedy:  "Remove the annotation if it should be wired.", quiet: true,
	},
	"NotSelected": {
		meaning: "spec.inferenceServices.selector does not select it.", remedy: "Change the selector or its labels if it should.", quiet: true,
	},
	"SelectorInvalid": {
		meaning: "spec.inferenceServices.selector cannot be used.", remedy: "Correct the selector.", stalled: true,
	},
	"ManagedByAnotherService": {
		meaning: "Another TrustyAIService wires it.", quiet: true,
		remedy: "Nothing, if that is wanted; otherwise delete the one that the message names, or resume it if it is suspended.",
	},
	"UserConfigured": {
		meaning: "It has a logger that a user configured, which MLKeeper does not overwrite.", remedy: "Remove spec.predictor.logger to have it wired.",
	},
	"NoPredictor":  {meaning: "It has no predictor to set a logger on.", remedy: "Give it a predictor."},
	"NoContainers": {meaning: "The Deployment has no containers that could be read, or too large ones.", remedy: "Correct the Deployment."},
	"ModelMesh":    {meaning: "ModelMesh sends the payloads of all its models, once ModelMesh itself is wired.", quiet: true},
	"DeploymentModeUnknown": {
		meaning: "Its deployment mode is unknown.", remedy: "Use Standard, RawDeployment, Serverless, Knative or ModelMesh.",
	},
	"DeploymentModePending": {
		meaning: "KServe has not reported its deployment mode yet, and the address of its logger depends on that.",
		remedy: "Check that KServe's controller runs; it is wired once status.deploymentMode of the InferenceService is set. Where KServe " +
			"is older than 0.9, set its annotation serving.kserve.io/deploymentMode.",
	},
	"EnvFromSource": {
		meaning: "A container reads the variable of the payload processors from another object, to which MLKeeper cannot add an entry.",
		remedy:  "Give the variable a plain value, or none.",
	},
	"MountPathConflict": {
		meaning: "Another volume is mounted at the path of the certificate.", remedy: "Remove that mount.",
	},
	"VolumeConflict": {
		meaning: "A volume of another kind has the name of the certificate's volume.", remedy: "Rename that volume.",
	},
	"ConfigNotYAML": {
		meaning: "The configuration of ModelMesh is not one YAML mapping, so it is not modified.", remedy: "Correct config.yaml.",
	},
	"ConfigTooLarge": {
		meaning: "The configuration of ModelMesh is too large to be edited safely.", remedy: "Add the URL by hand, or shorten config.yaml.",
	},
	"ConfigNotEditable": {
		meaning: "The configuration of ModelMesh is written in a way that cannot be edited safely.", remedy: "Write payloadProcessors as plain text.",
	},
	"ConfigImmutable": {
		meaning: "The ConfigMap of ModelMesh is immutable.", remedy: "Replace it with one that is not immutable.",
	},
}
