package seldon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/manifest/helm"
)

// standIns are the charts of make demo. Their schemas have the names of the values of the charts that they stand for, and
// refuse every other: Helm itself ignores a name that a chart does not know.
const standIns = "../../hack/demo/seldon/charts/"

// fits renders a chart with values, whose names its schema judges.
func fits(t *testing.T, folder string, v values) error {
	t.Helper()
	chart, err := helm.Load(os.DirFS(folder))
	if err != nil {
		t.Fatal(err)
	}
	_, err = helm.Render(t.Context(), helm.Input{
		Chart: chart, Release: "release", Namespace: "ns", Values: v, Generated: made(t, nil, testNow).of(core),
		Cluster: helm.Cluster{Version: "v1.36.2", Serves: func(string) bool { return true }},
	})
	return err
}

// switched are SeldonOperators with every switch off, with each alone on, and with all on, with what is MLKeeper's own and with what
// is the user's.
func switched() []*v1alpha1.SeldonOperator {
	all := v1alpha1.Enable{Analytics: true, Catalogue: true, PayloadStore: true, Routing: true, Detectors: true}
	no := false
	out := []*v1alpha1.SeldonOperator{{}}
	for _, on := range []v1alpha1.Enable{
		{Analytics: true}, {Catalogue: true}, {PayloadStore: true}, {Routing: true}, {Detectors: true}, all,
	} {
		own, users := &v1alpha1.SeldonOperator{}, &v1alpha1.SeldonOperator{}
		own.Spec.Enable, users.Spec.Enable = on, on
		users.Spec.PayloadStore.InternalElastic.UseInternal, users.Spec.Routing.CreateGateway = &no, &no
		out = append(out, own, users)
	}
	return out
}

func TestEveryValueThatIsSetIsOneOfTheChart(t *testing.T) {
	s := &system{settings: Settings{}.complete()}
	tried := map[string]bool{}
	for _, cr := range switched() {
		for _, c := range s.componentsOf(cr) {
			set := s.overlay(cr, c)
			same := fmt.Sprint(c.name, set)
			if tried[same] {
				continue
			}
			tried[same] = true
			if err := fits(t, standIns+c.chart.Name, set); err != nil {
				t.Errorf("%s with %+v: %v", c.name, cr.Spec.Enable, err)
			}
		}
	}
	if err := fits(t, "testdata/postgresql-10.16.2", overlayCatalogue("10.16.2")); err != nil {
		t.Errorf("an older chart of PostgreSQL: %v", err)
	}
	if err := fits(t, standIns+"opensearch", overlayPayloadStore("2.18.0")); err != nil {
		t.Errorf("a later chart of OpenSearch: %v", err)
	}
}

// TestEveryValueThatUsersAreAskedForIsOneOfTheChart takes the values of the documentation's manifests, and those of a user that
// MLKeeper reads.
func TestEveryValueThatUsersAreAskedForIsOneOfTheChart(t *testing.T) {
	read := values{
		"service":        values{"type": "LoadBalancer"},
		"elasticsearch":  values{"basicAuth": true, "secret": values{"name": "n", "userKey": "u", "passwordKey": "p"}},
		"metadata":       values{"pg": values{"enabled": true, "secret": "n"}},
		"ingressGateway": values{"ingressNamespace": "n", "seldonIngressService": "n"},
	}
	if err := fits(t, standIns+"seldon-deploy", read); err != nil {
		t.Error(err)
	}
	seeds, err := filepath.Glob("../../test/testdata/seeds/seldon-*.yaml")
	if err != nil || len(seeds) == 0 {
		t.Fatalf("there are no manifests: %v", err)
	}
	for _, seed := range seeds {
		raw, err := os.ReadFile(seed) //nolint:gosec // one of the repository's files
		if err != nil {
			t.Fatal(err)
		}
		cr := &v1alpha1.SeldonOperator{}
		if err := yaml.Unmarshal(raw, cr); err != nil {
			t.Fatalf("%s: %v", seed, err)
		}
		for chart, of := range map[string]v1alpha1.Component{"seldon-core-operator": cr.Spec.Core, "seldon-deploy": cr.Spec.Enterprise} {
			given, err := userValues(t.Context(), nil, cr, &request{component: component{spec: of}})
			if err == nil {
				err = fits(t, standIns+chart, given)
			}
			if err != nil {
				t.Errorf("%s: %v", seed, err)
			}
		}
	}
}

func TestTheStandInChartsTakeNoOtherValues(t *testing.T) {
	for _, chart := range []string{
		standIns + "seldon-core-operator", standIns + "seldon-core-analytics", standIns + "seldon-deploy", standIns + "opensearch",
		standIns + "postgresql", "testdata/postgresql-10.16.2",
	} {
		if err := fits(t, chart, nil); err != nil {
			t.Errorf("%s does not take its own values: %v", chart, err)
		}
		if err := fits(t, chart, values{"misspelt": true}); err == nil || !strings.Contains(err.Error(), "misspelt") {
			t.Errorf("%s takes a value that the chart does not have: %v", chart, err)
		}
	}
}
