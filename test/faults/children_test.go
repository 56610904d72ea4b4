package faults

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/kserve"
	"mlkeeper.dev/internal/tfserving"
	"mlkeeper.dev/internal/trustyai"
)

// TestEveryKindOfChildIsListed: what a controller says that it makes, its kind here is listed with. What the others make is decided by an
// archive or a chart.
func TestEveryKindOfChildIsListed(t *testing.T) {
	for name, children := range map[string][]schema.GroupVersionKind{
		"tfserv": tfserving.Definition().Children, "trustyai": trustyai.Definition().Children, "compositionelement": kserve.Definition().Children,
	} {
		i := slices.IndexFunc(kinds(), func(k *Kind) bool { return k.Name == name })
		for _, gvk := range children {
			plural, _ := meta.UnsafeGuessKindToResource(gvk)
			begin := "^(" + regexp.QuoteMeta(plural.GroupResource().String()) + "/"
			if !slices.ContainsFunc(kinds()[i].Makes, func(c Child) bool { return strings.HasPrefix(c.Is.String(), begin) }) {
				t.Errorf("%s makes %s, of which none is listed in Makes", name, gvk.Kind)
			}
		}
	}
}

// TestCausesStandOnEveryChild: each child that a kind makes is made by a steady workload, and causes stand on it there; or the kind says why
// not.
func TestCausesStandOnEveryChild(t *testing.T) {
	if flags.plan != "" {
		return // TestReplay was asked for.
	}
	s := newSuite(t)
	var wg sync.WaitGroup
	for _, k := range s.kinds {
		wg.Go(func() {
			all := s.targetsOf(k, func(w *Workload, err error) { t.Errorf("%s/%s: %v", k.Name, w.Name, err) })
			for _, child := range k.Makes {
				switch stands := slices.ContainsFunc(all, child.Is.MatchString); {
				case !stands && child.Absent == "":
					t.Errorf("%s: no cause stands on %s; a steady workload has to make it, or Makes to say why none does", k.Name, child.Is)
				case stands && child.Absent != "":
					t.Errorf("%s: causes stand on %s, which Makes says no steady workload makes: %s", k.Name, child.Is, child.Absent)
				}
			}
		})
	}
	wg.Wait()
}

// targetsOf are the children of a kind that causes stand on, as resource/name. A workload whose reference another test has not learned runs
// once.
func (s *Suite) targetsOf(k *Kind, failed func(*Workload, error)) []string {
	var out []string
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range k.Workloads {
		w := &k.Workloads[i]
		if !w.Steady {
			continue
		}
		wg.Go(func() {
			var ref *reference
			if l := s.refs[k.Name+"/"+w.Name]; l != nil {
				ref = l.ref
			}
			if ref == nil {
				o, err := s.undisturbed(k, w)
				if err != nil {
					failed(w, err)
					return
				}
				ref = refer([]observation{o})
			}
			mu.Lock()
			defer mu.Unlock()
			for c := range causes {
				for _, one := range s.targets(&causes[c], k, w, ref) {
					out = append(out, one.Resource+"/"+one.Name)
				}
			}
		})
	}
	wg.Wait()
	return out
}
