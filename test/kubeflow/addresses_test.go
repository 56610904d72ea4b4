package kubeflow

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/internal/clusternet"
	watchsource "mlkeeper.dev/internal/engine/watch/source"
	"mlkeeper.dev/internal/kubeflow"
	"mlkeeper.dev/internal/seldon"
	"mlkeeper.dev/internal/source"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// TestTheClusterIsNoSource scans the cluster by KfDefs, with the rights that the operator is shipped with: of the API server's Service, of an
// address without a Service, and of a node a status says the same.
func TestTheClusterIsNoSource(t *testing.T) {
	c := cluster.Start(t)
	account, err := c.Operator(cluster.Rights{Controllers: []string{kubeflow.ControllerName, seldon.ControllerName}})
	if err != nil {
		t.Fatal(err)
	}
	addresses := addressesOf(t, account)
	a := archives{options: source.Options{
		Dir: t.TempDir(), Cluster: addresses.Prefixes, Limits: source.Limits{Dial: time.Second, Total: 10 * time.Second},
	}}.again(t)
	ns := c.Namespace(t)
	grant(t, c, ns)
	start(t, c, a, harness.Options{}, kubeflow.Settings{})

	service, nodes := &corev1.Service{}, &corev1.NodeList{}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "kubernetes"}, service); err != nil {
		t.Fatal(err)
	}
	if err := c.Client.List(t.Context(), nodes); err != nil || len(nodes.Items) == 0 {
		t.Fatalf("%d nodes, %v", len(nodes.Items), err)
	}
	listens := service.Spec.ClusterIP
	older := rest.CopyConfig(account)
	older.Wrap(func(next http.RoundTripper) http.RoundTripper { return withoutServiceCIDRs{next} })
	assumed, err := addressesOf(t, older).Prefixes(t.Context())
	if err != nil || !slices.ContainsFunc(assumed, func(p netip.Prefix) bool { return p.Bits() < 32 && p.Contains(netip.MustParseAddr(listens)) }) {
		t.Errorf("a cluster without ServiceCIDRs has its Services in %v: %v", assumed, err)
	}
	ip := net.ParseIP(listens).To4()
	ip[3] += 200
	told := map[string]string{}
	for name, host := range map[string]string{"listens": listens, "silent": ip.String(), "node": nodes.Items[0].Status.Addresses[0].Address} {
		c.Apply(t, fmt.Sprintf(`
apiVersion: kfdef.apps.kubeflow.org/v1
kind: KfDef
metadata: {name: %s}
spec:
  serviceAccountName: mlkeeper
  applications: [{name: first, kustomizeConfig: {repoRef: {name: manifests, path: first}}}]
  repos: [{name: manifests, uri: "https://%s/manifests.tar.gz"}]
`, name, host), ns)
		cluster.Eventually(t, patience, func() error {
			ready := meta.FindStatusCondition(get(t, c, ns, name).Status.Conditions, "Ready")
			if ready == nil || ready.Reason != source.ReasonAddressRefused {
				return fmt.Errorf("%s at %s: %+v", name, host, ready)
			}
			told[name] = strings.ReplaceAll(ready.Message, host, "HOST")
			return nil
		})
	}
	if told["listens"] != told["silent"] || told["listens"] != told["node"] {
		t.Errorf("the statuses differ: %q", told)
	}
}

func addressesOf(t *testing.T, account *rest.Config) *clusternet.Addresses {
	t.Helper()
	watches, err := watchsource.NewDynamic(account)
	if err != nil {
		t.Fatal(err)
	}
	out := clusternet.New(watches, true, logr.Discard())
	t.Cleanup(out.Close)
	return out
}

// withoutServiceCIDRs answers as an API server before Kubernetes 1.33.
type withoutServiceCIDRs struct{ http.RoundTripper }

func (w withoutServiceCIDRs) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, "/servicecidrs") {
		return w.RoundTripper.RoundTrip(r)
	}
	answer := httptest.NewRecorder()
	http.NotFound(answer, r)
	return answer.Result(), nil
}
