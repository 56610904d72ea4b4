package acmruntime

import (
	"fmt"
	"slices"
)

// refusal is what the REST API answers with HTTP 400 or 409 in place of an order.
func refusal(format string, args ...any) error {
	return fmt.Errorf("the runtime refuses the order: "+format, args...)
}

// online says why an order cannot be given at all (ParticipantProvider.verifyParticipantState).
func (r *Runtime) online() error {
	if len(r.replicas) == 0 {
		return refusal("Participant: %s is OFFLINE", r.Participant)
	}
	return nil
}

// supported says why a composition cannot be primed: a participant must support the type of each definition
// (AcmUtils.prepareParticipantPriming).
func (r *Runtime) supported() error {
	if !slices.ContainsFunc(r.types, func(t elementType) bool { return t.TypeName == Type && t.TypeVersion == TypeVersion }) {
		return refusal("Element Type %s %s not supported", Type, TypeVersion)
	}
	return nil
}

// isPrimed is AcDefinitionProvider.checkPrimedComposition.
func (c *Composition) isPrimed() error {
	if c.State != primed {
		return refusal("%s Commissioned automation composition definition not primed: %s", c.ID, c.State)
	}
	return nil
}

// fits says why an instance cannot have some elements (AcmUtils.validateAutomationComposition): each must be of a definition of the
// composition, and there must be as many as the composition has definitions, which London does not count.
func (r *Runtime) fits(c *Composition, elements []*Element) error {
	left := slices.DeleteFunc(slices.Clone(elements), func(e *Element) bool { return e.MigrationState == "REMOVED" })
	if r.Release != London && len(left) != len(c.Definitions) {
		return refusal("Elements of the instance not matching with the elements of the composition: %d of %d", len(left), len(c.Definitions))
	}
	for _, e := range left {
		same := func(d *Definition) bool { return d.Name == e.Definition.Name && d.Version == e.Definition.Version }
		if !slices.ContainsFunc(c.Definitions, same) {
			return refusal("entry %s: Not found", e.Definition.Name)
		}
	}
	return nil
}

// isMigrated is AcmUtils.checkMigrationState: while a migration that has failed is neither made nor rolled back, an instance is not
// deployed, updated or migrated, not even when it was undeployed since.
func (i *Instance) isMigrated() error {
	for _, e := range i.Elements {
		if e.MigrationState != "DEFAULT" {
			return refusal("Instance cannot be deployed; There are elements in an invalid Migration state.(ElementId: %s, MigrationState: %s)",
				e.ID, e.MigrationState)
		}
	}
	return nil
}

// migrated is an instance as a migration would make it, or why there is none (migrateAutomationComposition, updateElementsProperties).
func (r *Runtime) migrated(i *Instance, to *Composition, properties []map[string]any) (*Instance, error) {
	if err := i.isMigrated(); err != nil {
		return nil, err
	}
	if err := to.isPrimed(); err != nil {
		return nil, err
	}
	would := *i
	would.Elements, would.last = cloned(i.Elements), i.Elements
	would.aim(to, properties)
	for n, e := range i.Elements {
		// AutomationCompositionProvider.checkCompatibility: a definition of another name is a different one.
		if next := would.Elements[n].Definition; next.Name != e.Definition.Name {
			return nil, refusal("%s is not compatible with %s", e.Definition.Name, next.Name)
		}
	}
	return &would, r.fits(to, would.Elements)
}

// rest is a state in which an order is allowed after a success, hurt one in which it is after FAILED or TIMEOUT.
type rest struct{ deployState, lockState, subState string }

type rule struct{ rest, hurt []rest }

var stuck = []rest{{undeploying, none, none}, {undeploying, locked, none}, {deploying, none, none}, {deploying, locked, none}}

// rules are AcInstanceStateResolver's.
var rules = map[string]rule{
	"DEPLOY": {[]rest{{undeployed, none, none}}, stuck},
	"UNDEPLOY": {[]rest{{deployed, locked, none}}, append(slices.Clone(stuck), rest{updating, locked, none}, rest{migrating, locked, none},
		rest{unMigrating, locked, none}, rest{unUpdating, locked, none})},
	"DELETE":           {[]rest{{undeployed, none, none}}, []rest{{deleting, none, none}, {undeployed, none, preparing}}},
	"MIGRATE":          {[]rest{{deployed, locked, none}}, nil},
	"UPDATE":           {[]rest{{deployed, locked, none}}, []rest{{updating, locked, none}}},
	"UNLOCK":           {[]rest{{deployed, locked, none}}, []rest{{deployed, locking, none}, {deployed, unlocking, none}}},
	"LOCK":             {[]rest{{deployed, unlocked, none}}, []rest{{deployed, locking, none}, {deployed, unlocking, none}}},
	"REVIEW":           {[]rest{{deployed, locked, none}}, []rest{{deployed, locked, reviewing}}},
	"PREPARE":          {[]rest{{undeployed, none, none}}, []rest{{undeployed, none, preparing}}},
	"MIGRATE_PRECHECK": {[]rest{{deployed, locked, none}}, []rest{{deployed, locked, prechecking}}},
	"MIGRATION_REVERT": {nil, []rest{{migrating, locked, none}}},
	"UPDATE_REVERT":    {nil, []rest{{updating, locked, none}}},
}
