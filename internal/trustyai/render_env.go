package trustyai

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/plan"
)

// defaultBatchSize is upstream's constant of that name (trustyai-service-operator HEAD 11c335b).
const defaultBatchSize = 5000

// mandatoryKeys are the keys of the database Secret without which no pod is started.
var mandatoryKeys = []string{
	"databaseKind", "databaseName", "databasePassword", "databasePort", "databaseService", "databaseUsername",
}

// generationKey is the key that pods read where it is there.
const generationKey = "databaseGeneration"

// environment renders the environment that the image reads, with what the spec adds. A variable of which MLKeeper decides is refused:
// the Service, the probes and the volume depend on it.
func (r *scene) environment(schedule string) (env []corev1.EnvVar, ok bool) {
	if r.facts.Generation == v1.GenerationPython {
		env = r.pythonEnvironment(schedule)
	} else {
		env = r.javaEnvironment(schedule)
	}
	ours := len(env)
	for _, added := range r.cr.Spec.Env {
		if slices.ContainsFunc(env[:ours], func(e corev1.EnvVar) bool { return e.Name == added.Name }) {
			r.problem(plan.Terminal, "EnvReserved", "spec.env", quote(added.Name), "MLKeeper sets this variable from other fields", "remove it from spec.env")
			return nil, false
		}
		env = append(env, *added.DeepCopy())
	}
	return env, true
}

// javaEnvironment is in the order in which upstream sets it (trustyai-service-operator HEAD 11c335b), without the variable that
// upstream sets twice while it migrates.
func (r *scene) javaEnvironment(schedule string) []corev1.EnvVar {
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
	env = append(env, value("SERVICE_METRICS_SCHEDULE", schedule), value("SERVICE_BATCH_SIZE", r.batchSize()))
	if r.template == TemplateMigration {
		env = append(env, value("STORAGE_MIGRATION_CONFIG_FROM_FOLDER", folder),
			value("STORAGE_MIGRATION_CONFIG_FROM_FILENAME", data.Filename))
	}
	if r.layout.tls != 0 && !r.securesPods {
		// The image names a certificate that a Plain service does not have, and ends without it. An empty value counts as none:
		// application.properties of v0.28.0 takes it out of its own tests so.
		env = append(env, value("QUARKUS_HTTP_SSL_CERTIFICATE_FILES", ""), value("QUARKUS_HTTP_SSL_CERTIFICATE_KEY_FILES", ""))
	}
	return env
}

// pythonEnvironment is what trustyai-service reads (4aa44d6: main.py, service/data/storage, prometheus_scheduler.py). Its ports
// are its defaults since 376c027; they are declared, since they were others before.
func (r *scene) pythonEnvironment(schedule string) []corev1.EnvVar {
	format := v1.StoragePVC
	if usesDatabase(r.template) {
		format = v1.StorageDatabase
	}
	port := func(n int32) string { return strconv.Itoa(int(n)) }
	env := []corev1.EnvVar{
		value("HEALTH_PORT", port(r.layout.http)), value("HTTP_PORT", port(r.layout.upstream)), value("SSL_PORT", port(r.layout.tls)),
		value("SERVICE_STORAGE_FORMAT", string(format)),
	}
	if usesVolume(r.template) {
		env = append(env, value("STORAGE_DATA_FOLDER", r.cr.Spec.Storage.Folder))
		if data := r.cr.Spec.Data; data != nil && data.Filename != "" {
			env = append(env, value("STORAGE_DATA_FILENAME", data.Filename))
		}
	}
	if usesDatabase(r.template) {
		for _, v := range [][2]string{
			{"DATABASE_USERNAME", "databaseUsername"},
			{"DATABASE_PASSWORD", "databasePassword"},
			{"DATABASE_HOST", "databaseService"},
			{"DATABASE_PORT", "databasePort"},
			{"DATABASE_DATABASE", "databaseName"},
		} {
			env = append(env, r.fromDatabaseSecret(v[0], v[1]))
		}
	}
	if r.template == TemplateMigration {
		env = append(env, value("DATABASE_ATTEMPT_MIGRATION", "true"))
	}
	return append(env, value("SERVICE_METRICS_SCHEDULE", wholeSeconds(schedule)), value("SERVICE_BATCH_SIZE", r.batchSize()))
}

// wholeSeconds is a schedule in the one form that trustyai-service reads of those that a custom resource may have: of any other
// it makes 30 seconds.
func wholeSeconds(schedule string) string {
	d, err := time.ParseDuration(schedule)
	if err != nil {
		return schedule // Of the right form, and longer than three centuries.
	}
	return strconv.FormatInt(max(1, int64(math.Ceil(d.Seconds()))), 10) + "s"
}

func (r *scene) batchSize() string {
	if m := r.cr.Spec.Metrics; m != nil && m.BatchSize != nil {
		return strconv.FormatInt(int64(*m.BatchSize), 10)
	}
	return strconv.Itoa(defaultBatchSize)
}

// fromDatabaseSecret is a variable with the value of a key of the Secret with the credentials.
func (r *scene) fromDatabaseSecret(name, key string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: r.names.databaseSecret}, Key: key,
	}}}
}

func (r *scene) databaseEnvironment() []corev1.EnvVar {
	// Quarkus resolves the names in braces by itself, so they stay as they are.
	url := "jdbc:${QUARKUS_DATASOURCE_DB_KIND}://${DATABASE_SERVICE}:${DATABASE_PORT}/${DATABASE_NAME}"
	if r.facts.Database.CA {
		url += "?requireSSL=true&sslMode=verify-ca&serverSslCert=/etc/tls/db/ca.crt"
	}
	// Upstream demands the key databaseGeneration of every Secret only by pods that do not start without it.
	generation := r.fromDatabaseSecret("QUARKUS_DATASOURCE_GENERATION", generationKey)
	generation.ValueFrom.SecretKeyRef.Optional = pointer(true)
	return []corev1.EnvVar{
		{Name: "QUARKUS_HIBERNATE_ORM_ACTIVE", Value: "true"},
		r.fromDatabaseSecret("QUARKUS_DATASOURCE_DB_KIND", "databaseKind"),
		{Name: "QUARKUS_DATASOURCE_JDBC_MAX_SIZE", Value: "16"},
		r.fromDatabaseSecret("QUARKUS_DATASOURCE_USERNAME", "databaseUsername"),
		r.fromDatabaseSecret("QUARKUS_DATASOURCE_PASSWORD", "databasePassword"),
		r.fromDatabaseSecret("DATABASE_SERVICE", "databaseService"),
		r.fromDatabaseSecret("DATABASE_PORT", "databasePort"),
		r.fromDatabaseSecret("DATABASE_NAME", "databaseName"),
		{Name: "QUARKUS_DATASOURCE_JDBC_URL", Value: url},
		{Name: "SERVICE_DATA_FORMAT", Value: "HIBERNATE"},
		generation,
	}
}

// value is a variable with a value that the kubelet must take as it is: it would expand $(NAME) otherwise.
func value(name, text string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, Value: strings.ReplaceAll(text, "$", "$$")}
}
