package catalog

import (
	"slices"
	"sort"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// api is how one source serves a group kind.
type api struct {
	resource   string
	namespaced bool
	// versions are in order of preference.
	versions []string
	// converter is the webhook that converts between the versions; empty where the API server does it by itself.
	converter string
}

func (a api) equal(b api) bool {
	return a.resource == b.resource && a.namespaced == b.namespaced && slices.Equal(a.versions, b.versions) && a.converter == b.converter
}

// origin names what makes an API served: a definition, a service, or the discovery of what is built in. The order of
// the values is the order in which sources that serve the same kind are asked.
type origin struct {
	rank int
	name string
}

const (
	fromDefinition = iota
	fromService
	fromDiscovery
)

var discovered = origin{rank: fromDiscovery}

type entry struct {
	origin origin
	api    api
}

// book holds what every source serves. It is not safe for concurrent use.
type book struct {
	kinds map[schema.GroupKind][]entry
	// bySource lists the kinds of a source, so that it can be replaced as a whole.
	bySource map[origin][]schema.GroupKind
}

func newBook() *book {
	return &book{kinds: map[schema.GroupKind][]entry{}, bySource: map[origin][]schema.GroupKind{}}
}

// put replaces all that a source serves, and returns the kinds for which that changed anything. keep tells which of the
// kinds that are missing from next stay nevertheless; nil means none.
func (b *book) put(src origin, next map[schema.GroupKind]api, keep func(schema.GroupKind) bool) []schema.GroupKind {
	var changed, now []schema.GroupKind
	for _, gk := range b.bySource[src] {
		if _, ok := next[gk]; ok {
			continue
		}
		if keep != nil && keep(gk) {
			now = append(now, gk)
			continue
		}
		b.remove(gk, src)
		changed = append(changed, gk)
	}
	for gk, a := range next {
		now = append(now, gk)
		if b.set(gk, entry{origin: src, api: a}) {
			changed = append(changed, gk)
		}
	}
	if len(now) == 0 {
		delete(b.bySource, src)
	} else {
		b.bySource[src] = now
	}
	return changed
}

func (b *book) set(gk schema.GroupKind, e entry) bool {
	entries := b.kinds[gk]
	for i := range entries {
		if entries[i].origin == e.origin {
			if entries[i].api.equal(e.api) {
				return false
			}
			entries[i] = e
			return true
		}
	}
	entries = append(entries, e)
	sort.Slice(entries, func(i, j int) bool {
		a, c := entries[i].origin, entries[j].origin
		if a.rank != c.rank {
			return a.rank < c.rank
		}
		// Services of one group are named "<version>.<group>"; the preferred version comes first.
		av, _, _ := strings.Cut(a.name, ".")
		cv, _, _ := strings.Cut(c.name, ".")
		return version.CompareKubeAwareVersionStrings(av, cv) > 0
	})
	b.kinds[gk] = entries
	return true
}

func (b *book) remove(gk schema.GroupKind, src origin) {
	rest := slices.DeleteFunc(b.kinds[gk], func(e entry) bool { return e.origin == src })
	if len(rest) == 0 {
		delete(b.kinds, gk)
		return
	}
	b.kinds[gk] = rest
}

// disown takes versions of kinds out of what was discovered, because another source answers for them, and returns the
// kinds for which that changed anything.
func (b *book) disown(owned func(gk schema.GroupKind, version string) bool) []schema.GroupKind {
	var changed []schema.GroupKind
	for gk, entries := range b.kinds {
		for i := range entries {
			if entries[i].origin != discovered {
				continue
			}
			was := entries[i].api.versions
			rest := slices.DeleteFunc(slices.Clone(was), func(v string) bool { return owned(gk, v) })
			if len(rest) == len(was) {
				continue
			}
			changed = append(changed, gk)
			if len(rest) > 0 {
				entries[i].api.versions = rest
				continue
			}
			b.bySource[discovered] = slices.DeleteFunc(b.bySource[discovered],
				func(k schema.GroupKind) bool { return k == gk })
			b.remove(gk, discovered)
			break
		}
	}
	return changed
}

func (b *book) lookup(gvk schema.GroupVersionKind) (Mapping, origin, bool) {
	for _, e := range b.kinds[gvk.GroupKind()] {
		if slices.Contains(e.api.versions, gvk.Version) {
			return Mapping{
				Resource:   gvk.GroupVersion().WithResource(e.api.resource),
				Namespaced: e.api.namespaced,
			}, e.origin, true
		}
	}
	return Mapping{}, origin{}, false
}

// converter is the webhook that converts a kind by its definition; empty where there is none.
func (b *book) converter(gk schema.GroupKind) string {
	for _, e := range b.kinds[gk] {
		if e.origin.rank == fromDefinition {
			return e.api.converter
		}
	}
	return ""
}

func (b *book) versions(gk schema.GroupKind) []string {
	var out []string
	for _, e := range b.kinds[gk] {
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

// collect turns discovered resource lists, in order of preference, into what a source serves. skip leaves out group
// versions and kinds that another source answers for.
func collect(lists []*metav1.APIResourceList, skipVersion func(schema.GroupVersion) bool,
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
