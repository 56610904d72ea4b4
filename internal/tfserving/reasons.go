package tfserving

// Reasons of problems and conditions; they are stable across releases.
const (
	reasonModelsNotDeclared   = "ModelsNotDeclared"
	reasonConfigMapNotFound   = "ConfigMapNotFound"
	reasonConfigKeyNotFound   = "ConfigMapKeyNotFound"
	reasonConfigInvalid       = "ConfigInvalid"
	reasonSecretNotFound      = "SecretNotFound"
	reasonSecretKeyNotFound   = "SecretKeyNotFound"
	reasonClaimNotFound       = "ClaimNotFound"
	reasonS3NotReadable       = "S3NotReadable"
	reasonPathTaken           = "PathTaken"
	reasonConfigAccepted      = "ConfigAccepted"
	reasonRollingOut          = "RollingOut"
	reasonRolledOut           = "RolledOut"
	reasonDeadlineExceeded    = "ProgressDeadlineExceeded"
	reasonWaiting             = "Waiting"
	reasonEndpointUnreachable = "EndpointUnreachable"
	reasonModelsAvailable     = "ModelsAvailable"
	reasonModelsUnavailable   = "ModelsUnavailable"
)

// Reasons of a canary beside those of its pods.
const (
	reasonCanaryAvailable    = "CanaryAvailable"
	reasonVersionUnavailable = "VersionUnavailable"
	reasonModelNotFound      = "ModelNotFound"
	reasonPaused             = "Paused"
	reasonPromoted           = "Promoted"
	reasonAborted            = "Aborted"
)

// Reasons of pods that are not ready; those that a kubelet, the scheduler or a controller gives have their names.
const (
	reasonFailedCreate    = "FailedCreate"
	reasonImagePull       = "ImagePullBackOff"
	reasonContainerConfig = "CreateContainerConfigError"
	reasonOOMKilled       = "OOMKilled"
	reasonCrashLoop       = "CrashLoopBackOff"
	reasonUnschedulable   = "Unschedulable"
	reasonModelsNotLoaded = "InitialModelsNotLoaded"
)
