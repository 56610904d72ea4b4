//go:build realnode

package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/test/cluster"
)

const (
	securedName = "tas"
	// meshName is the Deployment that plays ModelMesh.
	meshName = "modelmesh"
)

// secured makes a service of upstream's shape: with certificates of its own authority, and behind the stand-in for
// kube-rbac-proxy, which asks the API server with the rights that the operator bound.
func secured(t *testing.T, c *cluster.Cluster) {
	ns := c.Namespace(t)
	volume(t, c, "pv-"+ns, ns, securedName+"-pvc")
	c.Apply(t, fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata:
  name: %[1]s
  labels: {modelmesh-service: modelmesh-serving}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - {name: mm, image: %[2]q, imagePullPolicy: Never, command: [/standin, wait]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules:
- {apiGroups: [""], resources: [services], resourceNames: [%[3]s], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects:
- {kind: ServiceAccount, name: friend}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: writer}
rules:
- {apiGroups: [""], resources: [services], resourceNames: [%[3]s], verbs: [get, create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: writer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: writer}
subjects:
- {kind: ServiceAccount, name: writer}
`, meshName, serviceImage, securedName), ns)
	clientPod(t, c, ns, "client")
	before, err := objects(t, c, ns)
	if err != nil {
		t.Fatal(err)
	}

	applied := time.Now()
	c.Apply(t, fmt.Sprintf(`
apiVersion: trustyai.opendatahub.io/v1
kind: TrustyAIService
metadata: {name: %s}
spec:
  storage: {format: PVC, folder: /inputs, size: 1Gi, retentionPolicy: Delete}
  data: {filename: data.csv, format: CSV}
  metrics: {schedule: 5s, batchSize: 1000}
`, securedName), ns)
	cr := condition(t, c, ns, securedName, "Ready", metav1.ConditionTrue)
	t.Logf("Ready %s after it was applied", time.Since(applied).Round(100*time.Millisecond))
	pod := servicePod(t, c, ns, securedName)
	if n := len(pod.Spec.Containers); n != 2 {
		t.Errorf("the pod has %d containers", n)
	}
	probed(t, c, ns, securedName, "client", pod)

	url := meshURL(t, c, ns)
	if cr.Status.URL != url || !strings.HasPrefix(url, "https://") {
		t.Errorf("ModelMesh has the URL %q, and status.url is %q", url, cr.Status.URL)
	}
	// It trusts the certificate that the operator mounted, and no other.
	mustIn(t, c, ns, "deployment/"+meshName, "post", url, partial("secured"))
	arrived(t, c, ns, "client", pod, `\"id\":\"secured\"`)
	arrived(t, c, ns, "client", pod, `"tls":true`)
	scraped(t, c, ns, securedName, "deployment/"+meshName, "trustyai_dir", "trustyai_spd")
	proxied(t, c, ns, pod)

	clients := []string{"friend", "writer", "stranger"}
	c.Kubectl(t, append([]string{"delete", "-n", ns, "--grace-period=0", "--force", "pod"}, clients...)...)
	c.Kubectl(t, append([]string{"delete", "-n", ns, "serviceaccount"}, clients...)...)
	c.Kubectl(t, "delete", "-n", ns, "trustyaiservice", securedName, "--timeout="+patience.String())
	onlyLeft(t, c, ns, before)
	cluster.Eventually(t, patience, func() error {
		if env := meshContainer(t, c, ns).Env; len(env) != 0 {
			return fmt.Errorf("ModelMesh still has %v", env)
		}
		return nil
	})
}

func meshContainer(t *testing.T, c *cluster.Cluster, ns string) *corev1.Container {
	t.Helper()
	mesh := &appsv1.Deployment{}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: meshName}, mesh); err != nil {
		t.Fatal(err)
	}
	return &mesh.Spec.Template.Spec.Containers[0]
}

// meshURL waits until the pod that plays ModelMesh runs with the URL that the operator gave it, and returns the URL.
func meshURL(t *testing.T, c *cluster.Cluster, ns string) string {
	t.Helper()
	url := ""
	cluster.Eventually(t, patience, func() error {
		for _, env := range meshContainer(t, c, ns).Env {
			if env.Name == "MM_PAYLOAD_PROCESSORS" {
				url = env.Value
				return nil
			}
		}
		return fmt.Errorf("ModelMesh has no MM_PAYLOAD_PROCESSORS")
	})
	c.Kubectl(t, "rollout", "status", "-n", ns, "deployment/"+meshName, "--timeout="+patience.String())
	t.Logf("MM_PAYLOAD_PROCESSORS: %s", url)
	return url
}

// proxied asserts whom the proxy lets in: to GET who may get the Service, to POST who may get and create it, as
// docs/trustyai.md has the Role, and nobody else. kube-rbac-proxy up to v0.18.0 asks for create when a request is a POST
// (pkg/proxy/proxy.go, GetRequestAttributes; TestRealProxy asks it).
func proxied(t *testing.T, c *cluster.Cluster, ns string, pod *corev1.Pod) {
	t.Helper()
	for _, name := range []string{"friend", "writer", "stranger"} {
		c.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: %[1]s}
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s}
spec:
  serviceAccountName: %[1]s
  containers:
  - name: client
    image: %[2]q
    imagePullPolicy: Never
    command: [/standin, wait]
    env: [{name: MM_TLS_KEY_CERT_PATH, value: /proxy/tls.crt}]
    volumeMounts: [{name: proxy, mountPath: /proxy, readOnly: true}]
  volumes:
  - {name: proxy, secret: {secretName: %[3]s-tls, items: [{key: tls.crt, path: tls.crt}]}}
`, name, serviceImage, securedName), ns)
		c.Kubectl(t, "wait", "-n", ns, "pod/"+name, "--for=condition=Ready", "--timeout="+patience.String())
	}
	host := fmt.Sprintf("https://%s-tls.%s.svc.cluster.local", securedName, ns)
	metrics, consumer := host+"/q/metrics", host+"/consumer/kserve/v2"
	const token = "/var/run/secrets/kubernetes.io/serviceaccount/token"
	for _, name := range []string{"friend", "writer"} {
		if out := mustIn(t, c, ns, name, "get", metrics, token); !strings.Contains(out, "trustyai_spd") {
			t.Errorf("through the proxy, as %s: %q", name, out)
		}
	}
	mustIn(t, c, ns, "writer", "post", consumer, partial("proxied"), token)
	arrived(t, c, ns, "client", pod, `\"id\":\"proxied\"`)
	for _, refused := range []struct {
		answer string
		args   []string
	}{
		{"403 Forbidden", []string{"stranger", "get", metrics, token}},
		{"403 Forbidden", []string{"stranger", "post", consumer, partial("stranger"), token}},
		{"403 Forbidden", []string{"friend", "post", consumer, partial("friend"), token}},
		{"401 Unauthorized", []string{"friend", "get", metrics}},
		{"401 Unauthorized", []string{"writer", "post", consumer, partial("nobody")}},
	} {
		if out, err := in(c, ns, refused.args[0], refused.args[1:]...); err == nil || !strings.Contains(err.Error(), refused.answer) {
			t.Errorf("%v: %v, %q; want %s", refused.args, err, out, refused.answer)
		}
	}
	t.Logf("%s: GET for who may get the Service, POST for who may get and create it, 403 for others, 401 without a token", host)
}
