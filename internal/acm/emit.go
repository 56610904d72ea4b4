package acm

import (
	"encoding/json"
	"time"
	"unicode/utf8"
)

// maxMessage is how much text the runtime keeps of the message of an acknowledgement, in characters; it cuts longer ones itself,
// but only since Oslo.
const maxMessage = 255

// Identity is who the participant is.
type Identity struct {
	// ParticipantID is the fixed UUID by which the runtime knows the participant. The runtime's database ties the supported
	// element types to it for ever, so that a replacement must keep it.
	ParticipantID string
	// ReplicaID tells replicas of a participant apart (Oslo and later); all of MLKeeper is one, since only the leader consumes.
	ReplicaID string
	// Supported are the element types that the participant takes.
	Supported []ElementType
	// Version is told when registering.
	Version string
}

// ElementType is a type of elements that a participant takes.
type ElementType struct {
	ID          string `json:"id"`
	TypeName    string `json:"typeName"`
	TypeVersion string `json:"typeVersion"`
}

// Outgoing is a message to the runtime.
type Outgoing struct {
	Type MessageType
	// Key is the key of the record: the composition's id, else the participant's, so that what belongs together keeps its order.
	Key  string
	Body []byte
}

// request is what every message has that is no acknowledgement. The fields of no release are left out: each ignores those of the
// others. Lists are never null, which the runtimes since 9.0.2 do not survive.
type request struct {
	MessageType       MessageType `json:"messageType"`
	MessageID         string      `json:"messageId"`
	Timestamp         string      `json:"timestamp"`
	ParticipantID     string      `json:"participantId"`
	ReplicaID         string      `json:"replicaId"`
	InstanceID        string      `json:"automationCompositionId,omitempty"`
	CompositionID     string      `json:"compositionId,omitempty"`
	ParticipantIDList []string    `json:"participantIdList"`
	PartitionKey      string      `json:"partitionKey"`
}

// answer is what every acknowledgement has.
type answer struct {
	MessageType   MessageType `json:"messageType"`
	ResponseTo    string      `json:"responseTo,omitempty"`
	Timestamp     string      `json:"timestamp"`
	StateChange   Result      `json:"stateChangeResult"`
	Result        bool        `json:"result"`
	Message       string      `json:"message"`
	CompositionID string      `json:"compositionId,omitempty"`
	ParticipantID string      `json:"participantId"`
	ReplicaID     string      `json:"replicaId"`
	PartitionKey  string      `json:"partitionKey"`
}

type register struct {
	request
	Supported []ElementType `json:"participantSupportedElementType"`
	Version   string        `json:"intermediaryVersion"`
}

type status struct {
	request
	State       string         `json:"state"`
	Definitions []struct{}     `json:"participantDefinitionUpdates"`
	Instances   []InstanceInfo `json:"automationCompositionInfoList"`
	Supported   []ElementType  `json:"participantSupportedElementType"`
}

// InstanceInfo reports what the elements of one instance are like. Runtimes take use state, operational state and properties
// from it, and ignore the deploy and lock states.
type InstanceInfo struct {
	InstanceID  string        `json:"automationCompositionId"`
	DeployState DeployState   `json:"deployState"`
	LockState   LockState     `json:"lockState"`
	Elements    []ElementInfo `json:"elements"`
}

// ElementInfo reports what one element is like.
type ElementInfo struct {
	ElementID   string      `json:"automationCompositionElementId"`
	DeployState DeployState `json:"deployState"`
	LockState   LockState   `json:"lockState"`
	Condition
}

// Condition is how an element fares while it is deployed, or while its order is hindered.
type Condition struct {
	// OperationalState is ENABLED or DISABLED, UseState IN_USE or IDLE.
	OperationalState string            `json:"operationalState,omitempty"`
	UseState         string            `json:"useState,omitempty"`
	OutProperties    map[string]string `json:"outProperties"`
}

type primeAck struct {
	answer
	CompositionState TypeState `json:"compositionState"`
	State            string    `json:"state"`
}

type stateChangeAck struct {
	answer
	InstanceID string                   `json:"automationCompositionId"`
	Updated    bool                     `json:"outPropertiesUpdated"`
	Results    map[string]elementResult `json:"automationCompositionResultMap"`
}

type elementResult struct {
	DeployState DeployState `json:"deployState"`
	LockState   LockState   `json:"lockState"`
	Result      bool        `json:"result"`
	Message     string      `json:"message"`
	Condition
}

func (i Identity) request(t MessageType, id string, now time.Time) request {
	return request{
		MessageType: t, MessageID: id, Timestamp: instant(now), ParticipantID: i.ParticipantID, ReplicaID: i.ReplicaID,
		ParticipantIDList: []string{}, PartitionKey: i.ParticipantID,
	}
}

func (i Identity) answer(t MessageType, to string, failure string, message string, now time.Time) answer {
	out := answer{
		MessageType: t, ResponseTo: to, Timestamp: instant(now), StateChange: NoError, Result: true, Message: cut(message),
		ParticipantID: i.ParticipantID, ReplicaID: i.ReplicaID, PartitionKey: i.ParticipantID,
	}
	if failure != "" {
		out.StateChange, out.Result, out.Message = Failed, false, cut(failure)
	}
	return out
}

// Register makes the message that makes the participant known; id is a new UUID, as in all that follow.
func (i Identity) Register(id string, now time.Time) Outgoing {
	return outgoing(TypeRegister, i.ParticipantID, register{i.request(TypeRegister, id, now), i.Supported, i.Version})
}

// Deregister makes the message that takes the replica back.
func (i Identity) Deregister(id string, now time.Time) Outgoing {
	return outgoing(TypeDeregister, i.ParticipantID, i.request(TypeDeregister, id, now))
}

// Status makes a heartbeat or, with a composition, a report on the elements of its instances.
func (i Identity) Status(id string, now time.Time, compositionID string, instances []InstanceInfo) Outgoing {
	base := i.request(TypeStatus, id, now)
	if compositionID != "" {
		base.CompositionID, base.PartitionKey = compositionID, compositionID
	}
	if instances == nil {
		instances = []InstanceInfo{}
	}
	return outgoing(TypeStatus, base.PartitionKey, status{base, OnLine, []struct{}{}, instances, i.Supported})
}

// ReqSync makes the message that asks for what the participant lacks of a composition and an instance, which may be empty.
func (i Identity) ReqSync(id string, now time.Time, compositionID, instanceID string) Outgoing {
	base := i.request(TypeReqSync, id, now)
	base.CompositionID, base.InstanceID = compositionID, instanceID
	if compositionID != "" {
		base.PartitionKey = compositionID
	}
	return outgoing(TypeReqSync, base.PartitionKey, base)
}

// PrimeAck makes the acknowledgement of PRIME and DEPRIME.
func (i Identity) PrimeAck(now time.Time, a PrimeAnswer) Outgoing {
	base := i.answer(TypePrimeAck, a.ResponseTo, a.Failure, a.Message, now)
	base.CompositionID, base.PartitionKey = a.CompositionID, a.CompositionID
	return outgoing(TypePrimeAck, base.PartitionKey, primeAck{base, a.State, OnLine})
}

// ElementAck makes the acknowledgement of an order on one element. Elements have no composition in it, so that its key is the
// participant's id.
func (i Identity) ElementAck(now time.Time, a ElementAnswer) Outgoing {
	message := a.Message
	if message == "" {
		message = a.Outcome.Message()
	}
	base := i.answer(TypeStateChangeAck, a.Outcome.OrderID, a.Outcome.Failure, message, now)
	properties := a.Condition
	if properties.OutProperties == nil {
		properties.OutProperties = map[string]string{}
	}
	results := map[string]elementResult{}
	if a.ElementID != "" {
		results[a.ElementID] = elementResult{a.Outcome.DeployState, a.Outcome.LockState, base.Result, base.Message, properties}
	}
	// What is not deployed has none, so that those which were told before go. An answer without a condition leaves them.
	updated := properties.UseState != "" || a.Outcome.DeployState != Deployed
	return outgoing(TypeStateChangeAck, base.PartitionKey, stateChangeAck{base, a.InstanceID, updated, results})
}

func outgoing(t MessageType, key string, message any) Outgoing {
	body, err := json.Marshal(message)
	if err != nil {
		panic("bug: a message of strings, lists and maps of them cannot be encoded: " + err.Error())
	}
	return Outgoing{Type: t, Key: key, Body: body}
}

// instant prints a time as every release reads it.
func instant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

// cut shortens a text to what the runtime keeps.
func cut(text string) string {
	if utf8.RuneCountInString(text) <= maxMessage {
		return text
	}
	return string([]rune(text)[:maxMessage-3]) + "..."
}
