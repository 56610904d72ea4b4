package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/internal/trustyai"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// TestOperatorUpgradeRollsOneNamespaceAtATime holds the rollout of one namespace after the other by an image that no pod gets
// ready with. The others wait, stay Ready and say for whom, until the one that rolls is suspended, or its deadline is over.
func TestOperatorUpgradeRollsOneNamespaceAtATime(t *testing.T) {
	c := cluster.Shared(t)
	namespaces := []string{c.Namespace(t), c.Namespace(t), c.Namespace(t)}
	now := &harness.ShiftedClock{}
	// What other tests leave behind is torn down meanwhile, and would take its turn too.
	opts := harness.Options{Engine: engine.Options{Namespaces: namespaces, Clock: now}}
	first := start(t, c, opts)
	for _, ns := range namespaces {
		volume(t, c, pvName(ns))
		c.Apply(t, adr(pvName(ns)), ns)
		condition(t, c, ns, example, "Ready", metav1.ConditionTrue)
	}
	first.Stop()
	uncordon := cordon(t, c)
	opts.Verbose = testing.Verbose()
	harness.Start(t, c, opts,
		trustyAI(trustyai.Settings{Image: nextImage, ProxyImage: trustyai.DefaultProxyImage}))
	// rolls waits until so many namespaces have the image, and all others wait for the last of them.
	var rolled []string
	rolls := func(n int) (rolling string, waiting []string) {
		t.Helper()
		cluster.Eventually(t, 60*time.Second, func() error {
			rolling, waiting = "", nil
			for _, ns := range namespaces {
				switch {
				case slices.Contains(rolled, ns):
				case image(t, c, ns) == nextImage:
					rolling = ns
				default:
					waiting = append(waiting, ns)
				}
			}
			if rolling == "" || len(rolled)+1+len(waiting) != len(namespaces) || len(waiting) != len(namespaces)-n {
				return fmt.Errorf("%q has the image, %v have not, %v had it before", rolling, waiting, rolled)
			}
			for _, ns := range waiting {
				cr := get(t, c, ns, example)
				held := meta.FindStatusCondition(cr.Status.Conditions, "Reconciling")
				if held == nil || held.Reason != "WaitingForRollout" || !strings.Contains(held.Message, rolling) {
					return fmt.Errorf("%s does not wait for %s: %+v", ns, rolling, held)
				}
				if !meta.IsStatusConditionTrue(cr.Status.Conditions, "Ready") {
					return fmt.Errorf("a service whose pods still run as before is not Ready")
				}
			}
			return nil
		})
		rolled = append(rolled, rolling)
		return rolling, waiting
	}
	suspended, _ := rolls(1)
	c.Kubectl(t, "-n", suspended, "annotate", "trustyaiservice", example, keeper.SuspendAnnotation+"=true")
	overdue, waiting := rolls(2)
	now.Shift(11 * time.Minute)
	c.Kubectl(t, "-n", waiting[0], "annotate", "trustyaiservice", example, keeper.ReconcileAtAnnotation+"=now")
	rolls(3)
	cluster.Eventually(t, 30*time.Second, func() error {
		if text := c.Kubectl(t, "-n", overdue, "get", "events", "-o", "jsonpath={.items[*].reason}"); !strings.Contains(text, "RolloutDeadlineExceeded") {
			return fmt.Errorf("no event tells of the deadline: %s", text)
		}
		return nil
	})
	uncordon()
	c.Kubectl(t, "-n", suspended, "annotate", "trustyaiservice", example, keeper.SuspendAnnotation+"-")
	for _, ns := range namespaces {
		condition(t, c, ns, example, "Ready", metav1.ConditionTrue)
		if got := image(t, c, ns); got != nextImage {
			t.Errorf("namespace %s has %s", ns, got)
		}
	}
}

const nextImage = "example.com/trustyai-service:v0.27.0"

// TestATenantsOwnCredentialsHoldNobodyUp rotates the credentials of two namespaces one after the other, of which the first
// never becomes Ready with its own.
func TestATenantsOwnCredentialsHoldNobodyUp(t *testing.T) {
	c := cluster.Shared(t)
	namespaces := []string{c.Namespace(t), c.Namespace(t)}
	start(t, c, harness.Options{Engine: engine.Options{Namespaces: namespaces}})
	generations := map[string]int64{}
	generation := func(ns string) int64 {
		return c.Get(t, gvkOf("apps/v1", "Deployment"), ns, "trustyai-service").GetGeneration()
	}
	credentials := func(ns, password string) { c.Apply(t, sharedCredentials(password), ns) }
	for _, ns := range namespaces {
		credentials(ns, "right")
		c.Apply(t, onDatabase, ns)
	}
	for _, ns := range namespaces {
		condition(t, c, ns, example, "Ready", metav1.ConditionTrue)
		generations[ns] = generation(ns)
	}
	cordon(t, c) // So that no pod becomes Ready with other credentials.
	for _, ns := range namespaces {
		credentials(ns, "wrong")
		cluster.Eventually(t, 30*time.Second, func() error {
			if now := generation(ns); now <= generations[ns] {
				cr := get(t, c, ns, example)
				return fmt.Errorf("the pods of %s run with the old credentials: %+v", ns, meta.FindStatusCondition(cr.Status.Conditions, "Reconciling"))
			}
			return nil
		})
	}
}

const onDatabase = `
apiVersion: trustyai.opendatahub.io/v1alpha1
kind: TrustyAIService
metadata: {name: trustyai-service-example}
spec:
  storage: {format: DATABASE, databaseConfigurations: db}
  data: {filename: data.csv, format: CSV}
  trustyaiMetrics: {schedule: 15s}
`

// sharedCredentials is the Secret of onDatabase.
func sharedCredentials(password string) string {
	return "{apiVersion: v1, kind: Secret, metadata: {name: db}, stringData: {databaseKind: mariadb, databaseUsername: u, databasePassword: " +
		password + ", databaseService: s, databasePort: '3306', databaseName: d, databaseGeneration: update}}\n"
}

// TestALostDigestKeyRollsOneNamespaceAtATime deletes the key of the digests while no manager runs. Every digest changes then, and the pods
// with it, as after an upgrade from a release whose digests had no such key.
func TestALostDigestKeyRollsOneNamespaceAtATime(t *testing.T) {
	c := cluster.Shared(t)
	namespaces := []string{c.Namespace(t), c.Namespace(t)}
	opts := harness.Options{Engine: engine.Options{Namespaces: namespaces}}
	first := start(t, c, opts)
	shown := func(ns string) string {
		d := c.Get(t, gvkOf("apps/v1", "Deployment"), ns, "trustyai-service")
		text, _, _ := unstructured.NestedString(d.Object, "spec", "template", "metadata", "annotations",
			"trustyai.opendatahub.io/credentials-digest")
		return text
	}
	before := map[string]string{}
	for _, ns := range namespaces {
		c.Apply(t, sharedCredentials("guess"), ns)
		c.Apply(t, onDatabase, ns)
		condition(t, c, ns, example, "Ready", metav1.ConditionTrue)
		before[ns] = shown(ns)
		// Whoever sees the digest sees the UID beside it.
		if guess := digestKeyedWith(get(t, c, ns, example).UID, "guess"); before[ns] == "" || before[ns] == guess {
			t.Errorf("the digest %q is that of the password with the UID as key, %q", before[ns], guess)
		}
	}
	if before[namespaces[0]] == before[namespaces[1]] {
		t.Error("who sees both digests knows that both have the same password, and could try passwords with a service of his own")
	}
	first.Stop()
	c.Kubectl(t, "-n", cluster.OperatorNamespace, "delete", "secret", "mlkeeper-digest-key")
	uncordon := cordon(t, c)
	start(t, c, opts)
	cluster.Eventually(t, 60*time.Second, func() error {
		var rolled, waiting []string
		for _, ns := range namespaces {
			held := meta.FindStatusCondition(get(t, c, ns, example).Status.Conditions, "Reconciling")
			switch {
			case shown(ns) != before[ns]:
				rolled = append(rolled, ns)
			case held != nil && held.Reason == "WaitingForRollout":
				waiting = append(waiting, ns)
			}
		}
		if len(rolled) != 1 || len(waiting) != 1 {
			return fmt.Errorf("%q have another digest and %q wait", rolled, waiting)
		}
		return nil
	})
	uncordon()
	cluster.Eventually(t, 60*time.Second, func() error {
		for _, ns := range namespaces {
			if shown(ns) == before[ns] {
				return fmt.Errorf("%s has the digest of the lost key", ns)
			}
		}
		return nil
	})
	for _, ns := range namespaces {
		condition(t, c, ns, example, "Ready", metav1.ConditionTrue)
	}
}

// digestKeyedWith is the digest of sharedCredentials that releases made before there was a key of the installation.
func digestKeyedWith(uid types.UID, password string) string {
	mac := hmac.New(sha256.New, []byte(uid))
	data := [][2]string{
		{"databaseGeneration", "update"},
		{"databaseKind", "mariadb"},
		{"databaseName", "d"},
		{"databasePassword", password},
		{"databasePort", "3306"},
		{"databaseService", "s"},
		{"databaseUsername", "u"},
	}
	fmt.Fprintf(mac, "%d;", len(data))
	for _, entry := range data {
		fmt.Fprintf(mac, "%d:%s%d:%s", len(entry[0]), entry[0], len(entry[1]), entry[1])
	}
	fmt.Fprint(mac, "0;") // There is no Secret with an authority.
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

func image(t *testing.T, c *cluster.Cluster, ns string) string {
	t.Helper()
	d := c.Get(t, gvkOf("apps/v1", "Deployment"), ns, "trustyai-service")
	containers, _, err := unstructured.NestedSlice(d.Object, "spec", "template", "spec", "containers")
	if err != nil || len(containers) == 0 {
		t.Fatalf("the Deployment has no container: %v", err)
	}
	return fmt.Sprint(containers[0].(map[string]any)["image"]) //nolint:forcetypeassert // The API server's own schema.
}
