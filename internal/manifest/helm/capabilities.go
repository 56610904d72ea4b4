package helm

import (
	"fmt"
	"maps"
	"sync"

	"helm.sh/helm/v4/pkg/chart/common"
	"k8s.io/apimachinery/pkg/util/version"
)

// Cluster says what the cluster has.
type Cluster struct {
	// Version is the version of Kubernetes, such as v1.36.2.
	Version string
	// Serves says whether the cluster serves a group and version such as apps/v1, or a kind of one such as apps/v1/Deployment.
	Serves func(apiVersion string) bool
}

// capabilities is what .Capabilities is in a template, with the fields of Helm's.
type capabilities struct {
	KubeVersion kubeVersion
	APIVersions *apiVersions
	HelmVersion helmVersion
}

// kubeVersion has the fields of Helm's, of which GitVersion was a method.
type kubeVersion struct{ Version, GitVersion, Major, Minor string }

// String is what a template prints.
func (k kubeVersion) String() string { return k.Version }

// helmVersion is that of the engine.
type helmVersion struct{ Version, GitCommit, GitTreeState, GoVersion string }

// apiVersions answers what a template asks for, and remembers it: a chart is rendered again when one of its answers changes,
// and not whenever any API comes or goes.
type apiVersions struct {
	serves func(string) bool
	mu     sync.Mutex
	asked  map[string]bool
}

// Has is called by templates.
func (v *apiVersions) Has(apiVersion string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, known := v.asked[apiVersion]; !known && len(v.asked) < maxAsked {
		v.asked[apiVersion] = v.serves(apiVersion)
	}
	return v.asked[apiVersion]
}

// maxAsked bounds the APIs that one chart asks for.
const maxAsked = 500

// answers are what was asked for, and what the answer was.
func (v *apiVersions) answers() map[string]bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.asked)
}

// fallbackVersion is taken where the API server tells no version: charts compare it, and fail on what is none.
const fallbackVersion = "1.36.0"

// capabilitiesOf are those of a cluster. An API server that was built without its version says v0.0.0-master+$Format:%H$,
// which no chart can compare.
func capabilitiesOf(c Cluster) *capabilities {
	v, err := version.ParseGeneric(c.Version)
	if err != nil || v.Major() == 0 {
		v = version.MustParseGeneric(fallbackVersion)
	}
	text := "v" + v.String()
	return &capabilities{
		KubeVersion: kubeVersion{
			Version: text, GitVersion: text, Major: fmt.Sprint(v.Major()), Minor: fmt.Sprint(v.Minor()),
		},
		APIVersions: &apiVersions{serves: c.Serves, asked: map[string]bool{}},
		HelmVersion: helmVersion{Version: common.DefaultCapabilities.HelmVersion.Version, GoVersion: common.DefaultCapabilities.HelmVersion.GoVersion},
	}
}
