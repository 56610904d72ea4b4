package seldon

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/source"
)

// asking is a store that keeps what it was asked for.
type asking struct {
	*fakeStore
	request source.ChartRequest
}

func (a *asking) FetchChart(ctx context.Context, r source.ChartRequest) (*source.Artifact, error) {
	a.request = r
	return a.fakeStore.FetchChart(ctx, r)
}

// TestTheKeysOfASignature: which entries of which object a chart is verified with, and what is said where there are none.
func TestTheKeysOfASignature(t *testing.T) {
	store, err := source.New(source.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	from := &asking{fakeStore: &fakeStore{store: store}}
	from.put(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}}\n")
	published := &unstructured.Unstructured{Object: map[string]any{
		"data": map[string]any{"b.asc": "armored", "cosign.pub": "pem"}, "binaryData": map[string]any{"a.gpg": base64.StdEncoding.EncodeToString([]byte("binary"))},
	}}
	published.SetGroupVersionKind(gvkConfigMap)
	published.SetNamespace("ns")
	published.SetName("published")
	cluster := controllertest.New(testNow)
	cluster.Put(opaque("keys", map[string]string{"b.pub": "second", "a.pub": "first", "notes": "none"}))
	cluster.Put(opaque("archives", map[string]string{"core.tgz": string(from.data)}))
	cluster.Put(published)
	const index, registry = "https://example.test", "oci://example.test"
	secret, configMap := &v1alpha1.KeysReference{Name: "keys"}, &v1alpha1.KeysReference{Name: "published"}
	for name, c := range map[string]struct {
		repository                 string
		verify                     v1alpha1.Verification
		keys, reason, field, class string
	}{
		"a Secret":           {registry, v1alpha1.Verification{Provider: "cosign", SecretRef: secret}, "first second", "", "", ""},
		"a ConfigMap":        {registry, v1alpha1.Verification{Provider: "cosign", ConfigMapRef: configMap}, "pem", "", "", ""},
		"keyrings":           {index, v1alpha1.Verification{Provider: "pgp", ConfigMapRef: configMap}, "binary armored", "", "", ""},
		"none of the kind":   {index, v1alpha1.Verification{Provider: "pgp", SecretRef: secret}, "", "KeyMissing", ".secretRef", "Waiting"},
		"no such object":     {index, v1alpha1.Verification{Provider: "pgp", ConfigMapRef: secret}, "", "ConfigMapNotFound", ".configMapRef", "Waiting"},
		"nothing named":      {index, v1alpha1.Verification{Provider: "pgp"}, "", source.ReasonKeysInvalid, "", "Terminal"},
		"an archive in hand": {"secret:archives/core.tgz", v1alpha1.Verification{Provider: "pgp", SecretRef: secret}, "", source.ReasonURIInvalid, "", "Terminal"},
	} {
		s := New(Settings{Sources: from}).(*system)
		cr := &v1alpha1.SeldonOperator{}
		cr.Name, cr.Namespace, cr.UID = "stack", "ns", "uid"
		facts := Facts{Keys: made(t, nil, testNow)}
		facts.Keys.there, facts.Keys.stored = true, true
		one := component{name: core, chart: v1alpha1.Chart{Name: "small", Version: "1.0.0", Repository: c.repository, Verify: &c.verify}}
		part, _, err := s.gatherPart(t.Context(), cluster, cr, one, facts)
		if err != nil {
			t.Fatal(err)
		}
		if c.reason != "" {
			p := part.Problem
			if p == nil || p.Reason != c.reason || p.Field != "spec.core.chart.verify"+c.field || string(p.Class) != c.class || p.Remedy == "" {
				t.Errorf("%s: %+v", name, p)
			}
			continue
		}
		asked := cluster.Asked[len(cluster.Asked)-1]
		if result, _ := asked.Job(t.Context(), nil).(*Result); part.Problem != nil || result.Failure != nil {
			t.Errorf("%s: %v, %v", name, part.Problem, result.Failure)
			continue
		}
		var keys []string
		for _, key := range from.request.Verify.Keys {
			keys = append(keys, string(key))
		}
		if got := strings.Join(keys, " "); got != c.keys || from.request.Verify.Provider != c.verify.Provider {
			t.Errorf("%s: verified by %s with %q", name, from.request.Verify.Provider, got)
		}
		// Other keys are another question.
		other := opaque("keys", map[string]string{"a.pub": "third"})
		other.SetResourceVersion("2")
		cluster.Put(other)
		if _, _, err := s.gatherPart(t.Context(), cluster, cr, one, facts); err != nil {
			t.Fatal(err)
		}
		if again := cluster.Asked[len(cluster.Asked)-1].Name != asked.Name; again != (c.verify.SecretRef != nil) {
			t.Errorf("%s: with other keys in the Secret, it is fetched again: %t", name, again)
		}
		cluster.Put(opaque("keys", map[string]string{"b.pub": "second", "a.pub": "first", "notes": "none"}))
	}
}

// TestAnUnsignedChartLeavesWhatRuns: what was rendered stays declared beside the failure, whose field is that of the signature; a chart that is
// signed, but is another one, is not rendered.
func TestAnUnsignedChartLeavesWhatRuns(t *testing.T) {
	store, err := source.New(source.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	from := &fakeStore{store: store}
	from.put(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}}\n")
	s := New(Settings{Sources: from}).(*system)
	cr := &v1alpha1.SeldonOperator{}
	cr.Name, cr.Namespace, cr.UID = "stack", "ns", "uid"
	cluster := controllertest.New(testNow)
	cluster.Put(opaque("keys", map[string]string{"a.pub": "first"}))
	facts := Facts{Keys: made(t, nil, testNow)}
	facts.Keys.there, facts.Keys.stored = true, true
	ask := func(name, version string) Part {
		t.Helper()
		one := component{name: core, chart: v1alpha1.Chart{
			Name: name, Version: version, Repository: "oci://example.test",
			Verify: &v1alpha1.Verification{Provider: "cosign", SecretRef: &v1alpha1.KeysReference{Name: "keys"}},
		}}
		for {
			part, _, err := s.gatherPart(t.Context(), cluster, cr, one, facts)
			if err != nil {
				t.Fatal(err)
			}
			asked := cluster.Asked[len(cluster.Asked)-1]
			if !part.Pending {
				delete(cluster.Answers, asked.Name)
				return part
			}
			cluster.Answers[asked.Name] = asked.Job(t.Context(), nil)
		}
	}
	if part := ask("small", "1.x"); part.Result.Failure != nil || names(part) != "one" {
		t.Fatalf("%+v", part.Result)
	}
	from.put(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: two}}\n")
	for what, c := range map[string]struct {
		name, version string
		down          error
		reason        string
	}{
		"unsigned":        {"small", "1.x", &source.Error{Class: source.Terminal, Reason: source.ReasonSignatureMissing, Field: source.FieldVerify, Message: "m", Remedy: "r"}, source.ReasonSignatureMissing},
		"another chart":   {"large", "1.0.0", nil, source.ReasonSignatureInvalid},
		"another version": {"small", "1.0.1", nil, source.ReasonSignatureInvalid},
		"an older one":    {"small", ">1.0", nil, source.ReasonSignatureInvalid},
	} {
		from.down = c.down
		part := ask(c.name, c.version)
		problem, _ := part.report()
		if names(part) != "one" || problem == nil || problem.Class != plan.Terminal || problem.Reason != c.reason || problem.Field != "spec.core.chart.verify" ||
			problem.Value != c.name+" "+c.version {
			t.Errorf("%s: declared is %q, and said %+v", what, names(part), problem)
		}
	}
	from.down = errors.New("no route")
	if part := ask("small", "1.x"); part.Result.Failure.Field != "spec.core.chart" {
		t.Errorf("%+v", part.Result.Failure)
	}
}
