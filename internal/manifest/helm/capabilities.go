package helm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"helm.sh/helm/v4/pkg/chart/common"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/version"
)

// Cluster says what the cluster has.
type Cluster struct {
	// Version is the version of Kubernetes, such as v1.36.2.
	Version string
	// Serves says whether the cluster serves a group and version such as apps/v1, or a kind of one such as apps/v1/Deployment.
	Serves func(apiVersion string) bool
	// All returns everything of which Serves says that it is served, in a fixed order.
	All func() []string
}

// Answers says of what templates have asked for what the answer would be now.
func (c Cluster) Answers(asked map[string]bool) map[string]bool {
	out := make(map[string]bool, len(asked))
	for api := range asked {
		if digest, list := strings.CutPrefix(api, listAsked); list {
			out[api] = digestOf(c.All()) == digest
			continue
		}
		out[api] = c.Serves(api)
	}
	return out
}

// listAsked begins the name under which all APIs as a list are remembered, before their digest.
const listAsked = "*"

func digestOf(apis []string) string {
	sum := sha256.Sum256([]byte(strings.Join(apis, "\n")))
	return hex.EncodeToString(sum[:8])
}

// capabilities is what .Capabilities is in a template, with the fields of Helm's.
type capabilities struct {
	KubeVersion kubeVersion
	// APIVersions are *apiVersions, or a common.VersionSet where the templates need a list.
	APIVersions any
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
	if _, known := v.asked[apiVersion]; !known && len(v.asked) < maxAsked && len(apiVersion) <= maxAPI {
		v.asked[apiVersion] = v.serves(apiVersion)
	}
	return v.asked[apiVersion]
}

// maxAsked bounds the APIs that one chart asks for, and maxAPI how long one is, in bytes: no API server serves a longer one. A group is a
// subdomain of DNS, and a version and a kind are labels of it (k8s.io/apiextensions-apiserver, pkg/apis/apiextensions/validation/validation.go).
const (
	maxAsked = 500
	maxAPI   = validation.DNS1123SubdomainMaxLength + 2*(1+validation.DNS1035LabelMaxLength)
)

// answers are what was asked for, and what the answer was.
func (v *apiVersions) answers() map[string]bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.asked)
}

// fallbackVersion is taken where the API server tells no version: charts compare it, and fail on what is none.
const fallbackVersion = "1.36.0"

// usesList says that a template of a chart, or of one within it, needs .Capabilities.APIVersions as a list.
func usesList(c *chartv2.Chart) bool {
	return usesListIn(c.Values) || slices.ContainsFunc(c.Templates, func(f *common.File) bool { return asList(f.Data) }) ||
		slices.ContainsFunc(c.Dependencies(), usesList)
}

// usesListIn says so of values, which templates may evaluate by tpl.
func usesListIn(values map[string]any) bool {
	raw, err := json.Marshal(values)
	return err == nil && asList(raw)
}

// asList says that a text of a chart uses .Capabilities.APIVersions other than by its method Has: in has, in range, as a text.
func asList(text []byte) bool {
	for {
		_, after, found := bytes.Cut(text, []byte("APIVersions"))
		if !found {
			return false
		}
		if !bytes.HasPrefix(after, []byte(".Has")) {
			return true
		}
		text = after
	}
}

// capabilitiesOf are those of a cluster. An API server that was built without its version says v0.0.0-master+$Format:%H$,
// which no chart can compare. A template that has all APIs as a list depends on every one of them; asked are what it is told.
func capabilitiesOf(c Cluster, list bool) (out *capabilities, asked func() map[string]bool) {
	v, err := version.ParseGeneric(c.Version)
	if err != nil || v.Major() == 0 {
		v = version.MustParseGeneric(fallbackVersion)
	}
	text := "v" + v.String()
	out = &capabilities{
		KubeVersion: kubeVersion{
			Version: text, GitVersion: text, Major: fmt.Sprint(v.Major()), Minor: fmt.Sprint(v.Minor()),
		},
		HelmVersion: helmVersion{Version: common.DefaultCapabilities.HelmVersion.Version, GoVersion: common.DefaultCapabilities.HelmVersion.GoVersion},
	}
	if list {
		all := c.All()
		out.APIVersions = common.VersionSet(all)
		return out, func() map[string]bool { return map[string]bool{listAsked + digestOf(all): true} }
	}
	one := &apiVersions{serves: c.Serves, asked: map[string]bool{}}
	out.APIVersions = one
	return out, one.answers
}
