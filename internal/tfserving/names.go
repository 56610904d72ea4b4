package tfserving

import (
	"cmp"
	"path"

	"k8s.io/utils/ptr"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
)

// Names and defaults of the tutorial operator.
const (
	selectorLabel     = "tfsName"
	mainContainer     = "tfs-main"
	configVolume      = "tfs-config-volume"
	secretVolume      = "tfs-secret-volume"
	serverCommand     = "/usr/bin/tensorflow_model_server"
	credentialsEnv    = "GOOGLE_APPLICATION_CREDENTIALS"
	defaultSecret     = "tfs-secret" //nolint:gosec // The name of a Secret.
	defaultConfigFile = "models.conf"
	defaultConfigPath = "/var/config"
	defaultSecretPath = "/secret/gcp-credentials" //nolint:gosec // A path.
)

// Names of what the tutorial does not have.
const (
	parametersVolume  = "tfs-parameters-volume"
	parametersPath    = "/var/tfserving-parameters"
	modelVolume       = "tfs-model-volume"
	defaultModelPath  = "/models"
	downloadsVolume   = "tfs-downloads-volume"
	downloadsPath     = "/var/tfserving-models"
	tlsVolume         = "tfs-tls-volume"
	tlsPath           = "/var/tfserving-tls"
	defaultTLSKey     = "ssl.conf"
	batchingFile      = "batching.conf"
	monitoringFile    = "monitoring.conf"
	defaultMetrics    = "/monitoring/prometheus/metrics"
	defaultInterval   = "30s"
	defaultGRPCPort   = 8500
	defaultRESTPort   = 8501
	defaultStartup    = 600
	defaultCPUPercent = 80
	defaultConfigPoll = 10
)

// podLabels select the pods, and are the labels of everything that the tutorial labels.
func podLabels(cr *v1alpha1.Tfserv) map[string]string {
	return map[string]string{selectorLabel: cr.Name}
}

func serviceName(cr *v1alpha1.Tfserv) string { return cr.Name + "-service" }

// headlessName is the Service that resolves to the pods.
func headlessName(cr *v1alpha1.Tfserv) string { return cr.Name + "-grpc" }

// configPrefix begins the names of the ConfigMaps that MLKeeper makes; the hash of their content follows.
func configPrefix(cr *v1alpha1.Tfserv) string { return cr.Name + "-config-" }

// liveName is the ConfigMap of a model config that servers read again and again.
func liveName(cr *v1alpha1.Tfserv) string { return configPrefix(cr) + "live" }

func grpcPort(cr *v1alpha1.Tfserv) int32 { return ptr.Deref(cr.Spec.GrpcPort, defaultGRPCPort) }
func restPort(cr *v1alpha1.Tfserv) int32 { return ptr.Deref(cr.Spec.RestPort, defaultRESTPort) }

func configFile(cr *v1alpha1.Tfserv) string { return cmp.Or(cr.Spec.ConfigFileName, defaultConfigFile) }

// configPath and secretPath are spelled as the custom resource does, since the mounts of the tutorial are.
func configPath(cr *v1alpha1.Tfserv) string {
	return cmp.Or(cr.Spec.ConfigFileLocation, defaultConfigPath)
}

func secretPath(cr *v1alpha1.Tfserv) string {
	return cmp.Or(cr.Spec.SecretFileLocation, defaultSecretPath)
}

// usesSecret says that credentials for Google Cloud Storage are mounted.
func usesSecret(cr *v1alpha1.Tfserv) bool {
	return cr.Spec.SecretFileName != "" || cr.Spec.SecretName != ""
}

func secretName(cr *v1alpha1.Tfserv) string { return cmp.Or(cr.Spec.SecretName, defaultSecret) }

// join joins folder and file, whether or not the folder ends in a slash (defect 11).
func join(folder, file string) string { return path.Join(folder, file) }
