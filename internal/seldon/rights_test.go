package seldon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
)

const user = "system:serviceaccount:ns:tenant"

// TestCredentialsAreCheckedAsTheServiceAccount: a status tells which keys the Secret has that values name, so it tells of those alone that
// the ServiceAccount may read.
func TestCredentialsAreCheckedAsTheServiceAccount(t *testing.T) {
	cr := &v1alpha1.SeldonOperator{}
	cr.Name, cr.Namespace = "stack", "ns"
	cr.Spec.Enterprise.Values = &runtime.RawExtension{
		Raw: []byte(`{"elasticsearch": {"basicAuth": true, "secret": {"name": "of-others", "userKey": "guess", "passwordKey": "host"}}}`),
	}
	s := New(Settings{}).(*system)
	for _, denied := range []bool{false, true} {
		c := controllertest.New(testNow)
		c.Denied = map[string]bool{user: denied}
		c.Put(opaque("of-others", map[string]string{"host": "h"}))
		facts := Facts{ActAs: user, Missing: map[string]plan.Problem{}}
		if err := s.gatherMissing(t.Context(), c, cr, giving(t, cr), &facts); err != nil {
			t.Fatal(err)
		}
		p, told := facts.Missing[payloadStore]
		if told == denied || told && !strings.Contains(p.Message, "lacks guess") {
			t.Errorf("the ServiceAccount may not read the Secret: %t; what the status tells: %t, %q", denied, told, p.Message)
		}
	}
}

// TestNoCommandHasATextOfValues: an administrator runs the command that the status has, and the author of the values may be nobody he knows.
func TestNoCommandHasATextOfValues(t *testing.T) {
	for _, c := range []struct{ name, key, reason string }{
		{"elastic", "user", reasonCredentials}, {"x; id #", "user", reasonValuesInvalid}, {"elastic", "$(id)", reasonValuesInvalid},
	} {
		cr := &v1alpha1.SeldonOperator{}
		cr.Name, cr.Namespace = "stack", "ns"
		cr.Spec.Enterprise.Values = &runtime.RawExtension{
			Raw: fmt.Appendf(nil, `{"elasticsearch": {"basicAuth": true, "secret": {"name": %q, "userKey": %q}}}`, c.name, c.key),
		}
		facts := Facts{ActAs: user, Missing: map[string]plan.Problem{}}
		if err := New(Settings{}).(*system).gatherMissing(t.Context(), controllertest.New(testNow), cr, giving(t, cr), &facts); err != nil {
			t.Fatal(err)
		}
		p := facts.Missing[payloadStore]
		if p.Reason != c.reason || c.reason == reasonValuesInvalid && (p.Class != plan.Terminal || strings.Contains(p.Error(), "id")) {
			t.Errorf("%q and %q: %+v", c.name, c.key, p)
		}
	}
}

// TestARightThatTheOperatorLacksIsAWarning: the user's own lack of rights is none, since others decide on it.
func TestARightThatTheOperatorLacksIsAWarning(t *testing.T) {
	cr := &v1alpha1.SeldonOperator{}
	cr.Name, cr.Namespace = "stack", "ns"
	cr.Spec.Enable.Routing = true
	s := New(Settings{ClusterDomain: "cluster.local"}).(*system)
	gateway := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
		"loadBalancer": map[string]any{"ingress": []any{map[string]any{"hostname": "models.example"}}},
	}}}
	gateway.SetGroupVersionKind(gvkService)
	gateway.SetNamespace(ingressNamespace)
	gateway.SetName(ingressService)
	for denied, want := range map[string]struct {
		host   string
		warned bool
	}{
		"nobody": {"models.example", false}, user: {deployService + ".ns.svc.cluster.local", false}, "": {deployService + ".ns.svc.cluster.local", true},
	} {
		c := controllertest.New(testNow)
		c.Denied = map[string]bool{denied: true}
		c.Put(gateway)
		c.Put(namespaceOf(ingressNamespace))
		url, warning, err := s.gatherURL(t.Context(), c, cr, giving(t, cr), user)
		if err != nil || !strings.HasPrefix(url, "http://"+want.host+"/") || (warning != "") != want.warned {
			t.Errorf("%q is denied: %q, warning %q, %v", denied, url, warning, err)
		}
		told := s.Render(cr, Facts{Keys: &keys{}, URLWarning: warning}).Warnings
		if (len(told) == 1) != want.warned {
			t.Errorf("%q is denied: the plan warns %q", denied, told)
		}
	}
}

func namespaceOf(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvkNamespace)
	u.SetName(name)
	return u
}

// watched records the namespaces whose Services are referred to, each of which is a watch.
type watched struct {
	*controllertest.Cluster
	namespaces []string
}

func (w *watched) ReferencedAs(
	ctx context.Context, user string, gvk schema.GroupVersionKind, namespace, name string,
) (*unstructured.Unstructured, error) {
	w.namespaces = append(w.namespaces, namespace)
	return w.Cluster.ReferencedAs(ctx, user, gvk, namespace, name)
}

// TestNoNamespaceThatDoesNotExistIsWatched: a thousand SeldonOperators with as many invented namespaces would be as many watches.
func TestNoNamespaceThatDoesNotExistIsWatched(t *testing.T) {
	s := New(Settings{ClusterDomain: "cluster.local"}).(*system)
	cr := &v1alpha1.SeldonOperator{}
	cr.Name, cr.Namespace = "stack", "ns"
	cr.Spec.Enable.Routing = true
	cr.Spec.Enterprise.Values = &runtime.RawExtension{Raw: []byte(`{"ingressGateway": {"ingressNamespace": "elsewhere"}}`)}
	c := &watched{Cluster: controllertest.New(testNow)}
	for range 2 {
		if _, _, err := s.gatherURL(t.Context(), c, cr, giving(t, cr), user); err != nil {
			t.Fatal(err)
		}
		c.Put(namespaceOf("elsewhere"))
	}
	if !slices.Equal(c.namespaces, []string{"elsewhere"}) {
		t.Errorf("read before and after the namespace is there: %q", c.namespaces)
	}
}

// giving are the values that a custom resource gives Seldon Deploy in its spec.
func giving(t *testing.T, cr *v1alpha1.SeldonOperator) values {
	t.Helper()
	out, err := userValues(t.Context(), nil, cr, &request{component: component{spec: cr.Spec.Enterprise}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
