package e2e

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// TestOpenShift has what OpenShift adds to Kubernetes: Routes with hosts of the API server's choice, pods that are admitted
// only with users and groups of their namespace, and certificates of service-ca.
func TestOpenShift(t *testing.T) {
	c := cluster.Start(t, cluster.WithCRDs("openshift", "servicemonitor"))
	t.Run("Routes", func(t *testing.T) { routesAreAsOnOpenShift(t, c) })
	t.Run("Pods", func(t *testing.T) { podsAreAsOnOpenShift(t, c) })
	t.Run("SecuredService", func(t *testing.T) { securedOnOpenShift(t, c) })
}

// creates creates an object as the default ServiceAccount of a namespace, which may do what the verbs and resource say, and wants
// the words in the refusal, or none.
func creates(t *testing.T, c *cluster.Cluster, ns, object, verbs, resource string, want ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "object.yaml")
	if err := os.WriteFile(file, []byte(object), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.TryKubectl("-n", ns, "get", "role", "may"); err != nil {
		c.Kubectl(t, "-n", ns, "create", "role", "may", "--verb="+verbs, "--resource="+resource)
		c.Kubectl(t, "-n", ns, "create", "rolebinding", "may", "--role=may", "--serviceaccount="+ns+":default")
	}
	as := "system:serviceaccount:" + ns + ":default"
	cluster.Eventually(t, 30*time.Second, func() error {
		out, err := c.TryKubectl("-n", ns, "--as="+as, "create", "-f", file)
		if len(want) == 0 {
			return err
		}
		for _, word := range want {
			if err == nil || !strings.Contains(err.Error(), word) {
				return fmt.Errorf("the answer is %q, without %q: %w", out, word, err)
			}
		}
		return nil
	})
}

func routeOf(name, spec string) string {
	return "apiVersion: route.openshift.io/v1\nkind: Route\nmetadata: {name: " + name + "}\nspec: {to: {kind: Service, name: s}" + spec + "}\n"
}

func routesAreAsOnOpenShift(t *testing.T, c *cluster.Cluster) {
	ns, other := c.Namespace(t), c.Namespace(t)
	stored := c.Apply(t, routeOf("plain", ""), ns)[0]
	host, _, _ := unstructured.NestedString(stored.Object, "spec", "host")
	if !strings.HasPrefix(host, "plain-"+ns+".") || stored.GetAnnotations()["openshift.io/host.generated"] != "true" {
		t.Errorf("the answer to the creation has host %q and annotations %v", host, stored.GetAnnotations())
	}
	for _, entry := range stored.GetManagedFields() {
		if strings.Contains(entry.FieldsV1.GetRawString(), "f:host") {
			t.Errorf("the host belongs to %s", entry.Manager)
		}
	}
	admitted := func(ns, name, want, reason string) {
		t.Helper()
		cluster.Eventually(t, 30*time.Second, func() error {
			out, err := c.TryKubectl("-n", ns, "get", "route", name, "-o", "jsonpath={.status.ingress[0].conditions[0].status} {.status.ingress[0].conditions[0].reason}")
			if err == nil && strings.TrimSpace(out) != strings.TrimSpace(want+" "+reason) {
				err = fmt.Errorf("%s is %s", name, out)
			}
			return err
		})
	}
	admitted(ns, "plain", "True", "")
	// Times are stored in seconds, and the UID decides between Routes of the same one.
	cluster.Eventually(t, 30*time.Second, func() error {
		if time.Since(stored.GetCreationTimestamp().Time) < time.Second {
			return errors.New("the next Route would not be younger")
		}
		return nil
	})
	c.Apply(t, routeOf("thief", ", host: "+host), other)
	admitted(other, "thief", "False", "HostAlreadyClaimed")
	c.Kubectl(t, "-n", ns, "delete", "route", "plain")
	admitted(other, "thief", "True", "")

	const verbs, resource = "get,create", "routes.route.openshift.io"
	creates(t, c, ns, routeOf("own", ""), verbs, resource)
	creates(t, c, ns, routeOf("custom", ", host: mine.example"), verbs, resource, "spec.host", "you do not have permission")
	creates(t, c, ns, routeOf("cert", ", tls: {termination: reencrypt, destinationCACertificate: CA}"), verbs, resource, "spec.tls", "you do not have permission")
}

func podsAreAsOnOpenShift(t *testing.T, c *cluster.Cluster) {
	ns := c.Namespace(t)
	pod := func(name, securityContext string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec: {securityContext: {" + securityContext + "}, containers: [{name: c, image: i}]}\n"
	}
	creates(t, c, ns, pod("any", ""), "get,create", "pods")
	creates(t, c, ns, pod("group", "fsGroup: 1001"), "get,create", "pods", "fsGroup", "1001", "is not an allowed group")
	creates(t, c, ns, pod("user", "runAsUser: 0"), "get,create", "pods", "runAsUser", "must be in the ranges")
}

// securedOnOpenShift has a Secured service whose certificates service-ca makes, and whose pods get their group from OpenShift.
func securedOnOpenShift(t *testing.T, c *cluster.Cluster) {
	start(t, c, harness.Options{})
	ns := c.Namespace(t)
	boundClaim(t, c, ns, "tas-pvc")
	c.Apply(t, upstream, ns)
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
	condition(t, c, ns, "tas", "RouteAvailable", metav1.ConditionTrue)
	roots := x509.NewCertPool()
	injected := c.Get(t, gvkOf("v1", "ConfigMap"), ns, "openshift-service-ca.crt")
	if injected == nil {
		t.Fatal("the namespace has no authority")
	}
	text, _, _ := unstructured.NestedString(injected.Object, "data", "service-ca.crt")
	if !roots.AppendCertsFromPEM([]byte(text)) {
		t.Fatalf("the authority is %q", text)
	}
	for secret, service := range map[string]string{"tas-tls": "tas-tls", "tas-internal": "tas"} {
		cluster.Eventually(t, 30*time.Second, func() error {
			u := c.Get(t, gvkOf("v1", "Secret"), ns, secret)
			if u == nil {
				return fmt.Errorf("there is no Secret %s", secret)
			}
			encoded, _, _ := unstructured.NestedString(u.Object, "data", "tls.crt")
			raw, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil {
				return err
			}
			block, _ := pem.Decode(raw)
			if block == nil {
				return fmt.Errorf("the certificate of %s is %q", secret, raw)
			}
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return err
			}
			_, err = cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: service + "." + ns + ".svc"})
			return err
		})
	}
	// The pods wait for the certificates, so that none is made anew for them; there is one pod, and has been no other.
	if sets := strings.Fields(c.Kubectl(t, "-n", ns, "get", "replicasets", "-o", "name")); len(sets) != 1 {
		t.Errorf("%d ReplicaSets: the service was rolled out again for its certificates", len(sets))
	}
	var pods corev1.PodList
	if err := c.Client.List(t.Context(), &pods, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 1 {
		t.Errorf("%d pods", len(pods.Items))
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.Phase != corev1.PodRunning || pod.Spec.SecurityContext != nil && pod.Spec.SecurityContext.FSGroup != nil {
			t.Errorf("pod %s is %s, with the security context %+v", pod.Name, pod.Status.Phase, pod.Spec.SecurityContext)
		}
	}
	route := c.Get(t, gvkOf("route.openshift.io/v1", "Route"), ns, "tas")
	if ca, found, _ := unstructured.NestedString(route.Object, "spec", "tls", "destinationCACertificate"); found {
		t.Errorf("the Route carries an authority that the router knows anyway: %s", ca)
	}
}
