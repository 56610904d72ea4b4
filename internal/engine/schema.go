package engine

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/act"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/retry"
)

// schemaDelay is how long after a change of a CustomResourceDefinition every API server is expected to validate by the new schema, and
// to publish it.
const schemaDelay = 5 * time.Second

// schemaPause is how long after a change of a CustomResourceDefinition a rejected object is tried again. For some milliseconds an API server
// still validates by the old schema, and drops the fields that it does not know.
const schemaPause = time.Second

// effective returns the generation of a CustomResourceDefinition that counts before a delay after its change is over, and when the current
// one will; the zero time if it counts now.
func effective(generation int64, since, now time.Time, delay time.Duration) (counts int64, due time.Time) {
	if due = since.Add(delay); now.Before(due) {
		return generation - 1, due
	}
	return generation, time.Time{}
}

// request is what has a rejected write of an object tried at once when it changes, and when it will change; the zero time for never.
func (s *stacks[C, F]) request(p *reconciliation[C, F], key plan.Key) (request retry.Request, due time.Time) {
	generation, since := s.catalog.Definition(key.GroupKind)
	counts, due := effective(generation, since, s.Clock.Now(), schemaPause)
	return retry.Request{User: userRequest(p.cr), Schema: counts}, due
}

// heldRequest is the request for an object that was rejected before, for which a reconcile follows when it changes.
func (s *stacks[C, F]) heldRequest(p *reconciliation[C, F], key plan.Key) retry.Request {
	request, due := s.request(p, key)
	if !due.IsZero() {
		p.requeueAt(due)
	}
	return request
}

// isLeftOut says that a text of an inventory entry tells of something that the API server would not take, and not of a field that is left to others.
func isLeftOut(text string) bool {
	return !strings.HasPrefix(text, act.IgnoredField) && !strings.HasPrefix(text, act.CededField)
}

// leavesOut says that something was left out of an object that the API server would not take.
func leavesOut(entry keeper.InventoryEntry) bool {
	return slices.ContainsFunc(entry.LeftOut, isLeftOut)
}

// schemaAt is the generation of a CustomResourceDefinition that counts at a time, and when the current one will; the zero time if it does.
type schemaAt struct {
	generation int64
	due        time.Time
}

// schemasOf returns the generations for which actions write. A definition that changes while they do may have changed before or after any write, so
// they are asked for before the first.
func (s *stacks[C, F]) schemasOf(actions []decide.Action) map[schema.GroupKind]schemaAt {
	out := map[schema.GroupKind]schemaAt{}
	for _, a := range actions {
		if _, known := out[a.Key.GroupKind]; known || !a.Writes() {
			continue
		}
		generation, since := s.catalog.Definition(a.Key.GroupKind)
		counts, due := effective(generation, since, s.Clock.Now(), schemaDelay)
		out[a.Key.GroupKind] = schemaAt{counts, due}
	}
	return out
}

// writtenFor returns the generation of the definition for which something was left out of an object that was written now; 0 if nothing was.
// While API servers may still have had the old schema, that is the old one.
func (p *reconciliation[C, F]) writtenFor(key plan.Key, entry keeper.InventoryEntry) int64 {
	if !leavesOut(entry) {
		return 0
	}
	written := p.schemas[key.GroupKind]
	if !written.due.IsZero() {
		p.requeueAt(written.due)
	}
	return written.generation
}

// outdated says that something was left out of an object for a schema that is another one now, so that the object is to be applied again.
func (s *stacks[C, F]) outdated(p *reconciliation[C, F], key plan.Key, entry keeper.InventoryEntry) bool {
	if !leavesOut(entry) {
		return false
	}
	generation, since := s.catalog.Definition(key.GroupKind)
	if entry.DefinitionGeneration == generation {
		return false
	}
	if _, due := effective(generation, since, s.Clock.Now(), schemaDelay); !due.IsZero() {
		p.requeueAt(due)
		return false
	}
	return true
}
