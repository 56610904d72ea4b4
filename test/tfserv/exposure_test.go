package tfserv

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/harness"
)

var entrances = []schema.GroupVersionKind{
	{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"},
	{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"},
	{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "GRPCRoute"},
}

// TestEntrancesComeChangeAndGo: an Ingress and the routes of the Gateway API follow the spec, and go with its fields, while the servers run
// on.
func TestEntrancesComeChangeAndGo(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{}, fixture.Nobody{})
	ns := c.Namespace(t)
	c.Apply(t, seedFile, ns)
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	generation := c.Get(t, deployment, ns, sample).GetGeneration()
	for _, host := range []string{"a.example.com", "b.example.com"} {
		patch(t, c, tfserv, ns, sample, strings.ReplaceAll(`{"spec":{"ingress":{"host":"HOST"},`+
			`"httpRoute":{"host":"HOST","gateway":{"name":"public"}},"grpcRoute":{"host":"HOST","gateway":{"name":"public"}}}}`, "HOST", host))
		for _, gvk := range entrances {
			cluster.Eventually(t, time.Minute, func() error {
				u := c.Get(t, gvk, ns, sample)
				if u == nil || !strings.Contains(fmt.Sprint(u.Object["spec"]), host) {
					return fmt.Errorf("no %s with %s", gvk.Kind, host)
				}
				return nil
			})
		}
		condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	}
	// What another writer changes is put back.
	c.Kubectl(t, "-n", ns, "label", "httproute", sample, "--overwrite", "tfsName=theirs")
	cluster.Eventually(t, time.Minute, func() error {
		if got := c.Get(t, entrances[1], ns, sample).GetLabels()["tfsName"]; got != sample {
			return fmt.Errorf("the label is %q", got)
		}
		return nil
	})
	patch(t, c, tfserv, ns, sample, `{"spec":{"ingress":null,"httpRoute":null,"grpcRoute":null}}`)
	for _, gvk := range entrances {
		cluster.Eventually(t, time.Minute, func() error {
			if c.Get(t, gvk, ns, sample) != nil {
				return fmt.Errorf("the %s is still there", gvk.Kind)
			}
			return nil
		})
	}
	if got := c.Get(t, deployment, ns, sample).GetGeneration(); got != generation {
		t.Errorf("the Deployment was changed: generation %d, was %d", got, generation)
	}
}

// TestAHostThatIsNoDNSNameIsRefused at admission, which says what is wrong.
func TestAHostThatIsNoDNSNameIsRefused(t *testing.T) {
	c := cluster.Shared(t)
	c.InstallCRDs(t)
	ns := c.Namespace(t)
	c.Apply(t, seedFile, ns)
	for _, field := range []string{"ingress", "httpRoute", "grpcRoute"} {
		out, err := c.TryKubectl("-n", ns, "patch", "tfserv", sample, "--type=merge", "-p",
			`{"spec":{"`+field+`":{"host":"https://Models","gateway":{"name":"public"}}}}`)
		if err == nil || !strings.Contains(out+fmt.Sprint(err), "host must be a DNS name in lower case") {
			t.Errorf("%s: %v %s", field, err, out)
		}
	}
}
