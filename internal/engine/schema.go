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

// wroteWithSchema takes in that an object was written. Where something was left out while API servers may still have had the old schema,
// the object counts as written with it.
func (s *stacks[C, F]) wroteWithSchema(p *reconciliation[C, F], key plan.Key, entry keeper.InventoryEntry) {
	if len(entry.LeftOut) == 0 {
		delete(p.state.schemas, key)
		return
	}
	generation, since := s.catalog.Definition(key.GroupKind)
	if settled := since.Add(schemaDelay); s.Clock.Now().Before(settled) {
		generation--
		p.requeueAt(settled)
	}
	p.state.schemas[key] = generation
}

// outdated says that something was left out of an object for a schema that is another one now, so that the object is to be applied again.
func (s *stacks[C, F]) outdated(p *reconciliation[C, F], key plan.Key, entry keeper.InventoryEntry) bool {
	if len(entry.LeftOut) == 0 {
		return false
	}
	generation, since := s.catalog.Definition(key.GroupKind)
	written, known := p.state.schemas[key]
	if !known {
		// Another process wrote it.
		written = generation
		p.state.schemas[key] = written
	}
	if written == generation {
		return false
	}
	if settled := since.Add(schemaDelay); s.Clock.Now().Before(settled) {
		p.requeueAt(settled)
		return false
	}
	return true
}
