package faults

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// campaign enumerates plans of one sort.
type campaign struct {
	name string
	// short and long bound how many plans run in each form; 0 for all.
	short, long int
	// missed bounds the share of the plans whose fault does not take place.
	missed float64
	plans  func(*Suite) []Plan
}

// campaigns are all of them, by the names of the specification. Of the writes that faults are keyed by, those of a status
// depend on how many changes of the children it tells of at once. Of the changes of C5, the API server refuses those of
// immutable fields, and puts back what has a default. A plan of operations counts as missed if something is found in it
// once, and nothing when it is repeated.
var campaigns = []campaign{
	{"C1", 110, 0, 0.1, (*Suite).crashes},
	{"C2", 6, 260, 0.34, (*Suite).stales},
	{"C3", 6, 260, 0.34, (*Suite).unobserved},
	{"C4", 10, 700, 0.34, (*Suite).refusals},
	{"C4", 6, 260, 0.34, (*Suite).races},
	{"C5", 24, 0, 0.4, (*Suite).drifts},
	{"C7", 2, 60, 0, (*Suite).leaders},
	{"standing", 0, 0, 0.02, (*Suite).standings},
	{misoperation, 10, 450, 0.02, (*Suite).misoperations},
}

// choose samples the plans of a campaign, by the seed. As many others, if there are, are spares for those that miss their fault;
// of the campaign misoperation a plan that counts as missed took place, so that nothing runs in its stead.
func (s *Suite) choose(c campaign, all []Plan) (chosen, spares []Plan) {
	limit := c.short
	if s.Long {
		limit = c.long
	}
	if s.Limit > 0 {
		limit = s.Limit
	}
	if limit == 0 || len(all) <= limit {
		return all, nil
	}
	s.shuffle(all)
	if c.name == misoperation {
		return all[:limit], nil
	}
	return all[:limit], all[limit:min(2*limit, len(all))]
}

// shuffle brings plans into an order that the seed alone decides.
func (s *Suite) shuffle(plans []Plan) {
	slices.SortStableFunc(plans, func(a, b Plan) int { return strings.Compare(a.String(), b.String()) })
	random := rand.New(rand.NewPCG(uint64(s.Seed), 0)) //nolint:gosec // A sample needs no cryptographic randomness.
	random.Shuffle(len(plans), func(i, j int) { plans[i], plans[j] = plans[j], plans[i] })
}

// eachReference calls f for every workload without a server, with its reference.
func (s *Suite) eachReference(f func(k *Kind, w *Workload, ref *reference)) {
	s.eachWorkload(func(k *Kind, w *Workload) {
		if w.Server != "" {
			return
		}
		if ref, err := s.reference(k, w); err == nil {
			f(k, w, ref)
		}
	})
}

func (s *Suite) plan(campaign string, k *Kind, w *Workload, f Fault) Plan {
	return Plan{Seed: s.Seed, Kind: k.Name, Workload: w.Name, Campaign: campaign, Fault: &f}
}

// crashes are C1: at every write of every workload, before it, after it, and with a lost answer. A crash before a write differs from one
// after the write before it only where both are sent at once, so the short form has the first, or a lost answer, at every other write.
func (s *Suite) crashes() []Plan {
	var out []Plan
	s.eachReference(func(k *Kind, w *Workload, ref *reference) {
		for i, p := range s.points(ref) {
			actions := []Action{DieBefore, DieAfter, Lose, LoseDie}
			if !s.Long {
				actions = []Action{DieAfter, []Action{DieBefore, Lose}[i%2]}
			}
			for _, do := range actions {
				out = append(out, s.plan("C1", k, w, Fault{At: p, Do: do}))
			}
		}
	})
	return out
}

// points are the writes that a fault can be keyed by. What came in one run and not in another depends on timing alone; the
// long form tries it all the same.
func (s *Suite) points(ref *reference) []Point {
	if s.Long {
		return ref.points
	}
	var out []Point
	for _, p := range ref.points {
		if ref.steady[p] {
			out = append(out, p)
		}
	}
	return out
}

// stales are C2: a crash at a write that follows from what was seen, after which the next operator is shown an older
// state of one resource, or of all, for a while.
func (s *Suite) stales() []Plan {
	var out []Plan
	s.eachReference(func(k *Kind, w *Workload, ref *reference) {
		for _, p := range s.points(ref) {
			for _, target := range s.watched(ref) {
				for back := 1; back <= 2; back++ {
					out = append(out, s.plan("C2", k, w, Fault{
						At: p, Do: DieAfter, Target: target, Back: back, For: Duration(1200 * time.Millisecond),
					}))
				}
			}
		}
	})
	return out
}

// watched are the resources that the operators of a workload watch and that change in it, and "*" for all.
func (s *Suite) watched(ref *reference) []string {
	changed := map[string]bool{}
	for key := range ref.most {
		resource, _, _ := strings.Cut(key, "/")
		changed[resource] = true
	}
	out := []string{"*"}
	for _, p := range ref.requests {
		if p.Verb == verbWatch && changed[p.Resource] {
			out = append(out, p.Resource)
		}
	}
	return out
}

// unobserved are C3: watches that are held back, that break, and whose events are overwritten before they are seen, from
// the beginning and from each write on.
func (s *Suite) unobserved() []Plan {
	var out []Plan
	s.eachReference(func(k *Kind, w *Workload, ref *reference) {
		points := append([]Point{{}}, s.points(ref)...)
		for _, p := range points {
			for _, target := range s.watched(ref) {
				for _, f := range []Fault{
					{At: p, Do: Hold, Target: target, For: Duration(time.Second)},
					{At: p, Do: Expire, Target: target, For: Duration(700 * time.Millisecond)},
					{At: p, Do: Cut, Target: target},
				} {
					out = append(out, s.plan("C3", k, w, f))
				}
			}
		}
	})
	return out
}

// leaders are C7: a second operator that leads as well, through every workload.
func (s *Suite) leaders() []Plan {
	var out []Plan
	s.eachReference(func(k *Kind, w *Workload, _ *reference) {
		for range 3 {
			out = append(out, s.plan("C7", k, w, Fault{Do: TwoLeaders}))
		}
	})
	return out
}
