package invariants

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/test/bundle"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// growing fails unless the attempts at a path become rarer: the first pause is a second, and each is twice as long as the one before. A
// busy machine makes pauses longer and none shorter, so that they are not compared with each other.
func (b *bench) growing(mark int, suffix string) {
	b.Helper()
	var attempts []request
	cluster.Eventually(b, patience, func() error {
		if attempts = b.journal.writes(mark, http.MethodPost, suffix); len(attempts) < 4 {
			return fmt.Errorf("%d attempts", len(attempts))
		}
		return nil
	})
	for i, least := 1, 800*time.Millisecond; i < len(attempts); i, least = i+1, 2*least {
		if pause := attempts[i].at.Sub(attempts[i-1].at); pause < least {
			b.Errorf("the pauses do not grow: %s, and not %s\n%s", pause, least, lines(attempts))
		}
	}
}

func TestInvariant15QuotaIsToldAndRetriedWithGrowingPauses(t *testing.T) {
	b := open(t, options{})
	b.c.Apply(t, `{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"none"},"spec":{"hard":{"count/secrets":"0"}}}
`, b.ns)
	b.field(quotaGVK, b.ns, "none", "map[count/secrets:0]", "status", "hard")
	mark := b.journal.mark()
	b.apply("b", one(configMap(b.ns, "one", "v"), secret(b.ns, "two", "v")))
	got := b.condition("b", "Ready", metav1.ConditionFalse, "QuotaExceeded")
	if !strings.Contains(got.Message, "two") || !strings.Contains(got.Message, "ResourceQuota") {
		t.Errorf("the message does not say what to do: %s", got.Message)
	}
	b.value("one", "v")
	b.growing(mark, b.ns+"/secrets")
	if n := b.events("b", "QuotaExceeded"); n != 1 {
		t.Errorf("%d events, want one for the transition", n)
	}
	b.delete(quotaGVK, b.ns, "none")
	b.ready("b")
}

func TestInvariant15DenialByPolicyIsToldAndRetried(t *testing.T) {
	b := open(t, options{})
	policy := b.ns + "-policy"
	b.c.Apply(t, fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":
		{"name":%q},"spec":{"failurePolicy":"Fail","matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],
		"operations":["CREATE","UPDATE"],"resources":["secrets","configmaps"]}]},"validations":[{"expression":
		"!has(object.data) || !('k' in object.data) || string(object.data.k) != 'bad'","message":"field is immutable, says the policy"}]}}
---
{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":%q},"spec":{
"policyName":%q,"validationActions":["Deny"],"matchResources":{"namespaceSelector":{"matchLabels":
{"kubernetes.io/metadata.name":%q}}}}}
`, policy, policy, policy, b.ns))
	removed := false
	remove := func() {
		if !removed {
			removed = true
			b.c.Kubectl(t, "delete", "validatingadmissionpolicybinding", policy)
			b.c.Kubectl(t, "delete", "validatingadmissionpolicy", policy)
		}
	}
	b.Cleanup(remove)
	cluster.Eventually(t, patience, func() error {
		out, err := b.c.TryKubectl("create", "configmap", "probe", "-n", b.ns, "--from-literal=k=bad", "--dry-run=server")
		if err == nil {
			return fmt.Errorf("the policy is not active yet: %s", out)
		}
		return nil
	})
	b.apply("b", one(configMap(b.ns, "stays", "good"), configMap(b.ns, "one", "good")))
	b.ready("b")
	uid := b.must(configMapGVK, b.ns, "stays").GetUID()
	mark := b.journal.mark()
	b.apply("b", one(configMap(b.ns, "stays", "bad"), configMap(b.ns, "one", "good"), configMap(b.ns, "two", "bad")))
	got := b.condition("b", "Ready", metav1.ConditionFalse, "AdmissionDenied")
	if !strings.Contains(got.Message, "says the policy") {
		t.Errorf("the message does not name the policy: %s", got.Message)
	}
	b.growing(mark, b.ns+"/configmaps")
	if b.must(configMapGVK, b.ns, "stays").GetUID() != uid {
		t.Error("an object was recreated since a policy said immutable")
	}
	remove()
	b.ready("b")
	b.value("two", "bad")
	b.value("stays", "bad")
}

// TestInvariant15AWebhookThatIsDownHoldsBackItsObjectAlone: what else the custom resource has is repaired meanwhile.
func TestInvariant15AWebhookThatIsDownHoldsBackItsObjectAlone(t *testing.T) {
	b := open(t, options{})
	b.apply("b", one(configMap(b.ns, "one", "v"), configMap(b.ns, "two", "v")))
	b.ready("b")
	webhook := b.ns + "-down"
	b.c.Apply(t, fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":%q},
		"webhooks":[{"name":"down.invariants.test","failurePolicy":"Fail","sideEffects":"None","admissionReviewVersions":["v1"],
		"clientConfig":{"service":{"namespace":%q,"name":"there-is-none"}},"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":%q}},
		"matchConditions":[{"name":"one","expression":"object.metadata.name == 'one'"}],
		"rules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["CREATE"]}]}]}
`, webhook, b.ns, b.ns))
	remove := sync.OnceFunc(func() { b.c.Kubectl(t, "delete", "validatingwebhookconfiguration", webhook) })
	b.Cleanup(remove)
	cluster.Eventually(t, patience, func() error {
		_, err := b.c.TryKubectl("create", "configmap", "one", "-n", b.ns, "--dry-run=server")
		if err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
			return fmt.Errorf("the webhook is not called yet: %w", err)
		}
		return nil
	})
	mark := b.journal.mark()
	b.delete(configMapGVK, b.ns, "one")
	got := b.condition("b", "Ready", metav1.ConditionFalse, "WebhookUnavailable")
	if !strings.Contains(got.Message, "one") || !strings.Contains(got.Message, `repair the server of the webhook "down.invariants.test"`) {
		t.Errorf("the message does not say what to do: %s", got.Message)
	}
	b.growing(mark, b.ns+"/configmaps")
	b.delete(configMapGVK, b.ns, "two")
	b.value("two", "v")
	if b.c.Get(t, configMapGVK, b.ns, "one") != nil {
		t.Error("the webhook was not called")
	}
	remove()
	b.ready("b")
	b.value("one", "v")
}

// TestInvariant15AWatchThatCannotBeOpenedIsTold has the API server fail every list and watch of Secrets, as for a broken conversion webhook.
// What waits for one says so, and a deletion goes on.
func TestInvariant15AWatchThatCannotBeOpenedIsTold(t *testing.T) {
	b := open(t, options{})
	b.journal.hook(func(r *http.Request) *http.Response {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, b.ns+"/secrets") {
			return answer(r, http.StatusInternalServerError, "InternalError")
		}
		return nil
	})
	waits := one(configMap(b.ns, "one", "v"))
	waits.Secret = "theirs"
	b.apply("waits", waits)
	got := b.condition("waits", "Ready", metav1.ConditionFalse, "CacheNotSynced")
	for _, want := range []string{"Secret theirs cannot be watched", "made up", "kubectl get secret"} {
		if !strings.Contains(got.Message, want) {
			t.Errorf("the message lacks %q: %s", want, got.Message)
		}
	}
	// The finalizer of the original stays on while the watch may still be opened, and no longer.
	b.op.Stop()
	b.patch(bundleGVK, b.ns, "waits", fmt.Sprintf(`{"metadata":{"finalizers":[%q]}}`, bundle.OriginalFinalizer))
	b.c.Kubectl(t, "-n", b.ns, "delete", "bundle", "waits", "--wait=false")
	b.restart()
	b.gone(bundleGVK, b.ns, "waits")
	b.apply("later", waits)
	b.condition("later", "Ready", metav1.ConditionFalse, "CacheNotSynced")
	b.journal.hook(nil)
	b.c.Apply(t, "{apiVersion: v1, kind: Secret, metadata: {name: theirs}}\n", b.ns)
	b.ready("later")
}

// TestInvariant15ANameThatIsFreeAgainIsNoticedByAWatch: the object of another owner has no label by which children are watched. Each attempt
// follows from a watch, since no pause ends.
func TestInvariant15ANameThatIsFreeAgainIsNoticedByAWatch(t *testing.T) {
	b := open(t, options{Options: harness.Options{Engine: engine.Options{Clock: harness.NewStoppedClock()}}})
	role := b.ns + "-role"
	b.c.Apply(t, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"},"data":{"k":"theirs"}}
---
{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%q},"rules":[]}
`, role), b.ns)
	mark := b.journal.mark()
	b.apply("b", one(configMap(b.ns, "one", "v"), clusterRole(role, "get")))
	b.condition("b", "Ready", metav1.ConditionFalse, "ResourceConflict")
	for _, path := range []string{"/api/v1/namespaces/" + b.ns + "/configmaps", "/apis/rbac.authorization.k8s.io/v1/clusterroles"} {
		cluster.Eventually(t, patience, func() error {
			if len(b.journal.since(mark, func(r request) bool {
				return !r.write() && r.path == path && strings.Contains(r.query, "watch=") && !strings.Contains(r.query, "labelSelector")
			})) == 0 {
				return fmt.Errorf("nothing watches %s", path)
			}
			return nil
		})
	}
	b.settle()
	if n := len(b.journal.writes(mark, http.MethodPost, b.ns+"/configmaps")); n != 1 {
		t.Errorf("%d attempts while another owner has the name", n)
	}
	b.delete(configMapGVK, b.ns, "one")
	b.value("one", "v")
	b.delete(clusterRoleGVK, "", role)
	b.ready("b")
}
