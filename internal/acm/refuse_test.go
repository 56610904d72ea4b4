package acm

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// refusals are what a record is answered with that Decode refuses, and why it does.
func refusals(t *testing.T, record string) ([]Effect, string) {
	t.Helper()
	_, err := Decode([]byte(record))
	var refused *Refused
	if !errors.As(err, &refused) {
		t.Fatalf("%.200s is not refused: %v", record, err)
	}
	return Refuse(me(), NewState(), refused.Message, refused.Why), refused.Why
}

// TestRefusedPrimingOfOthers: a priming that names other participants is not answered, however it is malformed.
func TestRefusedPrimingOfOthers(t *testing.T) {
	for of, answers := range map[string]int{id(7): 0, participant: 1} {
		record := fmt.Sprintf(`{"messageType":"PARTICIPANT_PRIME","messageId":%q,"compositionId":%q,"participantDefinitionUpdates":[{"participantId":%q,
			"automationCompositionElementDefinitionList":[{"acElementDefinitionId":{"name":"x","version":1}}]}]}`, message, composition, of)
		got, _ := refusals(t, record)
		if len(got) != answers {
			t.Errorf("a priming of participant %s is answered with %+v", of, got)
		}
	}
}

// TestRefusedPreparation: the states of a failed PREPARE are those of an element that is not deployed.
func TestRefusedPreparation(t *testing.T) {
	for preDeploy, want := range map[string]States{
		"true": {Undeployed, Unspecified}, "false": {Deployed, Locked}, "7": {Deployed, Locked},
	} {
		got, _ := refusals(t, fmt.Sprintf(`{"messageType":"AUTOMATION_COMPOSITION_PREPARE","messageId":%q,"automationCompositionId":%q,"stage":"none",
			"preDeploy":%s,"participantList":[{"participantId":%q,"acElementList":[{"id":%q}]}]}`, message, instance, preDeploy, participant, element))
		if len(got) != 1 || got[0].(ElementAnswer).ElementID != element || got[0].(ElementAnswer).Outcome.States != want {
			t.Errorf("preDeploy %s is answered with %+v", preDeploy, got)
		}
	}
}

// TestRefusedTextsAreShort: what is logged and answered of a record that is refused is bounded.
func TestRefusedTextsAreShort(t *testing.T) {
	long := strings.Repeat("1", 100_000)
	for _, record := range []string{
		`{"messageType":"PARTICIPANT_PRIME","messageId":"` + long + `","compositionId":"` + long + `"}`,
		`{"messageType":"PARTICIPANT_PRIME","messageId":` + long + `}`,
	} {
		got, why := refusals(t, record)
		if text := fmt.Sprint(got, why); len(text) > 1000 {
			t.Errorf("%d bytes are said of a record", len(text))
		}
	}
}

// TestLongRevisions: a revision is kept in memory alone, so that nobody else bounds it.
func TestLongRevisions(t *testing.T) {
	for _, field := range []string{
		`"revisionIdComposition":%q`, `"revisionIdInstance":%q`, `"revisionIdCompositionTarget":%q`, `"automationcompositionList":[{"revisionId":%q}]`,
	} {
		record := `{"messageType":"PARTICIPANT_SYNC_MSG",` + field + `}`
		if _, err := Decode(fmt.Appendf(nil, record, id(1))); err != nil {
			t.Errorf("%s is refused: %v", field, err)
		}
		if _, why := refusals(t, fmt.Sprintf(record, strings.Repeat("x", maxWord+1))); !strings.Contains(why, "revision") {
			t.Errorf("it is refused since %s", why)
		}
	}
}

// TestATimeThatDoesNotEncode: Go parses times that it does not print, and an order that is held is stored as JSON.
func TestATimeThatDoesNotEncode(t *testing.T) {
	for _, given := range []string{"2026-08-21T12:00:00+24:00", "0000-01-01T00:00:00+23:00", "9999-12-31T23:00:00-23:00"} {
		m, err := Decode(fmt.Appendf(nil, `{"messageType":"AUTOMATION_COMPOSITION_DEPLOY","messageId":%q,"timestamp":%q,"compositionId":%q,
			"automationCompositionId":%q,"revisionIdComposition":"r"}`, message, given, composition, instance))
		if err != nil {
			t.Fatal(err)
		}
		got := Handle(me(), NewState(), m, noon)
		if len(got) != 1 || reflect.TypeOf(got[0]) != reflect.TypeFor[HoldOrder]() {
			t.Errorf("an order of %s gives %+v", given, got)
		}
	}
}
