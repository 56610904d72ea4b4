package acmruntime

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"mlkeeper.dev/internal/acm"
)

// Release is the form of the messages.
type Release string

// The releases, the oldest and the newest that are spoken.
const (
	London Release = "london"
	Master Release = "master"
)

// object is a JSON object.
type object = map[string]any

// envelope is what every request has.
func (r *Runtime) envelope(kind acm.MessageType, c *Composition, i *Instance) object {
	out := object{
		"messageType": kind, "messageId": uuid.NewString(), "timestamp": time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"),
	}
	if c != nil {
		out["compositionId"] = c.ID
	}
	if i != nil {
		out["automationCompositionId"] = i.ID
	}
	if r.Release == Master {
		out["participantIdList"] = []string{r.Participant}
		if c != nil {
			out["revisionIdComposition"], out["partitionKey"] = c.revision, c.ID
		}
		if i != nil {
			out["revisionIdInstance"] = i.revision
		}
	}
	return out
}

// definitions are the element definitions of a composition.
func (r *Runtime) definitions(c *Composition) []object {
	return []object{{
		"participantId": r.Participant,
		"automationCompositionElementDefinitionList": []object{{
			"acElementDefinitionId": c.Definition,
			"automationCompositionElementToscaNodeTemplate": object{
				"name": c.Definition.Name, "version": c.Definition.Version, "type": Type, "type_version": TypeVersion,
				"properties": c.Properties,
			},
		}},
	}}
}

// primeMessage primes a composition, or deprimes it.
func (r *Runtime) primeMessage(c *Composition, prime bool) object {
	out := r.envelope(acm.TypePrime, c, nil)
	if prime {
		out["participantDefinitionUpdates"] = r.definitions(c)
	}
	if r.Release != Master {
		return out
	}
	out["primeOrder"] = map[bool]string{true: "PRIME", false: "DEPRIME"}[prime]
	if !prime {
		out["participantDefinitionUpdates"] = []object{}
	}
	out["primeDtoList"] = []object{{
		"participantId": r.Participant,
		"compositionDto": object{
			"compositionId": c.ID, "inPropertiesMap": object{c.Definition.String(): c.Properties},
			"outPropertiesMap": object{c.Definition.String(): object{}},
		},
	}}
	return out
}

// orderMessage orders something that names the elements with their properties.
func (r *Runtime) orderMessage(kind acm.MessageType, word string, i *Instance) object {
	out := r.envelope(kind, i.Composition, i)
	var elements []object
	for _, e := range i.Elements {
		one := object{
			"id": e.ID, "definition": i.Composition.Definition, "orderedState": word, "properties": e.Properties,
		}
		if r.Release == Master {
			one["migrationState"] = "DEFAULT"
		}
		elements = append(elements, one)
	}
	out["participantUpdatesList"] = []object{{"participantId": r.Participant, "acElementList": elements}}
	if kind == acm.TypeDeploy {
		out["startPhase"], out["firstStartPhase"] = 0, true
	}
	r.addDtos(out, i)
	return out
}

// changeMessage orders something that names the instance only.
func (r *Runtime) changeMessage(deploy, lock string, i *Instance) object {
	out := r.envelope(acm.TypeStateChange, i.Composition, i)
	out["deployOrderedState"], out["lockOrderedState"], out["startPhase"], out["firstStartPhase"] = deploy, lock, 0, true
	r.addDtos(out, i)
	return out
}

// addDtos adds the elements in the form of the current master.
func (r *Runtime) addDtos(out object, i *Instance) {
	if r.Release != Master {
		return
	}
	var dtos []object
	for _, e := range i.Elements {
		dtos = append(dtos, object{
			"compositionElement": object{
				"compositionId": i.Composition.ID, "elementDefinitionId": i.Composition.Definition,
				"inProperties": i.Composition.Properties, "outProperties": object{}, "state": "PRESENT",
			},
			"instanceElementTarget": object{
				"instanceId": i.ID, "elementId": e.ID, "inProperties": e.Properties, "outProperties": object{}, "state": "PRESENT",
			},
		})
	}
	out["participantDtoList"] = []object{{"participantId": r.Participant, "elementDtos": dtos}}
}

// syncMessage tells a participant all that it should know of a composition.
func (r *Runtime) syncMessage(c *Composition, instances []*Instance) object {
	out := r.envelope(acm.TypeSync, c, nil)
	out["participantId"], out["state"], out["stateChangeResult"] = r.Participant, "PRIMED", "NO_ERROR"
	out["participantDefinitionUpdates"], out["restarting"], out["delete"] = r.definitions(c), true, false
	var list []object
	for _, i := range instances {
		var elements []object
		for _, e := range i.Elements {
			elements = append(elements, object{
				"id": e.ID, "definition": c.Definition, "participantId": r.Participant, "deployState": e.DeployState,
				"lockState": e.LockState, "properties": e.Properties, "outProperties": object{},
			})
		}
		list = append(list, object{
			"automationCompositionId": i.ID, "revisionId": i.revision, "stateChangeResult": i.Result, "acElementList": elements,
			"deployState": i.Elements[0].DeployState, "lockState": i.Elements[0].LockState,
		})
	}
	out["automationcompositionList"] = list
	return out
}

// encode makes a record of a message.
func encode(message object) acm.Outgoing {
	body, err := json.Marshal(message)
	if err != nil {
		panic("bug: a message does not encode: " + err.Error())
	}
	key, _ := message["partitionKey"].(string)
	if key == "" {
		key = uuid.NewString()
	}
	kind, _ := message["messageType"].(acm.MessageType)
	return acm.Outgoing{Type: kind, Key: key, Body: body}
}
