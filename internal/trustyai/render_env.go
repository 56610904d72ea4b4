package trustyai

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "mlkeeper.dev/api/trustyai/v1"
)

// defaultBatchSize is upstream's constant of that name (trustyai-service-operator HEAD 11c335b).
const defaultBatchSize = 5000

// mandatoryKeys are the keys of the database Secret without which no pod is started.
var mandatoryKeys = []string{
	"databaseKind", "databaseName", "databasePassword", "databasePort", "databaseService", "databaseUsername",
}

// environment renders the environment of the service in the order in which upstream sets it
// (trustyai-service-operator HEAD 11c335b), without the variable that upstream sets twice while it migrates.
func (r *scene) environment(schedule string) []corev1.EnvVar {
	var data v1.DataSpec
	if r.cr.Spec.Data != nil {
		data = *r.cr.Spec.Data
	}
	folder := r.cr.Spec.Storage.Folder
	format := v1.StoragePVC
	if usesDatabase(r.template) {
		format = v1.StorageDatabase
	}
	env := []corev1.EnvVar{value("SERVICE_STORAGE_FORMAT", string(format))}
	if usesVolume(r.template) {
		env = append(env, value("STORAGE_DATA_FILENAME", data.Filename), value("STORAGE_DATA_FOLDER", folder))
	}
	if usesDatabase(r.template) {
		env = append(env, r.databaseEnvironment()...)
	} else {
		env = append(env, value("SERVICE_DATA_FORMAT", data.Format), value("QUARKUS_HIBERNATE_ORM_ACTIVE", "false"))
	}
	batch := int64(defaultBatchSize)
	if m := r.cr.Spec.Metrics; m != nil && m.BatchSize != nil {
		batch = int64(*m.BatchSize)
	}
	env = append(env, value("SERVICE_METRICS_SCHEDULE", schedule), value("SERVICE_BATCH_SIZE", strconv.FormatInt(batch, 10)))
	if r.template == TemplateMigration {
		env = append(env, value("STORAGE_MIGRATION_CONFIG_FROM_FOLDER", folder),
			value("STORAGE_MIGRATION_CONFIG_FROM_FILENAME", data.Filename))
	}
	return env
}

func (r *scene) databaseEnvironment() []corev1.EnvVar {
	secret := func(name, key string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: r.names.databaseSecret}, Key: key,
		}}}
	}
	// Quarkus resolves the names in braces by itself, so they stay as they are.
	url := "jdbc:${QUARKUS_DATASOURCE_DB_KIND}://${DATABASE_SERVICE}:${DATABASE_PORT}/${DATABASE_NAME}"
	if r.facts.Database.CA {
		url += "?requireSSL=true&sslMode=verify-ca&serverSslCert=/etc/tls/db/ca.crt"
	}
	// Upstream demands the key databaseGeneration of every Secret only by pods that do not start without it.
	generation := secret("QUARKUS_DATASOURCE_GENERATION", "databaseGeneration")
	generation.ValueFrom.SecretKeyRef.Optional = pointer(true)
	return []corev1.EnvVar{
		{Name: "QUARKUS_HIBERNATE_ORM_ACTIVE", Value: "true"},
		secret("QUARKUS_DATASOURCE_DB_KIND", "databaseKind"),
		{Name: "QUARKUS_DATASOURCE_JDBC_MAX_SIZE", Value: "16"},
		secret("QUARKUS_DATASOURCE_USERNAME", "databaseUsername"),
		secret("QUARKUS_DATASOURCE_PASSWORD", "databasePassword"),
		secret("DATABASE_SERVICE", "databaseService"),
		secret("DATABASE_PORT", "databasePort"),
		secret("DATABASE_NAME", "databaseName"),
		{Name: "QUARKUS_DATASOURCE_JDBC_URL", Value: url},
		{Name: "SERVICE_DATA_FORMAT", Value: "HIBERNATE"},
		generation,
	}
}

// value is a variable with a value that the kubelet must take as it is: it would expand $(NAME) otherwise.
func value(name, text string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, Value: strings.ReplaceAll(text, "$", "$$")}
}
