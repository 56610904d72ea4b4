package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// Defect 5: a size that does not parse ended in a panic. Defect 12: input was pasted into a text template.
func Test_Defect05_12_AdmissionRefusesBadInputNamingFieldAndRemedy(t *testing.T) {
	c := cluster.Shared(t)
	c.InstallCRDs(t)
	ns := c.Namespace(t)
	const metrics, storage = "metrics: {schedule: 5s}", "storage: {format: PVC, folder: /inputs, size: 1Gi}"
	for name, bad := range map[string]struct {
		spec  string
		words []string
	}{
		"no storage":            {metrics, []string{"spec.storage", "Required"}},
		"no format":             {"storage: {folder: /inputs, size: 1Gi}\n  " + metrics, []string{"spec.storage.format", "Required"}},
		"unknown format":        {"storage: {format: S3, folder: /i, size: 1Gi}\n  " + metrics, []string{"spec.storage.format", "S3", "PVC", "DATABASE"}},
		"format in lower case":  {"storage: {format: pvc, folder: /i, size: 1Gi}\n  " + metrics, []string{"spec.storage.format", "pvc", "PVC"}},
		"no metrics":            {storage, []string{"spec.trustyaiMetrics", "spec.metrics", "required", "add trustyaiMetrics"}},
		"no data for the ADR":   {storage + "\n  trustyaiMetrics: {schedule: 5s}", []string{"spec.data", "required", "add filename"}},
		"two schedules":         {storage + "\n  data: {}\n  trustyaiMetrics: {schedule: 5s}\n  " + "metrics: {schedule: 6s}", []string{"spec.metrics.schedule", "5s", "6s", "remove one"}},
		"schedule of words":     {storage + "\n  metrics: {schedule: soon}", []string{"spec.metrics.schedule", "must be a duration", "such as 5s"}},
		"schedule without unit": {storage + "\n  metrics: {schedule: \"5\"}", []string{"spec.metrics.schedule", "such as 5s"}},
		"empty schedule":        {storage + "\n  metrics: {schedule: \"\"}", []string{"spec.metrics.schedule"}},
		"schedule of YAML":      {storage + "\n  metrics: {schedule: \"5s\\nprivileged: true\"}", []string{"spec.metrics.schedule", "such as 5s"}},
		"no size":               {"storage: {format: PVC, folder: /inputs}\n  " + metrics, []string{"spec.storage.size", "required", "such as 1Gi"}},
		"size of words":         {"storage: {format: PVC, folder: /inputs, size: big}\n  " + metrics, []string{"spec.storage.size", "positive quantity", "such as 1Gi"}},
		"size of nothing":       {"storage: {format: PVC, folder: /inputs, size: \"0\"}\n  " + metrics, []string{"spec.storage.size", "such as 1Gi"}},
		"negative size":         {"storage: {format: PVC, folder: /inputs, size: -1Gi}\n  " + metrics, []string{"spec.storage.size", "such as 1Gi"}},
		"no folder":             {"storage: {format: PVC, size: 1Gi}\n  " + metrics, []string{"spec.storage.folder", "required", "such as /inputs"}},
		"relative folder":       {"storage: {format: PVC, folder: inputs, size: 1Gi}\n  " + metrics, []string{"spec.storage.folder", "absolute path", "such as /inputs"}},
		"folder that breaks out": {
			"storage: {format: PVC, folder: /a/../etc, size: 1Gi}\n  " + metrics,
			[]string{"spec.storage.folder", "such as /inputs"},
		},
		"negative replicas": {"replicas: -1\n  " + storage + "\n  " + metrics, []string{"spec.replicas", "greater than or equal to 0"}},
		"hasty interval":    {"serviceMonitoring: {interval: 999ms}\n  " + storage + "\n  " + metrics, []string{"spec.serviceMonitoring.interval", "1s or more"}},
		"no interval":       {"serviceMonitoring: {interval: \"0\"}\n  " + storage + "\n  " + metrics, []string{"spec.serviceMonitoring.interval", "1s or more"}},
		"two writers":       {"replicas: 2\n  " + storage + "\n  " + metrics, []string{"spec.replicas", "at most 1", "set replicas to 1", "DATABASE"}},
		"no batch":          {storage + "\n  metrics: {schedule: 5s, batchSize: 0}", []string{"spec.metrics.batchSize", "greater than or equal to 1"}},
		"size of an existing claim": {
			"storage: {format: PVC, folder: /inputs, existingClaim: mine, size: 1Gi}\n  " + metrics,
			[]string{"spec.storage.existingClaim", "excludes size", "remove them"},
		},
		"access mode of a reader": {"storage: {format: PVC, folder: /i, size: 1Gi, accessModes: [ReadOnlyMany]}\n  " + metrics, []string{"spec.storage.accessModes", "ReadOnlyMany"}},
		"unknown pull policy":     {"imagePullPolicy: Sometimes\n  " + storage + "\n  " + metrics, []string{"spec.imagePullPolicy", "Sometimes", "IfNotPresent"}},
		"a variable twice":        {"env: [{name: A}, {name: A}]\n  " + storage + "\n  " + metrics, []string{"spec.env", "Duplicate"}},
		"two budgets":             {"podDisruptionBudget: {minAvailable: 1, maxUnavailable: 1}\n  " + storage + "\n  " + metrics, []string{"spec.podDisruptionBudget", "exactly one"}},
		"host with a path":        {"ingress: {host: a.example/b}\n  " + storage + "\n  " + metrics, []string{"spec.ingress.host", "DNS name"}},
		"route to no Gateway":     {"httpRoute: {host: a.example, gateway: {}}\n  " + storage + "\n  " + metrics, []string{"spec.httpRoute.gateway.name", "Required"}},
		"unknown exposure":        {"exposure: Open\n  " + storage + "\n  " + metrics, []string{"spec.exposure", "Open", "Plain", "Secured"}},
	} {
		for _, version := range []string{"v1", "v1alpha1"} {
			t.Run(name+"/"+version, func(t *testing.T) {
				objects, err := cluster.Parse(fmt.Sprintf("apiVersion: trustyai.opendatahub.io/%s\nkind: TrustyAIService\nmetadata: {name: bad, namespace: %s}\nspec:\n  %s\n", version, ns, bad.spec))
				if err != nil {
					t.Fatal(err)
				}
				err = c.Client.Create(t.Context(), objects[0])
				if !apierrors.IsInvalid(err) {
					_ = c.Client.Delete(t.Context(), objects[0])
					t.Fatalf("accepted, or refused otherwise: %v", err)
				}
				for _, word := range bad.words {
					if !strings.Contains(err.Error(), word) {
						t.Errorf("the refusal does not say %q: %v", word, err)
					}
				}
			})
		}
	}
}

func says(t *testing.T, c *cluster.Cluster, ns, name, kind string, status metav1.ConditionStatus, words ...string) {
	t.Helper()
	cluster.Eventually(t, 60*time.Second, func() error {
		got := condition(t, c, ns, name, kind, status)
		for _, word := range words {
			if !strings.Contains(got.Reason+": "+got.Message, word) {
				return fmt.Errorf("%s says %s: %s; not %q", kind, got.Reason, got.Message, word)
			}
		}
		return nil
	})
}

func TestAVolumeThatIsMissingOrBoundElsewhereIsWaitedFor(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	ns := c.Namespace(t)
	c.Apply(t, adr(pvName(ns)), ns)
	says(t, c, ns, example, "Ready", metav1.ConditionFalse, "VolumeNotFound", "spec.storage.pv", pvName(ns), "create the PersistentVolume")
	says(t, c, ns, example, "StorageReady", metav1.ConditionFalse, pvName(ns))
	other := c.Namespace(t)
	boundClaim(t, c, other, "theirs")
	theirs := pvName(other)
	c.Apply(t, strings.Replace(adr(theirs), example, "second", 1), other)
	says(t, c, other, "second", "Ready", metav1.ConditionFalse, "VolumeBoundElsewhere", "spec.storage.pv", theirs, other+"/theirs", "free the PersistentVolume")
	volume(t, c, pvName(ns))
	condition(t, c, ns, example, "Ready", metav1.ConditionTrue)
	c.Kubectl(t, "patch", "pv", theirs, "--type=json", "-p", `[{"op":"remove","path":"/spec/claimRef"}]`)
	condition(t, c, other, "second", "Ready", metav1.ConditionTrue)
}

func TestANameThatIsTakenIsReportedAndUsedOnceItIsFree(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	ns := c.Namespace(t)
	volume(t, c, pvName(ns))
	foreign := c.Apply(t, `
apiVersion: v1
kind: Service
metadata: {name: trustyai-service, labels: {theirs: stays}}
spec: {selector: {app: theirs}, ports: [{port: 1}]}
`, ns)[0]
	before := c.Get(t, foreign.GroupVersionKind(), ns, "trustyai-service")
	c.Apply(t, adr(pvName(ns)), ns)
	says(t, c, ns, example, "Ready", metav1.ConditionFalse, "ResourceConflict", "Service "+ns+"/trustyai-service", "nobody", "delete that object")
	// The rest is made meanwhile, and theirs is left alone.
	if c.Get(t, gvkOf("apps/v1", "Deployment"), ns, "trustyai-service") == nil {
		t.Error("one conflict holds back the rest")
	}
	if now := c.Get(t, foreign.GroupVersionKind(), ns, "trustyai-service"); now.GetResourceVersion() != before.GetResourceVersion() {
		t.Error("the object of somebody else was written")
	}
	c.Kubectl(t, "-n", ns, "delete", "service", "trustyai-service")
	condition(t, c, ns, example, "Ready", metav1.ConditionTrue)
}

func TestANamespaceThatIsTerminatingIsNoHotLoopAndNoHang(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t)
	// Its writes are counted, and other tests leave Inventories to be torn down.
	o := start(t, c, harness.Options{Engine: engine.Options{Namespaces: []string{ns}}})
	volume(t, c, pvName(ns))
	c.Apply(t, adr(pvName(ns)), ns)
	condition(t, c, ns, example, "Ready", metav1.ConditionTrue)
	// Without its controller the namespace stays Terminating, and what is in it stays.
	c.StopComponent(t, "kube-controller-manager")
	c.Kubectl(t, "delete", "namespace", ns, "--wait=false")
	c.Kubectl(t, "-n", ns, "delete", "service", "trustyai-service")
	says(t, c, ns, example, "Ready", metav1.ConditionFalse, "NamespaceTerminating", "metadata.namespace")
	before := o.Requests.Snapshot()
	cluster.Consistently(t, 5*time.Second, func() error {
		writes := 0
		for request, n := range o.Requests.Since(before) {
			if request.Write() {
				writes += n
			}
		}
		if writes > 8 {
			return fmt.Errorf("%d writes", writes)
		}
		return nil
	})
	c.StartComponent(t, "kube-controller-manager")
	cluster.Eventually(t, 60*time.Second, func() error {
		err := c.Client.Get(t.Context(), client.ObjectKey{Name: ns}, &corev1.Namespace{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the namespace: %w", err)
		}
		return errors.New("the namespace is still there")
	})
}

// repaired deletes a child and waits until it is back.
func repaired(t *testing.T, c *cluster.Cluster, ns, apiVersion, kind, name string) {
	t.Helper()
	before := c.Get(t, gvkOf(apiVersion, kind), ns, name)
	c.Kubectl(t, "-n", ns, "delete", strings.ToLower(kind), name)
	cluster.Eventually(t, 30*time.Second, func() error {
		if now := c.Get(t, gvkOf(apiVersion, kind), ns, name); now == nil || now.GetUID() == before.GetUID() {
			return fmt.Errorf("%s %s is not back", kind, name)
		}
		return nil
	})
}

func TestWhatRunsKeepsRunningWhenTheInputTurnsBad(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	ns := c.Namespace(t)
	c.Apply(t, databaseSecret("db"), ns)
	c.Apply(t, withDatabase("tas"), ns)
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
	pods := podUIDs(t, c, ns)
	steady := func() {
		t.Helper()
		if now := podUIDs(t, c, ns); !slices.Equal(now, pods) {
			t.Errorf("the pods are %v, not %v", now, pods)
		}
	}

	// A ServiceMonitor that cannot be merged.
	monitor := c.Get(t, gvkOf("monitoring.coreos.com/v1", "ServiceMonitor"), ns, "tas")
	c.Kubectl(t, "-n", ns, "patch", "trustyaiservice", "tas", "--type=merge", "-p", `{"spec":{"serviceMonitoring":{"ref":{"kind":"Nonsense","spec":{"endpoints":"garbage"}}}}}`)
	says(t, c, ns, "tas", "Stalled", metav1.ConditionTrue, "spec.serviceMonitoring.ref")
	repaired(t, c, ns, "v1", "Service", "tas")
	repaired(t, c, ns, "route.openshift.io/v1", "Route", "tas")
	steady()
	if now := c.Get(t, monitor.GroupVersionKind(), ns, "tas"); now == nil || now.GetUID() != monitor.GetUID() {
		t.Error("the ServiceMonitor went")
	}
	// One that the definition of ServiceMonitors refuses.
	c.Kubectl(t, "-n", ns, "patch", "trustyaiservice", "tas", "--type=merge", "-p",
		`{"spec":{"serviceMonitoring":{"ref":{"kind":null,"spec":{"endpoints":[{"metricRelabelings":[{"action":"KEEP"}]}]}}}}}`)
	says(t, c, ns, "tas", "Stalled", metav1.ConditionTrue, "InvalidServiceMonitoring", "ref.spec.endpoints[0].metricRelabelings[0].action", "KEEP", "write a partial ServiceMonitor")
	c.Kubectl(t, "-n", ns, "patch", "trustyaiservice", "tas", "--type=merge", "-p", `{"spec":{"serviceMonitoring":null}}`)
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
	steady()

	// Credentials without mandatory keys, and none at all.
	c.Kubectl(t, "-n", ns, "patch", "secret", "db", "--type=json", "-p", `[{"op":"remove","path":"/data/databasePort"}]`)
	says(t, c, ns, "tas", "Ready", metav1.ConditionFalse, "DBCredentialsError", "databasePort", "add the missing keys")
	repaired(t, c, ns, "v1", "Service", "tas")
	steady()
	c.Kubectl(t, "-n", ns, "delete", "secret", "db")
	says(t, c, ns, "tas", "Ready", metav1.ConditionFalse, "DBCredentialsNotFound", "spec.storage.databaseConfigurations", "create the Secret")
	repaired(t, c, ns, "route.openshift.io/v1", "Route", "tas")
	steady()
	c.Apply(t, databaseSecret("db"), ns)
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
	steady()
}
