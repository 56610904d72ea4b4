package acmruntime

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/google/uuid"
)

// Commission makes a composition known to the runtime, with an element definition for each set of properties.
func (r *Runtime) Commission(properties ...map[string]any) *Composition {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &Composition{ID: uuid.NewString(), revision: uuid.NewString(), State: commissioned, Result: noError}
	for n, p := range properties {
		name := definitionName
		if n > 0 {
			name += strconv.Itoa(n)
		}
		c.Definitions = append(c.Definitions, &Definition{
			Name: name, Version: definitionVersion, Description: Description, Properties: plain(p),
			State: commissioned,
		})
	}
	r.compositions = append(r.compositions, c)
	return c
}

// Prime orders the participant to prime a composition, Deprime the opposite (CommissioningProvider.compositionDefinitionPriming).
func (r *Runtime) Prime(ctx context.Context, c *Composition) error { return r.prime(ctx, c, true) }

// Deprime orders the participant to forget a composition.
func (r *Runtime) Deprime(ctx context.Context, c *Composition) error { return r.prime(ctx, c, false) }

func (r *Runtime) prime(ctx context.Context, c *Composition, order bool) (err error) {
	r.locked(func() { err = r.primes(ctx, c, order) })
	return err
}

func (r *Runtime) primes(ctx context.Context, c *Composition, order bool) error {
	if slices.ContainsFunc(r.instances, func(i *Instance) bool { return !i.gone && (i.Composition == c || i.target == c) }) {
		return refusal("there are instances, Priming/Depriming not allowed")
	}
	if err := r.online(); err != nil {
		return err
	}
	if err := r.supported(); order && err != nil {
		return err
	}
	// AcTypeStateResolver allows both orders at rest, and after FAILED and TIMEOUT.
	if c.Result == noError && (c.State == priming || c.State == depriming) {
		return refusal("Not valid order in state %s", c.State)
	}
	c.State, c.Result, c.lastMsg = map[bool]string{true: priming, false: depriming}[order], noError, r.now()
	if order {
		c.revision = uuid.NewString()
	}
	for _, d := range c.Definitions {
		d.State = c.State
	}
	r.send(ctx, Topic, r.primeMessage(c, order))
	return nil
}

// Instantiate makes an automation composition with one element for each set of properties. The n-th element is of the composition's
// n-th definition, or of its last.
func (r *Runtime) Instantiate(c *Composition, properties ...map[string]any) (*Instance, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.online(); err != nil {
		return nil, err
	}
	if err := c.isPrimed(); err != nil {
		return nil, err
	}
	i := instantiated(c, properties)
	if err := r.fits(c, i.Elements); err != nil {
		return nil, err
	}
	r.instances = append(r.instances, i)
	return i, nil
}

// Stored makes an instance that the runtime's database has had before, when another participant had the id: it is DEPLOYED.
func (r *Runtime) Stored(c *Composition, properties ...map[string]any) *Instance {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.State = primed
	for _, d := range c.Definitions {
		d.State = primed
	}
	i := instantiated(c, properties)
	r.instances = append(r.instances, i)
	r.cascade(i, deployed, locked, none)
	return i
}

func instantiated(c *Composition, properties []map[string]any) *Instance {
	i := &Instance{
		ID: uuid.NewString(), revision: uuid.NewString(), Composition: c, Result: noError, DeployState: undeployed, LockState: none, SubState: none,
	}
	for n, p := range properties {
		i.Elements = append(i.Elements, newElement(c, n, p))
	}
	return i
}

func newElement(c *Composition, n int, properties map[string]any) *Element {
	return &Element{
		ID: uuid.NewString(), Definition: c.Definitions[min(n, len(c.Definitions)-1)], Properties: plain(properties),
		DeployState: undeployed, LockState: none, SubState: none, MigrationState: "DEFAULT",
	}
}

// cascade sets the states of an instance and of all its elements (AcmStateUtils.setCascadedState).
func (r *Runtime) cascade(i *Instance, deployState, lockState, subState string) {
	i.DeployState, i.LockState, i.SubState, i.lastMsg = deployState, lockState, subState, r.now()
	for _, e := range i.Elements {
		e.DeployState, e.LockState, e.SubState, e.Message, e.stage = deployState, lockState, subState, "", nil
	}
}

// give gives an order on an instance if its states allow it. What was told of the order before is void.
func (r *Runtime) give(ctx context.Context, i *Instance, order string, change func(), message func() object) (err error) {
	r.locked(func() { err = r.gives(ctx, i, order, change, message) })
	return err
}

func (r *Runtime) gives(ctx context.Context, i *Instance, order string, change func(), message func() object) error {
	if err := r.online(); err != nil {
		return err
	}
	allowed := rules[order].rest
	if i.Result != noError {
		allowed = rules[order].hurt
	}
	if i.gone || !slices.Contains(allowed, rest{i.DeployState, i.LockState, i.SubState}) {
		return refusal("Not valid order %s; DeployState: %s; LockState: %s; SubState: %s; StateChangeResult: %s", order,
			i.DeployState, i.LockState, i.SubState, i.Result)
	}
	change()
	i.Result = noError
	r.send(ctx, Topic, message())
	return nil
}

// again gives an order anew to what has failed of it: elements that are done are left as they are (SupervisionAcHandler.deploy).
func (r *Runtime) again(i *Instance, deployState, lockState, done string) {
	if i.Result != failed || i.DeployState != deployState || len(i.Elements) < 2 {
		r.cascade(i, deployState, lockState, none)
		return
	}
	i.lastMsg = r.now()
	for _, e := range i.Elements {
		if e.DeployState != done {
			e.DeployState, e.Message = deployState, ""
		}
	}
}

// Deploy orders what an instance is made of. It does not wait, nor do the orders that follow.
func (r *Runtime) Deploy(ctx context.Context, i *Instance) (err error) {
	r.locked(func() {
		if err = i.isMigrated(); err != nil {
			return
		}
		err = r.gives(ctx, i, "DEPLOY", func() {
			r.again(i, deploying, none, deployed)
			i.phase = i.firstPhase()
		}, func() object { return r.deployMessage(i, true) })
	})
	return err
}

// Undeploy orders the removal of what an instance runs.
func (r *Runtime) Undeploy(ctx context.Context, i *Instance) error {
	return r.change(ctx, i, "UNDEPLOY", func() { r.again(i, undeploying, none, undeployed) })
}

// Delete orders an instance to be forgotten.
func (r *Runtime) Delete(ctx context.Context, i *Instance) error {
	return r.change(ctx, i, "DELETE", func() { r.cascade(i, deleting, none, none) })
}

// Lock orders an instance to be locked, or unlocked.
func (r *Runtime) Lock(ctx context.Context, i *Instance, lock bool) error {
	if lock {
		return r.change(ctx, i, "LOCK", func() { r.cascade(i, deployed, locking, none) })
	}
	return r.change(ctx, i, "UNLOCK", func() { r.cascade(i, deployed, unlocking, none) })
}

func (r *Runtime) change(ctx context.Context, i *Instance, order string, change func()) error {
	return r.give(ctx, i, order, func() {
		change()
		i.phase = i.firstPhase()
	}, func() object { return r.stateChangeMessage(i, true) })
}

// Update gives the elements of a deployed instance other properties, which are merged into those that they have
// (updateDeployedAutomationComposition, AcmUtils.recursiveMerge). One that is UNDEPLOYED has other elements then, and nobody is told.
func (r *Runtime) Update(ctx context.Context, i *Instance, properties ...map[string]any) (err error) {
	r.locked(func() {
		switch {
		case i.isMigrated() != nil:
			err = i.isMigrated()
		case i.DeployState == undeployed && !i.gone:
			err = r.revise(i, properties)
		case len(properties) > len(i.Elements):
			err = refusal("Element id not present")
		default:
			err = r.gives(ctx, i, "UPDATE", func() {
				i.keep()
				for n, p := range properties {
					i.Elements[n].Properties = merged(i.Elements[n].Properties, plain(p))
				}
				r.cascade(i, updating, i.LockState, none)
			}, func() object { return r.updateMessage(i) })
		}
	})
	return err
}

// revise is updateAutomationComposition of an instance that is UNDEPLOYED: the elements of the request take the place of those that it
// has, with nothing of what was reported of these.
func (r *Runtime) revise(i *Instance, properties []map[string]any) error {
	if err := r.online(); err != nil {
		return err
	}
	next := instantiated(i.Composition, properties)
	if err := r.fits(i.Composition, next.Elements); err != nil {
		return err
	}
	for n, e := range next.Elements {
		if n < len(i.Elements) {
			e.ID = i.Elements[n].ID
		}
	}
	i.Elements = next.Elements
	return nil
}

// Prepare has the participant look at an instance before it is deployed, Review after it.
func (r *Runtime) Prepare(ctx context.Context, i *Instance) error {
	return r.give(ctx, i, "PREPARE", func() {
		r.cascade(i, undeployed, none, preparing)
		i.phase = i.firstStage()
	}, func() object { return r.prepareMessage(i, true) })
}

// Review has the participant look at a deployed instance.
func (r *Runtime) Review(ctx context.Context, i *Instance) error {
	return r.give(ctx, i, "REVIEW", func() { r.cascade(i, deployed, locked, reviewing) }, func() object { return r.prepareMessage(i, false) })
}

// Migrate orders an instance to be of another composition, with other properties of its elements. Properties beyond its elements make
// new ones; nil removes one, as do too few properties.
func (r *Runtime) Migrate(ctx context.Context, i *Instance, to *Composition, properties ...map[string]any) (err error) {
	r.locked(func() {
		if _, err = r.migrated(i, to, properties); err != nil {
			return
		}
		err = r.gives(ctx, i, "MIGRATE", func() {
			i.keep()
			i.aim(to, properties)
			r.cascade(i, migrating, locked, none)
			i.phase = i.firstStage()
		}, func() object { return r.migrationMessage(i, true) })
	})
	return err
}

// Precheck has the participant look at a migration, which is not made: the message has the elements as they would be.
func (r *Runtime) Precheck(ctx context.Context, i *Instance, to *Composition, properties ...map[string]any) (err error) {
	r.locked(func() {
		if _, err = r.migrated(i, to, properties); err != nil {
			return
		}
		err = r.gives(ctx, i, "MIGRATE_PRECHECK", func() { r.cascade(i, deployed, locked, prechecking) }, func() object {
			would, _ := r.migrated(i, to, properties)
			would.precheck, would.phase = true, 0
			return r.migrationMessage(would, true)
		})
	})
	return err
}

// Rollback orders what was before an update or a migration that has failed or timed out.
func (r *Runtime) Rollback(ctx context.Context, i *Instance) (err error) {
	r.locked(func() {
		if i.DeployState == updating {
			err = r.gives(ctx, i, "UPDATE_REVERT", func() {
				i.last, i.Elements = i.Elements, cloned(i.before)
				r.cascade(i, unUpdating, i.LockState, none)
			}, func() object { return r.updateMessage(i) })
			return
		}
		err = r.gives(ctx, i, "MIGRATION_REVERT", func() {
			i.last, i.Elements = i.Elements, i.reverted()
			r.cascade(i, unMigrating, locked, none)
			i.phase = i.lastStage()
		}, func() object { return r.migrationMessage(i, true) })
	})
	return err
}

// reverted are the elements before a migration, and those that it has added: the participant is to remove these, and to restore what it
// has removed (performRollback).
func (i *Instance) reverted() []*Element {
	out := cloned(i.before)
	for _, e := range i.Elements {
		switch e.MigrationState {
		case "NEW":
			out = append(out, e)
		case "REMOVED":
			for _, before := range out {
				if before.ID == e.ID {
					before.MigrationState = e.MigrationState
				}
			}
		}
	}
	return out
}

// keep makes the copy for a rollback (copyAcElementsBeforeUpdate).
func (i *Instance) keep() {
	i.before = cloned(i.Elements)
	i.last = i.before
}

func cloned(list []*Element) []*Element {
	var out []*Element
	for _, e := range list {
		one := *e
		one.Properties = merged(map[string]any{}, e.Properties)
		out = append(out, &one)
	}
	return out
}

// aim gives the elements the definitions and properties of a migration (updateElementsProperties).
func (i *Instance) aim(to *Composition, properties []map[string]any) {
	i.target = to
	for n, e := range i.Elements {
		if n >= len(properties) || properties[n] == nil {
			e.MigrationState = "REMOVED"
			continue
		}
		e.Properties, e.Definition = merged(e.Properties, plain(properties[n])), to.Definitions[min(n, len(to.Definitions)-1)]
	}
	for n := len(i.Elements); n < len(properties); n++ {
		added := newElement(to, n, properties[n])
		added.MigrationState = "NEW"
		i.Elements = append(i.Elements, added)
	}
}

// plain are properties as JSON has them.
func plain(properties map[string]any) map[string]any {
	if properties == nil {
		return nil
	}
	out := map[string]any{}
	if err := json.Unmarshal(encode(properties), &out); err != nil {
		panic("bug: properties do not decode: " + err.Error())
	}
	return out
}

// merged is AcmUtils.recursiveMerge: maps are merged, and lists of one length element by element.
func merged(into, from map[string]any) map[string]any {
	out := maps.Clone(into)
	for key, value := range from {
		out[key] = mergedValue(out[key], value)
	}
	return out
}

func mergedValue(into, from any) any {
	switch f := from.(type) {
	case map[string]any:
		if m, ok := into.(map[string]any); ok {
			return merged(m, f)
		}
		return merged(map[string]any{}, f)
	case []any:
		out := slices.Clone(f)
		if l, ok := into.([]any); ok && len(l) == len(f) {
			for n := range f {
				out[n] = mergedValue(l[n], f[n])
			}
		}
		return out
	}
	return from
}

// number reads a property as the original does: Integer.parseInt of its text.
func number(value any) (int, bool) {
	text, err := json.Marshal(value)
	if err != nil {
		return 0, false
	}
	n, err := strconv.Atoi(string(slices.DeleteFunc(text, func(b byte) bool { return b == '"' })))
	return n, err == nil
}

func (d *Definition) startPhase() int {
	n, _ := number(d.Properties["startPhase"])
	return n
}

// stages are those of a definition in an order (AcmStageUtils.findStageSetMigrate, findStageSetPrepare).
func (d *Definition) stages(migrates bool) []int {
	list := d.Properties["stage"]
	of, isMap := list.(map[string]any)
	switch {
	case isMap && migrates:
		list = of["migrate"]
	case isMap:
		list = of["prepare"]
	case !migrates:
		return []int{0}
	}
	values, _ := list.([]any)
	var out []int
	for _, v := range values {
		if n, ok := number(v); ok {
			out = append(out, n)
		}
	}
	if len(out) == 0 {
		return []int{0}
	}
	return out
}

// forward says that the phases of an order go up (AcmStateUtils.isForward).
func (i *Instance) forward() bool { return i.DeployState == deploying || i.LockState == unlocking }

func (i *Instance) firstPhase() int {
	return i.phaseOf(func(*Element) bool { return true })
}

// phaseOf is the first phase of some elements in the order of the phases.
func (i *Instance) phaseOf(of func(*Element) bool) int {
	var phases []int
	for _, e := range i.Elements {
		if of(e) {
			phases = append(phases, e.Definition.startPhase())
		}
	}
	switch {
	case len(phases) == 0:
		return 0
	case i.forward():
		return slices.Min(phases)
	}
	return slices.Max(phases)
}

func (i *Instance) migrates() bool { return i.DeployState == migrating || i.DeployState == unMigrating }

func (i *Instance) firstStage() int {
	var stages []int
	for _, e := range i.Elements {
		stages = append(stages, slices.Min(e.Definition.stages(i.migrates())))
	}
	return slices.Min(stages)
}

func (i *Instance) lastStage() int {
	var stages []int
	for _, e := range i.Elements {
		stages = append(stages, slices.Max(e.Definition.stages(true)))
	}
	return slices.Max(stages)
}
