package acmruntime

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// step is a state that the runtime tells of a composition or an instance, with the last message that tells it.
type step struct {
	state string
	said  line
}

// steps are the states that synchronizations tell of each composition and instance, each once for how often it is told without another
// in between: a runtime tells one as often as it scans, which no protocol fixes. What it tells who registers is left out, since that is
// the state of the moment, and so is what is on the way without having failed or timed out, which it tells only if something is reported
// just then.
func steps(lines []line) map[string][]step {
	out := map[string][]step{}
	for _, l := range lines {
		if l.text("messageType") != syncMsg || l.Message["restarting"] == true {
			continue
		}
		subject, state := l.text("compositionId"), fmt.Sprint(l.Message["state"], " ", l.Message["stateChangeResult"])
		if list, _ := l.Message["automationcompositionList"].([]any); len(list) > 0 {
			of := line{Message: list[0].(object)}
			result := of.text("stateChangeResult")
			if result == noError && transitional(of.text("deployState"), of.text("lockState"), none) {
				continue
			}
			subject, state = l.text("automationCompositionId"), of.text("deployState")+" "+of.text("lockState")+" "+result
			var elements []string
			for _, e := range at[[]any](of.Message, "acElementList") {
				one := line{Message: e.(object)}
				elements = append(elements, "; "+one.text("deployState")+" "+one.text("lockState")+" "+one.text("migrationState"))
			}
			slices.Sort(elements)
			state += strings.Join(elements, "")
		}
		list := out[subject]
		if n := len(list); n > 0 && list[n-1].state == state {
			list = list[:n-1]
		}
		out[subject] = append(list, step{state, l})
	}
	return out
}

// follow compares a recording whose times are not those of the stand-in: a busy runtime takes in late what a participant has said
// before, and tells states once more or once less. Orders are the same field for field, as are the states of each composition and
// instance in their sequence.
func (j *judge) follow(lines []line) error {
	j.loose = true
	ctx := j.t.Context()
	for n, l := range lines {
		at, err := time.Parse(time.RFC3339Nano, l.text("timestamp"))
		if err != nil {
			return err
		}
		j.r.ahead = time.Until(at)
		if fromParticipant(l) {
			j.feed(l.Message)
			continue
		}
		j.r.rescan(ctx)
		if l.text("messageType") == syncMsg {
			continue
		}
		j.compared++
		said := j.answers(l)
		if said == nil {
			return fmt.Errorf("line %d: the stand-in does not say %s", n+1, shown(l))
		}
		if diff := j.compare("", l.Message, said.Message); diff != "" {
			return fmt.Errorf("line %d: %s%s", n+1, l.text("messageType"), diff)
		}
	}
	j.r.rescan(ctx)
	ours := steps(j.tape.sent)
	for subject, want := range steps(lines) {
		got := ours[j.ours[subject]]
		for n, one := range want {
			if n >= len(got) || got[n].state != one.state {
				return fmt.Errorf("%s is told as %q, and not %q", subject, states(got), states(want))
			}
			j.compared++
			if diff := j.compare("", one.said.Message, got[n].said.Message); diff != "" {
				return fmt.Errorf("%s: %s%s", subject, one.state, diff)
			}
		}
	}
	return j.r.Faults()
}

// answers is what the stand-in says in place of an acknowledgement, which it has said, or of an order, which is given to it; nil for
// nothing.
func (j *judge) answers(l line) *line {
	if l.text("responseTo") == "" {
		said := len(j.tape.sent)
		j.act(l)
		if len(j.tape.sent) == said {
			return nil
		}
		return &j.tape.sent[said]
	}
	n := slices.IndexFunc(j.tape.sent, func(said line) bool { return said.text("responseTo") == l.text("responseTo") })
	if n < 0 || j.tape.sent[n].Topic != l.Topic {
		return nil
	}
	return &j.tape.sent[n]
}

func states(list []step) (out []string) {
	for _, one := range list {
		out = append(out, one.state)
	}
	return out
}

// TestTheComparisonDoesNotDependOnTiming: a runtime that tells a state again, or tells it after the participant has acknowledged the
// next one, says what the stand-in says. One that tells another state does not.
func TestTheComparisonDoesNotDependOnTiming(t *testing.T) {
	var lifecycle []line
	for _, part := range parts {
		lifecycle = append(lifecycle, recording(t, filepath.Join("..", "testdata", "acm-9.1.0", part+".jsonl"))...)
	}
	told := func(l line, change object) line {
		message := object{}
		for key, value := range l.Message {
			message[key] = value
		}
		for key, value := range change {
			message[key] = value
		}
		return line{Topic: l.Topic, Message: message}
	}
	last := map[string]line{}
	var late []line
	for _, l := range lifecycle {
		subject := l.text("automationCompositionId")
		if before, ok := last[subject]; ok && l.text("messageType") == stateChangeAck {
			late = append(late, l, told(before, object{"timestamp": l.Message["timestamp"]}))
			continue
		}
		if l.text("messageType") == syncMsg && l.Message["restarting"] != true && subject != "" {
			last[subject] = l
		}
		late = append(late, l)
	}
	if len(late) == len(lifecycle) {
		t.Fatal("nothing was told late")
	}
	j := newJudge(t, V910)
	if err := j.follow(late); err != nil || j.compared < 40 {
		t.Errorf("%d messages were compared, %v", j.compared, err)
	}

	for n, l := range late {
		if l.text("messageType") != syncMsg || l.Message["restarting"] == true || l.text("automationCompositionId") == "" {
			continue
		}
		of := at[object](l.Message, "automationcompositionList", 0)
		wrong := slices.Clone(late)
		wrong[n] = told(l, object{"automationcompositionList": []any{told(line{Message: of}, object{"stateChangeResult": failed + "X"}).Message}})
		if err := newJudge(t, V910).follow(wrong); err == nil {
			t.Errorf("line %d: another result is not noticed", n+1)
		}
	}
}

// TestMasterIsAsRecorded holds the stand-in for master against a runtime built from it.
func TestMasterIsAsRecorded(t *testing.T) {
	j := newJudge(t, Master)
	if err := j.follow(recording(t, filepath.Join("..", "testdata", "acm-master", "lifecycle.jsonl"))); err != nil || j.compared < 170 {
		t.Errorf("%d messages were compared, %v", j.compared, err)
	}
}
