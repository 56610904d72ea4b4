//go:build realoriginal

package original

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
)

// service is a TrustyAIService that upstream runs.
type service struct {
	namespace, name, version, spec string
	// claim says that upstream makes a claim for it.
	claim bool
}

// services differ in what upstream renders for them: the storage, the version that their user wrote, defaults, authorities to trust, and what
// they are wired to.
var services = []service{
	{"fraud", "credit", "v1", "storage: {format: PVC, folder: /inputs, size: 1Gi}, data: {filename: data.csv, format: CSV}, metrics: {schedule: 5s, batchSize: 1000}", true},
	{"fraud", "loans", "v1alpha1", "storage: {format: PVC, folder: /data/loans, size: 512Mi}, data: {filename: loans.csv, format: CSV}, metrics: {schedule: 1m}", true},
	{"claims", "bills", "v1", "storage: {format: DATABASE, databaseConfigurations: bills-db}, metrics: {schedule: 5s}", false},
	{"claims", "cases", "v1alpha1", "storage: {format: DATABASE, databaseConfigurations: cases-db}, metrics: {schedule: 10s, batchSize: 10}", false},
	{"vision", "eyes", "v1", "storage: {format: PVC, folder: /inputs, size: 1Gi}, data: {filename: data.csv, format: CSV}, metrics: {schedule: 5s}", true},
	{"mesh", "grid", "v1alpha1", "storage: {format: PVC, folder: /inputs, size: 1Gi}, data: {filename: data.csv, format: CSV}, metrics: {schedule: 5s}", true},
	{"mixed", "trusting", "v1", "storage: {format: PVC, folder: /inputs, size: 1Gi}, data: {filename: data.csv, format: CSV}, metrics: {schedule: 5s}", true},
	{"mixed", "ledger", "v1alpha1", "storage: {format: DATABASE, databaseConfigurations: ledger-db}, metrics: {schedule: 5s}", false},
	{"mixed", "moved", "v1", "storage: {format: DATABASE, databaseConfigurations: moved-db, folder: /inputs, size: 1Gi}, " +
		"data: {filename: data.csv, format: CSV}, metrics: {schedule: 5s}", true},
	{"mixed", "single", "v1alpha1", "replicas: 1, storage: {format: PVC, folder: /inputs, size: 1Gi}, data: {filename: data.csv, format: CSV}, metrics: {schedule: 5s}", true},
}

// database is the Secret of a service whose data is in a database.
const database = `
apiVersion: v1
kind: Secret
metadata: {name: %s-db}
stringData:
  databaseKind: mariadb
  databaseUsername: user
  databasePassword: hunter2
  databaseService: mariadb
  databasePort: "3306"
  databaseName: trustyai
  databaseGeneration: update
`

// around are the objects of others in the namespaces: the authority of a database, the authorities that Open Data Hub puts into each namespace
// (its ConfigMap odh-trusted-ca-bundle), and what serves models, in each mode that upstream wires.
var around = map[string]string{
	"claims": `
apiVersion: v1
kind: Secret
metadata: {name: cases-db-ca}
stringData: {ca.crt: authority}
`,
	"mixed": `
apiVersion: v1
kind: ConfigMap
metadata: {name: odh-trusted-ca-bundle, labels: {config.openshift.io/inject-trusted-cabundle: "true"}}
data: {ca-bundle.crt: authorities}
`,
	"vision": `
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: raw, annotations: {serving.kserve.io/deploymentMode: RawDeployment}}
spec: {predictor: {model: {modelFormat: {name: sklearn}, storageUri: "s3://bucket/raw"}}}
---
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: serverless, annotations: {serving.kserve.io/deploymentMode: Serverless, sidecar.istio.io/inject: "true"}}
spec: {predictor: {model: {modelFormat: {name: sklearn}, storageUri: "s3://bucket/serverless"}}}
`,
	"mesh": `
apiVersion: apps/v1
kind: Deployment
metadata: {name: modelmesh-serving, labels: {modelmesh-service: modelmesh-serving}}
spec:
  selector: {matchLabels: {app: modelmesh}}
  template:
    metadata: {labels: {app: modelmesh, modelmesh-service: modelmesh-serving}}
    spec: {containers: [{name: mm, image: modelmesh}, {name: puller, image: modelmesh-runtime-adapter}]}
---
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: meshed, annotations: {serving.kserve.io/deploymentMode: ModelMesh}}
spec: {predictor: {model: {modelFormat: {name: sklearn}, storageUri: "s3://bucket/meshed"}}}
`,
}

// wired are the entries of the services in what serves models: a logger of each mode of KServe, and ModelMesh's payload processors.
const (
	rawLogger        = "https://eyes.vision.svc.cluster.local"
	serverlessLogger = "http://eyes.vision.svc.cluster.local"
	processors       = "https://grid.mesh.svc/consumer/kserve/v2"
)

// create makes the services as their users did, once what they need is there.
func (s *site) create() {
	s.t.Helper()
	made := map[string]bool{}
	for _, one := range services {
		if !made[one.namespace] {
			made[one.namespace] = true
			s.c.Kubectl(s.t, "create", "namespace", one.namespace)
			if text := around[one.namespace]; text != "" {
				s.c.Apply(s.t, text, one.namespace)
			}
		}
		if strings.Contains(one.spec, "DATABASE") {
			s.c.Apply(s.t, fmt.Sprintf(database, one.name), one.namespace)
		}
		if one.claim {
			s.c.Apply(s.t, fixture.VolumeFor("pv-"+one.name, one.namespace, one.name+"-pvc"))
		}
		s.c.Apply(s.t, fmt.Sprintf("apiVersion: trustyai.opendatahub.io/%s\nkind: TrustyAIService\nmetadata: {name: %s}\nspec: {%s}\n",
			one.version, one.name, one.spec), one.namespace)
	}
}

// isWired says which entry of a service is missing.
func (s *site) isWired() error {
	logger := "jsonpath={.spec.predictor.logger.url}"
	for name, want := range map[string]string{"raw": rawLogger, "serverless": serverlessLogger} {
		if got := s.c.Kubectl(s.t, "-n", "vision", "get", "inferenceservice", name, "-o", logger); got != want {
			return fmt.Errorf("the InferenceService %s sends to %q, not to %q", name, got, want)
		}
	}
	got := s.c.Kubectl(s.t, "-n", "mesh", "get", "deployment", "modelmesh-serving", "-o",
		`jsonpath={.spec.template.spec.containers[*].env[?(@.name=="MM_PAYLOAD_PROCESSORS")].value}`)
	if got != processors+" "+processors {
		return fmt.Errorf("the containers of ModelMesh send to %q, not each to %q", got, processors)
	}
	return nil
}

// ready waits until each service is as an operator leaves it.
func (s *site) ready(as func(service) error) {
	s.t.Helper()
	cluster.Eventually(s.t, patience, func() error {
		for _, one := range services {
			if err := as(one); err != nil {
				return fmt.Errorf("%s/%s: %w", one.namespace, one.name, err)
			}
		}
		return s.isWired()
	})
}

// pods are the pods of the namespaces of the services.
func (s *site) pods() []corev1.Pod {
	s.t.Helper()
	var out []corev1.Pod
	for _, namespace := range namespaces() {
		list := &corev1.PodList{}
		if err := s.c.Client.List(s.t.Context(), list, client.InNamespace(namespace)); err != nil {
			s.t.Fatal(err)
		}
		out = append(out, list.Items...)
	}
	return out
}
