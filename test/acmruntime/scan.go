package acmruntime

import (
	"context"
	"slices"
	"time"
)

// changes is what a scan does with what it has looked at (UpdateSync).
type changes struct{ updated, sync, delete bool }

// transitional is AcmStateUtils.isInTransitionalState.
func transitional(deployState, lockState, subState string) bool {
	return slices.Contains([]string{deploying, undeploying, deleting, updating, unUpdating, migrating, unMigrating}, deployState) ||
		lockState == locking || lockState == unlocking || subState != none
}

func (e *Element) underway() bool { return transitional(e.DeployState, e.LockState, e.SubState) }

// scan is SupervisionScanner's: what was told since the last one is taken in, then every state moves on or times out.
func (r *Runtime) scan(ctx context.Context) {
	for _, c := range r.compositions {
		r.scanComposition(ctx, c)
	}
	for _, i := range slices.Clone(r.instances) {
		if !i.gone {
			r.scanInstance(ctx, i)
		}
	}
}

// scanParticipants is SupervisionParticipantScanner's: the row of a replica that has been silent for too long is deleted.
func (r *Runtime) scanParticipants() {
	for replica, last := range r.replicas {
		if r.now().Sub(last) > maxStatusWait {
			delete(r.replicas, replica)
		}
	}
}

// scanComposition is AcDefinitionScanner's.
func (r *Runtime) scanComposition(ctx context.Context, c *Composition) {
	u := changes{}
	for _, m := range c.told {
		if m.StateChange == failed {
			c.Result, u.sync = failed, true
		}
		for _, d := range c.Definitions {
			d.State, d.Message = string(m.CompositionState), m.Message
		}
		u.updated = true
	}
	c.told = nil
	if (c.State == priming || c.State == depriming) && c.Result != failed {
		final := map[string]string{priming: primed, depriming: commissioned}[c.State]
		wait := maxOperationWait
		if r.Release == London {
			wait = londonWait
		}
		switch {
		case !slices.ContainsFunc(c.Definitions, func(d *Definition) bool { return d.State != final }):
			c.State, c.Result, u.updated, u.sync = final, noError, true, true
		case c.Result != timedOut && r.now().Sub(c.lastMsg) > wait:
			c.Result, u.updated, u.sync = timedOut, true, true
		}
	}
	if u.updated {
		c.revision = newRevision()
	}
	if u.sync && r.Release != London {
		r.sendSync(ctx, r.compositionSync(c))
	}
}

// scanInstance is MonitoringScanner's: an instance that is FAILED goes no further.
func (r *Runtime) scanInstance(ctx context.Context, i *Instance) {
	u := changes{}
	for _, told := range i.told {
		told(&u)
	}
	i.told = nil
	switch {
	case !transitional(i.DeployState, i.LockState, i.SubState) || i.Result == failed:
		r.save(ctx, i, u)
	case i.migrates() || i.SubState == preparing:
		r.scanStage(ctx, i, u)
	case i.DeployState == updating || i.DeployState == unUpdating || i.SubState == reviewing || i.SubState == prechecking:
		if slices.ContainsFunc(i.Elements, (*Element).underway) {
			r.timeOut(ctx, i, u)
			return
		}
		r.complete(ctx, i, u)
	default:
		r.scanPhase(ctx, i, u)
	}
}

// scanPhase is PhaseScanner's: the elements of the next phase are ordered when those of the last are done.
func (r *Runtime) scanPhase(ctx context.Context, i *Instance, u changes) {
	if !slices.ContainsFunc(i.Elements, (*Element).underway) {
		r.complete(ctx, i, u)
		return
	}
	next := i.phaseOf((*Element).underway)
	if next == i.phase {
		r.timeOut(ctx, i, u)
		return
	}
	i.phase, i.lastMsg, u.updated = next, r.now(), true
	r.save(ctx, i, u)
	first := r.Release == London && next == i.firstPhase()
	if i.DeployState == deploying {
		r.send(ctx, Topic, r.deployMessage(i, first))
		return
	}
	r.send(ctx, Topic, r.stateChangeMessage(i, first))
}

// scanStage is StageScanner's. An element acknowledges the stage that it waits for next; one that a migration has removed is gone.
func (r *Runtime) scanStage(ctx context.Context, i *Instance, u changes) {
	back, next := i.DeployState == unMigrating, -1
	for _, e := range i.Elements {
		if !e.underway() {
			continue
		}
		stages := e.Definition.stages(i.migrates())
		stage := slices.Min(stages)
		if back {
			stage = slices.Max(stages)
		}
		if e.stage != nil {
			stage = *e.stage
		}
		if next < 0 || back && stage > next || !back && stage < next {
			next = stage
		}
	}
	if i.Result == noError {
		left := slices.DeleteFunc(slices.Clone(i.Elements), func(e *Element) bool { return e.DeployState == deleted })
		u.updated = u.updated || len(left) < len(i.Elements)
		i.Elements = left
	}
	switch {
	case next < 0:
		r.complete(ctx, i, u)
	case next == i.phase:
		r.timeOut(ctx, i, u)
	default:
		i.phase, i.lastMsg, u.updated = next, r.now(), true
		r.save(ctx, i, u)
		if i.SubState == preparing {
			r.send(ctx, Topic, r.prepareMessage(i, true))
			return
		}
		r.send(ctx, Topic, r.migrationMessage(i, false))
	}
}

// timeOut is AbstractScanner.handleTimeout: the participant is told, with a new revision of the instance.
func (r *Runtime) timeOut(ctx context.Context, i *Instance, u changes) {
	if i.Result != timedOut && r.now().Sub(i.lastMsg) > r.timeoutOf(i) {
		i.Result, u.updated, u.sync = timedOut, true, true
	}
	r.save(ctx, i, u)
}

// complete is AbstractScanner.complete.
func (r *Runtime) complete(ctx context.Context, i *Instance, u changes) {
	was := i.DeployState
	if was == migrating {
		i.Composition = i.target
	}
	if i.migrates() {
		i.target = nil
		for _, e := range i.Elements {
			e.MigrationState = "DEFAULT"
		}
	}
	switch {
	case i.LockState == locking || was == deploying:
		i.LockState = locked
	case i.LockState == unlocking:
		i.LockState = unlocked
	case was == undeploying:
		i.LockState = none
	}
	switch was {
	case migrating, unMigrating, updating, unUpdating, deploying:
		i.DeployState = deployed
	case undeploying:
		i.DeployState = undeployed
	case deleting:
		i.DeployState = deleted
	}
	i.SubState, i.precheck = none, false
	if i.Result == timedOut {
		i.Result = noError
	}
	u.sync, u.delete = true, i.DeployState == deleted
	u.updated = !u.delete
	r.save(ctx, i, u)
}

// save is AbstractScanner.saveAndSync.
func (r *Runtime) save(ctx context.Context, i *Instance, u changes) {
	if u.updated && u.sync {
		i.revision = newRevision()
	}
	i.gone = i.gone || u.delete
	if u.sync && r.Release != London {
		r.sendSync(ctx, r.instanceSync(i, r.elementsOf(i)))
	}
}

// timeouts are the properties by which an element gives its orders another time (AcmTimeoutUtils); London has none.
var timeouts = map[string]string{
	deploying: "deployTimeoutMs", undeploying: "undeployTimeoutMs", updating: "updateTimeoutMs", migrating: "migrateTimeoutMs",
	deleting: "deleteTimeoutMs",
}

func (r *Runtime) timeoutOf(i *Instance) time.Duration {
	if r.Release == London {
		return londonWait
	}
	for _, e := range i.Elements {
		if e.DeployState != i.DeployState {
			continue
		}
		if ms, ok := number(e.Properties[timeouts[i.DeployState]]); ok {
			return time.Duration(ms) * time.Millisecond
		}
		break
	}
	return maxOperationWait
}
