package engine

import (
	"time"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/retry"
)

// schemaDelay is how long after a change of a CustomResourceDefinition every API server is expected to serve the new schema.
const schemaDelay = 2 * time.Second

// writtenSchema is the generation of the CustomResourceDefinition that an object was written with, and the one that was found since.
type writtenSchema struct {
	written, found int64
	foundAt        time.Time
}

// request is what has a rejected write of an object tried at once when it changes.
func (s *stacks[C, F]) request(p *reconciliation[C, F], key plan.Key) retry.Request {
	return retry.Request{User: p.userRequest(), Schema: s.catalog.DefinitionGeneration(key.GroupKind)}
}

// outdated says that something was left out of an object for a schema that is another one now, so that the object is to be applied again.
func (s *stacks[C, F]) outdated(p *reconciliation[C, F], key plan.Key, entry keeper.InventoryEntry) bool {
	if len(entry.LeftOut) == 0 {
		delete(p.state.schemas, key)
		return false
	}
	now, schema := s.Clock.Now(), s.catalog.DefinitionGeneration(key.GroupKind)
	seen, known := p.state.schemas[key]
	switch {
	case !known || seen.written == schema:
		p.state.schemas[key] = writtenSchema{written: schema, found: schema}
		return false
	case seen.found != schema:
		seen.found, seen.foundAt = schema, now
		p.state.schemas[key] = seen
	}
	if due := seen.foundAt.Add(schemaDelay); now.Before(due) {
		p.requeueAt(due)
		return false
	}
	p.state.schemas[key] = writtenSchema{written: schema, found: schema}
	return true
}
