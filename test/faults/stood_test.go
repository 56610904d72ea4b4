package faults

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// stands is a run in which a cause stands on a Service.
func stands(c Cause, early bool) *run {
	return &run{
		kind: &Kind{Resource: "things.x"}, journal: &journal{}, history: &history{state: map[string]*unstructured.Unstructured{}},
		world: &World{Namespace: "faults-a"}, namespaces: []string{"faults-a", "faults-b"}, allowed: map[string]tally{},
		plan: Plan{Standing: &Standing{Resource: "services", Name: "s", Cause: c, Early: early}},
	}
}

// wrote adds writes of one object to the journal, by when they were sent and the code of the answer.
func (r *run) wrote(resource, name string, status int, at ...time.Time) {
	for _, t := range at {
		r.journal.add(entry{
			request: request{Verb: verbApply, Resource: resource, Namespace: "faults-a", Name: name},
			Point:   Point{Verb: verbApply, Resource: resource, Name: name}, At: t, Status: status,
		})
	}
}

// every are n moments, a pause after each other.
func every(from time.Time, n int, pause time.Duration) (out []time.Time) {
	for i := range n {
		out = append(out, from.Add(time.Duration(i)*pause))
	}
	return out
}

// TestWhatIsDoneBeforeTheWindowIsBounded has what an operator does in the first seconds, and nothing after that.
func TestWhatIsDoneBeforeTheWindowIsBounded(t *testing.T) {
	began := time.Now().Add(-30 * time.Second)
	writes := func(resource, name string, status, n int, pause time.Duration) func(*run) {
		return func(r *run) { r.wrote(resource, name, status, every(began, n, pause)...) }
	}
	for name, c := range map[string]struct {
		write func(*run)
		cause Cause
		want  string
	}{
		"as often as pauses end":          {writes("services", "s", 403, 6, time.Second), Policy, ""},
		"a refused write in a loop":       {writes("services", "s", 403, 20, 100*time.Millisecond), Policy, "tried to be written 20 times"},
		"many within a second":            {writes("services", "s", 403, 20, time.Millisecond), Policy, "within a second"},
		"another child, written twice":    {writes("secrets", "x", 200, 2, time.Second), Policy, ""},
		"another child, in a loop":        {writes("secrets", "x", 200, 4, time.Second), Policy, "secrets/x was written 4 times"},
		"what follows a contested object": {writes("secrets", "x", 200, 8, time.Second), Emptied, ""},
		"the field before it is ceded":    {writes("services", "s", 200, 4, time.Second), Retaken, ""},
		"a status in a loop":              {writes("things.x/status", "t", 200, 20, time.Millisecond), Policy, "things.x/status t was asked for 20"},
	} {
		r := stands(c.cause, false)
		c.write(r)
		var got []string
		for _, f := range r.overdone(&reference{}, causeOf(c.cause), began.Add(-time.Millisecond)) {
			got = append(got, f.Text)
		}
		if !strings.Contains(strings.Join(got, "; "), c.want) || (len(got) == 0) != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestACauseWhoseEndAWatchTellsIsNoticedAtOnce(t *testing.T) {
	over := time.Now()
	for name, c := range map[string]struct {
		cause Cause
		after time.Duration
		late  bool
	}{
		"at once":                      {Held, time.Second, false},
		"when the pause is over":       {Held, 8 * time.Second, true},
		"no watch tells it":            {Quota, 8 * time.Second, false},
		"the name of a marked object":  {ForeignMarked, 8 * time.Second, true},
		"the name of any other object": {Foreign, 8 * time.Second, true},
	} {
		r := stands(c.cause, false)
		r.wrote("services", "s", 201, over.Add(c.after))
		if got := r.noticed(over, prompt); (len(got) > 0) != c.late {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestWhatIsWrittenAfterACause(t *testing.T) {
	ended := time.Now()
	made := state{uids: map[string]string{"services/s": "1", "secrets/x": "2"}, hashes: map[string]string{"services/s": "a", "secrets/x": "b"}}
	for name, c := range map[string]struct {
		cause        Cause
		resource, of string
		times        int
		before       state
		wrong        bool
	}{
		"the affected child":                     {Quota, "services", "s", 2, made, false},
		"the affected child, too often":          {Quota, "services", "s", 3, made, true},
		"another one":                            {Quota, "secrets", "x", 1, made, true},
		"another one that was not there":         {Quota, "secrets", "x", 2, state{uids: map[string]string{}, hashes: map[string]string{}}, false},
		"a child of which another has the field": {Retaken, "services", "s", 1, made, true},
		"a child that is changed back no more":   {Removed, "services", "s", 1, made, false},
	} {
		r := stands(c.cause, true)
		r.wrote(c.resource, c.of, 200, every(ended.Add(time.Millisecond), c.times, time.Second)...)
		if got := r.needed(causeOf(c.cause), c.before, made, ended); (len(got) > 0) != c.wrong {
			t.Errorf("%s: %v", name, got)
		}
	}
}
