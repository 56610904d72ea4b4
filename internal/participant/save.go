package participant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/parallel"
)

// maxWrites is how many custom resources are written at once.
const maxWrites = 16

// entry is a custom resource of the participant.
type entry struct {
	kind entryKind
	id   string
}

// entryKind says what an entry remembers.
type entryKind string

const (
	elementEntry    entryKind = "element"
	definitionEntry entryKind = "definition"
	orderEntry      entryKind = "order"
)

// String prints the entry.
func (e entry) String() string { return string(e.kind) + " " + e.id }

// undo is what was remembered under an entry before a batch.
type undo struct {
	before acm.Element
	// known says that there was an element.
	known bool
}

// save writes what a batch leaves to be remembered, and forgets what it leaves to be forgotten when all of that is safe: a held
// order must not go before the elements that it was given to. What the cluster refuses for good is taken back and answered as
// failed. What was written is not written again when save is repeated.
func (p *Participant) save(ctx context.Context, w *work) error {
	for _, kept := range []bool{true, false} {
		if err := p.saveAll(ctx, w, kept); err != nil {
			return err
		}
	}
	return nil
}

// saveAll writes the entries of a batch that are in the state, or removes those that are not, many at once.
func (p *Participant) saveAll(ctx context.Context, w *work, kept bool) error {
	var mu sync.Mutex
	// A write that has succeeded leaves w.writes while others are still started.
	writes := maps.Clone(w.writes)
	order := slices.SortedFunc(maps.Keys(writes), func(a, b entry) int { return cmp.Compare(a.String(), b.String()) })
	order = slices.DeleteFunc(order, func(one entry) bool { return p.keeps(one) != kept })
	return errors.Join(parallel.Each(ctx, maxWrites, order, func(ctx context.Context, _ int, one entry) error {
		answers, err := p.write(ctx, one, writes[one])
		if err != nil {
			return fmt.Errorf("%s: %w", one, err)
		}
		mu.Lock()
		defer mu.Unlock()
		delete(w.writes, one)
		w.answer(answers)
		return nil
	})...)
}

// keeps says whether the state has an entry.
func (p *Participant) keeps(one entry) bool {
	return p.remembered(one) != remembered{}
}

// write has the cluster hold under an entry what the state holds. Batches of different topics are saved at the same time: since each
// writes the newest state, and one after the other, the last write is right whosever it is.
func (p *Participant) write(ctx context.Context, one entry, before undo) (answers []acm.Effect, err error) {
	p.writing.LockKey(one.String())
	defer func() { _ = p.writing.UnlockKey(one.String()) }()
	now := p.remembered(one)
	kept, err := p.put(ctx, one, now, before.known)
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		return nil, err
	}
	p.settings.Log.Info("the API server refuses what an order needs", "what", one.String(), "kept", kept, "why", refusal.Error())
	writesRefused.Inc()
	if !kept {
		return nil, nil // It is read again at the next start, and is forgotten then again.
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch one.kind {
	case elementEntry:
		answers = p.takeBackElement(*now.element, before, refusal)
	case definitionEntry:
		delete(p.state.Definitions, one.id)
		answers = []acm.Effect{acm.PrimeAnswer{CompositionID: one.id, State: acm.Commissioned, Failure: refusal.Error()}}
	case orderEntry:
		delete(p.state.Held, one.id)
		answers = acm.Refuse(p.settings.Identity, p.state, now.held.Record, refusal.Error())
	}
	return answers, nil
}

// remembered is what the state has of an entry; all are nil where it has none.
type remembered struct {
	element    *acm.Element
	definition *acm.Definition
	held       *acm.Held
}

func (p *Participant) remembered(one entry) (out remembered) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch one.kind {
	case elementEntry:
		out.element = found(p.state.Elements, one.id)
	case definitionEntry:
		out.definition = found(p.state.Definitions, one.id)
	case orderEntry:
		out.held = found(p.state.Held, one.id)
	}
	return out
}

func found[T any](in map[string]T, id string) *T {
	if one, ok := in[id]; ok {
		return &one
	}
	return nil
}

// put writes an entry, or deletes it where nothing is remembered; kept says which. known says that it is there already.
func (p *Participant) put(ctx context.Context, one entry, now remembered, known bool) (kept bool, err error) {
	switch {
	case now.element != nil:
		return true, p.store.PutElement(ctx, *now.element, known)
	case now.definition != nil:
		return true, p.store.PutDefinition(ctx, *now.definition, known)
	case now.held != nil:
		return true, p.store.HoldOrder(ctx, *now.held, known)
	}
	return false, p.remove(ctx, one)
}

func (p *Participant) remove(ctx context.Context, one entry) error {
	switch one.kind {
	case elementEntry:
		return p.store.DropElement(ctx, one.id)
	case definitionEntry:
		return p.store.DropDefinition(ctx, one.id)
	}
	return p.store.ReleaseOrder(ctx, one.id)
}

// takeBackElement undoes in memory what the cluster does not take, and answers for it.
func (p *Participant) takeBackElement(written acm.Element, before undo, refusal *Refusal) []acm.Effect {
	if before.known {
		p.state.Elements[written.ID] = before.before
	} else {
		p.state.Apply(acm.DropElement{ID: written.ID})
	}
	if written.Order.Type == acm.NoOrder {
		return nil
	}
	return []acm.Effect{acm.ElementAnswer{
		InstanceID: written.InstanceID, ElementID: written.ID, Outcome: written.Order.Conclude(refusal.Error()),
	}}
}

// answer adds what is to be said of refusals. That of a definition is the answer to the priming, if there was one.
func (w *work) answer(refusals []acm.Effect) {
	for _, refusal := range refusals {
		failed, primes := refusal.(acm.PrimeAnswer)
		if !primes {
			w.answers = append(w.answers, refusal)
			if of, ok := refusal.(acm.ElementAnswer); ok {
				w.released = append(w.released, of.InstanceID) // The order before may have ended while this one stood.
			}
			continue
		}
		for i, answer := range w.answers {
			if primed, ok := answer.(acm.PrimeAnswer); ok && primed.CompositionID == failed.CompositionID {
				primed.State, primed.Failure = failed.State, failed.Failure
				w.answers[i] = primed
			}
		}
	}
}
