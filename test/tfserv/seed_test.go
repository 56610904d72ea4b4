package tfserv

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/internal/tfserving"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/harness"
	"mlkeeper.dev/test/tfserver"
)

// TestTheSeedInAnyOrder applies the documents of the tutorial in every order, and walks through it.
func TestTheSeedInAnyOrder(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{}, fixture.Nobody{})
	docs := documents(t)
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			ns := c.Namespace(t)
			for i, n := range order {
				c.Apply(t, docs[n], ns)
				if n == 2 && i < 2 {
					// The custom resource is there, something else is not: it says what.
					condition(t, c, ns, sample, "Ready", metav1.ConditionFalse)
				}
			}
			condition(t, c, ns, sample, "Ready", metav1.ConditionTrue, "Ready")
			walk(t, c, ns)
		})
	}
}

// walk is the walk-through of the tutorial: get deployments, get services, describe of both.
func walk(t *testing.T, c *cluster.Cluster, ns string) {
	t.Helper()
	if got := c.Kubectl(t, "-n", ns, "get", "deployments", "--no-headers"); !strings.HasPrefix(got, sample+" ") || !strings.Contains(got, "3/3") {
		t.Errorf("deployments: %s", got)
	}
	cluster.Eventually(t, time.Minute, func() error {
		if got := c.Kubectl(t, "-n", ns, "get", "pods", "--no-headers"); strings.Count(got, sample+"-") != 3 {
			return fmt.Errorf("pods: %s", got)
		}
		return nil
	})
	describe := c.Kubectl(t, "-n", ns, "describe", "services", sample+"-service")
	for _, want := range []string{
		" tfsName=" + sample + " ", "Selector: tfsName=" + sample, "Type: NodePort", "Port: rest 8500/TCP", "TargetPort: 8500/TCP",
		"Port: grpc 9000/TCP", "TargetPort: 9000/TCP", "NodePort: rest", "NodePort: grpc",
	} {
		if !strings.Contains(plain(describe), want) {
			t.Errorf("the Service lacks %q:\n%s", want, describe)
		}
	}
	describe = c.Kubectl(t, "-n", ns, "describe", "deployments", sample)
	for _, want := range []string{
		" tfsName=" + sample + " ", "Selector: tfsName=" + sample, "3 desired | 3 updated | 3 total | 3 available | 0 unavailable",
		"tfs-main: Image: tensorflow/serving:", "Ports: 9000/TCP, 8500/TCP", "Command: /usr/bin/tensorflow_model_server",
		"Args: --port=9000 --rest_api_port=8500 --model_config_file=/var/config/models.conf",
		"GOOGLE_APPLICATION_CREDENTIALS: /secret/gcp-credentials/test-apps-model-viewer.json",
		"/secret/gcp-credentials/ from tfs-secret-volume (rw)", "/var/config/ from tfs-config-volume (rw)",
		"tfs-config-volume: Type: ConfigMap (a volume populated by a ConfigMap) Name: " + sample + "-config-",
		"tfs-secret-volume: Type: Secret (a volume populated by a Secret) SecretName: tfs-secret",
	} {
		if !strings.Contains(plain(describe), want) {
			t.Errorf("the Deployment lacks %q:\n%s", want, describe)
		}
	}
	line := c.Kubectl(t, "-n", ns, "get", "tfs", sample, "--no-headers")
	if want := "True Ready http://" + sample + "-service." + ns + ".svc.cluster.local:8500"; !strings.Contains(plain(line), want) {
		t.Errorf("kubectl get tfs shows %q", line)
	}
	cr := get(t, c, ns, sample)
	if len(cr.Status.Active) != 2 || cr.Status.Active[0].Kind != "Deployment" || cr.Status.Active[1].Kind != "Service" {
		t.Errorf("active %+v", cr.Status.Active)
	}
}

// plain joins the words of a listing with single spaces.
func plain(s string) string { return strings.Join(strings.Fields(s), " ") }

// Defect 4: a missing ConfigMap was found late, or never. Here it is named, and its creation is seen at once.
func TestAMissingConfigMapIsNamedAndSeenWhenItComes(t *testing.T) {
	c := cluster.Shared(t)
	o := start(t, c, harness.Options{}, fixture.Nobody{})
	ns, docs := c.Namespace(t), documents(t)
	c.Apply(t, docs[1], ns)
	c.Apply(t, docs[2], ns)
	got := condition(t, c, ns, sample, "Ready", metav1.ConditionFalse, "ConfigMapNotFound")
	if !strings.Contains(got.Message, "tf-serving-models-config") || !strings.Contains(got.Message, "models.conf") {
		t.Errorf("message %q", got.Message)
	}
	o.Settle(t, time.Minute)
	harness.NoTimer(t, c, tfserv, ns, sample)
	c.Apply(t, docs[0], ns)
	// It is the watch that tells of it, since there is no timer.
	cluster.Eventually(t, time.Minute, func() error {
		if c.Get(t, deployment, ns, sample) == nil {
			return fmt.Errorf("no Deployment yet")
		}
		return nil
	})
}

// Defect 6: the Service was never updated, and a naive update loses what the API server allocated.
func TestAllocationsSurviveEveryUpdate(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{}, fixture.Nobody{})
	ns := c.Namespace(t)
	c.Apply(t, seedFile, ns)
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	type allocation struct {
		ip         any
		rest, grpc int64
		restPort   int64
	}
	read := func() allocation {
		u := c.Get(t, service, ns, sample+"-service")
		out := allocation{ip: field(t, u, "spec", "clusterIP")}
		ports, _, _ := unstructured.NestedSlice(u.Object, "spec", "ports")
		for _, item := range ports {
			p := item.(map[string]any)
			if p["name"] == "rest" {
				out.rest, out.restPort = p["nodePort"].(int64), p["port"].(int64)
			} else {
				out.grpc = p["nodePort"].(int64)
			}
		}
		return out
	}
	before := read()
	patch(t, c, tfserv, ns, sample, `{"spec":{"restPort":8600}}`)
	cluster.Eventually(t, 30*time.Second, func() error {
		got, want := read(), before
		want.restPort = 8600
		if got != want {
			return fmt.Errorf("%+v, not %+v", got, want)
		}
		return nil
	})
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	want := read()
	patch(t, c, tfserv, ns, sample, `{"spec":{"replicas":2}}`)
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	if got := read(); got != want {
		t.Errorf("%+v, not %+v", got, want)
	}
}

// A config that TensorFlow Serving would refuse never replaces one that works.
func TestABrokenConfigRollsNothing(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{}, fixture.Nobody{})
	ns := c.Namespace(t)
	c.Apply(t, seedFile, ns)
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	template := field(t, c.Get(t, deployment, ns, sample), "spec", "template")
	patch(t, c, configMap, ns, "tf-serving-models-config", `{"data":{"models.conf":"model_config_list { config { name: 'x' } }"}}`)
	got := condition(t, c, ns, sample, "Stalled", metav1.ConditionTrue, "ConfigInvalid")
	for _, word := range []string{"spec.configMap", "has no base_path", "correct the ConfigMap"} {
		if !strings.Contains(got.Message, word) {
			t.Errorf("the message lacks %q: %s", word, got.Message)
		}
	}
	condition(t, c, ns, sample, "ConfigValid", metav1.ConditionFalse, "ConfigInvalid")
	if !reflect.DeepEqual(field(t, c.Get(t, deployment, ns, sample), "spec", "template"), template) {
		t.Error("the pods were rolled")
	}
	// What leads to the pods is repaired, and stays with them.
	ports := field(t, c.Get(t, service, ns, sample+"-service"), "spec", "ports")
	patch(t, c, service, ns, sample+"-service", `{"spec":{"selector":{"of":"somebody"}}}`)
	cluster.Eventually(t, time.Minute, func() error {
		if selector := fmt.Sprint(field(t, c.Get(t, service, ns, sample+"-service"), "spec", "selector")); strings.Contains(selector, "somebody") {
			return fmt.Errorf("the Service selects %s", selector)
		}
		return nil
	})
	patch(t, c, tfserv, ns, sample, `{"spec":{"restPort":8600}}`)
	cluster.Eventually(t, time.Minute, func() error {
		if cr := get(t, c, ns, sample); cr.Status.ObservedGeneration != cr.Generation {
			return fmt.Errorf("generation %d is not looked at yet", cr.Generation)
		}
		return nil
	})
	if now := field(t, c.Get(t, service, ns, sample+"-service"), "spec", "ports"); !reflect.DeepEqual(now, ports) {
		t.Errorf("the Service leads to %v, and the pods have %v", now, ports)
	}
	// A pod that starts now reads what the others do.
	mounted := plain(fmt.Sprint(template))
	_, mounted, _ = strings.Cut(mounted, "configMap:map[")
	_, mounted, _ = strings.Cut(mounted, "name:")
	mounted, _, _ = strings.Cut(mounted, "]")
	if u := c.Get(t, configMap, ns, mounted); u == nil || !strings.Contains(fmt.Sprint(u.Object["data"]), "1538687457") {
		t.Errorf("pods read the ConfigMap %q: %v", mounted, u)
	}
	c.Apply(t, strings.ReplaceAll(documents(t)[0], "1538687457", "1538687458"), ns)
	condition(t, c, ns, sample, "ConfigValid", metav1.ConditionTrue)
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	if reflect.DeepEqual(field(t, c.Get(t, deployment, ns, sample), "spec", "template"), template) {
		t.Error("the corrected config did not roll the pods")
	}
	if now := fmt.Sprint(field(t, c.Get(t, service, ns, sample+"-service"), "spec", "ports")); !strings.Contains(now, "8600") {
		t.Errorf("the Service has the ports %s", now)
	}
}

// The answer to the first question is waited for, a moment, so that one status tells Ready and the models. On a slow clock
// that moment outlasts what a busy machine needs, so that each try shows it.
func TestReadyAndTheModelsAreOneStatus(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{Engine: engine.Options{Clock: harness.NewSlowClock()}}, serving(t, &tfserver.Memory{}, 1538687457))
	for range 3 {
		ns := c.Namespace(t)
		// With one pod nobody can be asked before the Deployment is complete.
		c.Apply(t, strings.ReplaceAll(strings.Join(documents(t), "\n---\n"), "replicas: 3", "replicas: 1"), ns)
		var first *v1alpha1.Tfserv
		cluster.Eventually(t, time.Minute, func() error {
			if first = get(t, c, ns, sample); !meta.IsStatusConditionTrue(first.Status.Conditions, "Ready") {
				return fmt.Errorf("not Ready: %+v", first.Status.Conditions)
			}
			return nil
		})
		if first.Status.ModelsAvailable != "1/1" {
			t.Errorf("Ready was told without the models: %+v", first.Status)
		}
	}
}

// modelsAre waits until the status lists versions with their states, such as "6 AVAILABLE".
func modelsAre(t *testing.T, c *cluster.Cluster, ns string, want ...string) {
	t.Helper()
	cluster.Eventually(t, time.Minute, func() error {
		var got []string
		for _, m := range get(t, c, ns, sample).Status.Models {
			got = append(got, m.Version+" "+m.State)
		}
		if !reflect.DeepEqual(got, want) {
			return fmt.Errorf("models %q, not %q", got, want)
		}
		return nil
	})
}

// startAsking runs the operator for one namespace, with servers that are asked every second once they have settled.
func startAsking(t *testing.T, c *cluster.Cluster, ns string, servers http.RoundTripper) *harness.Operator {
	t.Helper()
	c.InstallCRDs(t)
	opts := harness.Options{Verbose: testing.Verbose(), Engine: engine.Options{Namespaces: []string{ns}}}
	settings := tfserving.Settings{HTTP: &http.Client{Transport: servers, Timeout: 10 * time.Second}, ModelsEvery: time.Second}
	return harness.Start(t, c, opts, harness.Controller(tfserving.Definition(), tfserving.New(settings)))
}

// ofTheLatest are the documents of the tutorial, with a model of which the latest version is served.
func ofTheLatest(t *testing.T) string {
	return strings.ReplaceAll(strings.Join(documents(t), "\n---\n"), "model_version_policy: { specific: { versions: 1538687457 } }", "")
}

// TensorFlow Serving loads and drops versions by itself while its pods run on.
func TestVersionsThatComeAndGoLaterAreSeen(t *testing.T) {
	c, store := cluster.Shared(t), &tfserver.Memory{}
	ns := c.Namespace(t)
	startAsking(t, c, ns, serving(t, store, 6))
	c.Apply(t, ofTheLatest(t), ns)
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	condition(t, c, ns, sample, "ModelsAvailable", metav1.ConditionTrue, "ModelsAvailable")
	modelsAre(t, c, ns, "6 AVAILABLE")
	release := store.Hold(storedModel, 7)
	t.Cleanup(release)
	modelsAre(t, c, ns, "6 AVAILABLE", "7 LOADING")
	condition(t, c, ns, sample, "ModelsAvailable", metav1.ConditionTrue, "ModelsAvailable")
	release()
	modelsAre(t, c, ns, "6 END", "7 AVAILABLE")
	condition(t, c, ns, sample, "ModelsAvailable", metav1.ConditionTrue, "ModelsAvailable")
	// A folder that is emptied takes every version along, until one comes back.
	store.Remove(storedModel, 6)
	store.Remove(storedModel, 7)
	condition(t, c, ns, sample, "ModelsAvailable", metav1.ConditionFalse, "ModelsUnavailable")
	store.Put(storedModel, 7)
	condition(t, c, ns, sample, "ModelsAvailable", metav1.ConditionTrue, "ModelsAvailable")
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
}

// Servers that say the same are asked without a request to the API server, and their answer is not written again.
func TestServersThatSayTheSameCostNoRequest(t *testing.T) {
	c, servers := cluster.Shared(t), serving(t, &tfserver.Memory{}, 6)
	ns := c.Namespace(t)
	o := startAsking(t, c, ns, servers)
	c.Apply(t, ofTheLatest(t), ns)
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	condition(t, c, ns, sample, "ModelsAvailable", metav1.ConditionTrue, "ModelsAvailable")
	o.Settle(t, time.Minute)
	before, version := o.Requests.Snapshot(), get(t, c, ns, sample).ResourceVersion
	round(t, servers)
	round(t, servers)
	asked := func(r cluster.Request) bool { return r.Read() || r.Write() }
	if done := o.Requests.Since(before); cluster.Sum(done, asked, "leases") > 0 {
		t.Errorf("what nobody changed was asked for:\n%s", cluster.Describe(done))
	}
	if now := get(t, c, ns, sample).ResourceVersion; now != version {
		t.Errorf("version %s, was %s: a status that is as before was written", now, version)
	}
}
