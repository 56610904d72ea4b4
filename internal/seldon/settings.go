package seldon

import (
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/manifest/worker"
	"mlkeeper.dev/internal/origin"
	"mlkeeper.dev/internal/rendering"
)

// DefaultClusterDomain is the DNS domain of a cluster.
const DefaultClusterDomain = "cluster.local"

// Settings are what an administrator decides for all SeldonOperators.
type Settings struct {
	// Trusted lets the charts of every SeldonOperator that names no ServiceAccount be applied with the operator's own rights.
	// Who may create a SeldonOperator then may do whatever the operator may.
	Trusted bool
	// DryRun says that nothing is written, so that nobody's rights are needed.
	DryRun bool
	// DefaultServiceAccount is the ServiceAccount, of its own namespace, of a SeldonOperator that names none; empty for none.
	DefaultServiceAccount string
	// OperatorNamespace is the namespace of the operator; empty where it is not known.
	OperatorNamespace string
	// ClusterDomain is the DNS domain of the cluster; cluster.local by default.
	ClusterDomain string
	// Charts are where the charts come from that a SeldonOperator says nothing of, by component; those of the table where
	// one is missing.
	Charts map[string]v1alpha1.Chart
	// Sources fetches charts; nil refuses every SeldonOperator.
	Sources origin.Fetcher
	// Workers are the processes that render; nil for those that all share who name none.
	Workers *worker.Pool
	// Results bounds what is kept of renderings; nil for no bound.
	Results *rendering.Memory
	// Random is where keys and passwords come from; crypto/rand by default.
	Random io.Reader
}

func (s Settings) complete() Settings {
	if s.ClusterDomain == "" {
		s.ClusterDomain = DefaultClusterDomain
	}
	if s.Random == nil {
		s.Random = rand.Reader
	}
	return s
}

// ParseChart reads COMPONENT=REPOSITORY,NAME,VERSION[,sha256:DIGEST], the value of a flag that sets where a chart comes from.
func ParseChart(text string) (component string, chart v1alpha1.Chart, err error) {
	component, rest, found := strings.Cut(text, "=")
	parts := strings.Split(rest, ",")
	if _, known := defaultCharts[component]; !found || !known || len(parts) < 3 || len(parts) > 4 || slices.Contains(parts, "") {
		return "", chart, fmt.Errorf("%q: write COMPONENT=REPOSITORY,NAME,VERSION[,sha256:DIGEST]; the components are %s",
			text, strings.Join(slices.Sorted(maps.Keys(defaultCharts)), ", "))
	}
	chart = v1alpha1.Chart{Repository: parts[0], Name: parts[1], Version: parts[2]}
	if len(parts) == 4 {
		chart.Digest = parts[3]
	}
	return component, chart, nil
}
