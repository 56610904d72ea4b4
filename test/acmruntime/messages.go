package acmruntime

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Release is the form of the messages.
type Release string

// The releases: the oldest that is spoken, that of the recordings, and the newest.
const (
	// London is branch london: one topic, random keys, no revisions, RESTART in place of SYNC.
	London Release = "london"
	// V910 is 9.1.0.
	V910 Release = "9.1.0"
	// Master is commit 5662a4a14: 9.1.0 with the DTOs of elements in every order.
	Master Release = "master"
)

// object is a JSON object.
type object = map[string]any

// envelope is what every ParticipantMessage of the runtime has. Fields without a value are left out (MapperFactory: NON_NULL).
func (r *Runtime) envelope(kind string, c *Composition, i *Instance) object {
	out := object{"messageType": kind, "messageId": uuid.NewString(), "timestamp": r.now().UTC().Format(time.RFC3339Nano)}
	if c != nil {
		out["compositionId"] = c.ID
	}
	if i != nil {
		out["automationCompositionId"] = i.ID
	}
	if r.Release != London {
		out["participantIdList"] = []string{r.Participant}
		if c != nil {
			out["partitionKey"] = c.ID
		}
	}
	return out
}

// revised adds the revisions that an order is made for.
func (r *Runtime) revised(out object, c *Composition, i *Instance) object {
	if r.Release != London {
		out["revisionIdComposition"] = c.revision
		if i != nil {
			out["revisionIdInstance"] = i.revision
		}
	}
	return out
}

// ack is a ParticipantAckMessage of the runtime.
func (r *Runtime) ack(kind, text string, to id) object {
	out := object{"messageType": kind, "responseTo": to, "message": text}
	if r.Release == London {
		out["result"] = true
		return out
	}
	out["timestamp"] = r.now().UTC().Format(time.RFC3339Nano)
	return out
}

func (d *Definition) identifier() object { return object{"name": d.Name, "version": d.Version} }

// template is the node template of a definition, as it was commissioned.
func (d *Definition) template() object {
	return object{
		"name": d.Name, "version": d.Version, "metadata": object{}, "description": d.Description, "type": Type, "type_version": TypeVersion,
		"properties": d.Properties,
	}
}

// definitions are the element definitions of a composition (AcmUtils.prepareParticipantPriming).
func (r *Runtime) definitions(c *Composition) []object {
	var list []object
	for _, d := range c.Definitions {
		one := object{"acElementDefinitionId": d.identifier(), "automationCompositionElementToscaNodeTemplate": d.template()}
		if r.Release != London {
			one["outProperties"] = object{}
		}
		list = append(list, one)
	}
	return []object{{"participantId": r.Participant, "automationCompositionElementDefinitionList": list}}
}

// primeMessage primes a composition, or deprimes it (ParticipantPrimePublisher). London's depriming says nothing of what is deprimed
// but its id: the list is null, which Gson leaves out.
func (r *Runtime) primeMessage(c *Composition, order bool) object {
	out := r.revised(r.envelope(prime, c, nil), c, nil)
	switch {
	case order:
		out["participantDefinitionUpdates"] = r.definitions(c)
	case r.Release != London:
		out["participantDefinitionUpdates"] = []object{}
	}
	if r.Release == Master {
		in, outer := object{}, object{}
		for _, d := range c.Definitions {
			in[d.Name+" "+d.Version], outer[d.Name+" "+d.Version] = d.Properties, object{}
		}
		out["primeOrder"] = map[bool]string{true: "PRIME", false: "DEPRIME"}[order]
		out["primeDtoList"] = []object{{
			"participantId":  r.Participant,
			"compositionDto": object{"compositionId": c.ID, "inPropertiesMap": in, "outPropertiesMap": outer},
		}}
	}
	return out
}

// elements are those of an instance as an order names them (AcmUtils.createParticipantDeployList).
func (r *Runtime) elements(i *Instance, order string) []object {
	list := []object{}
	for _, e := range i.Elements {
		one := object{"id": e.ID, "definition": e.Definition.identifier(), "orderedState": order, "properties": e.Properties}
		if r.Release == London {
			one["toscaServiceTemplateFragment"] = object{"name": "NULL", "version": "0.0.0"}
		} else {
			one["migrationState"] = e.MigrationState
		}
		list = append(list, one)
	}
	return []object{{"participantId": r.Participant, "acElementList": list}}
}

// deployMessage is AutomationCompositionDeployPublisher's.
func (r *Runtime) deployMessage(i *Instance, first bool) object {
	out := r.revised(r.envelope(deploy, i.Composition, i), i.Composition, i)
	out["participantUpdatesList"], out["startPhase"], out["firstStartPhase"] = r.elements(i, "DEPLOY"), i.phase, first
	return r.addDtos(out, i, nil)
}

// stateChangeMessage is AutomationCompositionStateChangePublisher's; its orders follow from the states (AcmStateUtils).
func (r *Runtime) stateChangeMessage(i *Instance, first bool) object {
	out := r.revised(r.envelope(stateChange, i.Composition, i), i.Composition, i)
	word := func(of map[string]string, state string) string {
		if order, ok := of[state]; ok {
			return order
		}
		return none
	}
	out["deployOrderedState"] = word(map[string]string{deploying: "DEPLOY", undeploying: "UNDEPLOY", deleting: "DELETE"}, i.DeployState)
	out["lockOrderedState"] = word(map[string]string{locking: "LOCK", unlocking: "UNLOCK"}, i.LockState)
	out["startPhase"], out["firstStartPhase"] = i.phase, first
	return r.addDtos(out, i, nil)
}

// updateMessage is AcElementPropertiesPublisher's.
func (r *Runtime) updateMessage(i *Instance) object {
	out := r.revised(r.envelope(update, i.Composition, i), i.Composition, i)
	out["participantUpdatesList"] = r.elements(i, "UPDATE")
	if r.Release != London {
		out["rollback"] = i.DeployState == unUpdating
	}
	return r.addDtos(out, i, i.last)
}

// prepareMessage is AcPreparePublisher's: PREPARE names the elements, REVIEW the instance alone.
func (r *Runtime) prepareMessage(i *Instance, before bool) object {
	out := r.revised(r.envelope(prepare, i.Composition, i), i.Composition, i)
	out["preDeploy"], out["stage"], out["participantList"] = before, 0, []object{}
	if before {
		out["stage"], out["participantList"] = i.phase, r.elements(i, none)
	}
	return r.addDtos(out, i, nil)
}

// migrationMessage is AutomationCompositionMigrationPublisher's.
func (r *Runtime) migrationMessage(i *Instance, first bool) object {
	out := r.revised(r.envelope(migration, i.Composition, i), i.Composition, i)
	back := i.DeployState == unMigrating
	out["compositionTargetId"], out["revisionIdCompositionTarget"] = i.target.ID, i.target.revision
	out["precheck"], out["rollback"], out["firstStage"], out["stage"] = i.precheck, back, first, i.phase
	out["participantUpdatesList"] = r.elements(i, map[bool]string{true: "MIGRATION_REVERT", false: "MIGRATE"}[back])
	if !first {
		return r.addDtos(out, i, i.before) // StageScanner reads the copy for a rollback, also for the stages of one.
	}
	return r.addDtos(out, i, i.last)
}

// knownElement is an element as the runtime knows it (AcmUtils.createAcElementRestart).
func (r *Runtime) knownElement(e *Element) object {
	out := object{
		"id": e.ID, "definition": e.Definition.identifier(), "deployState": e.DeployState, "lockState": e.LockState, "properties": e.Properties,
	}
	if r.Release != London {
		outer := e.Reported.OutProperties
		if outer == nil {
			outer = object{}
		}
		out["participantId"], out["migrationState"], out["outProperties"] = r.Participant, e.MigrationState, outer
	}
	if e.Reported.OperationalState != "" {
		out["operationalState"] = e.Reported.OperationalState
	}
	if e.Reported.UseState != "" {
		out["useState"] = e.Reported.UseState
	}
	return out
}

// restartMessage tells a participant all that it should know of a composition and of some instances (ParticipantSyncPublisher,
// sendRestartMsg; London's ParticipantRestartPublisher). replica is empty for all of them, known are the elements of an instance.
func (r *Runtime) restartMessage(c *Composition, replica id, known func(*Instance) []object, instances ...*Instance) object {
	kind := syncMsg
	if r.Release == London {
		kind = restart
	}
	out := r.envelope(kind, c, nil)
	out["participantId"], out["state"], out["participantDefinitionUpdates"] = r.Participant, c.State, r.definitions(c)
	list := []object{}
	for _, i := range instances {
		one := object{"automationCompositionId": i.ID}
		if r.Release != London {
			one["deployState"], one["lockState"], one["revisionId"] = i.DeployState, i.LockState, i.revision
			if i.target != nil {
				one["compositionTargetId"] = i.target.ID
			}
		}
		one["acElementList"] = known(i)
		list = append(list, one)
	}
	out["automationcompositionList"] = list
	if r.Release == London {
		return out
	}
	if replica != "" {
		out["replicaId"] = replica
	}
	out["restarting"], out["delete"], out["excludeReplicas"], out["stateChangeResult"] = true, false, []string{}, c.Result
	return r.revised(out, c, nil)
}

// knownOf are the elements of an instance for who asks for them; those before a migration while its first stage has not ended (getAutomationCompositionForSync).
func (r *Runtime) knownOf(i *Instance) []object {
	elements := i.Elements
	if i.DeployState == migrating && i.before != nil && i.phase == i.firstStage() {
		elements = i.before
	}
	return r.knownElements(elements)
}

// elementsOf are the elements of an instance as they are.
func (r *Runtime) elementsOf(i *Instance) []object { return r.knownElements(i.Elements) }

func (r *Runtime) knownElements(list []*Element) []object {
	out := []object{}
	for _, e := range list {
		out = append(out, r.knownElement(e))
	}
	return out
}

// compositionSync is ParticipantSyncPublisher.sendSync of a definition.
func (r *Runtime) compositionSync(c *Composition) object {
	out := r.revised(r.envelope(syncMsg, c, nil), c, nil)
	out["state"], out["stateChangeResult"], out["restarting"] = c.State, c.Result, false
	out["automationcompositionList"], out["excludeReplicas"] = []object{}, []string{}
	out["delete"] = c.State == commissioned
	if c.State == commissioned {
		out["participantDefinitionUpdates"], out["participantIdList"] = []object{}, []string{}
		return out
	}
	out["participantDefinitionUpdates"] = r.definitions(c)
	return out
}

// instanceSync is ParticipantSyncPublisher.sendSync of an instance, with elements as knownElement has them. It has no revision of the
// composition.
func (r *Runtime) instanceSync(i *Instance, elements []object) object {
	out := r.envelope(syncMsg, i.Composition, i)
	one := object{
		"automationCompositionId": i.ID, "deployState": i.DeployState, "lockState": i.LockState, "stateChangeResult": i.Result,
		"revisionId": i.revision, "acElementList": []object{},
	}
	if i.target != nil {
		one["compositionTargetId"] = i.target.ID
	}
	out["delete"] = i.DeployState == deleted
	if i.DeployState == deleted {
		out["participantIdList"] = []string{}
	} else {
		one["acElementList"] = elements
	}
	out["state"], out["restarting"], out["participantDefinitionUpdates"] = primed, false, []object{}
	out["automationcompositionList"], out["excludeReplicas"] = []object{one}, []string{}
	return out
}

// encode makes JSON of a message.
func encode(message object) []byte {
	body, err := json.Marshal(message)
	if err != nil {
		panic("bug: a message does not encode: " + err.Error())
	}
	return body
}
