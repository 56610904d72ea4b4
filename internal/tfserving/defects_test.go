package tfserving

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
)

// TestDefects shows, one by one, that the defects of section 2 of reference/tfserv.md have no place in the controller. Those that
// need a cluster (5, 6, 7, 13, 16, 17, 18) are shown there too, in test/tfserv; 19 is TestTheInstalledManagerElectsALeader
// of cmd/mlkeeper.
func TestDefects(t *testing.T) {
	for _, defect := range []struct {
		name  string
		check func(*testing.T)
	}{
		{"01 the ConfigMap of the spec is the one whose content is mounted", func(t *testing.T) {
			c, cr := seed(t)
			u := c.Get(key("ConfigMap", "tf-serving-models-config")).DeepCopy()
			u.SetName("mine")
			c.Put(u)
			cr.Spec.ConfigMap = "mine"
			_, p := gatherAndRender(t, c, cr)
			copied := controllertest.MustFind(t, p, "ConfigMap", volume(t, p, cr.Name, configVolume).ConfigMap.Name)
			if want, _, _ := unstructured.NestedMap(u.Object, "data"); !reflect.DeepEqual(copied.Object["data"], want) {
				t.Errorf("mounts %v, not %v", copied.Object["data"], want)
			}
		}},
		{"02 the Secret has a name, and models without credentials need none", func(t *testing.T) {
			c, cr := seed(t)
			u := c.Get(key("Secret", "tfs-secret")).DeepCopy()
			u.SetName("mine")
			c.Put(u)
			cr.Spec.SecretName = "mine"
			_, p := gatherAndRender(t, c, cr)
			if got := volume(t, p, cr.Name, secretVolume).Secret.SecretName; got != "mine" {
				t.Errorf("mounts %s", got)
			}
			cr.Spec.SecretName, cr.Spec.SecretFileName = "", ""
			_, p = gatherAndRender(t, c, cr)
			d := deployed(t, p, cr.Name)
			if len(d.Spec.Template.Spec.Volumes) != 1 || len(d.Spec.Template.Spec.Containers[0].Env) > 0 {
				t.Error("credentials are mounted though none are asked for")
			}
		}},
		{"03 a ConfigMap is looked for, and its absence stops the Deployment", func(t *testing.T) {
			c, cr := seed(t)
			c.Remove(key("ConfigMap", "tf-serving-models-config"))
			_, p := gatherAndRender(t, c, cr)
			if controllertest.Find(p, "Deployment", cr.Name) != nil {
				t.Error("pods are started without a config")
			}
		}},
		{"04 a missing ConfigMap is waited for by name", func(t *testing.T) {
			c, cr := seed(t)
			c.Remove(key("ConfigMap", "tf-serving-models-config"))
			_, p := gatherAndRender(t, c, cr)
			if got := controllertest.Reasons(p); got != "Waiting ConfigMapNotFound" || !strings.Contains(p.Problems[0].Error(), "tf-serving-models-config") {
				t.Errorf("problems %v", p.Problems)
			}
			if controllertest.Find(p, "Service", cr.Name+"-service") == nil {
				t.Error("the Service waits too")
			}
		}},
		{"05 the same spec is the same Deployment, whatever the API server filled in", func(t *testing.T) {
			c, cr := seed(t)
			_, first := gatherAndRender(t, c, cr)
			u := controllertest.MustFind(t, first, "Deployment", cr.Name).DeepCopy()
			_ = unstructured.SetNestedField(u.Object, int64(10), "spec", "revisionHistoryLimit")
			c.Own(u, ownerOf(cr))
			if _, again := gatherAndRender(t, c, cr); string(controllertest.Print(t, again)) != string(controllertest.Print(t, first)) {
				t.Error("a default of the API server changes what is wanted")
			}
		}},
		{"06 the Service follows the spec and leaves what is allocated", func(t *testing.T) {
			c, cr := seed(t)
			port := int32(9100)
			cr.Spec.GrpcPort, cr.Spec.ServiceType = &port, corev1.ServiceTypeLoadBalancer
			_, p := gatherAndRender(t, c, cr)
			s := served(t, p, cr.Name+"-service")
			if s.Spec.Ports[1].Port != 9100 || s.Spec.Type != corev1.ServiceTypeLoadBalancer || s.Spec.ClusterIP != "" || s.Spec.Ports[1].NodePort != 0 {
				t.Errorf("%+v", s.Spec)
			}
		}},
		{"07 the Service is made with the Deployment", func(t *testing.T) {
			c, cr := seed(t)
			_, p := gatherAndRender(t, c, cr)
			if len(p.Stages) != 1 || len(p.Stages[0].Objects) != 3 {
				t.Errorf("stages %+v", p.Stages)
			}
		}},
		{"08 the image is pinned and not pulled for every pod", func(t *testing.T) {
			c, cr := seed(t)
			_, p := gatherAndRender(t, c, cr)
			main := deployed(t, p, cr.Name).Spec.Template.Spec.Containers[0]
			if strings.HasSuffix(main.Image, ":latest") || !strings.Contains(main.Image, ":") || main.ImagePullPolicy != corev1.PullIfNotPresent {
				t.Errorf("%s %s", main.Image, main.ImagePullPolicy)
			}
		}},
		{"09 a changed config or credential rolls the pods, and nothing else does", checkRolls},
		{"10 omitted fields are TensorFlow Serving's defaults, not zero", func(t *testing.T) {
			_, p := gatherAndRender(t, controllertest.New(testNow), custom(t, inline))
			d := deployed(t, p, "tfs")
			args := strings.Join(d.Spec.Template.Spec.Containers[0].Args, " ")
			if *d.Spec.Replicas != 1 || !strings.Contains(args, "--port=8500 --rest_api_port=8501") {
				t.Errorf("%d replicas, %s", *d.Spec.Replicas, args)
			}
			if s := served(t, p, "tfs-service"); s.Spec.Ports[0].Port != 8501 || s.Spec.Ports[1].Port != 8500 {
				t.Errorf("%+v", s.Spec.Ports)
			}
		}},
		{"11 folder and file are joined, with a slash or without", func(t *testing.T) {
			for _, folder := range []string{"/var/config", "/var/config/"} {
				c, cr := seed(t)
				cr.Spec.ConfigFileLocation, cr.Spec.SecretFileLocation = folder, "/secret"
				_, p := gatherAndRender(t, c, cr)
				main := deployed(t, p, cr.Name).Spec.Template.Spec.Containers[0]
				if main.Args[2] != "--model_config_file=/var/config/models.conf" || main.Env[0].Value != "/secret/test-apps-model-viewer.json" {
					t.Errorf("%v %v", main.Args, main.Env)
				}
			}
		}},
		{"12 probes, security, resources, a budget and a grace period", checkHardened},
		{"13 the status tells", checkStatus},
		{"14 the selector is one label that never changes, and the pods have no name", func(t *testing.T) {
			c, cr := seed(t)
			_, before := gatherAndRender(t, c, cr)
			cr.Labels = map[string]string{"team": "a"}
			_, after := gatherAndRender(t, c, cr)
			d := deployed(t, after, cr.Name)
			if got := d.Spec.Selector.MatchLabels; len(got) != 1 || got[selectorLabel] != cr.Name || d.Spec.Template.Name != "" {
				t.Errorf("selector %v, name %q", got, d.Spec.Template.Name)
			}
			if string(controllertest.Print(t, before)) != string(controllertest.Print(t, after)) {
				t.Error("labels of the custom resource reach the selector or the pods")
			}
		}},
		{"15 the rights follow from what is rendered", func(t *testing.T) {
			_, p := gatherAndRender(t, withProductionInputs(t), custom(t, production))
			for _, stage := range p.Stages {
				for _, o := range stage.Objects {
					if !slices.Contains(Definition().Children, o.Desired.GroupVersionKind()) {
						t.Errorf("there is no right for %s", o.Desired.GroupVersionKind())
					}
				}
			}
		}},
		{"16 children are found by the engine's marks: the controller sets no owner and no mark", func(t *testing.T) {
			c, cr := seed(t)
			_, p := gatherAndRender(t, c, cr)
			for _, o := range p.Stages[0].Objects {
				if len(o.Desired.GetOwnerReferences()) > 0 {
					t.Errorf("%s has an owner", o.Key())
				}
			}
		}},
		{"17 nothing is adopted by the controller", func(t *testing.T) {
			c, cr := seed(t)
			_, p := gatherAndRender(t, c, cr)
			for _, o := range p.Stages[0].Objects {
				if o.Partial || o.Retain {
					t.Errorf("%s would be adopted", o.Key())
				}
			}
		}},
		{"18 replicas are an autoscaler's where there is one", func(t *testing.T) {
			cr := custom(t, inline+"  replicas: 1\n  autoscaling: {minReplicas: 2, maxReplicas: 5}\n")
			_, p := gatherAndRender(t, controllertest.New(testNow), cr)
			if d := deployed(t, p, "tfs"); *d.Spec.Replicas != 2 {
				t.Errorf("%d replicas at the start", *d.Spec.Replicas)
			}
			controllertest.MustFind(t, p, "HorizontalPodAutoscaler", "tfs")
		}},
		{"20 the Service need not be open on every node", func(t *testing.T) {
			_, p := gatherAndRender(t, controllertest.New(testNow), custom(t, inline+"  serviceType: ClusterIP\n"))
			if got := served(t, p, "tfs-service").Spec.Type; got != corev1.ServiceTypeClusterIP {
				t.Errorf("type %s", got)
			}
			_, p = gatherAndRender(t, controllertest.New(testNow), custom(t, inline))
			if got := served(t, p, "tfs-service").Spec.Type; got != corev1.ServiceTypeNodePort {
				t.Errorf("the seed's type is NodePort, not %s", got)
			}
		}},
	} {
		t.Run(defect.name, defect.check)
	}
}

func volume(t *testing.T, p plan.Plan, deployment, name string) corev1.Volume {
	t.Helper()
	for _, v := range deployed(t, p, deployment).Spec.Template.Spec.Volumes {
		if v.Name == name {
			return v
		}
	}
	t.Fatalf("there is no volume %s", name)
	return corev1.Volume{}
}

func checkRolls(t *testing.T) {
	c, cr := seed(t)
	template := func() string {
		_, p := gatherAndRender(t, c, cr)
		u := controllertest.MustFind(t, p, "Deployment", cr.Name)
		spec, _, _ := unstructured.NestedMap(u.Object, "spec", "template")
		return strings.Join([]string{u.GetName(), printed(t, spec)}, "\n")
	}
	before := template()
	replicas := int32(5)
	cr.Spec.Replicas = &replicas
	config := c.Get(key("ConfigMap", cr.Spec.ConfigMap))
	config.Object["data"].(map[string]any)["other"] = "a key that nobody mounts as the config"
	if template() != before {
		t.Error("replicas, or another key of the ConfigMap, roll the pods")
	}
	text := config.Object["data"].(map[string]any)["models.conf"].(string)
	config.Object["data"].(map[string]any)["models.conf"] = strings.Replace(text, "1538687457", "1538687458", 1)
	changed := template()
	if changed == before {
		t.Error("a changed config does not roll the pods")
	}
	c.Get(key("Secret", "tfs-secret")).Object["data"] = map[string]any{"test-apps-model-viewer.json": "W10="}
	if template() == changed {
		t.Error("a changed credential does not roll the pods")
	}
	if strings.Contains(template(), "W10") {
		t.Error("a credential is in the template")
	}
}

func printed(t *testing.T, content map[string]any) string {
	t.Helper()
	return string(controllertest.Print(t, plan.Plan{Stages: []plan.Stage{{Objects: []plan.Object{{Desired: &unstructured.Unstructured{Object: content}}}}}}))
}

func checkHardened(t *testing.T) {
	_, p := gatherAndRender(t, withProductionInputs(t), custom(t, production))
	d := deployed(t, p, "ranking")
	pod, main := d.Spec.Template.Spec, d.Spec.Template.Spec.Containers[0]
	switch {
	case main.StartupProbe.TCPSocket == nil || main.StartupProbe.PeriodSeconds*main.StartupProbe.FailureThreshold < 1200:
		t.Errorf("startup %+v", main.StartupProbe)
	case main.ReadinessProbe.HTTPGet.Path != "/v1/models/ranker/metadata":
		t.Errorf("readiness %+v", main.ReadinessProbe)
	case main.LivenessProbe.TCPSocket == nil:
		t.Errorf("liveness %+v", main.LivenessProbe)
	case !*pod.SecurityContext.RunAsNonRoot || *main.SecurityContext.AllowPrivilegeEscalation:
		t.Error("it may run as root")
	case main.Resources.Requests.Cpu().IsZero():
		t.Error("no resources")
	case *pod.TerminationGracePeriodSeconds < 60 || main.Lifecycle == nil:
		t.Error("requests under way are cut")
	case pod.ServiceAccountName != "ranking":
		t.Error("another ServiceAccount")
	}
	controllertest.MustFind(t, p, "PodDisruptionBudget", "ranking")
	none := custom(t, "metadata: {name: none}\nspec: {configMap: empty}\n")
	c := controllertest.New(testNow)
	c.Put(controllertest.Parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: empty, namespace: ns}, data: {models.conf: ''}}"))
	_, p = gatherAndRender(t, c, none)
	main = deployed(t, p, "none").Spec.Template.Spec.Containers[0]
	if main.ReadinessProbe.GRPC == nil || !slices.Contains(main.Args, "--enable_grpc_healthcheck_service=true") {
		t.Errorf("without a model readiness is asked by gRPC: %+v", main.ReadinessProbe)
	}
}
