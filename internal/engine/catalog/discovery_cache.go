package catalog

import (
	"slices"
	"sort"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// api is how one source serves a group kind.
type api struct {
	resource   string
	namespaced bool
	// versions are ordered by preference.
	versions []string
	// conversionWebhook converts between the versions; empty if the API server needs none.
	conversionWebhook string
	// generation is that of the CustomResourceDefinition, which changes with the schema; 0 for other sources.
	generation int64
	// changedAt is when the generation was created or, as far as this process saw it, changed.
	changedAt time.Time
}

func (a api) equal(b api) bool {
	return a.resource == b.resource && a.namespaced == b.namespaced && slices.Equal(a.versions, b.versions) && a.conversionWebhook == b.conversionWebhook &&
		a.generation == b.generation
}

// apiSource identifies what makes an API served: a CustomResourceDefinition, an APIService, or the discovery of the built-in
// APIs. If several sources serve the same kind, a lower rank takes precedence.
type apiSource struct {
	rank int
	name string
}

const (
	sourceCRD = iota
	sourceAPIService
	sourceDiscovery
)

var discoverySource = apiSource{rank: sourceDiscovery}

type entry struct {
	source apiSource
	api    api
}

// discoveryCache holds the APIs of all sources. It is not safe for concurrent use.
type discoveryCache struct {
	kinds map[schema.GroupKind][]entry
	// bySource lists the kinds of a source, so that all of them can be replaced at once.
	bySource map[apiSource][]schema.GroupKind
}

func newDiscoveryCache() *discoveryCache {
	return &discoveryCache{kinds: map[schema.GroupKind][]entry{}, bySource: map[apiSource][]schema.GroupKind{}}
}

// replace replaces all APIs of a source, and returns the kinds that changed. A kind that is missing from next is removed, unless
// keep returns true for it; a nil keep removes all of them.
func (dc *discoveryCache) replace(src apiSource, next map[schema.GroupKind]api, keep func(schema.GroupKind) bool) []schema.GroupKind {
	var changed, now []schema.GroupKind
	for _, gk := range dc.bySource[src] {
		if _, ok := next[gk]; ok {
			continue
		}
		if keep != nil && keep(gk) {
			now = append(now, gk)
			continue
		}
		dc.remove(gk, src)
		changed = append(changed, gk)
	}
	for gk, a := range next {
		now = append(now, gk)
		if dc.set(gk, entry{source: src, api: a}) {
			changed = append(changed, gk)
		}
	}
	if len(now) == 0 {
		delete(dc.bySource, src)
	} else {
		dc.bySource[src] = now
	}
	return changed
}

func (dc *discoveryCache) set(gk schema.GroupKind, e entry) bool {
	entries := dc.kinds[gk]
	for i := range entries {
		if entries[i].source == e.source {
			if entries[i].api.equal(e.api) {
				return false
			}
			entries[i] = e
			return true
		}
	}
	entries = append(entries, e)
	sort.Slice(entries, func(i, j int) bool {
		a, c := entries[i].source, entries[j].source
		if a.rank != c.rank {
			return a.rank < c.rank
		}
		// APIServices are named "<version>.<group>"; the preferred version of a group comes first.
		av, _, _ := strings.Cut(a.name, ".")
		cv, _, _ := strings.Cut(c.name, ".")
		return version.CompareKubeAwareVersionStrings(av, cv) > 0
	})
	dc.kinds[gk] = entries
	return true
}

func (dc *discoveryCache) remove(gk schema.GroupKind, src apiSource) {
	rest := slices.DeleteFunc(dc.kinds[gk], func(e entry) bool { return e.source == src })
	if len(rest) == 0 {
		delete(dc.kinds, gk)
		return
	}
	dc.kinds[gk] = rest
}

// removeVersions removes the versions that another source covers from the discovered built-in APIs, and returns the kinds that
// changed.
func (dc *discoveryCache) removeVersions(covered func(gk schema.GroupKind, version string) bool) []schema.GroupKind {
	var changed []schema.GroupKind
	for gk, entries := range dc.kinds {
		for i := range entries {
			if entries[i].source != discoverySource {
				continue
			}
			was := entries[i].api.versions
			rest := slices.DeleteFunc(slices.Clone(was), func(v string) bool { return covered(gk, v) })
			if len(rest) == len(was) {
				continue
			}
			changed = append(changed, gk)
			if len(rest) > 0 {
				entries[i].api.versions = rest
				continue
			}
			dc.bySource[discoverySource] = slices.DeleteFunc(dc.bySource[discoverySource],
				func(k schema.GroupKind) bool { return k == gk })
			dc.remove(gk, discoverySource)
			break
		}
	}
	return changed
}

func (dc *discoveryCache) lookup(gvk schema.GroupVersionKind) (Mapping, apiSource, bool) {
	for _, e := range dc.kinds[gvk.GroupKind()] {
		if slices.Contains(e.api.versions, gvk.Version) {
			return Mapping{
				Resource:   gvk.GroupVersion().WithResource(e.api.resource),
				Namespaced: e.api.namespaced,
			}, e.source, true
		}
	}
	return Mapping{}, apiSource{}, false
}

// conversionWebhook returns the conversion webhook in the CustomResourceDefinition of a kind; empty if it has none.
func (dc *discoveryCache) conversionWebhook(gk schema.GroupKind) string {
	for _, e := range dc.kinds[gk] {
		if e.source.rank == sourceCRD {
			return e.api.conversionWebhook
		}
	}
	return ""
}

// generation returns the generation of the CustomResourceDefinition of a kind, and since when it has it; 0 if it has none.
func (dc *discoveryCache) generation(gk schema.GroupKind) (int64, time.Time) {
	for _, e := range dc.kinds[gk] {
		if e.source.rank == sourceCRD {
			return e.api.generation, e.api.changedAt
		}
	}
	return 0, time.Time{}
}

func (dc *discoveryCache) versions(gk schema.GroupKind) []string {
	var out []string
	for _, e := range dc.kinds[gk] {
		for _, v := range e.api.versions {
			if !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
	}
	return out
}

func sortVersions(v []string) {
	sort.Slice(v, func(i, j int) bool { return version.CompareKubeAwareVersionStrings(v[i], v[j]) > 0 })
}

// fromResourceLists turns discovered resource lists, ordered by preference, into the APIs of a source. skipVersion and skipKind,
// which may be nil, exclude group versions and kinds that another source covers.
func fromResourceLists(lists []*metav1.APIResourceList, skipVersion func(schema.GroupVersion) bool,
	skipKind func(schema.GroupKind) bool,
) map[schema.GroupKind]api {
	out := map[schema.GroupKind]api{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil || skipVersion != nil && skipVersion(gv) {
			continue
		}
		for i := range list.APIResources {
			r := &list.APIResources[i]
			// A subresource has a slash in its name, and often the kind of another group.
			if strings.Contains(r.Name, "/") {
				continue
			}
			gk := schema.GroupKind{Group: gv.Group, Kind: r.Kind}
			if skipKind != nil && skipKind(gk) {
				continue
			}
			a, known := out[gk]
			if !known {
				a = api{resource: r.Name, namespaced: r.Namespaced}
			}
			if !slices.Contains(a.versions, gv.Version) {
				a.versions = append(a.versions, gv.Version)
			}
			out[gk] = a
		}
	}
	return out
}
