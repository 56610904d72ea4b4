package seldon

import (
	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/source"
)

// The components that are charts, by the names of their fields in the spec.
const (
	core         = "core"
	enterprise   = "enterprise"
	analytics    = "analytics"
	catalogue    = "catalogue"
	payloadStore = "payloadstore"
)

// The switches that bring no chart of their own.
const (
	routing   = "routing"
	detectors = "detectors"
)

// defaultCharts are where the charts come from that neither a SeldonOperator nor the administrator says anything of: those of
// Seldon Deploy 2.0, to which the meta-operator belongs (November 2022). --seldon-chart overrides one.
var defaultCharts = map[string]v1alpha1.Chart{
	core:         {Repository: "https://storage.googleapis.com/seldon-charts", Name: "seldon-core-operator", Version: "1.15.0"},
	enterprise:   {Repository: "https://seldonio.github.io/helm-charts", Name: "seldon-deploy", Version: "2.0.0"},
	analytics:    {Repository: "https://storage.googleapis.com/seldon-charts", Name: "seldon-core-analytics", Version: "1.15.0"},
	catalogue:    {Repository: "oci://registry-1.docker.io/bitnamicharts", Name: "postgresql", Version: "12.1.2"},
	payloadStore: {Repository: "https://opensearch-project.github.io/helm-charts", Name: "opensearch", Version: "2.8.0"},
}

// component is one chart of a stack.
type component struct {
	name string
	// release is the name that the chart is rendered under, from which the names of its objects follow.
	release string
	// trial says that it is meant for trying out only.
	trial bool
	spec  v1alpha1.Component
	// chart is where it comes from.
	chart v1alpha1.Chart
}

// componentsOf are those that a SeldonOperator has, in the order in which they are made: what others connect to comes first.
func (s *system) componentsOf(cr *v1alpha1.SeldonOperator) []component {
	spec, on := cr.Spec, cr.Spec.Enable
	out := []component{{name: core, release: "seldon-core", spec: spec.Core}}
	if on.Analytics {
		out = append(out, component{name: analytics, release: "seldon-core-analytics", spec: spec.Analytics})
	}
	if on.Catalogue {
		out = append(out, component{name: catalogue, release: "seldon-internal-postgres", trial: true, spec: spec.Catalogue})
	}
	if internalElastic(cr) {
		out = append(out, component{name: payloadStore, release: "seldon-internal-opensearch", trial: true, spec: spec.PayloadStore.Component})
	}
	out = append(out, component{name: enterprise, release: "seldon-deploy", spec: spec.Enterprise})
	for i := range out {
		out[i].chart = s.chartOf(out[i].name, out[i].spec.Chart)
	}
	return out
}

// chartOf completes what a SeldonOperator says of a chart.
func (s *system) chartOf(name string, given *v1alpha1.Chart) v1alpha1.Chart {
	out, ok := s.settings.Charts[name]
	if !ok {
		out = defaultCharts[name]
	}
	if given == nil {
		return out
	}
	if given.Version != "" && given.Version != out.Version || given.Name != "" && given.Name != out.Name || given.Repository != "" {
		out.Digest = "" // It was that of another archive.
	}
	for _, field := range []struct {
		to   *string
		from string
	}{
		{&out.Repository, given.Repository},
		{&out.Name, given.Name},
		{&out.Version, given.Version},
		{&out.Digest, given.Digest},
		{&out.SecretName, given.SecretName},
	} {
		if field.from != "" {
			*field.to = field.from
		}
	}
	out.Verify = given.Verify
	return out
}

// versionOf is the version of a component's chart: of a range the one that was rendered last, and empty before.
func (s *system) versionOf(cr *v1alpha1.SeldonOperator, c component) string {
	if !source.IsRange(c.chart.Version) {
		return c.chart.Version
	}
	if last := s.results.Last(subject(cr, c)); last.Rendered() {
		return last.Content.Version
	}
	if recorded := recordedOf(cr, c.name); recorded.ValuesDigest != "" {
		return recorded.Version
	}
	return ""
}

// componentOf is a component by its name, as far as its chart goes.
func (s *system) componentOf(name string, spec v1alpha1.Component) component {
	return component{name: name, spec: spec, chart: s.chartOf(name, spec.Chart)}
}

// internalElastic says that the trial instance of OpenSearch is wanted.
func internalElastic(cr *v1alpha1.SeldonOperator) bool {
	return cr.Spec.Enable.PayloadStore && orTrue(cr.Spec.PayloadStore.InternalElastic.UseInternal)
}

// ownGateway says that our Gateway is wanted, and not the user's.
func ownGateway(cr *v1alpha1.SeldonOperator) bool {
	return cr.Spec.Enable.Routing && orTrue(cr.Spec.Routing.CreateGateway)
}

func orTrue(b *bool) bool { return b == nil || *b }
