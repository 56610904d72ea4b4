package acm

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 8, 21, 12, 0, 0, 0, time.UTC)

// at makes the time of a message, some seconds after noon.
func at(seconds int) Time { return Time{noon.Add(time.Duration(seconds) * time.Second)} }

func id(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

func properties(text string) Properties {
	p := Properties{}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		panic(err)
	}
	return p
}

// told plays messages in their order and returns the state with the effects of the last one.
func told(t *testing.T, s *State, messages ...Message) []Effect {
	t.Helper()
	var last []Effect
	for _, m := range messages {
		last = Handle(me(), s, m, noon)
		for _, e := range last {
			s.Apply(e)
		}
	}
	return last
}

// settle plays the cluster: an order on an element has ended.
func settle(s *State, element, failure string) {
	e := s.Elements[element]
	outcome := e.Order.Conclude(failure)
	e.Settled = &outcome
	s.Elements[element] = e
}

func primeMessage(seconds int, common string) Message {
	return Message{
		MessageType: TypePrime, MessageID: id(1000 + seconds), Timestamp: at(seconds), CompositionID: composition,
		Definitions: []DefinitionUpdate{{ParticipantID: participant, Elements: []ElementDefinition{{
			ID: kserveElement, Template: NodeTemplate{Type: kserveType, TypeVersion: "1.0.1", Properties: properties(common)},
		}}}},
	}
}

func orderMessage(kind MessageType, seconds int, text string) Message {
	return Message{
		MessageType: kind, MessageID: id(seconds), Timestamp: at(seconds), CompositionID: composition, InstanceID: instance,
		FirstStartPhase: true,
		Updates: []ParticipantUpdate{{ParticipantID: participant, Elements: []ElementUpdate{{
			ID: element, Definition: kserveElement, Properties: properties(text),
		}}}},
	}
}

func deployMessage(seconds int, text string) Message { return orderMessage(TypeDeploy, seconds, text) }

func changeMessage(seconds int, deploy, lock string) Message {
	return Message{
		MessageType: TypeStateChange, MessageID: id(seconds), Timestamp: at(seconds), CompositionID: composition,
		InstanceID: instance, DeployOrder: deploy, LockOrder: lock, FirstStartPhase: true,
	}
}

func TestAppliesTo(t *testing.T) {
	other := id(7)
	for _, c := range []struct {
		name string
		m    Message
		want bool
	}{
		{"broadcast", Message{}, true},
		{"broadcast for us", Message{ParticipantIDList: []string{other, participant}}, true},
		{"broadcast for others", Message{ParticipantIDList: []string{other}}, false},
		{"to the participant", Message{ParticipantID: participant}, true},
		{"to the replica", Message{ParticipantID: participant, ReplicaID: replica}, true},
		{"to another replica", Message{ParticipantID: participant, ReplicaID: other}, false},
		{"to another participant", Message{ParticipantID: other}, false},
	} {
		if got := appliesTo(me(), c.m); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

func TestRegistration(t *testing.T) {
	s := NewState()
	request := Message{MessageType: TypeStatusReq}
	if got := told(t, s, request); !reflect.DeepEqual(got, []Effect{SendRegister{}}) {
		t.Errorf("a request before the registration gives %v", got)
	}
	if got := told(t, s, Message{MessageType: TypeRegisterAck}); !reflect.DeepEqual(got, []Effect{Acknowledged{}, SendStatus{}}) {
		t.Errorf("the acknowledgement gives %v", got)
	}
	if got := told(t, s, request); !reflect.DeepEqual(got, []Effect{SendStatus{}}) {
		t.Errorf("a request gives %v", got)
	}
}

func TestOwnEchoes(t *testing.T) {
	s := NewState()
	for _, sent := range []Outgoing{
		me().Register(message, noon), me().Status(message, noon, "", nil), me().Deregister(message, noon),
		me().PrimeAck(noon, PrimeAnswer{CompositionID: composition}), me().ElementAck(noon, ElementAnswer{InstanceID: instance}),
		me().ReqSync(message, noon, composition, instance),
	} {
		m, err := Decode(sent.Body)
		if err != nil {
			t.Fatal(err)
		}
		if got := Handle(me(), s, m, noon); got != nil {
			t.Errorf("%s gives %v", sent.Type, got)
		}
	}
}

func TestPrime(t *testing.T) {
	s := NewState()
	got := told(t, s, primeMessage(0, `{}`))
	if len(got) != 2 || got[1].(PrimeAnswer).State != Primed {
		t.Errorf("PRIME gives %v", got)
	}
	others := primeMessage(1, `{}`)
	others.Definitions[0].ParticipantID = id(7)
	if got := told(t, s, others); got != nil {
		t.Errorf("PRIME of others gives %v", got)
	}
	deprime := Message{MessageType: TypePrime, MessageID: id(2), CompositionID: composition}
	got = told(t, s, deprime)
	if len(got) != 2 || got[1].(PrimeAnswer).State != Commissioned || len(s.Definitions) != 0 {
		t.Errorf("DEPRIME gives %v and leaves %v", got, s.Definitions)
	}
	if got := told(t, s, deprime); got[0].(PrimeAnswer).Message != "Already deprimed or never primed" {
		t.Errorf("DEPRIME once more gives %v", got)
	}
	named := primeMessage(3, `{}`)
	named.PrimeOrder = wordDeprime
	if got := told(t, s, named); got[0].(PrimeAnswer).State != Commissioned {
		t.Errorf("DEPRIME with definitions gives %v", got)
	}
}

func TestOrders(t *testing.T) {
	deployed := func(t *testing.T) *State {
		s := NewState()
		told(t, s, primeMessage(0, `{"a":1,"b":1}`), deployMessage(10, `{"b":2}`))
		settle(s, element, "")
		return s
	}
	t.Run("the instance's properties win", func(t *testing.T) {
		e := deployed(t).Elements[element].Content.Effective()
		if string(e["a"]) != "1" || string(e["b"]) != "2" {
			t.Errorf("the properties are %s", e)
		}
	})
	t.Run("undeploy and delete", func(t *testing.T) {
		s := deployed(t)
		told(t, s, changeMessage(20, "UNDEPLOY", "NONE"))
		if e := s.Elements[element]; e.Order.Type != OrderUndeploy || e.Present || e.Settled != nil {
			t.Errorf("UNDEPLOY gives %+v", e)
		}
		settle(s, element, "")
		told(t, s, changeMessage(30, "DELETE", "NONE"))
		if e := s.Elements[element]; e.Order.Type != OrderDelete || e.Present {
			t.Errorf("DELETE gives %+v", e)
		}
	})
	t.Run("delete what is unknown", func(t *testing.T) {
		got := told(t, NewState(), changeMessage(30, "DELETE", "NONE"))
		want := []Effect{ElementAnswer{
			InstanceID: instance, Message: "Already deleted or never used",
			Outcome: Outcome{OrderID: id(30), Type: OrderDelete, States: States{Deleted, Unspecified}},
		}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("it gives %+v", got)
		}
	})
	t.Run("lock and unlock", func(t *testing.T) {
		s := deployed(t)
		for n, c := range []struct {
			word string
			want States
		}{{"UNLOCK", States{Deployed, Unlocked}}, {"LOCK", States{Deployed, Locked}}} {
			told(t, s, changeMessage(20+n, "NONE", c.word))
			e := s.Elements[element]
			if got := e.Order.Conclude(""); got.States != c.want || !e.Present || string(e.Content.Properties["b"]) != "2" {
				t.Errorf("%s gives %+v", c.word, e)
			}
		}
	})
	t.Run("an update that fails goes back", func(t *testing.T) {
		s := deployed(t)
		told(t, s, orderMessage(TypePropertiesUpdate, 20, `{"b":3}`))
		if e := s.Elements[element]; string(e.Content.Properties["b"]) != "3" || string(e.Previous.Properties["b"]) != "2" {
			t.Errorf("UPDATE gives %+v", e)
		}
		settle(s, element, "no such model")
		told(t, s, orderMessage(TypePropertiesUpdate, 30, `{"b":4}`))
		if e := s.Elements[element]; string(e.Previous.Properties["b"]) != "2" {
			t.Errorf("the next UPDATE would go back to %s", e.Previous.Properties)
		}
		settle(s, element, "no such model")
		told(t, s, changeMessage(40, "NONE", "UNLOCK"))
		if e := s.Elements[element]; string(e.Content.Properties["b"]) != "2" || e.Previous != nil {
			t.Errorf("after the failure runs %+v", e.Content)
		}
	})
	t.Run("an update that succeeds stays", func(t *testing.T) {
		s := deployed(t)
		told(t, s, orderMessage(TypePropertiesUpdate, 20, `{"b":3}`))
		settle(s, element, "")
		told(t, s, changeMessage(40, "NONE", "UNLOCK"))
		if e := s.Elements[element]; string(e.Content.Properties["b"]) != "3" {
			t.Errorf("after the update runs %+v", e.Content)
		}
	})
	t.Run("a migration", func(t *testing.T) {
		s := deployed(t)
		target := primeMessage(15, `{"a":9,"stage":{"migrate":[1]}}`)
		target.CompositionID = id(99)
		migrate := orderMessage(TypeMigration, 20, `{"b":3}`)
		migrate.CompositionTargetID = id(99)
		if got := told(t, s, target, migrate); got != nil {
			t.Errorf("another stage gives %v", got)
		}
		migrate.Stage, migrate.MessageID = 1, id(21)
		told(t, s, migrate)
		if e := s.Elements[element]; e.Order.Type != OrderMigrate || e.Content.CompositionID != id(99) ||
			string(e.Content.Effective()["a"]) != "9" || e.Previous.CompositionID != composition {
			t.Errorf("MIGRATION gives %+v", e)
		}
		settle(s, element, "")
		migrate.Updates[0].Elements[0].MigrationState, migrate.MessageID, migrate.Timestamp = MigrationRemoved, id(22), at(22)
		told(t, s, migrate)
		if e := s.Elements[element]; e.Order.Type != OrderDelete || e.Present {
			t.Errorf("an element that the target lacks is %+v", e)
		}
	})
	t.Run("the rollback of a migration", func(t *testing.T) {
		s := deployed(t)
		target := primeMessage(15, `{"a":9,"stage":{"migrate":[1]}}`)
		target.CompositionID = id(99)
		back := orderMessage(TypeMigration, 20, `{"b":3}`)
		back.CompositionTargetID, back.Rollback, back.FirstStage = id(99), true, true
		told(t, s, target, back)
		if e := s.Elements[element]; e.Order.Type != OrderMigrate || e.Content.CompositionID != composition || !e.Present {
			t.Errorf("it ends in another composition than the one before: %+v", e)
		}
		settle(s, element, "")
		back.Updates[0].Elements[0].MigrationState, back.MessageID, back.Timestamp = MigrationRemoved, id(21), at(21)
		told(t, s, back)
		if e := s.Elements[element]; e.Order.Type != OrderMigrate || !e.Present {
			t.Errorf("what the migration has removed is %+v", e)
		}
		settle(s, element, "")
		back.Updates[0].Elements[0].MigrationState, back.MessageID, back.Timestamp, back.Stage = MigrationNew, id(22), at(22), 2
		told(t, s, back)
		if e := s.Elements[element]; e.Order.Type != OrderDelete || e.Present {
			t.Errorf("what the migration has added is %+v", e)
		}
	})
	t.Run("a precheck changes nothing", func(t *testing.T) {
		s := deployed(t)
		precheck := orderMessage(TypeMigration, 20, `{"b":3}`)
		precheck.Precheck = true
		told(t, s, precheck)
		if e := s.Elements[element]; string(e.Content.Properties["b"]) != "2" || string(e.Candidate.Properties["b"]) != "3" || !e.Present {
			t.Errorf("a precheck gives %+v", e)
		}
	})
	t.Run("a precheck of what a migration removes", func(t *testing.T) {
		s := deployed(t)
		precheck := orderMessage(TypeMigration, 20, `{}`)
		precheck.Precheck, precheck.Updates[0].Elements[0].MigrationState = true, MigrationRemoved
		told(t, s, precheck)
		if e := s.Elements[element]; e.Order.Type != OrderPrecheck || e.Candidate != nil || !e.Present {
			t.Errorf("it gives %+v", e)
		}
	})
	t.Run("a list of stages is for migrations", func(t *testing.T) {
		s := NewState()
		prepare := orderMessage(TypePrepare, 5, `{}`)
		prepare.Participants, prepare.Updates, prepare.PreDeploy = prepare.Updates, nil, true
		told(t, s, primeMessage(0, `{"stage":[1]}`), prepare)
		if e := s.Elements[element]; e.Order.Type != OrderPrepare {
			t.Errorf("PREPARE gives %+v", e)
		}
	})
	t.Run("prepare and review", func(t *testing.T) {
		s := NewState()
		prepare := orderMessage(TypePrepare, 5, `{"b":3}`)
		prepare.Participants, prepare.Updates, prepare.PreDeploy = prepare.Updates, nil, true
		told(t, s, prepare)
		if e := s.Elements[element]; e.Order.Type != OrderPrepare || e.Present || string(e.Candidate.Properties["b"]) != "3" {
			t.Errorf("PREPARE gives %+v", e)
		}
		s = deployed(t)
		told(t, s, Message{MessageType: TypePrepare, MessageID: id(20), Timestamp: at(20), InstanceID: instance})
		if e := s.Elements[element]; e.Order.Type != OrderReview || !e.Present || string(e.Candidate.Properties["b"]) != "2" {
			t.Errorf("REVIEW gives %+v", e)
		}
	})
	t.Run("an element of another instance", func(t *testing.T) {
		s := deployed(t)
		stray := deployMessage(20, `{}`)
		stray.InstanceID = id(55)
		got := told(t, s, stray)
		if len(got) != 1 || !strings.Contains(got[0].(ElementAnswer).Outcome.Failure, instance) || s.Elements[element].Order.ID != id(10) {
			t.Errorf("it gives %+v", got)
		}
	})
}

func TestPhases(t *testing.T) {
	s := NewState()
	deploy := deployMessage(10, `{}`)
	told(t, s, primeMessage(0, `{"startPhase":1.0}`), deploy)
	if e := s.Elements[element]; e.Order.Type != NoOrder || e.Present || e.Known != (States{Undeployed, Unspecified}) {
		t.Errorf("the first phase gives %+v", e)
	}
	deploy.StartPhase, deploy.FirstStartPhase, deploy.MessageID, deploy.Timestamp = 1, false, id(11), at(11)
	told(t, s, deploy)
	if e := s.Elements[element]; e.Order.Type != OrderDeploy || !e.Present {
		t.Errorf("its phase gives %+v", e)
	}
	if got := told(t, s, changeMessage(20, "UNDEPLOY", "NONE")); got != nil {
		t.Errorf("another phase of UNDEPLOY gives %v", got)
	}
}

// TestPhasesAreThoseOfTheCompositionOfTheInstance: it is the one before a migration until that has completed, and the runtime takes 0 for what it does not
// define.
func TestPhasesAreThoseOfTheCompositionOfTheInstance(t *testing.T) {
	s := NewState()
	target := primeMessage(1, `{"startPhase":1}`)
	target.CompositionID = id(99)
	other := primeMessage(0, `{}`)
	other.Definitions[0].Elements[0].ID = Identifier{Name: "another", Version: "1.0.0"}
	migrate := orderMessage(TypeMigration, 20, `{}`)
	migrate.CompositionTargetID, migrate.Updates[0].Elements[0].MigrationState = id(99), MigrationNew
	told(t, s, other, target, migrate)
	settle(s, element, "")
	undeploy := changeMessage(30, "UNDEPLOY", "NONE")
	if told(t, s, undeploy); s.Elements[element].Order.Type != OrderUndeploy {
		t.Errorf("after a migration that did not complete, UNDEPLOY gives %+v", s.Elements[element])
	}
	s.Elements[element] = Element{ID: element, InstanceID: instance, Content: s.Elements[element].Content, Present: true}
	undeploy.CompositionID, undeploy.MessageID = id(99), id(31)
	if got := told(t, s, undeploy); got != nil {
		t.Errorf("another phase of UNDEPLOY gives %v", got)
	}
}

// TestUndeployedInstancesAreNotDeployed: the runtime writes down whatever an element was acknowledged as, so that an instance that is
// undeployed may have elements that are not.
func TestUndeployedInstancesAreNotDeployed(t *testing.T) {
	for told, want := range map[DeployState]bool{Deployed: true, Updating: true, Undeployed: false, Undeploying: false, Deleting: false} {
		s := NewState()
		m := syncMessage(0, "i1", States{Deployed, Locked})
		m.Instances[0].DeployState = told
		for _, e := range Handle(me(), s, m, noon) {
			s.Apply(e)
		}
		if s.Elements[element].Present != want {
			t.Errorf("of an instance that is %s it is %t that its services should exist", told, !want)
		}
	}
}

func TestSyncOfWhatIsUnknown(t *testing.T) {
	s := NewState()
	sync := primeMessage(0, `{}`)
	sync.MessageType, sync.State = TypeSync, Primed
	sync.Instances = []Instance{{InstanceID: instance, Elements: []ElementUpdate{
		{ID: element, ParticipantID: participant, Definition: kserveElement, DeployState: Deployed, LockState: Locked, Properties: properties(`{"b":1}`)},
		{ID: id(2), ParticipantID: id(7), DeployState: Deployed},
	}}}
	excluded := sync
	excluded.ExcludeReplicas = []string{replica}
	if got := told(t, s, excluded); got != nil {
		t.Errorf("a SYNC that excludes the replica gives %v", got)
	}
	told(t, s, sync)
	if e := s.Elements[element]; len(s.Elements) != 1 || !e.Present || e.Known != (States{Deployed, Locked}) || e.Order.Type != NoOrder {
		t.Errorf("it gives %+v", s.Elements)
	}
	sync.Delete, sync.State = true, Commissioned
	told(t, s, sync)
	if len(s.Elements)+len(s.Definitions) != 0 {
		t.Errorf("a SYNC that deletes leaves %+v", s)
	}
}

func TestTimeoutStopsNothing(t *testing.T) {
	s := NewState()
	told(t, s, primeMessage(0, `{}`), deployMessage(10, `{}`))
	sync := primeMessage(20, `{}`)
	sync.MessageType = TypeSync
	sync.Instances = []Instance{{InstanceID: instance, Result: TimedOut, Elements: []ElementUpdate{{ID: element, DeployState: Deploying}}}}
	told(t, s, sync)
	if e := s.Elements[element]; e.Order.Type != OrderDeploy || !e.Present {
		t.Errorf("after the timeout there is %+v", e)
	}
}

func TestRestart(t *testing.T) {
	for _, c := range []struct {
		told   States
		order  OrderType
		answer bool
	}{
		{States{Deployed, Locked}, NoOrder, true},
		{States{Undeployed, Unspecified}, NoOrder, true},
		{States{Deploying, Unspecified}, OrderDeploy, false},
		{States{Undeploying, Locked}, OrderUndeploy, false},
		{States{Deleting, Unspecified}, OrderDelete, false},
		{States{Updating, Locked}, OrderUpdate, false},
		{States{Deployed, Unlocking}, OrderUnlock, false},
	} {
		s := NewState()
		m := primeMessage(0, `{}`)
		m.MessageType, m.State = TypeRestart, Priming
		m.Instances = []Instance{{InstanceID: instance, Elements: []ElementUpdate{{
			ID: element, Definition: kserveElement, DeployState: c.told.DeployState, LockState: c.told.LockState,
		}}}}
		got := told(t, s, m)
		if len(got) < 3 || got[1].(PrimeAnswer).State != Primed || s.Elements[element].Order.Type != c.order {
			t.Errorf("%v: %+v, order %q", c.told, got, s.Elements[element].Order.Type)
			continue
		}
		answer, ok := got[len(got)-1].(ElementAnswer)
		if ok != c.answer || ok && answer.Outcome.States != c.told {
			t.Errorf("%v: answered with %+v", c.told, answer)
		}
	}
}

func TestMasterForm(t *testing.T) {
	s := NewState()
	undeploy, err := Decode(samples(t, "master")["STATE_CHANGE undeploy"])
	if err != nil {
		t.Fatal(err)
	}
	undeploy.RevisionComposition, undeploy.RevisionInstance = "", ""
	told(t, s, undeploy)
	if e := s.Elements[element]; e.Order.Type != OrderUndeploy || e.Present || e.Content.Definition != kserveElement {
		t.Errorf("an order on what was never known gives %+v", e)
	}
}

func TestRefusals(t *testing.T) {
	deploy := fmt.Sprintf(`{"messageType":"AUTOMATION_COMPOSITION_DEPLOY","messageId":%q,"automationCompositionId":%q,
		"participantUpdatesList":[7,{"participantId":%q,"acElementList":[{"id":%q,"properties":%%s}]}]}`, message, instance, participant, element)
	for name, c := range map[string]struct{ record, why string }{
		"too large":         {fmt.Sprintf(deploy, `{"x":"`+strings.Repeat("x", MaxRecord)+`"}`), "more than 1048576"},
		"of another shape":  {fmt.Sprintf(deploy, `7`), "cannot be read"},
		"ids that are none": {strings.Replace(fmt.Sprintf(strings.Replace(deploy, "7,", "", 1), `{}`), instance, "../../x", 1), "is no UUID"},
	} {
		_, err := Decode([]byte(c.record))
		var refused *Refused
		if !errors.As(err, &refused) || !strings.Contains(refused.Why, c.why) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := Refuse(me(), NewState(), refused.Message, refused.Why)
		if len(got) != 1 {
			t.Errorf("%s: answered with %v", name, got)
			continue
		}
		answer := got[0].(ElementAnswer)
		if answer.ElementID != element || answer.Outcome.Result() != Failed || answer.Outcome.DeployState != Undeployed {
			t.Errorf("%s: answered with %+v", name, answer)
		}
	}
	for _, record := range []string{``, `{`, `[]`, `{}`, `"x"`, `{"messageType":7}`} {
		if _, err := Decode([]byte(record)); err == nil {
			t.Errorf("%q is taken for a message", record)
		}
	}
}

func TestTimes(t *testing.T) {
	want := time.Date(2026, 8, 21, 12, 0, 0, 0, time.UTC)
	for text, ok := range map[string]bool{
		`"2026-08-21T12:00:00Z"`: true, `"2026-08-21T12:00:00.000000Z"`: true, `1787313600`: true, `1787313600000`: true,
		`1787313600.0`: true, `null`: false, `"noon"`: false, `-1`: false,
		`"2026-08-22T12:00:00+24:00"`: true, `"9999-12-31T23:00:00-24:00"`: false, `"0000-01-01T00:00:00Z"`: false, `1e300`: false, `{}`: false,
	} {
		got := Time{time.Unix(1, 0)}
		if err := got.UnmarshalJSON([]byte(text)); err != nil || got.Equal(want) != ok || !ok && !got.IsZero() {
			t.Errorf("%s is read as %v, %v", text, got, err)
		}
	}
}
