package acmruntime

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// The values of messageType (models, messages/kafka/participant: ParticipantMessageType).
const (
	register       = "PARTICIPANT_REGISTER"
	registerAck    = "PARTICIPANT_REGISTER_ACK"
	deregister     = "PARTICIPANT_DEREGISTER"
	deregisterAck  = "PARTICIPANT_DEREGISTER_ACK"
	status         = "PARTICIPANT_STATUS"
	prime          = "PARTICIPANT_PRIME"
	primeAck       = "PARTICIPANT_PRIME_ACK"
	restart        = "PARTICIPANT_RESTART"
	syncMsg        = "PARTICIPANT_SYNC_MSG"
	reqSync        = "PARTICIPANT_REQ_SYNC_MSG"
	deploy         = "AUTOMATION_COMPOSITION_DEPLOY"
	stateChange    = "AUTOMATION_COMPOSITION_STATE_CHANGE"
	stateChangeAck = "AUTOMATION_COMPOSITION_STATECHANGE_ACK"
	update         = "PROPERTIES_UPDATE"
	migration      = "AUTOMATION_COMPOSITION_MIGRATION"
	prepare        = "AUTOMATION_COMPOSITION_PREPARE"
)

// The states and results (models, concepts: DeployState, LockState, SubState, AcTypeState, StateChangeResult).
const (
	none         = "NONE"
	noError      = "NO_ERROR"
	failed       = "FAILED"
	timedOut     = "TIMEOUT"
	commissioned = "COMMISSIONED"
	priming      = "PRIMING"
	primed       = "PRIMED"
	depriming    = "DEPRIMING"

	undeployed  = "UNDEPLOYED"
	deploying   = "DEPLOYING"
	deployed    = "DEPLOYED"
	undeploying = "UNDEPLOYING"
	deleting    = "DELETING"
	deleted     = "DELETED"
	updating    = "UPDATING"
	migrating   = "MIGRATING"
	unUpdating  = "UPDATE_REVERTING"
	unMigrating = "MIGRATION_REVERTING"

	locked    = "LOCKED"
	locking   = "LOCKING"
	unlocked  = "UNLOCKED"
	unlocking = "UNLOCKING"

	prechecking = "MIGRATION_PRECHECKING"
	preparing   = "PREPARING"
	reviewing   = "REVIEWING"
)

// id is a UUID as Jackson reads it: 36 characters.
type id string

// UnmarshalText implements encoding.TextUnmarshaler.
func (i *id) UnmarshalText(text []byte) error {
	if _, err := uuid.ParseBytes(text); err != nil || len(text) != 36 {
		return fmt.Errorf("%q is no UUID", text)
	}
	*i = id(text)
	return nil
}

// word is one of the constants of an enum.
func word(kind, value string, of ...string) error {
	if !slices.Contains(of, value) {
		return fmt.Errorf("%s %q is none of %q", kind, value, of)
	}
	return nil
}

type deployState string

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *deployState) UnmarshalText(text []byte) error {
	*s = deployState(text)
	return word("deployState", string(text), deployed, deploying, undeployed, undeploying, deleting, deleted, updating, migrating,
		unMigrating, unUpdating)
}

type lockState string

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *lockState) UnmarshalText(text []byte) error {
	*s = lockState(text)
	return word("lockState", string(text), none, locked, locking, unlocked, unlocking)
}

type typeState string

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *typeState) UnmarshalText(text []byte) error {
	*s = typeState(text)
	return word("compositionState", string(text), commissioned, priming, primed, depriming)
}

// said is what every message of a participant has: the fields of ParticipantMessage and of ParticipantAckMessage.
type said struct {
	MessageType   string    `json:"messageType"`
	Timestamp     time.Time `json:"timestamp"`
	ParticipantID id        `json:"participantId"`
	ReplicaID     id        `json:"replicaId"`
	CompositionID id        `json:"compositionId"`
	PartitionKey  string    `json:"partitionKey"`
}

// asked are the fields of a ParticipantMessage.
type asked struct {
	said
	MessageID         id   `json:"messageId"`
	InstanceID        id   `json:"automationCompositionId"`
	ParticipantIDList []id `json:"participantIdList"`
}

// answered are the fields of a ParticipantAckMessage. London's has the result and the state of the participant, too.
type answered struct {
	said
	ResponseTo  id     `json:"responseTo"`
	StateChange string `json:"stateChangeResult"`
	Message     string `json:"message"`
	Result      *bool  `json:"result"`
	State       string `json:"state"`
}

type elementType struct {
	ID          id     `json:"id"`
	TypeName    string `json:"typeName"`
	TypeVersion string `json:"typeVersion"`
}

type registerMessage struct {
	asked
	Supported []elementType `json:"participantSupportedElementType"`
	Version   string        `json:"intermediaryVersion"`
}

// statusMessage is ParticipantStatus; London's has the state of the participant, too.
type statusMessage struct {
	asked
	State       string            `json:"state"`
	Definitions []json.RawMessage `json:"participantDefinitionUpdates"`
	Infos       []struct {
		InstanceID  id          `json:"automationCompositionId"`
		DeployState deployState `json:"deployState"`
		LockState   lockState   `json:"lockState"`
		Elements    []struct {
			ID          id          `json:"automationCompositionElementId"`
			DeployState deployState `json:"deployState"`
			LockState   lockState   `json:"lockState"`
			Condition
		} `json:"elements"`
	} `json:"automationCompositionInfoList"`
	Supported []elementType `json:"participantSupportedElementType"`
}

type reqSyncMessage struct {
	asked
	TargetID id `json:"compositionTargetId"`
}

type primeAckMessage struct {
	answered
	CompositionState typeState `json:"compositionState"`
}

type elementAck struct {
	DeployState deployState `json:"deployState"`
	LockState   lockState   `json:"lockState"`
	Result      *bool       `json:"result"`
	Message     string      `json:"message"`
	Condition
}

type stateChangeAckMessage struct {
	answered
	InstanceID id                `json:"automationCompositionId"`
	Stage      *int              `json:"stage"`
	Updated    bool              `json:"outPropertiesUpdated"`
	Results    map[id]elementAck `json:"automationCompositionResultMap"`
}

// Condition is what a participant tells of an element beside its states.
type Condition struct {
	OperationalState string         `json:"operationalState"`
	UseState         string         `json:"useState"`
	OutProperties    map[string]any `json:"outProperties"`
}

// Text is one of the OutProperties, if it is a text.
func (c Condition) Text(key string) string {
	text, _ := c.OutProperties[key].(string)
	return text
}

// decode reads a message, with no field that the classes of policy/clamp lack, and without null: a null list ends the runtimes since
// 9.0.2 in a NullPointerException (SupervisionParticipantHandler calls isEmpty of the lists of a STATUS).
func decode(record []byte, to any) error {
	if bytes.Contains(record, []byte("null")) {
		var all any
		if err := json.Unmarshal(record, &all); err == nil && hasNull(all) {
			return errors.New("it has a null")
		}
	}
	d := json.NewDecoder(bytes.NewReader(record))
	d.DisallowUnknownFields()
	return d.Decode(to)
}

func hasNull(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case map[string]any:
		for _, one := range v {
			if hasNull(one) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, hasNull)
	}
	return false
}

// complete says what a message lacks that every one has.
func (s said) complete() error {
	switch {
	case s.Timestamp.IsZero():
		return errors.New("it has no timestamp")
	case s.ParticipantID == "" || s.ReplicaID == "":
		return errors.New("it has no participantId or no replicaId")
	}
	return nil
}

func (a asked) complete() error {
	if a.MessageID == "" || a.ParticipantIDList == nil {
		return errors.New("it has no messageId or no participantIdList")
	}
	return a.said.complete()
}

// maxText is how much of a message is kept (AcmUtils.validatedMessage); before Oslo more was an error of the database.
const maxText = 255

// complete also says what validateMessage refuses (SupervisionAcHandler, SupervisionHandler).
func (a answered) complete() error {
	switch {
	case a.ResponseTo == "":
		return errors.New("it has no responseTo")
	case a.StateChange != noError && a.StateChange != failed:
		return fmt.Errorf("stateChangeResult is %q", a.StateChange)
	case a.Result == nil || *a.Result != (a.StateChange == noError):
		return errors.New("result is not what stateChangeResult says, or absent: London reads it")
	case len([]rune(a.Message)) > maxText:
		return fmt.Errorf("its text has more than %d characters", maxText)
	}
	return a.said.complete()
}

// completeTypes says what a list of supported types lacks: the database asks for all three, the ids being its keys.
func completeTypes(list []elementType) error {
	ids := map[id]bool{}
	for _, t := range list {
		if t.ID == "" || t.TypeName == "" || t.TypeVersion == "" || ids[t.ID] {
			return fmt.Errorf("its supported types are %v", list)
		}
		ids[t.ID] = true
	}
	if len(list) == 0 {
		return errors.New("it supports no type")
	}
	return nil
}
