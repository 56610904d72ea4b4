package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// TestFieldsOfPodsAndEntrances adds the fields that neither TrustyAI ADR 3 nor upstream knows, and removes them again: each brings its
// child, which is kept as it is declared, and takes it away.
func TestFieldsOfPodsAndEntrances(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	ns := c.Namespace(t)
	c.Apply(t, `
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: `+ns+`-high}
value: 1000
---
apiVersion: v1
kind: Secret
metadata: {name: registry}
`, ns)
	t.Cleanup(func() { _, _ = c.TryKubectl("delete", "priorityclass", ns+"-high", "--ignore-not-found") })
	boundClaim(t, c, ns, "tas-pvc")
	c.Apply(t, upstream, ns)
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
	patch := func(spec string) {
		t.Helper()
		c.Kubectl(t, "-n", ns, "patch", "trustyaiservice", "tas", "--type=merge", "-p", `{"spec":`+spec+`}`)
		condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
	}
	patch(`{"imagePullPolicy":"Always","imagePullSecrets":[{"name":"registry"}],"env":[{"name":"JAVA_OPTS","value":"-Xmx1g"}],` +
		`"proxy":{"resources":{"limits":{"memory":"128Mi"}}},"priorityClassName":"` + ns + `-high","podDisruptionBudget":{"maxUnavailable":1},` +
		`"podSecurityContext":{"runAsNonRoot":true,"fsGroup":99,"seccompProfile":{"type":"RuntimeDefault"}},"ingress":{"host":"trustyai.example.com"},` +
		`"httpRoute":{"host":"trustyai.example.com","gateway":{"name":"public","namespace":"gateways"}}}`)
	text := fmt.Sprint(c.Get(t, gvkOf("apps/v1", "Deployment"), ns, "tas").Object["spec"])
	for _, want := range []string{"imagePullPolicy:Always", "name:registry", "value:-Xmx1g", "memory:128Mi", "priorityClassName:" + ns + "-high", "fsGroup:99"} {
		if !strings.Contains(text, want) {
			t.Errorf("the Deployment has no %s: %s", want, text)
		}
	}
	entrances := []struct{ apiVersion, kind string }{
		{"networking.k8s.io/v1", "Ingress"},
		{"policy/v1", "PodDisruptionBudget"},
		{"gateway.networking.k8s.io/v1", "HTTPRoute"},
		{"gateway.networking.k8s.io/v1", "BackendTLSPolicy"},
	}
	for _, child := range entrances {
		if c.Get(t, gvkOf(child.apiVersion, child.kind), ns, "tas") == nil {
			t.Fatalf("there is no %s", child.kind)
		}
		c.Kubectl(t, "-n", ns, "label", child.kind, "tas", "--overwrite", "app.kubernetes.io/part-of=theirs")
		cluster.Eventually(t, 30*time.Second, func() error {
			if got := c.Get(t, gvkOf(child.apiVersion, child.kind), ns, "tas").GetLabels()["app.kubernetes.io/part-of"]; got != "trustyai" {
				return fmt.Errorf("the label of the %s is %q", child.kind, got)
			}
			return nil
		})
	}
	route := c.Get(t, gvkOf("route.openshift.io/v1", "Route"), ns, "tas")
	routers, _, _ := unstructured.NestedSlice(route.Object, "status", "ingress")
	if got := get(t, c, ns, "tas").Status.ExternalURL; len(routers) == 0 || got != fmt.Sprintf("https://%v", routers[0].(map[string]any)["host"]) {
		t.Errorf("status.externalURL is %q, the routers are %v", got, routers)
	}
	patch(`{"podDisruptionBudget":null,"ingress":null,"httpRoute":null,"env":null,"priorityClassName":null}`)
	for _, child := range entrances {
		cluster.Eventually(t, 30*time.Second, func() error {
			if c.Get(t, gvkOf(child.apiVersion, child.kind), ns, "tas") != nil {
				return fmt.Errorf("the %s stays", child.kind)
			}
			return nil
		})
	}
}

// TestAnExistingClaimIsWaitedForAndStays has a service on a claim that its user makes later.
func TestAnExistingClaimIsWaitedForAndStays(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	ns := c.Namespace(t)
	service := func(name string) string {
		return `
apiVersion: trustyai.opendatahub.io/v1
kind: TrustyAIService
metadata: {name: ` + name + `}
spec: {exposure: Plain, storage: {format: PVC, folder: /inputs, existingClaim: mine}, metrics: {schedule: 5s}}
`
	}
	c.Apply(t, service("tas"), ns)
	says(t, c, ns, "tas", "Ready", metav1.ConditionFalse, "ClaimNotFound", "spec.storage.existingClaim", "create it")
	boundClaim(t, c, ns, "mine")
	made := c.Apply(t, `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: mine}
spec: {accessModes: [ReadWriteOnce], storageClassName: "", resources: {requests: {storage: 1Gi}}}
`, ns)[0]
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
	condition(t, c, ns, "tas", "PVCAvailable", metav1.ConditionTrue)
	for _, spec := range []string{`{"storage":{"existingClaim":"other"}}`, `{"storage":{"existingClaim":null,"size":"1Gi"}}`} {
		u := c.Get(t, gvk, ns, "tas")
		err := c.Client.Patch(t.Context(), u, client.RawPatch("application/merge-patch+json", []byte(`{"spec":`+spec+`}`)))
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.storage.existingClaim can be neither added, changed nor removed") {
			t.Errorf("%s: %v", spec, err)
		}
	}
	// Times are stored in seconds, and the UID decides between services of the same one.
	cluster.Eventually(t, 30*time.Second, func() error {
		if time.Since(get(t, c, ns, "tas").CreationTimestamp.Time) < time.Second {
			return errors.New("the next service would not be younger")
		}
		return nil
	})
	c.Apply(t, service("second"), ns)
	says(t, c, ns, "second", "Ready", metav1.ConditionFalse, "ClaimShared", "tas")
	c.Kubectl(t, "-n", ns, "delete", "trustyaiservice", "tas", "--cascade=foreground")
	condition(t, c, ns, "second", "Ready", metav1.ConditionTrue)
	claim := c.Get(t, made.GroupVersionKind(), ns, "mine")
	if claim == nil || claim.GetUID() != made.GetUID() || len(claim.GetOwnerReferences())+len(claim.GetLabels()) > 0 {
		t.Errorf("the claim was changed: %v", claim)
	}
}
