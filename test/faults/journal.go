package faults

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// entry is one request of an operator with what became of it.
type entry struct {
	request
	Point Point
	// Operator counts the operators of a run, from 1.
	Operator int
	At       time.Time
	// Status is the code of the answer; 0 where there was none.
	Status int
	// Note says what was done to the request.
	Note string
}

// succeeded says that the API server did what was asked.
func (e entry) succeeded() bool { return e.Status >= 200 && e.Status < 300 }

// lostRace says that somebody else changed the object meanwhile. How often that happens is up to them.
func (e entry) lostRace() bool {
	return e.Status == http.StatusConflict && e.Note == "" && e.Verb != verbCreate
}

// journal keeps the requests of all operators of a run in the order in which they were sent.
type journal struct {
	mu      sync.Mutex
	entries []*entry
	armed   int
}

// add notes a request; the returned entry is completed by done.
func (j *journal) add(e entry) *entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, &e)
	return &e
}

// done notes what became of a request.
func (j *journal) done(e *entry, status int, note string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e.Status = status
	if note != "" {
		e.Note = note
	}
}

// arm marks the beginning of what the oracles look at.
func (j *journal) arm() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.armed = len(j.entries)
}

// since returns a copy of the entries from arming on that match.
func (j *journal) since(match func(entry) bool) []entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []entry
	for _, e := range j.entries[j.armed:] {
		if match(*e) {
			out = append(out, *e)
		}
	}
	return out
}

// reads are the lists and watches of the whole run: those of an operator that begins are from before arming, and the next
// operator begins with them again.
func (j *journal) reads() map[Point]bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := map[Point]bool{}
	for _, e := range j.entries {
		if e.Verb == verbWatch || e.Verb == verbList {
			out[Point{Verb: e.Verb, Resource: e.Resource}] = true
		}
	}
	return out
}

// lastWrite is when an operator last asked for a change, news included.
func (j *journal) lastWrite() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range slices.Backward(j.entries) {
		if e.write() {
			return e.At
		}
	}
	return time.Time{}
}

// busiest returns the point that was asked for most often within a second, and how often.
func busiest(entries []entry) (Point, int) {
	byPoint := map[Point][]time.Time{}
	for _, e := range entries {
		p := e.Point
		p.Occurrence = 0
		byPoint[p] = append(byPoint[p], e.At)
	}
	var worst Point
	most := 0
	for p, at := range byPoint {
		slices.SortFunc(at, time.Time.Compare)
		for from, to := 0, 0; to < len(at); to++ {
			for at[to].Sub(at[from]) > time.Second {
				from++
			}
			if n := to - from + 1; n > most {
				worst, most = p, n
			}
		}
	}
	return worst, most
}

// line prints an entry for a timeline.
func (e entry) line(start time.Time) string {
	s := fmt.Sprintf("%8.3fs operator %d: %s", e.At.Sub(start).Seconds(), e.Operator, e.request)
	if e.Point.Occurrence > 0 {
		s += fmt.Sprintf(" #%d", e.Point.Occurrence)
	}
	if e.Status > 0 {
		s += fmt.Sprintf(" -> %d", e.Status)
	}
	if e.Note != "" {
		s += " [" + e.Note + "]"
	}
	return s
}
