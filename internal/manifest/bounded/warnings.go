package bounded

import (
	"fmt"
	"slices"
)

// MaxWarnings is how many warnings are kept of a custom resource, as many of those of its rendering as its status shows, and maxWarning how
// long one is, in bytes: what has the name of a file or a field in it may have any length.
const MaxWarnings, maxWarning = 44, 1 << 10

// Warnings are the first of what there is to tell. The rest are counted.
type Warnings struct {
	Texts []string
	// More is how many there were that are not kept.
	More int
}

// Add adds texts.
func (w *Warnings) Add(texts ...string) {
	for _, text := range texts {
		if len(w.Texts) == MaxWarnings {
			w.More++
			continue
		}
		w.Texts = append(w.Texts, Text(text, maxWarning))
	}
}

// Join adds what another has.
func (w *Warnings) Join(other Warnings) {
	w.Add(other.Texts...)
	w.More += other.More
}

// Share gives the warnings of parts, one after the other, what one list of them would keep.
type Share struct{ taken int }

// Take returns those of a part that are kept, in memory of their own.
func (s *Share) Take(of Warnings) Warnings {
	kept := min(len(of.Texts), MaxWarnings-s.taken)
	s.taken += kept
	return Warnings{Texts: slices.Clone(of.Texts[:kept]), More: of.More + len(of.Texts) - kept}
}

// Lines are the warnings as a status has them: at most MaxWarnings, of which the last one counts those that are left out.
func (w *Warnings) Lines() []string {
	if w.More == 0 {
		return w.Texts
	}
	kept := w.Texts[:min(len(w.Texts), MaxWarnings-1)]
	more := w.More + len(w.Texts) - len(kept)
	return append(kept[:len(kept):len(kept)], fmt.Sprintf("and %d warnings more", more))
}

// InMemoryOfTexts is what texts take in memory, in bytes, about.
func InMemoryOfTexts(texts ...string) (size int64) {
	for _, text := range texts {
		size += InMemory(text)
	}
	return size
}
