package faults

import (
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	seldonv1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/rendering"
	"mlkeeper.dev/internal/seldon"
	"mlkeeper.dev/test/harness"
)

var seldonGVK = seldonv1alpha1.GroupVersion.WithKind("SeldonOperator")

// seldonOperator is SeldonOperator with what its users do. The charts are in a ConfigMap, so that all faults are those of the
// cluster.
func seldonOperator() *Kind {
	charts := map[string]seldonv1alpha1.Chart{}
	for _, component := range []string{"core", "enterprise"} {
		charts[component] = seldonv1alpha1.Chart{Repository: "configmap:charts/" + component + ".tgz", Name: component, Version: "1.0.0"}
	}
	return &Kind{
		Makes: slices.Concat(
			making(`deployments\.apps/seldon-controller-manager`, `deployments\.apps/seldon-deploy`, `services/seldon-webhook-service`,
				`secrets/seldon-deploy-cookie`, `secrets/seldon-webhook-server-cert`, `secrets/stack-generated`, `secrets/stack-revisions`,
				`secrets/metadata-postgres`, `secrets/elastic-credentials`, `statefulsets\.apps/seldon-internal-postgres`,
				`services/seldon-internal-opensearch`, `clusterroles\.rbac\.authorization\.k8s\.io/seldon-manager-NS`,
				`validatingwebhookconfigurations\.admissionregistration\.k8s\.io/seldon-NS`, `gateways\.networking\.istio\.io/seldon-gateway`,
				`brokers\.eventing\.knative\.dev/default`),
			lacking("the name is one for the whole cluster, in which many run at once; test/seldon has it",
				`namespaces/seldon-logs`, `services/seldon-request-logger`),
		),
		Name: "seldonoperator", GVK: seldonGVK, Resource: "seldonoperators.operator.seldon.io", Workloads: seldonWorkloads(),
		Bases: seldonBases(), Follows: otherCredentials,
		Without: map[Cause]*regexp.Regexp{
			// The passwords that a user's Secret has are used as they are.
			Foreign: passwordsOfTrials, ForeignMarked: passwordsOfTrials,
			// What a chart renders is ceded to a manager that takes it back, as Retaken shows on the other objects.
			Emptied: regexp.MustCompile(`^secrets/seldon-webhook-server-cert$`),
		},
		Controller: harness.Trusted(harness.PerOperator(func() harness.Register {
			return harness.Controller(seldon.Definition(), seldon.New(seldon.Settings{Trusted: true, Sources: inline{}, Charts: charts, Results: rendering.NewMemory(keptResults)}))
		})),
	}
}

// passwordsOfTrials are the Secrets of the instances for trying out.
var passwordsOfTrials = regexp.MustCompile(`^secrets/(metadata-postgres|elastic-credentials)$`)

// otherCredentials says that a revision is another one since the generated credentials were lost.
func otherCredentials(p Plan, d Diff) bool {
	lost := p.Standing != nil && p.Standing.Name == "stack-generated" || p.Drift != nil && p.Drift.Name == "stack-generated"
	return lost && strings.HasPrefix(d.Path, "status.components[") &&
		(strings.Contains(d.Path, "].history[") || strings.HasSuffix(d.Path, "].revision"))
}

// coreTemplate is shaped like the chart of Seldon Core: a webhook with a certificate that is made at random. Nothing is in the
// group that it is asked about. NS stands for the namespace.
const coreTemplate = `
{{- $server := genSignedCert "seldon-webhook-service" nil (list "seldon-webhook-service.NS" "seldon-webhook-service.NS.svc") 365 (genCA "ca" 365) }}
apiVersion: v1
kind: Secret
metadata: {name: seldon-webhook-server-cert}
type: kubernetes.io/tls
data: {tls.crt: {{ $server.Cert | b64enc }}, tls.key: {{ $server.Key | b64enc }}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: seldon-manager-NS}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: v1
kind: Service
metadata: {name: seldon-webhook-service}
spec: {selector: {app: manager}, ports: [{port: 443}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: seldon-controller-manager}
spec:
  replicas: 1
  selector: {matchLabels: {app: manager}}
  template: {metadata: {labels: {app: manager}}, spec: {containers: [{name: manager, image: '{{ trunc 63 .Values.runs }}'}]}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: seldon-NS}
webhooks:
- name: v1.seldon.io
  clientConfig: {service: {name: seldon-webhook-service, namespace: NS}}
  rules: [{apiGroups: [none.seldon.io], apiVersions: [v1], operations: [CREATE], resources: [nothings]}]
  sideEffects: None
  admissionReviewVersions: [v1]
`

// enterpriseTemplate is shaped like the chart of Seldon Deploy: a value that is random at each rendering.
const enterpriseTemplate = `
apiVersion: v1
kind: Secret
metadata: {name: seldon-deploy-cookie}
data: {cookie: {{ randAlphaNum 24 | b64enc }}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: seldon-deploy}
spec:
  replicas: 1
  selector: {matchLabels: {app: deploy}}
  template: {metadata: {labels: {app: deploy}}, spec: {containers: [{name: deploy, image: '{{ .Values.runs }}'}]}}
`

// catalogueTemplate and payloadTemplate are shaped like the charts of the trial instances, whose passwords MLKeeper makes.
const (
	catalogueTemplate = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: seldon-internal-postgres}
spec:
  serviceName: seldon-internal-postgres
  replicas: 1
  selector: {matchLabels: {app: postgres}}
  template: {metadata: {labels: {app: postgres}}, spec: {containers: [{name: postgres, image: '{{ .Values.runs }}', env: [
    {name: PASSWORD, valueFrom: {secretKeyRef: {name: metadata-postgres, key: password}}}]}]}}
`
	payloadTemplate = `
apiVersion: v1
kind: Service
metadata: {name: seldon-internal-opensearch}
spec: {selector: {app: opensearch}, ports: [{port: 9200}]}
`
	// fullStack switches everything on for which MLKeeper makes objects that are no chart's, but for the alias in a namespace that all have in common.
	fullStack = `{enable: {catalogue: true, payloadstore: true, routing: true, detectors: true}, core: {upgrade: {onFailure: Rollback}},
  catalogue: {chart: {repository: 'configmap:charts/catalogue.tgz', name: catalogue, version: 1.0.0}},
  payloadstore: {chart: {repository: 'configmap:charts/payloadstore.tgz', name: payloadstore, version: 1.0.0}}}`
)

// chart is a chart of one template.
func chart(w *World, name, template string) ([]byte, error) {
	return packed(w, fstest.MapFS{
		"Chart.yaml":              {Data: []byte("apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n")},
		"values.yaml":             {Data: []byte("runs: " + name + "\n")},
		"templates/template.yaml": {Data: []byte(template)},
	})
}

// chartServed is a step that has the server of the workload serve the chart of Seldon Core, and the namespace trust the server.
func chartServed() Step {
	return Step{Name: "publish", Until: func(*World) error { return nil }, Do: func(w *World) error {
		raw, err := chart(w, "core", coreTemplate)
		if err != nil {
			return err
		}
		w.run.server.put("/core-1.0.0.tgz", raw)
		w.run.server.put("/index.yaml", []byte("apiVersion: v1\nentries: {core: [{name: core, version: 1.0.0, urls: [core-1.0.0.tgz]}]}\n"))
		return w.trustServer()
	}}
}

// charts puts charts of one template each into the ConfigMap that they are taken from.
func charts(core, enterprise string) func(*World) error {
	return chartsOf(map[string]string{"core": core, "enterprise": enterprise})
}

// chartsOf does the same with charts by their names.
func chartsOf(templates map[string]string) func(*World) error {
	return func(w *World) error {
		data := map[string]any{}
		for name, template := range templates {
			raw, err := chart(w, name, template)
			if err != nil {
				return err
			}
			data[name+".tgz"] = base64.StdEncoding.EncodeToString(raw)
		}
		u := &unstructured.Unstructured{Object: map[string]any{"binaryData": data}}
		u.SetGroupVersionKind(configMapGVK)
		u.SetName("charts")
		return w.Put(u)
	}
}

// stackOf is a SeldonOperator of a spec.
func stackOf(spec string) string {
	return "apiVersion: operator.seldon.io/v1alpha1\nkind: SeldonOperator\nmetadata: {name: stack}\nspec: " + spec + "\n"
}

// image says whether a Deployment has an image, and the stack is Ready.
func image(deployment, want string) func(*World) error {
	return func(w *World) error {
		if u := w.Get("deployments.apps", deployment); u == nil || !strings.Contains(fmt.Sprint(u.Object["spec"]), "image:"+want+" ") {
			return fmt.Errorf("the Deployment %s is not of image %s", deployment, want)
		}
		return w.Ready()
	}
}

// notInCreate are the children that full has beside those of create.
var notInCreate = regexp.MustCompile(`/(stack-revisions|metadata-postgres|elastic-credentials|seldon-internal-.*|seldon-gateway|default)$`)

// seldonWorkloads are what users do with a SeldonOperator.
func seldonWorkloads() []Workload {
	create := []Step{
		{Name: "charts", Do: charts(coreTemplate, enterpriseTemplate), Until: func(*World) error { return nil }},
		apply("create", stackOf("{}"), nil),
	}
	without, _, _ := strings.Cut(coreTemplate, "---\napiVersion: admissionregistration")
	return []Workload{
		{Name: "create", Short: true, Steady: true, Steps: create},
		{Name: "full", Steady: true, Stands: notInCreate, Steps: []Step{
			{Name: "charts", Until: func(*World) error { return nil }, Do: chartsOf(map[string]string{
				"core": coreTemplate, "enterprise": enterpriseTemplate, "catalogue": catalogueTemplate, "payloadstore": payloadTemplate,
			})},
			apply("create", stackOf(fullStack), nil),
		}},
		{Name: "fetch", Short: true, Server: "core", Steps: []Step{create[0], chartServed(), apply("create", stackOf(
			"{core: {chart: {repository: SERVER, name: core, version: 1.0.0, secretName: server}}}"), nil)}},
		{
			Name: "late-charts", Same: "create", Steps: []Step{
				apply("the custom resource alone", stackOf("{}"), condition("stack", "Ready", "False", "ConfigMapNotFound")),
				{Name: "charts", Do: charts(coreTemplate, enterpriseTemplate)},
			},
		},
		{
			Name: "change-value", Short: true, Setup: create,
			Steps: []Step{apply("another image", stackOf("{enterprise: {values: {runs: other}}}"), image("seldon-deploy", "other"))},
		},
		{
			Name: "change-chart", Setup: create,
			Steps: []Step{{Name: "without the webhook", Do: charts(without, enterpriseTemplate), Until: has(
				"validatingwebhookconfigurations.admissionregistration.k8s.io", "seldon-NS", false)}},
		},
		{
			Name: "switch", Setup: create, Steps: []Step{
				apply("a payload store of theirs", stackOf("{enable: {payloadstore: true}, payloadstore: {internal_elastic: {use_internal: false}}, "+
					"enterprise: {values: {elasticsearch: {url: 'https://theirs', basicAuth: true}}}}"),
					condition("stack", "Ready", "False", "CredentialsMissing")),
				apply("its credentials", "apiVersion: v1\nkind: Secret\nmetadata: {name: elastic-credentials}\nstringData: {username: u, password: p}\n", nil),
				apply("off again", stackOf("{}"), nil),
			},
		},
		{
			Name: "mend", Same: "create", Setup: create, Steps: []Step{
				apply("values that are none of the chart's", stackOf("{core: {values: {runs: {a: b}}}}"), condition("stack", "Ready", "False")),
				{Name: "those that it had", Do: func(w *World) error { return w.Patch(seldonGVK, "stack", `{"spec":{"core":null}}`) }},
			},
		},
		{
			Name: "delete", Short: true, Setup: create,
			Steps: []Step{{Name: "delete", Do: func(w *World) error { return w.Delete(seldonGVK, "stack") }, Until: (*World).Gone}},
		},
		{
			Name: "recreate", Same: "create", Setup: create, Steps: []Step{
				{Name: "delete", Do: func(w *World) error { return w.Delete(seldonGVK, "stack") }, Until: func(*World) error { return nil }},
				apply("create again", stackOf("{}"), func(w *World) error {
					return errors.Join(has("deployments.apps", "seldon-deploy", true)(w), w.Ready())
				}),
			},
		},
	}
}
