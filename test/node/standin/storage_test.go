package main

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "mlkeeper.dev/api/trustyai/v1"
)

func TestADatabaseIsNotReadyWithAPortThatIsNone(t *testing.T) {
	env := map[string]string{
		"SERVICE_STORAGE_FORMAT": "DATABASE", "DATABASE_USERNAME": "u", "DATABASE_PASSWORD": "p", "DATABASE_SERVICE": "s", "DATABASE_NAME": "n",
	}
	ready := storageOf(container{env: func(name string) (string, bool) {
		value, found := env[name]
		return value, found
	}})
	if err := ready(); err != nil {
		t.Fatal(err)
	}
	env["DATABASE_PORT"] = "mysql"
	if ready() == nil {
		t.Error("a port that is no number is taken")
	}
	delete(env, "DATABASE_PORT")
	delete(env, "DATABASE_PASSWORD")
	if ready() == nil {
		t.Error("a missing password is taken")
	}
}

// onDatabase and migrating are a service on a database, and one that copies its files into one.
const (
	onDatabase = `
metadata: {name: tas, namespace: ns, uid: u, generation: 1}
spec:
  storage: {format: DATABASE, databaseConfigurations: db}
  metrics: {schedule: 5s}
`
	migrating = `
metadata: {name: tas, namespace: ns, uid: u, generation: 1}
spec:
  storage: {format: DATABASE, databaseConfigurations: db, folder: /inputs, size: 1Gi}
  data: {filename: data.hdf5}
  metrics: {schedule: 5s}
status: {storageFormat: PVC, migration: {phase: Copying, from: PVC, to: DATABASE, generation: 1}}
`
)

// databaseSecret has all keys; what their values are matters to no rendering.
func databaseSecret() *unstructured.Unstructured {
	data := map[string]any{}
	for _, key := range []string{"databaseKind", "databaseUsername", "databasePassword", "databaseService", "databasePort", "databaseName", "databaseGeneration"} {
		data[key] = "eA=="
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "db", "namespace": "ns"}, "data": data,
	}}
}

// TestTheDatabaseIsNamed: the variables have the names that the service reads, for what it stores and for what it copies.
func TestTheDatabaseIsNamed(t *testing.T) {
	for name, manifest := range map[string]string{"serving": onDatabase, "copying": migrating} {
		t.Run(name, func(t *testing.T) {
			w := render(t, v1.GenerationPython, v1.ExposureSecured, manifest, databaseSecret())
			if len(w.plan.Problems) > 0 {
				t.Fatal(w.plan.Problems)
			}
			w.standIn()
			w.expect("a probe", false, w.pod.Containers[0].ReadinessProbe.HTTPGet.Port.IntVal, "GET", "http://pod/q/health/ready", "", "")
		})
	}
}
