package participant

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"mlkeeper.dev/internal/acm"
)

// maxWrites is how many custom resources are written at once.
const maxWrites = 16

// save writes what a batch leaves to be remembered, and forgets what it leaves to be forgotten when all of that is safe: a held
// order must not go before the elements that it was given to. What the cluster refuses for good is taken back and answered as
// failed. What was written is not written again when save is repeated.
func (p *Participant) save(ctx context.Context, w *work) error {
	if err := p.saveAll(ctx, w, func(e acm.Effect) bool { return !forgets(e) }); err != nil {
		return err
	}
	return p.saveAll(ctx, w, forgets)
}

// forgets says that an effect takes something away.
func forgets(effect acm.Effect) bool {
	switch effect.(type) {
	case acm.DropElement, acm.DropDefinition, acm.ReleaseOrder:
		return true
	}
	return false
}

// saveAll writes those of the effects that are chosen, many at once.
func (p *Participant) saveAll(ctx context.Context, w *work, chosen func(acm.Effect) bool) error {
	var mu sync.Mutex
	done := map[string]bool{}
	group := errgroup.Group{}
	group.SetLimit(maxWrites)
	var failures []error
	for _, key := range slices.Sorted(maps.Keys(w.writes)) {
		one := w.writes[key]
		if !chosen(one.effect) {
			continue
		}
		group.Go(func() error {
			err := p.write(ctx, one)
			var refusal *Refusal
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.As(err, &refusal):
				p.takeBack(w, one, refusal)
			case err != nil:
				failures = append(failures, fmt.Errorf("%s: %w", key, err))
				return nil
			}
			done[key] = true
			return nil
		})
	}
	_ = group.Wait()
	for key := range done {
		delete(w.writes, key)
	}
	return errors.Join(failures...)
}

func (p *Participant) write(ctx context.Context, w write) error {
	switch e := w.effect.(type) {
	case acm.PutElement:
		return p.store.PutElement(ctx, e.Element, w.known)
	case acm.DropElement:
		return p.store.DropElement(ctx, e.ID)
	case acm.PutDefinition:
		return p.store.PutDefinition(ctx, e.Definition)
	case acm.DropDefinition:
		return p.store.DropDefinition(ctx, e.CompositionID)
	case acm.HoldOrder:
		return p.store.HoldOrder(ctx, e.Held)
	case acm.ReleaseOrder:
		return p.store.ReleaseOrder(ctx, e.MessageID)
	}
	return fmt.Errorf("bug: %T is not to be stored", w.effect)
}

// takeBack undoes in memory what the cluster does not take, and answers for it.
func (p *Participant) takeBack(all *work, w write, refusal *Refusal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := w.effect.(type) {
	case acm.PutElement:
		if w.known {
			p.state.Elements[e.Element.ID] = w.before
		} else {
			delete(p.state.Elements, e.Element.ID)
		}
		if e.Element.Order.Type != acm.NoOrder {
			all.answers = append(all.answers, acm.ElementAnswer{
				InstanceID: e.Element.InstanceID, ElementID: e.Element.ID, Outcome: e.Element.Order.Conclude(refusal.Error()),
			})
		}
	case acm.PutDefinition:
		delete(p.state.Definitions, e.Definition.CompositionID)
		for i, answer := range all.answers {
			if primed, ok := answer.(acm.PrimeAnswer); ok && primed.CompositionID == e.Definition.CompositionID {
				primed.State, primed.Failure = acm.Commissioned, refusal.Error()
				all.answers[i] = primed
			}
		}
	case acm.HoldOrder:
		delete(p.state.Held, e.Held.MessageID)
		all.answers = append(all.answers, acm.Refuse(p.settings.Identity, p.state, e.Held.Record, refusal.Error())...)
	}
}
