package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/harness"
)

const (
	upstreamFinalizer = "trustyai.opendatahub.io/finalizer"
	// upstreamManager is the field manager of upstream's binary, which is called manager.
	upstreamManager = "manager"
)

// createAs creates objects as another program does: by a plain create under its own name.
func createAs(t *testing.T, c *cluster.Cluster, manager, text, ns string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := cluster.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range objects {
		if err := c.SetNamespace(u, ns); err != nil {
			t.Fatal(err)
		}
		if err := c.Client.Create(t.Context(), u, client.FieldOwner(manager)); err != nil {
			t.Fatalf("create %s %s: %v", u.GetKind(), u.GetName(), err)
		}
	}
	return objects
}

// upstreamChildren are the children of a service that trustyai-service-operator 1.39.0 made, as section 2 of
// reference/trustyai.md has them; NS and UID stand for the namespace and the UID of the custom resource. The Secrets
// are those that OpenShift's service-ca made.
const upstreamChildren = `
apiVersion: v1
kind: ServiceAccount
metadata:
  name: tas-proxy
  labels: {app: trustyai, app.kubernetes.io/name: tas-proxy, app.kubernetes.io/instance: tas, app.kubernetes.io/part-of: trustyai, app.kubernetes.io/version: 1.39.0}
  ownerReferences: OWNER
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: tas-NS-proxy-rolebinding
  ownerReferences: OWNER
subjects: [{kind: ServiceAccount, name: tas-proxy, namespace: NS}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: trustyai-service-operator-proxy-role}
---
apiVersion: v1
kind: Service
metadata:
  name: tas-tls
  annotations: {service.beta.openshift.io/serving-cert-secret-name: tas-tls}
  labels: {app: tas, app.kubernetes.io/name: tas, app.kubernetes.io/instance: tas, app.kubernetes.io/part-of: trustyai, app.kubernetes.io/version: 1.39.0, trustyai-service-name: tas}
  ownerReferences: OWNER
spec:
  selector: {app: tas}
  ports: [{name: https, port: 443, targetPort: 8443}]
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: tas-kube-rbac-proxy-config
  labels: {app: tas, app.kubernetes.io/name: tas, app.kubernetes.io/instance: tas, app.kubernetes.io/part-of: trustyai, app.kubernetes.io/version: 1.39.0, component: kube-rbac-proxy}
  ownerReferences: OWNER
data:
  config.yaml: |
    upstreamConfig: {url: "http://127.0.0.1:8081", proxyTimeout: 30s}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: tas-pvc
  ownerReferences: OWNER
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: tas
  annotations: {deployment.kubernetes.io/revision: "1"}
  labels: {app: tas, app.kubernetes.io/name: tas, app.kubernetes.io/instance: tas, app.kubernetes.io/part-of: trustyai, app.kubernetes.io/version: 1.39.0}
  ownerReferences: OWNER
spec:
  replicas: 1
  strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 1, maxSurge: 0}}
  selector:
    matchLabels: {app: tas, app.kubernetes.io/name: tas, app.kubernetes.io/instance: tas, app.kubernetes.io/part-of: trustyai, app.kubernetes.io/version: 1.39.0}
  template:
    metadata:
      annotations: {prometheus.io/path: /q/metrics, prometheus.io/scheme: http, prometheus.io/scrape: "true"}
      labels: {app: tas, app.kubernetes.io/name: tas, app.kubernetes.io/instance: tas, app.kubernetes.io/part-of: trustyai, app.kubernetes.io/version: 1.39.0}
    spec:
      serviceAccountName: tas-proxy
      containers:
      - name: trustyai-service
        image: quay.io/trustyai/trustyai-service:of-upstream
        env:
        - {name: SERVICE_STORAGE_FORMAT, value: PVC}
        - {name: STORAGE_DATA_FILENAME, value: data.csv}
        - {name: STORAGE_DATA_FOLDER, value: /inputs}
        - {name: SERVICE_DATA_FORMAT, value: CSV}
        - {name: QUARKUS_HIBERNATE_ORM_ACTIVE, value: "false"}
        - {name: SERVICE_METRICS_SCHEDULE, value: 5s}
        - {name: SERVICE_BATCH_SIZE, value: "1000"}
        - {name: STORAGE_MIGRATION_CONFIG_FROM_FOLDER, value: /inputs}
        readinessProbe: {httpGet: {path: /q/health/ready, port: 8080}, initialDelaySeconds: 10, periodSeconds: 5, timeoutSeconds: 2}
        livenessProbe: {httpGet: {path: /q/health/live, port: 8080}, initialDelaySeconds: 10, periodSeconds: 5, timeoutSeconds: 2}
        volumeMounts:
        - {name: tas-internal, mountPath: /etc/tls/internal}
        - {name: volume, mountPath: /inputs}
      - name: kube-rbac-proxy
        image: quay.io/opendatahub/odh-kube-rbac-proxy:of-upstream
        args:
        - --secure-listen-address=0.0.0.0:8443
        - --upstream=http://127.0.0.1:8081/
        - --config-file=/etc/kube-rbac-proxy/config.yaml
        - --tls-cert-file=/etc/tls/private/tls.crt
        - --tls-private-key-file=/etc/tls/private/tls.key
        - --proxy-endpoints-port=9443
        - --v=0
        ports: [{containerPort: 8443, name: https}, {containerPort: 9443, name: proxy-healthz}]
        readinessProbe: {httpGet: {path: /healthz, port: 9443, scheme: HTTPS}, initialDelaySeconds: 5, periodSeconds: 5, timeoutSeconds: 1}
        livenessProbe: {httpGet: {path: /healthz, port: 9443, scheme: HTTPS}, initialDelaySeconds: 30, periodSeconds: 10, timeoutSeconds: 1}
        resources: {limits: {cpu: 100m, memory: 64Mi}, requests: {cpu: 50m, memory: 32Mi}}
        volumeMounts:
        - {name: tas-tls, mountPath: /etc/tls/private, readOnly: true}
        - {name: kube-rbac-proxy-config, mountPath: /etc/kube-rbac-proxy, readOnly: true}
      volumes:
      - {name: volume, persistentVolumeClaim: {claimName: tas-pvc}}
      - {name: tas-tls, secret: {secretName: tas-tls}}
      - {name: tas-internal, secret: {secretName: tas-internal}}
      - {name: kube-rbac-proxy-config, configMap: {name: tas-kube-rbac-proxy-config}}
---
apiVersion: v1
kind: Service
metadata:
  name: tas
  annotations: {prometheus.io/path: /q/metrics, prometheus.io/scheme: http, prometheus.io/scrape: "true", service.beta.openshift.io/serving-cert-secret-name: tas-internal}
  labels: {app: tas, app.kubernetes.io/name: tas, app.kubernetes.io/instance: tas, app.kubernetes.io/part-of: trustyai, app.kubernetes.io/version: 1.39.0}
  ownerReferences: OWNER
spec:
  type: ClusterIP
  selector: {app: tas, app.kubernetes.io/name: tas, app.kubernetes.io/instance: tas, app.kubernetes.io/part-of: trustyai, app.kubernetes.io/version: 1.39.0}
  ports: [{name: http, port: 80, targetPort: 8080}, {name: https, port: 443, targetPort: 4443}]
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: tas
  labels: {modelmesh-service: modelmesh-serving}
  ownerReferences: OWNER
spec:
  namespaceSelector: {matchNames: [NS]}
  selector: {matchLabels: {app.kubernetes.io/part-of: trustyai}}
  endpoints:
  - {port: http, path: /q/metrics, interval: 4s, scheme: http, honorLabels: true, bearerTokenSecret: {key: ""},
     metricRelabelings: [{action: keep, regex: trustyai_.*, sourceLabels: [__name__]}],
     params: {"match[]": ['{__name__= "trustyai_spd"}', '{__name__= "trustyai_dir"}']}}
---
apiVersion: route.openshift.io/v1
kind: Route
metadata:
  name: tas
  labels: {trustyai-service-name: tas}
  ownerReferences: OWNER
spec:
  to: {kind: Service, name: tas-tls, weight: 100}
  port: {targetPort: https}
  tls: {termination: reencrypt, insecureEdgeTerminationPolicy: Redirect}
`

// serviceCA are the Secrets that OpenShift's service-ca made for the Services.
const serviceCA = `
apiVersion: v1
kind: Secret
metadata: {name: tas-tls, annotations: {service.beta.openshift.io/originating-service-name: tas-tls}}
type: kubernetes.io/tls
stringData: {tls.crt: cert, tls.key: key}
---
apiVersion: v1
kind: Secret
metadata: {name: tas-internal, annotations: {service.beta.openshift.io/originating-service-name: tas}}
type: kubernetes.io/tls
stringData: {tls.crt: cert, tls.key: key}
`

// upstreamService leaves a service in the cluster as upstream does, with its pod running, and returns the UIDs of its
// pods.
func upstreamService(t *testing.T, c *cluster.Cluster, ns string) []types.UID {
	t.Helper()
	c.InstallCRDs(t)
	boundClaim(t, c, ns, "tas-pvc")
	cr := createAs(t, c, "kubectl-create", upstream, ns)[0]
	cr.SetFinalizers([]string{upstreamFinalizer})
	if err := c.Client.Update(t.Context(), cr, client.FieldOwner(upstreamManager)); err != nil {
		t.Fatal(err)
	}
	owner := fmt.Sprintf(`[{apiVersion: trustyai.opendatahub.io/v1, kind: TrustyAIService, name: tas, uid: %s, controller: true, blockOwnerDeletion: true}]`, cr.GetUID())
	createAs(t, c, "service-ca-operator", serviceCA, ns)
	createAs(t, c, upstreamManager, strings.NewReplacer("OWNER", owner, "NS", ns).Replace(upstreamChildren), ns)
	t.Cleanup(func() {
		_, _ = c.TryKubectl("delete", "clusterrolebinding", "tas-"+ns+"-proxy-rolebinding", "--ignore-not-found")
		_, _ = c.TryKubectl("-n", ns, "patch", "trustyaiservice", "tas", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	})
	var pods []types.UID
	cluster.Eventually(t, 60*time.Second, func() error {
		d := c.Get(t, gvkOf("apps/v1", "Deployment"), ns, "tas")
		if n, _, _ := unstructured.NestedInt64(d.Object, "status", "availableReplicas"); n != 1 {
			return fmt.Errorf("%d pods are available", n)
		}
		pods = podUIDs(t, c, ns)
		return nil
	})
	conditions := []any{}
	// controllers/tas/statuses.go of upstream at 11c335b.
	for _, one := range [][4]string{
		{"InferenceServicesPresent", "False", "InferenceServicesNotFound", "InferenceServices not found"},
		{"PVCAvailable", "True", "PVCFound", "PersistentVolumeClaim found"},
		{"RouteAvailable", "True", "RouteFound", "Route found"},
		{"Available", "True", "AllComponentsReady", "AllComponentsReady"},
		{"Ready", "True", "AllComponentsReady", "All service components are ready"},
		{"ProvisioningSucceeded", "True", "ProvisioningComplete", "Service provisioning completed successfully"},
		{"Degraded", "False", "FullyFunctional", "All components are fully functional"},
	} {
		conditions = append(conditions, map[string]any{
			"type": one[0], "status": one[1], "reason": one[2], "message": one[3],
			"observedGeneration": int64(1), "lastTransitionTime": "2026-01-01T00:00:00Z",
		})
	}
	cr.Object["status"] = map[string]any{
		"phase": "Ready", "ready": "True", "replicas": int64(0), "observedGeneration": int64(1), "conditions": conditions,
	}
	if err := c.Client.Status().Update(t.Context(), cr, client.FieldOwner(upstreamManager)); err != nil {
		t.Fatal(err)
	}
	return pods
}

// podUIDs are the UIDs of the pods of a namespace that are not being deleted, sorted.
func podUIDs(t *testing.T, c *cluster.Cluster, ns string) []types.UID {
	t.Helper()
	list := &corev1.PodList{}
	if err := c.Client.List(t.Context(), list, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	uids := map[types.UID]bool{}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			uids[list.Items[i].UID] = true
		}
	}
	return slices.Sorted(maps.Keys(uids))
}

// Invariant 8: the adoption of a running upstream service keeps its pods and its data.
func TestAdoptionFromUpstreamKeepsPodsAndData(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t)
	pods := upstreamService(t, c, ns)
	central := createAs(t, c, upstreamManager, `
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: trustyai-metrics, labels: {modelmesh-service: modelmesh-serving}}
spec: {namespaceSelector: {any: true}, selector: {matchLabels: {app.kubernetes.io/part-of: trustyai}}, endpoints: [{port: http}]}
`, ns)[0]
	claim := c.Get(t, gvkOf("v1", "PersistentVolumeClaim"), ns, "tas-pvc")
	cr := c.Get(t, gvk, ns, "tas")
	start(t, c, harness.Options{})
	cluster.Eventually(t, 60*time.Second, func() error {
		if now := c.Get(t, gvk, ns, "tas"); len(now.GetFinalizers()) > 0 {
			return fmt.Errorf("finalizers %v", now.GetFinalizers())
		}
		if st := get(t, c, ns, "tas").Status; st.StorageFormat == "" {
			return fmt.Errorf("not adopted yet: %+v", st.Conditions)
		}
		return nil
	})
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)

	// The data: the same claim, which now outlives the custom resource.
	now := c.Get(t, gvkOf("v1", "PersistentVolumeClaim"), ns, "tas-pvc")
	if now == nil || now.GetUID() != claim.GetUID() || len(now.GetOwnerReferences()) > 0 {
		t.Fatalf("the claim is another, or still goes with the custom resource: %v", now)
	}
	// The children: the same objects, owned by the Inventory alone, without what only upstream declared.
	for _, want := range []struct{ apiVersion, kind, ns, name string }{
		{"v1", "ServiceAccount", ns, "tas-proxy"},
		{"v1", "Service", ns, "tas-tls"},
		{"v1", "Service", ns, "tas"},
		{"v1", "ConfigMap", ns, "tas-kube-rbac-proxy-config"},
		{"apps/v1", "Deployment", ns, "tas"},
		{"monitoring.coreos.com/v1", "ServiceMonitor", ns, "tas"},
		{"route.openshift.io/v1", "Route", ns, "tas"},
		{"rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", fixture.BindingOf(ns, "tas")},
	} {
		u := c.Get(t, gvkOf(want.apiVersion, want.kind), want.ns, want.name)
		if u == nil {
			t.Errorf("%s %s is gone", want.kind, want.name)
			continue
		}
		if refs := u.GetOwnerReferences(); len(refs) != 1 || refs[0].Kind != "Inventory" || refs[0].BlockOwnerDeletion != nil {
			t.Errorf("%s %s has the owners %v", want.kind, want.name, refs)
		}
	}
	for _, name := range []string{"tas", "tas-tls"} {
		service := c.Get(t, gvkOf("v1", "Service"), ns, name)
		if selector, _, _ := unstructured.NestedStringMap(service.Object, "spec", "selector"); selector["app.kubernetes.io/version"] != "" || selector["app.kubernetes.io/instance"] != "tas" {
			t.Errorf("Service %s selects %v", name, selector)
		}
	}
	binding := c.Get(t, gvkOf("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"), "", fixture.BindingOf(ns, "tas"))
	if role, _, _ := unstructured.NestedString(binding.Object, "roleRef", "name"); role != "mlkeeper-trustyai-proxy" {
		t.Errorf("the binding grants %s", role)
	}
	if c.Get(t, gvkOf("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"), "", "tas-"+ns+"-proxy-rolebinding") != nil {
		t.Error("upstream's binding is left under its name, which other services can come to")
	}
	monitor := c.Get(t, gvkOf("monitoring.coreos.com/v1", "ServiceMonitor"), ns, "trustyai-metrics")
	if monitor == nil || monitor.GetResourceVersion() != central.GetResourceVersion() {
		t.Error("upstream's central ServiceMonitor was touched")
	}
	// The NetworkPolicy closes the pods that run.
	policy := c.Get(t, gvkOf("networking.k8s.io/v1", "NetworkPolicy"), ns, "tas-secured")
	selector, _, _ := unstructured.NestedStringMap(policy.Object, "spec", "podSelector", "matchLabels")
	closed := &corev1.PodList{}
	if err := c.Client.List(t.Context(), closed, client.InNamespace(ns), client.MatchingLabels(selector)); err != nil || len(closed.Items) != len(pods) {
		t.Errorf("the NetworkPolicy selects %d of %d pods: %v", len(closed.Items), len(pods), err)
	}
	// The pods: none was replaced, neither now nor after a restart of the operator.
	if now := c.Get(t, gvk, ns, "tas"); now.GetGeneration() != cr.GetGeneration() {
		t.Errorf("the spec was written: generation %d", now.GetGeneration())
	}
	if now := podUIDs(t, c, ns); !slices.Equal(now, pods) {
		t.Fatalf("the pods were replaced: %v, not %v", now, pods)
	}
	if sets := replicaSets(t, c, ns); sets != 1 {
		t.Errorf("%d ReplicaSets", sets)
	}

	// A change of the spec reaches the pods, and what only upstream declared goes.
	c.Kubectl(t, "-n", ns, "patch", "trustyaiservice", "tas", "--type=merge", "-p", `{"spec":{"metrics":{"schedule":"7s"}}}`)
	cluster.Eventually(t, 60*time.Second, func() error {
		text := fmt.Sprint(c.Get(t, gvkOf("apps/v1", "Deployment"), ns, "tas").Object["spec"])
		if !strings.Contains(text, "7s") || strings.Contains(text, "STORAGE_MIGRATION_CONFIG_FROM_FOLDER") || strings.Contains(text, "of-upstream") {
			return fmt.Errorf("the Deployment is %s", text)
		}
		if now := podUIDs(t, c, ns); len(now) != 1 || now[0] == pods[0] {
			return fmt.Errorf("the pods are %v", now)
		}
		return nil
	})
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)

	// The end leaves nothing but the data, and what is not ours.
	c.Kubectl(t, "-n", ns, "delete", "trustyaiservice", "tas")
	cluster.Eventually(t, 60*time.Second, func() error {
		out := c.Kubectl(t, "-n", ns, "get", "sa,svc,cm,deploy,rs,pod,netpol,servicemonitors,routes,pvc", "-o", "name")
		want := "serviceaccount/default\nconfigmap/kube-root-ca.crt\nservicemonitor.monitoring.coreos.com/trustyai-metrics\npersistentvolumeclaim/tas-pvc\n"
		if out != want {
			return fmt.Errorf("what is left is\n%s", out)
		}
		if c.Get(t, gvkOf("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"), "", fixture.BindingOf(ns, "tas")) != nil {
			return fmt.Errorf("the ClusterRoleBinding is left") // Defect 1
		}
		return nil
	})
}

func replicaSets(t *testing.T, c *cluster.Cluster, ns string) int {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvkOf("apps/v1", "ReplicaSetList"))
	if err := c.Client.List(t.Context(), list, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	return len(list.Items)
}

func TestAdoptedPodsSurviveARestartAndADeletedDeploymentComesBackWhole(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t)
	pods := upstreamService(t, c, ns)
	o := start(t, c, harness.Options{})
	cluster.Eventually(t, 60*time.Second, func() error {
		if get(t, c, ns, "tas").Status.StorageFormat == "" {
			return fmt.Errorf("not adopted yet")
		}
		return nil
	})
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
	o.Stop()
	before := c.Get(t, gvkOf("apps/v1", "Deployment"), ns, "tas")
	start(t, c, harness.Options{})
	// Drift of another child is repaired, which shows that the new operator is through.
	c.Kubectl(t, "-n", ns, "delete", "service", "tas-tls")
	cluster.Eventually(t, 30*time.Second, func() error {
		if c.Get(t, gvkOf("v1", "Service"), ns, "tas-tls") == nil {
			return fmt.Errorf("the Service is not back")
		}
		return nil
	})
	after := c.Get(t, gvkOf("apps/v1", "Deployment"), ns, "tas")
	if !slices.Equal(podUIDs(t, c, ns), pods) || after.GetGeneration() != before.GetGeneration() {
		t.Errorf("the restart changed the Deployment: generation %d, was %d", after.GetGeneration(), before.GetGeneration())
	}
	// Nothing of upstream's is left of a Deployment that is deleted.
	c.Kubectl(t, "-n", ns, "delete", "deployment", "tas", "--wait=false")
	cluster.Eventually(t, 60*time.Second, func() error {
		d := c.Get(t, gvkOf("apps/v1", "Deployment"), ns, "tas")
		if d == nil || d.GetUID() == before.GetUID() {
			return fmt.Errorf("the Deployment is not back")
		}
		if text := fmt.Sprint(d.Object["spec"]); strings.Contains(text, "of-upstream") || strings.Contains(text, "version:1.39.0] map") {
			return fmt.Errorf("the Deployment is %s", text)
		}
		return nil
	})
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
}

// A custom resource that waits for upstream, which is gone, ends at once, and its data stays (defects 3, 4 and 9).
func TestAdoptionOfAServiceThatIsBeingDeletedKeepsItsData(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t)
	upstreamService(t, c, ns)
	claim := c.Get(t, gvkOf("v1", "PersistentVolumeClaim"), ns, "tas-pvc")
	c.Kubectl(t, "-n", ns, "delete", "trustyaiservice", "tas", "--wait=false")
	start(t, c, harness.Options{})
	cluster.Eventually(t, 60*time.Second, func() error {
		if c.Get(t, gvk, ns, "tas") != nil {
			return fmt.Errorf("the custom resource is still there")
		}
		if c.Get(t, gvkOf("apps/v1", "Deployment"), ns, "tas") != nil {
			return fmt.Errorf("the Deployment is still there")
		}
		return nil
	})
	if now := c.Get(t, gvkOf("v1", "PersistentVolumeClaim"), ns, "tas-pvc"); now == nil || now.GetUID() != claim.GetUID() || now.GetDeletionTimestamp() != nil {
		t.Error("the data went with the custom resource")
	}
}

// TestAdoptionRestartsNoPredictor: a logger that upstream has set becomes MLKeeper's without a change that KServe hands on to the pods of the
// model, as it does each annotation. It goes with the custom resource, though that is deleted while no operator runs.
func TestAdoptionRestartsNoPredictor(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t)
	upstreamService(t, c, ns)
	url := "https://tas." + ns + ".svc.cluster.local"
	c.Apply(t, inferenceService("model", raw, ", logger: {mode: all, url: \""+url+"\"}"), ns)
	var pods []types.UID
	cluster.Eventually(t, 60*time.Second, func() error {
		out, err := c.TryKubectl("-n", ns, "rollout", "status", "deployment/model-predictor", "--timeout=5s")
		if pods = podUIDs(t, c, ns); err == nil && len(pods) != 2 {
			err = fmt.Errorf("the pods are %v: %s", pods, out)
		}
		return err
	})
	o := start(t, c, harness.Options{})
	adopted(t, c, ns)
	wiringIs(t, c, ns, "tas", "model", metav1.ConditionTrue)
	o.Stop()
	o = start(t, c, harness.Options{})
	adopted(t, c, ns)
	wiringIs(t, c, ns, "tas", "model", metav1.ConditionTrue)
	c.Consistently(t, 3*time.Second, func() error {
		if now := podUIDs(t, c, ns); !slices.Equal(now, pods) {
			return fmt.Errorf("the pods were replaced: %v, not %v", now, pods)
		}
		return nil
	})
	o.Stop()
	c.Kubectl(t, "-n", ns, "delete", "trustyaiservice", "tas")
	start(t, c, harness.Options{})
	loggerIs(t, c, ns, "model", "")
}
