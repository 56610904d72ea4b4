package acm

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// largeSync is the record of a synchronization of an instance with many elements.
func largeSync(elements int) []byte {
	var all []string
	for n := range elements {
		all = append(all, fmt.Sprintf(`{"id":%q,"participantId":%q,"deployState":"DEPLOYED","lockState":"LOCKED","properties":{"payload":%q}}`,
			id(n), participant, strings.Repeat("x", 500)))
	}
	return fmt.Appendf(nil, `{"messageType":"PARTICIPANT_SYNC_MSG","messageId":%q,"compositionId":%q,"revisionIdComposition":"r1","state":"PRIMED",
		"participantDefinitionUpdates":[{"participantId":%q,"automationCompositionElementDefinitionList":[{"acElementDefinitionId":{"name":"d"}}]}],
		"automationcompositionList":[{"automationCompositionId":%q,"revisionId":"i1","acElementList":[%s]}]}`,
		message, composition, participant, instance, strings.Join(all, ","))
}

// TestLargeSynchronizations: all elements that a participant keeps are told at once, while an order is kept in one custom resource.
func TestLargeSynchronizations(t *testing.T) {
	record := largeSync(maxElements - 1) // The order has another one.
	if len(record) < 6*MaxRecord {
		t.Fatalf("the record has %d bytes", len(record))
	}
	m, err := Decode(record)
	if err != nil {
		t.Fatal(err)
	}
	s := NewState()
	told(t, s, ahead(deployMessage(10, `{"b":2}`)))
	told(t, s, m)
	if len(s.Elements) != maxElements || len(s.Held) > 0 || len(s.Unsynchronized) > 0 {
		t.Errorf("after it there are %d elements, and wait %d orders", len(s.Elements), len(s.Held))
	}
	padded := func(text, padding string) string { return text[:len(text)-1] + `,"padding":` + padding + "}" }
	for name, c := range map[string]struct{ record, why string }{
		"too large":            {padded(string(record), `"`+strings.Repeat("x", MaxSync)+`"`), "more than 8388608"},
		"too many values":      {padded(string(record), "["+strings.Repeat("0,", maxValues)+"0]"), "values"},
		"characters of texts":  {padded(string(record), `"`+strings.Repeat(`,{[\"\\`, maxValues/4)+`"`), ""},
		"an order of the size": {strings.Replace(string(record), "PARTICIPANT_SYNC_MSG", "AUTOMATION_COMPOSITION_DEPLOY", 1), "more than 1048576"},
	} {
		_, err := Decode([]byte(c.record))
		if refused := (*Refused)(nil); c.why == "" && err != nil || c.why != "" && (!errors.As(err, &refused) || !strings.Contains(refused.Why, c.why)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSynchronizationsThatAreDropped: the participant knows why orders wait that a synchronization would have released, as long as they do.
func TestSynchronizationsThatAreDropped(t *testing.T) {
	tooMany := syncMessage(11, "i1", States{Deployed, Locked})
	s := full("elements")
	dropped := func(want string) {
		t.Helper()
		if got := s.Unsynchronized[composition]; !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("known is %q, not %q", got, want)
		}
	}
	if told(t, s, tooMany); len(s.Unsynchronized) > 0 {
		t.Error("it is kept although no order waits")
	}
	deploy := ahead(deployMessage(10, `{"b":2}`))
	told(t, s, deploy)
	told(t, s, tooMany)
	dropped("keeps no more")
	for _, e := range Refuse(me(), s, Message{MessageType: TypeSync, CompositionID: id(77)}, "of a composition of which no order waits") {
		s.Apply(e)
	}
	if len(s.Unsynchronized) != 1 {
		t.Errorf("kept are %v", s.Unsynchronized)
	}
	for _, e := range Refuse(me(), s, Message{MessageType: TypeSync, CompositionID: composition}, "the record is too large") {
		s.Apply(e)
	}
	dropped("the record is too large")
	if got := s.clone().Expired(noon.Add(2 * time.Hour)); len(got) != 1 || !strings.Contains(got[0].(ReleaseOrder).Dropped, "the record is too large") {
		t.Errorf("it is dropped with %+v", got)
	}
	s.Apply(ReleaseOrder{MessageID: deploy.MessageID})
	dropped("")
	told(t, s, deploy)
	told(t, s, tooMany)
	s.Elements = map[string]Element{}
	tooMany.Timestamp = at(12)
	told(t, s, tooMany)
	dropped("")
}
