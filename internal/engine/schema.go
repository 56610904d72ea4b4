package engine

import (
	"time"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/retry"
)

// schemaDelay is how long after a change of a CustomResourceDefinition every API server is expected to validate by the new schema, and
// to publish it.
const schemaDelay = 5 * time.Second

// request is what has a rejected write of an object tried at once when it changes.
func (s *stacks[C, F]) request(p *reconciliation[C, F], key plan.Key) retry.Request {
	generation, _ := s.catalog.Definition(key.GroupKind)
	return retry.Request{User: p.userRequest(), Schema: generation}
}

// outdated says that something was left out of an object for a schema that is another one now, so that the object is to be applied again.
// What was written while API servers may still have had the old schema counts as written with it.
func (s *stacks[C, F]) outdated(p *reconciliation[C, F], key plan.Key, entry keeper.InventoryEntry) bool {
	if len(entry.LeftOut) == 0 {
		delete(p.state.schemas, key)
		return false
	}
	generation, since := s.catalog.Definition(key.GroupKind)
	settled, now := since.Add(schemaDelay), s.Clock.Now()
	written, known := p.state.schemas[key]
	switch {
	case !known && now.Before(settled):
		p.state.schemas[key] = generation - 1
		p.requeueAt(settled)
		return false
	case !known:
		p.state.schemas[key] = generation
		return false
	case written == generation:
		return false
	case now.Before(settled):
		p.requeueAt(settled)
		return false
	}
	p.state.schemas[key] = generation
	return true
}
