package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestBadValuesAreRefused(t *testing.T) {
	webhook := definition("trustyaiservices.trustyai.opendatahub.io", apiextensionsv1.WebhookConverter)
	for _, one := range []struct {
		name, values string
		cluster      *unstructured.Unstructured
		want         []string
	}{
		{name: "unknown value", values: "controler: {trustyai: true}", want: []string{"controler"}},
		{name: "not a controller", values: "controllers: {kserve: true}", want: []string{"controllers", "kserve"}},
		{name: "type", values: "replicas: two", want: []string{"replicas", "integer"}},
		{name: "digest", values: "image: {digest: sha256:abc}", want: []string{"image/digest"}},
		{name: "a tag in the repository", values: "image: {repository: registry.example.com:5000/mlkeeper:v0.1.0}", want: []string{"image/repository"}},
		{name: "no image", values: `image: {repository: ""}`, want: []string{"image.repository is empty", "make push"}},
		{
			name: "nothing on", values: "controllers: {trustyai: false, tfserving: false, kubeflow: false, seldon: false}",
			want: []string{"no controller is on", "controllers.trustyai"},
		},
		{name: "participant without a file", values: "participant: {enabled: true}", want: []string{"participant.application"}},
		{name: "budget of one", values: "podDisruptionBudget: {enabled: true}", want: []string{"set replicas to 2"}},
		{name: "one claim for two", values: "replicas: 2\nsources: {existingClaim: data}", want: []string{"sources.existingClaim"}},
		{name: "root", values: "runAsUser: 0", want: []string{"runAsUser", "minimum"}},
		{
			name: "rights of controllers that are off", values: "controllers: {kubeflow: false, seldon: false}\nrights: {trusted: true}",
			want: []string{"rights.trusted", "controllers.kubeflow"},
		},
		{name: "a variable of the chart", values: "env: [{name: GOMEMLIMIT, value: 1GiB}]", want: []string{"GOMEMLIMIT", "goMemLimit"}},
		{
			name: "a second folder of certificates", values: "extraCA: {configMap: a}\nenv: [{name: SSL_CERT_DIR, value: /certs}]",
			want: []string{"SSL_CERT_DIR", "extraCA.configMap"},
		},
		{name: "an original operator's webhook", cluster: webhook, want: []string{webhook.GetName(), "mlkeeper check --pre", "kubectl patch crd", "--take-ownership"}},
	} {
		t.Run(one.name, func(t *testing.T) {
			_, err := render(t, merged(t, needed, one.values), one.cluster)
			for _, want := range one.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v: want %q", err, want)
				}
			}
		})
	}
	for name, values := range map[string]string{
		"MLKeeper's own definition": needed,
		"definitions left out":      needed + "crds: {enabled: false}",
	} {
		cluster := webhook
		if name == "MLKeeper's own definition" {
			cluster = definition(webhook.GetName(), apiextensionsv1.NoneConverter)
		}
		if _, err := render(t, values, cluster); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDefinitionsThatKeepUnknownFieldsArePruned: the API server takes the schemas of such a definition only with the field that ends it, and the
// next tool that applies another definition does not conflict with a field that says nothing.
func TestDefinitionsThatKeepUnknownFieldsArePruned(t *testing.T) {
	legacy := definition("kfdefs.kfdef.apps.kubeflow.org", apiextensionsv1.NoneConverter)
	legacy.Object["spec"].(map[string]any)["preserveUnknownFields"] = true
	objects, err := render(t, needed, legacy)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range byKind(objects)["CustomResourceDefinition"] {
		name := at(one, "metadata", "name")
		got, set := at(one, "spec").(map[string]any)["preserveUnknownFields"]
		if set != (name == legacy.GetName()) || set && got != false {
			t.Errorf("%s: spec.preserveUnknownFields is %v", name, got)
		}
	}
}

// TestEveryPodIsAsTheValuesSay: the values for pods count for the manager, the console and the test of the release, and names and numbers stay what
// they are, whatever YAML takes them for.
func TestEveryPodIsAsTheValuesSay(t *testing.T) {
	objects, err := render(t, needed+`
imagePullSecrets: [{name: pull}]
nodeSelector: {kubernetes.io/os: linux}
tolerations: [{key: ml, operator: Exists}]
priorityClassName: "1000"
runAsUser: 1000660000
runAsGroup: 0
console: {enabled: true}
extraCA: {configMap: "1"}
sources: {existingClaim: "2"}
participant: {enabled: true, existingConfigMap: "3"}
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := byKind(objects)
	pods := map[string]any{"check": at(all["Pod"][0], "spec")}
	for _, deployment := range all["Deployment"] {
		pods[at(deployment, "metadata", "name").(string)] = at(deployment, "spec", "template", "spec")
	}
	if len(pods) != 3 {
		t.Fatalf("the pods are %v", pods)
	}
	for name, one := range pods {
		var pod corev1.PodSpec
		if err := json.Unmarshal([]byte(text(t, one)), &pod); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		user := pod.Containers[0].SecurityContext
		if user.RunAsUser == nil || *user.RunAsUser != 1000660000 || user.RunAsGroup == nil || *user.RunAsGroup != 0 {
			t.Errorf("%s runs as %v and %v", name, user.RunAsUser, user.RunAsGroup)
		}
		if pod.PriorityClassName != "1000" || len(pod.ImagePullSecrets) != 1 || len(pod.NodeSelector) != 1 || len(pod.Tolerations) != 1 {
			t.Errorf("%s: %s", name, text(t, one))
		}
	}
}

// TestLabelsAndAnnotationsOfUsers have names that the chart uses as well. render refuses a name that is there twice.
func TestLabelsAndAnnotationsOfUsers(t *testing.T) {
	objects, err := render(t, needed+`
podAnnotations: {kubectl.kubernetes.io/default-container: sidecar, keeper.mlkeeper.dev/participant-config: mine}
participant: {enabled: true, application: {a: b}}
monitoring:
  labels: {app.kubernetes.io/part-of: kube-prometheus}
  podMonitor: {enabled: true}
  alerts: {enabled: true}
  dashboard: {enabled: true, labels: {app.kubernetes.io/name: grafana}}
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := byKind(objects)
	for _, object := range slices.Concat(all["PodMonitor"], all["PrometheusRule"]) {
		if got := text(t, at(object, "metadata", "labels")); got != `{"app.kubernetes.io/name":"mlkeeper","app.kubernetes.io/part-of":"kube-prometheus"}` {
			t.Errorf("%v has the labels %s", object["kind"], got)
		}
	}
}

// TestAClaimIsForOnePod: the next manager starts when the last one is deleted, and may write to the volume.
func TestAClaimIsForOnePod(t *testing.T) {
	const oneByOne = `{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1},"type":"RollingUpdate"}`
	for _, one := range []struct{ values, strategy, group string }{
		{"sources: {existingClaim: data}", oneByOne, "65532"},
		{"sources: {existingClaim: data}\nrunAsGroup: 1000660000", oneByOne, "1000660000"},
		// OpenShift gives each namespace a group of its own.
		{"sources: {existingClaim: data}\nrunAsGroup: null", oneByOne, "null"},
		{"", "null", "null"},
	} {
		objects, err := render(t, needed+one.values, nil)
		if err != nil {
			t.Fatal(err)
		}
		deployment := byKind(objects)["Deployment"][0]
		if got := text(t, at(deployment, "spec", "strategy")); got != one.strategy {
			t.Errorf("with %q the strategy is %s", one.values, got)
		}
		if got := text(t, at(deployment, "spec", "template", "spec", "securityContext", "fsGroup")); got != one.group {
			t.Errorf("with %q the group of the volume is %s", one.values, got)
		}
	}
}

// TestTheTestOfTheReleaseMayLookAtWebhooks: mlkeeper check asks whether a webhook of a definition answers.
func TestTheTestOfTheReleaseMayLookAtWebhooks(t *testing.T) {
	objects, err := render(t, needed, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range byKind(objects)["ClusterRole"] {
		if at(role, "metadata", "name") == "mlkeeper-check" &&
			!strings.Contains(text(t, role["rules"]), `{"apiGroups":["discovery.k8s.io"],"resources":["endpointslices"],"verbs":["list"]}`) {
			t.Errorf("its rules are %s", text(t, role["rules"]))
		}
	}
}
