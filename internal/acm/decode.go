package acm

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"mlkeeper.dev/internal/manifest/bounded"
)

const (
	// MaxRecord is the size of the largest order that is carried out, in bytes: the most that a broker takes by default, and little enough for
	// the custom resource in which an order waits.
	MaxRecord = 1 << 20
	// MaxSync is that of the largest synchronization: it tells everything of a composition at once, and a transport fetches twice as much.
	MaxSync = 8 << 20
	// maxValues is how many values a synchronization may have: as many as fit into an order. Each takes memory, however short it is.
	maxValues = MaxRecord / 2
)

// ErrNotOurs is the error of a record that is no message of the protocol.
var ErrNotOurs = errors.New("not a message of an ACM runtime")

// Time is the time of a message: an ISO-8601 instant in every release; a number of seconds, or of milliseconds, is understood too.
type Time struct{ time.Time }

// UnmarshalJSON implements json.Unmarshaler. What is no time is the zero time: the order is then as late as its arrival.
func (t *Time) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		t.Time, _ = time.Parse(time.RFC3339Nano, text)
		// An offset of 24 hours, or a year that it leads to, is parsed and does not encode, as an order does that is held.
		if t.Time = t.UTC(); t.Year() < 1 || t.Year() > 9999 {
			t.Time = time.Time{}
		}
		return nil
	}
	var number float64
	if json.Unmarshal(raw, &number) != nil || number <= 0 || number > 1e14 {
		t.Time = time.Time{}
		return nil
	}
	if number > 1e11 {
		number /= 1000
	}
	t.Time = time.UnixMicro(int64(number * 1e6)).UTC()
	return nil
}

// Refused is the error of a record that is a message, but cannot be carried out. Message holds what could be read of it: the
// ids, by which the refusal can be acknowledged.
type Refused struct {
	Message Message
	Why     string
}

// Error implements error.
func (r *Refused) Error() string { return r.Why }

// Decode reads one record. Unknown fields are ignored and missing ones are empty, since each release has others. The error is a
// *Refused where the record is a message nevertheless, and ErrNotOurs otherwise.
func Decode(record []byte) (Message, error) {
	if why := tooLarge(record); why != "" {
		return Message{}, refuse(record, why)
	}
	var m Message
	if err := json.Unmarshal(record, &m); err != nil {
		return Message{}, refuse(record, fmt.Sprintf("the record cannot be read: %.200s", err.Error()))
	}
	if m.MessageType == "" {
		return Message{}, ErrNotOurs
	}
	if id, bad := m.malformedID(); bad {
		return Message{}, refuse(record, fmt.Sprintf("%.64q is no UUID", id))
	}
	if revision, long := m.longRevision(); long {
		return Message{}, refuse(record, fmt.Sprintf("a revision has %d bytes, more than %d", len(revision), maxWord))
	}
	return m, nil
}

// tooLarge says why a record is larger than one of its type may be; empty where it is not.
func tooLarge(record []byte) string {
	if len(record) <= MaxRecord {
		return ""
	}
	var of struct {
		MessageType lenient `json:"messageType"`
	}
	most, remedy := MaxRecord, ""
	if err := json.Unmarshal(record, &of); err == nil && (of.MessageType == lenient(TypeSync) || of.MessageType == lenient(TypeRestart)) {
		most, remedy = MaxSync, ": spread the automation compositions over several compositions"
	}
	if len(record) > most {
		return fmt.Sprintf("the record has %d bytes, more than %d%s", len(record), most, remedy)
	}
	if n := values(record); n > maxValues {
		return fmt.Sprintf("the record has %d values, more than %d%s", n, maxValues, remedy)
	}
	return ""
}

// values is how many values a record has at most: before each but the first is a brace, a bracket or a comma, and none of them in a text.
func values(record []byte) int { return 1 + bounded.Marks(record, "{[,") }

// malformedID finds an id of the message that is no UUID. Ids become names of custom resources, hence elements must have one; the
// others may be missing.
func (m Message) malformedID() (id string, found bool) {
	ids := []string{m.MessageID, m.CompositionID, m.CompositionTargetID, m.InstanceID}
	var elements []string
	for _, p := range slices.Concat(m.Updates, m.Participants) {
		for _, e := range p.Elements {
			elements = append(elements, e.ID)
		}
	}
	for _, p := range m.ElementDtos {
		for _, e := range p.Elements {
			ids = append(ids, e.Instance.ElementID, e.InstanceTarget.ElementID, e.Composition.CompositionID, e.CompositionTarget.CompositionID)
		}
	}
	for _, instance := range m.Instances {
		ids = append(ids, instance.InstanceID)
		for _, e := range instance.Elements {
			elements = append(elements, e.ID)
		}
	}
	for _, id := range elements {
		if !uuid.MatchString(id) {
			return id, true
		}
	}
	for _, id := range ids {
		if id != "" && !uuid.MatchString(id) {
			return id, true
		}
	}
	return "", false
}

// longRevision finds a revision that is too long. Revisions are kept, and count for no limit.
func (m Message) longRevision() (revision string, found bool) {
	revisions := []string{m.RevisionComposition, m.RevisionInstance, m.RevisionCompositionTarget}
	for _, instance := range m.Instances {
		revisions = append(revisions, instance.Revision)
	}
	at := slices.IndexFunc(revisions, func(one string) bool { return len(one) > maxWord })
	if at < 0 {
		return "", false
	}
	return revisions[at], true
}

// uuid is the canonical form, in which the runtime writes ids.
var uuid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// outline is what is read of a record that is refused: nothing but ids and words, each of which may be of the wrong type.
type outline struct {
	MessageType   lenient `json:"messageType"`
	MessageID     lenient `json:"messageId"`
	ParticipantID lenient `json:"participantId"`
	ReplicaID     lenient `json:"replicaId"`
	CompositionID lenient `json:"compositionId"`
	InstanceID    lenient `json:"automationCompositionId"`
	DeployOrder   lenient `json:"deployOrderedState"`
	LockOrder     lenient `json:"lockOrderedState"`
	PrimeOrder    lenient `json:"primeOrder"`
	Timestamp     Time    `json:"timestamp"`
	// PreDeploy tells PREPARE from REVIEW, which end in other states when they fail.
	PreDeploy json.RawMessage `json:"preDeploy"`

	ParticipantIDList listOf[lenient]            `json:"participantIdList"`
	Definitions       listOf[participantOutline] `json:"participantDefinitionUpdates"`
	Updates           listOf[participantOutline] `json:"participantUpdatesList"`
	Participants      listOf[participantOutline] `json:"participantList"`
}

type participantOutline struct {
	ParticipantID lenient                `json:"participantId"`
	Elements      listOf[elementOutline] `json:"acElementList"`
}

type elementOutline struct {
	ID lenient `json:"id"`
}

// lenient is a string of at most maxWord bytes; anything else is an empty one, since what is read of a record that is refused is logged and
// sent back.
type lenient string

// maxWord is how long an id, a revision or a word of the protocol may be, in bytes: the longest that a runtime sends has 38.
const maxWord = 64

func (l *lenient) UnmarshalJSON(raw []byte) error {
	var text string
	_ = json.Unmarshal(raw, &text)
	if *l = lenient(text); len(text) > maxWord {
		*l = ""
	}
	return nil
}

// listOf is a list without the items that are not of its type; what is no list is empty.
type listOf[T any] []T

func (l *listOf[T]) UnmarshalJSON(raw []byte) error {
	var items []json.RawMessage
	_ = json.Unmarshal(raw, &items)
	for _, item := range items {
		var one T
		if json.Unmarshal(item, &one) == nil {
			*l = append(*l, one)
		}
	}
	return nil
}

func refuse(record []byte, why string) error {
	var o outline
	if err := json.Unmarshal(record, &o); err != nil || o.MessageType == "" {
		return fmt.Errorf("%w: %s", ErrNotOurs, why)
	}
	m := Message{
		MessageType: MessageType(o.MessageType), MessageID: string(o.MessageID), Timestamp: o.Timestamp,
		ParticipantID: string(o.ParticipantID), ReplicaID: string(o.ReplicaID),
		CompositionID: string(o.CompositionID), InstanceID: string(o.InstanceID),
		DeployOrder: string(o.DeployOrder), LockOrder: string(o.LockOrder), PrimeOrder: string(o.PrimeOrder), PreDeploy: string(o.PreDeploy) == "true",
	}
	for _, id := range o.ParticipantIDList {
		m.ParticipantIDList = append(m.ParticipantIDList, string(id))
	}
	for _, p := range o.Definitions {
		m.Definitions = append(m.Definitions, DefinitionUpdate{ParticipantID: string(p.ParticipantID)})
	}
	for _, p := range slices.Concat(o.Updates, o.Participants) {
		update := ParticipantUpdate{ParticipantID: string(p.ParticipantID)}
		for _, e := range p.Elements {
			update.Elements = append(update.Elements, ElementUpdate{ID: string(e.ID)})
		}
		m.Updates = append(m.Updates, update)
	}
	return &Refused{Message: m, Why: why}
}
