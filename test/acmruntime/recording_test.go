package acmruntime

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// tape is a bus that keeps what the runtime sends.
type tape struct{ sent []line }

// line is a message on a topic, as the recordings have it.
type line struct {
	Topic   string `json:"topic"`
	Message object `json:"message"`
	key     []byte
}

func (l line) text(key string) string {
	s, _ := l.Message[key].(string)
	return s
}

func (b *tape) Send(_ context.Context, topic string, key, value []byte) error {
	l := line{Topic: topic, key: key}
	if err := json.Unmarshal(value, &l.Message); err != nil {
		return err
	}
	b.sent = append(b.sent, l)
	return nil
}

func (b *tape) Receive(ctx context.Context) ([]Record, error) { return nil, ctx.Err() }

func (b *tape) Close() {}

// judge holds the runtime's half of a recording against what the stand-in says to the participant's half.
type judge struct {
	t    *testing.T
	r    *Runtime
	tape *tape
	// ours are the stand-in's ids by those of the recording, theirs the other way round.
	ours, theirs map[string]string
	// compared is how many lines there were.
	compared int
	// loose leaves out of the comparison what depends on when a runtime takes in what a participant says.
	loose bool
}

const (
	recordedParticipant = "101c62b3-8918-41b9-a747-d21eb79c6c04"
	recordedReplica     = "45b06d8a-952a-59ca-99f9-678637e3cae7"
)

// parts are the files of the recording, which go on from each other.
var parts = []string{"1-without-sync-topic", "2-sync-topic-late", "3-whole-lifecycle"}

// fromParticipant says that a line is the participant's.
func fromParticipant(l line) bool {
	return slices.Contains([]string{register, deregister, status, reqSync, primeAck, stateChangeAck}, l.text("messageType"))
}

// TestRecordingsOfTheOriginal: driven by the recorded participant and by the orders that were given, the stand-in says what the
// recorded runtime 9.1.0 said: the same messages on the same topics, each field for field, with new ids where that one made new ids.
func TestRecordingsOfTheOriginal(t *testing.T) {
	folder := filepath.Join("..", "testdata", "acm-9.1.0")
	j := newJudge(t, V910)
	for _, part := range parts {
		j.hear(filepath.Join(folder, part+".jsonl"))
	}
	if err := j.r.Faults(); err != nil || j.compared < 90 {
		t.Errorf("%d messages were compared, %v", j.compared, err)
	}
	// The recording ends with a DEREGISTER.
	if sent := j.tape.sent; len(sent) != 1 || sent[0].text("messageType") != deregisterAck {
		t.Errorf("the stand-in says more than was recorded: %v", sent)
	}
}

func newJudge(t *testing.T, release Release) *judge {
	t.Helper()
	tape := &tape{}
	return &judge{t: t, r: New(release, recordedParticipant, tape), tape: tape, ours: map[string]string{}, theirs: map[string]string{}}
}

// hear compares the lines of the runtime in a recording with what the stand-in says.
func (j *judge) hear(file string) {
	j.t.Helper()
	part := filepath.Base(file)
	for n, l := range recording(j.t, file) {
		at, err := time.Parse(time.RFC3339Nano, l.text("timestamp"))
		if err != nil {
			j.t.Fatal(err)
		}
		j.r.ahead = time.Until(at)
		if fromParticipant(l) {
			j.feed(l.Message)
			continue
		}
		j.compared++
		got := j.expect(l)
		if got == nil {
			j.t.Fatalf("%s, line %d: the stand-in does not say %s; it says %v", part, n+1, shown(l), j.tape.sent)
		}
		if diff := j.compare("", l.Message, got.Message); diff != "" {
			j.t.Fatalf("%s, line %d: %s%s\nrecorded: %s\nsaid:     %s", part, n+1, l.text("messageType"), diff, shown(l), shown(*got))
		}
		if string(got.key) != got.text("partitionKey") {
			j.t.Errorf("%s, line %d: the key is %q", part, n+1, got.key)
		}
	}
}

func shown(l line) string { return l.Topic + " " + string(encode(l.Message)) }

func recording(t *testing.T, name string) []line {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var out []line
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		one := line{}
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		out = append(out, one)
	}
	if lines.Err() != nil || len(out) == 0 {
		t.Fatalf("%s: %v", name, lines.Err())
	}
	return out
}

// feed gives the runtime a message of the participant, with the ids of the stand-in.
func (j *judge) feed(message object) {
	text := encode(message)
	for theirs, ours := range j.ours {
		text = bytes.ReplaceAll(text, []byte(theirs), []byte(ours))
	}
	key, _ := message["partitionKey"].(string)
	if ours, ok := j.ours[key]; ok {
		key = ours
	}
	j.r.Hear(j.t.Context(), Record{Key: []byte(key), Value: text})
}

// expect finds what the stand-in says in place of a recorded line. What does not come by itself follows from a scan, an order, or a
// message of the participant that the recording has cut: a question, or a report on an instance.
func (j *judge) expect(l line) *line {
	find := func() *line {
		for n, said := range j.tape.sent {
			if said.Topic == l.Topic && said.text("messageType") == l.text("messageType") && j.about(said, l) {
				j.tape.sent = slices.Delete(j.tape.sent, n, n+1)
				return &said
			}
		}
		return nil
	}
	scan, order := func() { j.r.rescan(j.t.Context()) }, func() { j.act(l) }
	steps := []func(){func() {}, scan, order, scan}
	// An order is given before a scan, where it names the revision that a scan would replace.
	if i := j.instance(l); i != nil && j.ours[l.text("revisionIdInstance")] == i.revision {
		steps = []func(){order}
	}
	for _, act := range steps {
		act()
		if said := find(); said != nil {
			return said
		}
	}
	return nil
}

// about says that two messages answer the same, or are about the same composition and instance.
func (j *judge) about(said, recorded line) bool {
	for _, key := range []string{"responseTo", "compositionId", "automationCompositionId"} {
		want := recorded.text(key)
		if ours, known := j.ours[want]; known {
			want = ours
		} else if key != "responseTo" && want != "" {
			want = said.text(key) // It is new.
		}
		if said.text(key) != want {
			return false
		}
	}
	return said.Message["restarting"] == recorded.Message["restarting"]
}

// instance is the stand-in's instance that a line is about; nil for none.
func (j *judge) instance(l line) *Instance {
	return j.r.instance(id(j.ours[l.text("automationCompositionId")]))
}

// act does what the recorded line follows from.
func (j *judge) act(l line) {
	c, i := j.r.composition(id(j.ours[l.text("compositionId")])), j.instance(l)
	ctx := j.t.Context()
	var err error
	switch kind := l.text("messageType"); kind {
	case syncMsg:
		j.cut(l)
	case prime:
		definitions, _ := l.Message["participantDefinitionUpdates"].([]any)
		if len(definitions) == 0 {
			err = j.r.Deprime(ctx, c)
			break
		}
		template := at[object](l.Message, "participantDefinitionUpdates", 0, "automationCompositionElementDefinitionList", 0,
			"automationCompositionElementToscaNodeTemplate")
		err = j.r.Prime(ctx, j.r.Commission(at[object](template, "properties")))
	case deploy:
		if i == nil {
			if i, err = j.r.Instantiate(c, j.properties(l)); err != nil {
				break
			}
		}
		err = j.r.Deploy(ctx, i)
	case stateChange:
		order := map[string]func() error{
			"UNDEPLOY NONE": func() error { return j.r.Undeploy(ctx, i) }, "DELETE NONE": func() error { return j.r.Delete(ctx, i) },
			"NONE LOCK": func() error { return j.r.Lock(ctx, i, true) }, "NONE UNLOCK": func() error { return j.r.Lock(ctx, i, false) },
		}
		err = order[l.text("deployOrderedState")+" "+l.text("lockOrderedState")]()
	case update, migration:
		err = j.changes(l, i)
	case prepare:
		if l.Message["preDeploy"] == true {
			err = j.r.Prepare(ctx, i)
			break
		}
		err = j.r.Review(ctx, i)
	}
	if err != nil {
		j.t.Fatalf("%s: %v", shown(l), err)
	}
}

// changes gives the order of an update or a migration, of a precheck, or of a rollback.
func (j *judge) changes(l line, i *Instance) error {
	ctx, to := j.t.Context(), j.r.composition(id(j.ours[l.text("compositionTargetId")]))
	switch {
	case l.Message["rollback"] == true:
		return j.r.Rollback(ctx, i)
	case to == nil:
		return j.r.Update(ctx, i, j.properties(l))
	case l.Message["precheck"] == true:
		return j.r.Precheck(ctx, i, to, j.properties(l))
	}
	return j.r.Migrate(ctx, i, to, j.properties(l))
}

func (j *judge) properties(l line) map[string]any {
	return at[object](l.Message, "participantUpdatesList", 0, "acElementList", 0, "properties")
}

// cut says what the participant has said before a synchronization, where the recording has cut it.
func (j *judge) cut(l line) {
	one := object{
		"messageId": uuid.NewString(), "timestamp": l.text("timestamp"), "participantId": recordedParticipant, "replicaId": recordedReplica,
		"participantIdList": []string{}, "compositionId": l.text("compositionId"), "partitionKey": l.text("compositionId"),
	}
	list, _ := l.Message["automationcompositionList"].([]any)
	if l.Message["restarting"] == true {
		one["messageType"] = reqSync
		if len(list) > 0 {
			one["automationCompositionId"] = at[string](list[0].(object), "automationCompositionId")
		}
		j.feed(one)
		return
	}
	elements := []object{}
	for _, e := range at[[]any](list[0].(object), "acElementList") {
		e := e.(object)
		info := object{
			"automationCompositionElementId": e["id"], "deployState": e["deployState"], "lockState": e["lockState"], "outProperties": e["outProperties"],
		}
		for _, key := range []string{"operationalState", "useState"} {
			if value, ok := e[key]; ok {
				info[key] = value
			}
		}
		elements = append(elements, info)
	}
	one["messageType"], one["participantDefinitionUpdates"] = status, []object{}
	one["participantSupportedElementType"] = []object{{
		"id": "67a7d646-76c7-5511-b13a-84207233c9dd", "typeName": Type, "typeVersion": TypeVersion,
	}}
	one["automationCompositionInfoList"] = []object{{
		"automationCompositionId": l.text("automationCompositionId"), "deployState": deployed, "lockState": locked, "elements": elements,
	}}
	j.feed(one)
}

// at is a value inside of JSON.
func at[T any](value any, path ...any) T {
	for _, step := range path {
		switch s := step.(type) {
		case string:
			value = value.(object)[s]
		case int:
			value = value.([]any)[s]
		}
	}
	return value.(T)
}

// timed are the fields that follow what a participant reports, and when.
var timed = []string{"outProperties", "operationalState", "useState", "revisionId", "revisionIdInstance", "revisionIdComposition"}

// compare says where two messages differ; empty for nowhere. Ids are the same if they stand for the same everywhere.
func (j *judge) compare(path string, recorded, said any) string {
	if j.loose && slices.ContainsFunc(timed, func(field string) bool { return strings.HasSuffix(path, "."+field) }) {
		return ""
	}
	switch want := recorded.(type) {
	case object:
		got, _ := said.(object)
		for key := range want {
			if _, ok := got[key]; !ok && (!j.loose || !slices.Contains(timed, key)) {
				return fmt.Sprintf("%s.%s is absent", path, key)
			}
		}
		for key, value := range got {
			if _, ok := want[key]; !ok && (!j.loose || !slices.Contains(timed, key)) {
				return fmt.Sprintf("%s.%s is too much", path, key)
			}
			if diff := j.compare(path+"."+key, want[key], value); diff != "" {
				return diff
			}
		}
		return ""
	case []any:
		got, _ := said.([]any)
		if len(got) != len(want) {
			return fmt.Sprintf("%s has %d in place of %d", path, len(got), len(want))
		}
		for n := range want {
			if diff := j.compare(fmt.Sprintf("%s[%d]", path, n), want[n], got[n]); diff != "" {
				return diff
			}
		}
		return ""
	case string:
		got, _ := said.(string)
		if strings.HasSuffix(path, ".timestamp") {
			if _, err := time.Parse(time.RFC3339Nano, got); err != nil {
				return path + " is no time"
			}
			return ""
		}
		if uuid.Validate(want) == nil && uuid.Validate(got) == nil {
			if ours, known := j.ours[want]; known && ours != got || !known && j.theirs[got] != "" {
				return fmt.Sprintf("%s is %s, which stands for %q, in place of %s, for which stands %q", path, got, j.theirs[got], want, ours)
			}
			j.ours[want], j.theirs[got] = got, want
			return ""
		}
	}
	if recorded != said {
		return fmt.Sprintf("%s is %v in place of %v", path, said, recorded)
	}
	return ""
}
