package acmruntime

import (
	"context"
	"strings"
	"testing"
)

// refuses says that an order is refused for a reason, and that nothing was sent.
func (s *site) refuses(err error, reason string) {
	s.t.Helper()
	if err == nil || !strings.Contains(err.Error(), reason) {
		s.t.Errorf("the answer is %v, and not that %s", err, reason)
	}
}

// deploys makes an instance that is deployed.
func (s *site) deploys(c *Composition, properties ...map[string]any) *Instance {
	s.t.Helper()
	i, err := s.Instantiate(c, properties...)
	s.must(err)
	s.must(s.Deploy(s.t.Context(), i))
	s.acknowledges(i, noError, deployed, locked, i.Elements...)
	s.want(i, "DEPLOYED LOCKED NO_ERROR")
	return i
}

const notMatching = "Elements of the instance not matching with the elements of the composition"

// TestAnInstanceHasAllElementsOfItsComposition (AcmUtils.validateAutomationComposition, and testNotValidateAutomationComposition of
// its test). London does not count them.
func TestAnInstanceHasAllElementsOfItsComposition(t *testing.T) {
	s := newSite(t, V910)
	c := s.primed(object{}, object{})
	for _, properties := range [][]map[string]any{nil, {object{}}, {object{}, object{}, object{}}} {
		_, err := s.Instantiate(c, properties...)
		s.refuses(err, notMatching)
	}
	s.deploys(c, object{}, object{})

	london := newSite(t, London)
	london.deploys(london.primed(object{}, object{}), object{})
}

// TestACompositionIsPrimedBeforeItsInstances (AcDefinitionProvider.checkPrimedComposition; "create fails when composition not primed" of
// AutomationCompositionInstantiationProviderSpec), and so is the target of a migration.
func TestACompositionIsPrimedBeforeItsInstances(t *testing.T) {
	s, ctx := newSite(t, V910), t.Context()
	_, err := s.Instantiate(s.Commission(object{}), object{})
	s.refuses(err, "not primed")
	i := s.deploys(s.primed(object{}), object{})
	s.refuses(s.Migrate(ctx, i, s.Commission(object{}), object{}), "not primed")
	s.refuses(s.Precheck(ctx, i, s.Commission(object{}), object{}), "not primed")
	s.want(i, "DEPLOYED LOCKED NO_ERROR")
}

// TestAnUpdateOfAnUndeployedInstance replaces its elements, which must be all of the composition's, and tells nobody
// (updateAutomationComposition). What is deployed keeps the properties that an update does not name, and has no other elements then
// ("update fails when element IDs mismatch").
func TestAnUpdateOfAnUndeployedInstance(t *testing.T) {
	s, ctx := newSite(t, V910), t.Context()
	c := s.primed(object{}, object{})
	i, err := s.Instantiate(c, object{"a": 1}, object{})
	s.must(err)
	sent, first := len(s.tape.sent), i.Elements[0].ID
	s.refuses(s.Update(ctx, i, object{"b": 2}), notMatching)
	s.refuses(s.Update(ctx, i, object{}, object{}, object{}), notMatching)
	if i.Elements[0].Properties["a"] != 1. {
		t.Errorf("after a refusal the element is %+v", i.Elements[0])
	}
	s.must(s.Update(ctx, i, object{"b": 2}, object{}))
	if e := i.Elements[0]; len(s.tape.sent) != sent || e.ID != first || len(e.Properties) != 1 || e.Properties["b"] != 2. {
		t.Errorf("the element is %+v, and sent was %v", e, s.tape.sent[sent:])
	}
	s.want(i, "UNDEPLOYED NONE NO_ERROR")

	d := s.deploys(c, object{"a": 1}, object{})
	s.refuses(s.Update(ctx, d, object{}, object{}, object{}), "Element id not present")
	s.want(d, "DEPLOYED LOCKED NO_ERROR")
	s.must(s.Update(ctx, d, object{"b": 2}))
	if e := d.Elements[0]; e.Properties["a"] != 1. || e.Properties["b"] != 2. {
		t.Errorf("the element is %+v", e)
	}
}

// TestAMigrationLeavesAllElementsOfItsTarget (updateElementsProperties): what a migration does not name it removes, and what is left is
// counted. A refusal changes nothing.
func TestAMigrationLeavesAllElementsOfItsTarget(t *testing.T) {
	s, ctx := newSite(t, V910), t.Context()
	i, one, three := s.deploys(s.primed(object{}, object{}), object{}, object{}), s.primed(object{}), s.primed(object{}, object{}, object{})
	for _, order := range []func(context.Context, *Instance, *Composition, ...map[string]any) error{s.Migrate, s.Precheck} {
		s.refuses(order(ctx, i, three, object{}, object{}), notMatching)
		s.refuses(order(ctx, i, one, object{}, nil, object{}), notMatching)
		s.refuses(order(ctx, i, one, object{}, object{}), "is not compatible with")
	}
	if len(i.Elements) != 2 || i.Elements[1].MigrationState != "DEFAULT" || i.target != nil {
		t.Errorf("after the refusals the instance is %+v", i)
	}
	s.want(i, "DEPLOYED LOCKED NO_ERROR")
	s.must(s.Migrate(ctx, i, one, object{}))
	if i.Elements[1].MigrationState != "REMOVED" {
		t.Errorf("the element that the migration does not name is %+v", i.Elements[1])
	}
	s.acknowledges(i, noError, deployed, locked, i.Elements[0])
	s.acknowledges(i, noError, deleted, none, i.Elements[1])
	s.want(i, "DEPLOYED LOCKED NO_ERROR")
	if len(i.Elements) != 1 || i.Composition != one {
		t.Errorf("the instance is %+v", i)
	}
}

// TestAMigrationThatHasFailedIsRolledBackFirst (AcmUtils.checkMigrationState, and its test): an instance with
// elements on the way is neither deployed nor updated nor migrated, although it was undeployed.
func TestAMigrationThatHasFailedIsRolledBackFirst(t *testing.T) {
	s, ctx := newSite(t, V910), t.Context()
	i, to := s.deploys(s.primed(object{}, object{}), object{}, object{}), s.primed(object{}, object{})
	s.must(s.Migrate(ctx, i, to, object{}, nil, object{}))
	s.acknowledges(i, failed, deployed, locked, i.Elements[0])
	s.want(i, "MIGRATING LOCKED FAILED")
	s.must(s.Undeploy(ctx, i))
	s.acknowledges(i, noError, undeployed, none, i.Elements...)
	s.want(i, "UNDEPLOYED NONE NO_ERROR")
	const reason = "There are elements in an invalid Migration state"
	s.refuses(s.Deploy(ctx, i), reason)
	s.refuses(s.Update(ctx, i, object{}, object{}), reason)
	s.refuses(s.Migrate(ctx, i, to, object{}, object{}), reason)
	s.refuses(s.Precheck(ctx, i, to, object{}, object{}), reason)
	s.must(s.Delete(ctx, i))
}

// TestACompositionOfAnUnsupportedType cannot be primed (testPrepareParticipantPriming of AcmUtilsTest).
func TestACompositionOfAnUnsupportedType(t *testing.T) {
	s, ctx := newSite(t, V910), t.Context()
	types := []object{{"id": "67a7d646-76c7-5511-b13a-84207233c9dd", "typeName": Type, "typeVersion": "2.0.0"}}
	s.says(object{"messageType": register, "participantSupportedElementType": types})
	c := s.Commission(object{})
	s.refuses(s.Prime(ctx, c), "not supported")
	if c.State != commissioned {
		t.Errorf("the composition is %s", c.State)
	}
}
