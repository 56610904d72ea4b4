package acmruntime

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// site is a runtime whose participant is the test.
type site struct {
	t *testing.T
	*Runtime
	tape *tape
}

func newSite(t *testing.T, release Release) *site {
	t.Helper()
	tape := &tape{}
	s := &site{t, New(release, recordedParticipant, tape), tape}
	s.says(object{"messageType": register, "intermediaryVersion": "test"})
	return s
}

// says has the participant say a message, with what it has in common with others.
func (s *site) says(message object) {
	s.t.Helper()
	types := []object{{"id": "67a7d646-76c7-5511-b13a-84207233c9dd", "typeName": Type, "typeVersion": TypeVersion}}
	all := object{"timestamp": time.Now().UTC().Format(time.RFC3339Nano), "participantId": recordedParticipant, "replicaId": recordedReplica}
	switch message["messageType"] {
	case reqSync:
		all["messageId"], all["participantIdList"] = uuid.NewString(), []string{}
	case register, status:
		all["messageId"], all["participantIdList"], all["participantSupportedElementType"] = uuid.NewString(), []string{}, types
		if message["messageType"] == status {
			all["participantDefinitionUpdates"], all["automationCompositionInfoList"], all["state"] = []object{}, []object{}, "ON_LINE"
		}
	default:
		all["stateChangeResult"], all["result"], all["message"], all["state"] = noError, true, "done", "ON_LINE"
	}
	for key, value := range message {
		all[key] = value
	}
	all["partitionKey"] = recordedParticipant
	if c, ok := all["compositionId"]; ok {
		all["partitionKey"] = c
	}
	s.Hear(s.t.Context(), Record{Value: encode(all)})
	s.rescan(s.t.Context())
}

// acknowledges has the participant acknowledge elements, in states.
func (s *site) acknowledges(i *Instance, result, deployState, lockState string, elements ...*Element) {
	s.t.Helper()
	results := object{}
	for _, e := range elements {
		results[e.ID] = object{
			"deployState": deployState, "lockState": lockState, "result": result == noError, "message": "done", "outProperties": object{},
		}
	}
	s.says(object{
		"messageType": stateChangeAck, "responseTo": s.last("").text("messageId"), "stateChangeResult": result, "result": result == noError,
		"automationCompositionId": i.ID, "outPropertiesUpdated": false, "automationCompositionResultMap": results,
	})
}

// last is the last message that was sent on the topic of operations, or that of a type.
func (s *site) last(kind string) line {
	for _, l := range slices.Backward(s.tape.sent) {
		if kind == "" && l.Topic == Topic || l.text("messageType") == kind {
			return l
		}
	}
	s.t.Fatalf("nothing was sent")
	return line{}
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) primed(definitions ...map[string]any) *Composition {
	s.t.Helper()
	c := s.Commission(definitions...)
	s.must(s.Prime(s.t.Context(), c))
	s.says(object{"messageType": primeAck, "responseTo": s.last(prime).text("messageId"), "compositionId": c.ID, "compositionState": primed})
	return c
}

func (s *site) want(i *Instance, states string) {
	s.t.Helper()
	if got := fmt.Sprint(i.DeployState, " ", i.LockState, " ", i.Result); got != states {
		s.t.Errorf("the instance is %s, not %s", got, states)
	}
	if err := s.Faults(); err != nil {
		s.t.Error(err)
	}
}

// TestTimeouts: an order that takes too long times out, and its late success counts; FAILED stays until the next order.
func TestTimeouts(t *testing.T) {
	for _, release := range []Release{London, V910} {
		s, ctx := newSite(t, release), t.Context()
		wait := map[Release]time.Duration{London: londonWait, V910: maxOperationWait}[release]
		i, err := s.Instantiate(s.primed(object{}), object{})
		s.must(err)
		s.must(s.Deploy(ctx, i))
		if s.Deploy(ctx, i) == nil || s.Undeploy(ctx, i) == nil {
			t.Error("an order is given while another is on its way")
		}
		s.Pass(ctx, wait-time.Second)
		s.says(object{"messageType": status})
		s.want(i, "DEPLOYING NONE NO_ERROR")
		s.Pass(ctx, 2*time.Second)
		s.want(i, "DEPLOYING NONE TIMEOUT")
		if release != London {
			told := s.last(syncMsg)
			if text := shown(told); !strings.Contains(text, `"stateChangeResult":"TIMEOUT"`) || !strings.Contains(text, i.revision) {
				t.Errorf("told is %s", text)
			}
		}
		s.acknowledges(i, noError, deployed, locked, i.Elements...)
		s.want(i, "DEPLOYED LOCKED NO_ERROR")

		s.must(s.Undeploy(ctx, i))
		s.acknowledges(i, failed, deployed, locked, i.Elements...)
		s.acknowledges(i, noError, undeployed, none, i.Elements...)
		s.want(i, "UNDEPLOYING NONE FAILED")
		s.must(s.Undeploy(ctx, i))
		s.acknowledges(i, noError, undeployed, none, i.Elements...)
		s.want(i, "UNDEPLOYED NONE NO_ERROR")
	}
}

// TestTimeoutOfAnElement: since Oslo an element may say how long an order takes.
func TestTimeoutOfAnElement(t *testing.T) {
	s, ctx := newSite(t, V910), t.Context()
	i, err := s.Instantiate(s.primed(object{}), object{"deployTimeoutMs": 60000})
	s.must(err)
	s.must(s.Deploy(ctx, i))
	s.Pass(ctx, maxOperationWait+time.Second)
	s.want(i, "DEPLOYING NONE NO_ERROR")
	s.Pass(ctx, 30*time.Second)
	s.want(i, "DEPLOYING NONE TIMEOUT")
}

// TestPhases: what comes in a later phase is ordered when what comes before it is done, and the other way round on the way back.
func TestPhases(t *testing.T) {
	s, ctx := newSite(t, V910), t.Context()
	i, err := s.Instantiate(s.primed(object{"startPhase": 1}, object{"startPhase": 3}), object{}, object{})
	s.must(err)
	phase := func(kind string, want float64) {
		t.Helper()
		if l := s.last(""); l.text("messageType") != kind || l.Message["startPhase"] != want {
			t.Errorf("ordered is %s", shown(l))
		}
	}
	s.must(s.Deploy(ctx, i))
	phase(deploy, 1)
	s.acknowledges(i, noError, deployed, locked, i.Elements[0])
	s.want(i, "DEPLOYING NONE NO_ERROR")
	phase(deploy, 3)
	s.acknowledges(i, noError, deployed, locked, i.Elements[1])
	s.want(i, "DEPLOYED LOCKED NO_ERROR")
	s.must(s.Undeploy(ctx, i))
	phase(stateChange, 3)
	s.acknowledges(i, noError, undeployed, none, i.Elements[1])
	phase(stateChange, 1)
	s.acknowledges(i, noError, undeployed, none, i.Elements[0])
	s.want(i, "UNDEPLOYED NONE NO_ERROR")
}

// TestOffLine: a participant that is silent for 150 s is given no orders, and is told all when it is heard of again.
func TestOffLine(t *testing.T) {
	s, ctx := newSite(t, V910), t.Context()
	c := s.primed(object{})
	i, err := s.Instantiate(c, object{})
	s.must(err)
	s.Pass(ctx, maxStatusWait-time.Second)
	s.must(s.online())
	s.says(object{"messageType": status})
	s.Pass(ctx, 2*time.Second)
	s.must(s.online())
	s.Pass(ctx, maxStatusWait+time.Second)
	if err := s.Deploy(ctx, i); err == nil || !strings.Contains(err.Error(), "OFFLINE") {
		t.Errorf("the order is answered with %v", err)
	}
	s.says(object{"messageType": status})
	if l := s.last(syncMsg); l.text("compositionId") != c.ID || l.Message["restarting"] != true || l.text("replicaId") != recordedReplica {
		t.Errorf("told is %s", shown(l))
	}
	s.must(s.Deploy(ctx, i))
}

// TestFaults: what the original would log and forget, or end in an exception, is a fault.
func TestFaults(t *testing.T) {
	s, ctx := newSite(t, V910), t.Context()
	i, err := s.Instantiate(s.primed(object{}), object{})
	s.must(err)
	s.must(s.Deploy(ctx, i))
	to := s.last(deploy).text("messageId")
	result := func(change object) object {
		one := object{"deployState": deployed, "lockState": locked, "result": true, "message": "", "outProperties": object{}}
		for key, value := range change {
			one[key] = value
		}
		return object{
			"messageType": stateChangeAck, "responseTo": to, "automationCompositionId": i.ID, "automationCompositionResultMap": object{i.Elements[0].ID: one},
		}
	}
	with := func(m object, key string, value any) object {
		m[key] = value
		return m
	}
	for name, message := range map[string]object{
		"an unknown field":          with(result(nil), "stateChangeResults", noError),
		"a field inside":            result(object{"deploystate": deployed, "unknown": 1}),
		"a null":                    with(result(nil), "stage", nil),
		"an unknown type":           {"messageType": "PARTICIPANT_ACK"},
		"a message of the runtime":  {"messageType": deploy},
		"no UUID":                   with(result(nil), "automationCompositionId", "instance"),
		"an unknown state":          result(object{"deployState": "Deployed"}),
		"a state on the way":        result(object{"deployState": deploying}),
		"TIMEOUT":                   with(result(nil), "stateChangeResult", timedOut),
		"no responseTo":             with(result(nil), "responseTo", ""),
		"an answer to nothing":      with(result(nil), "responseTo", uuid.NewString()),
		"too long a text":           with(result(nil), "message", strings.Repeat("x", 256)),
		"an unknown element":        with(result(nil), "automationCompositionResultMap", object{uuid.NewString(): result(nil)["automationCompositionResultMap"].(object)[i.Elements[0].ID]}),
		"no results":                with(result(nil), "automationCompositionResultMap", nil),
		"another key":               with(result(nil), "compositionId", i.Composition.ID[:35]+"x"),
		"a STATUS without a list":   {"messageType": status, "participantSupportedElementType": []object{}},
		"a REGISTER without a type": {"messageType": register, "participantSupportedElementType": []object{}},
	} {
		s.faults = nil
		s.says(message)
		if s.Faults() == nil {
			t.Errorf("%s is taken", name)
		}
	}
	s.faults = nil
	s.Hear(ctx, Record{Value: []byte("{")})
	if s.Faults() == nil {
		t.Error("what does not parse is taken")
	}
	s.faults = nil
	s.says(result(nil))
	s.want(i, "DEPLOYED LOCKED NO_ERROR")
}

// TestRollbackOfAMigration: the order to go back names the elements that the migration has added and those that it has removed, for the
// participant to undo both, and its last stage is that of the composition before.
func TestRollbackOfAMigration(t *testing.T) {
	for _, release := range []Release{V910, Master} {
		t.Run(string(release), func(t *testing.T) {
			s, ctx := newSite(t, release), t.Context()
			c := s.primed(object{}, object{})
			i, err := s.Instantiate(c, object{"n": 0}, object{"n": 1})
			s.must(err)
			s.must(s.Deploy(ctx, i))
			s.acknowledges(i, noError, deployed, locked, i.Elements...)
			to := s.primed(object{}, object{})
			s.must(s.Migrate(ctx, i, to, object{"n": 2}, nil, object{"n": 3}))
			kept, removed, added := i.Elements[0], i.Elements[1], i.Elements[2]
			s.acknowledges(i, failed, deployed, locked, kept)
			s.must(s.Rollback(ctx, i))
			order := s.last(migration)
			got := map[string]string{}
			for _, e := range at[[]any](order.Message, "participantUpdatesList", 0, "acElementList") {
				got[at[string](e, "id")] = fmt.Sprint(at[string](e, "migrationState"), at[any](e, "properties", "n"))
			}
			want := map[string]string{kept.ID: "DEFAULT0", removed.ID: "REMOVED1", added.ID: "NEW3"}
			if !maps.Equal(got, want) || order.text("compositionId") != c.ID || order.text("compositionTargetId") != to.ID {
				t.Errorf("the order names %v, not %v: %v", got, want, order)
			}
			if release == Master {
				dto := at[object](order.Message, "participantDtoList", 0, "elementDtos", 2)
				if at[string](dto, "instanceElementTarget", "state") != "REMOVED" || at[string](dto, "compositionElementTarget", "compositionId") != c.ID {
					t.Errorf("what the migration has added is %v", dto)
				}
			}
		})
	}
}

// TestQuestionDuringAMigration: who asks for an instance in the first stage of its migration is told the elements before it
// (getAutomationCompositionForSync). The synchronization that follows a timeout has those after it, and so has that of who registers anew.
func TestQuestionDuringAMigration(t *testing.T) {
	s, ctx := newSite(t, V910), t.Context()
	i, err := s.Instantiate(s.primed(object{}), object{"n": 1})
	s.must(err)
	s.must(s.Deploy(ctx, i))
	s.acknowledges(i, noError, deployed, locked, i.Elements...)
	s.must(s.Migrate(ctx, i, s.primed(object{}), object{"n": 2}))
	told := func() string {
		for _, l := range slices.Backward(s.tape.sent) {
			if list, _ := l.Message["automationcompositionList"].([]any); l.text("messageType") == syncMsg && len(list) > 0 {
				e := at[object](list[0], "acElementList", 0)
				return fmt.Sprint(e["deployState"], " ", at[any](e, "properties", "n"))
			}
		}
		return "nothing"
	}
	s.Pass(ctx, maxOperationWait+time.Second)
	if got := told(); got != "MIGRATING 2" {
		t.Errorf("after the timeout told is %s", got)
	}
	s.says(object{"messageType": reqSync, "automationCompositionId": i.ID})
	if got := told(); got != "DEPLOYED 1" {
		t.Errorf("who asks is told %s", got)
	}
	s.SyncAll(ctx)
	if got := told(); got != "MIGRATING 2" {
		t.Errorf("who registers anew is told %s", got)
	}
	if err := s.Faults(); err != nil {
		t.Error(err)
	}
}
