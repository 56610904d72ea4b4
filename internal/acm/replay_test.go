package acm

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const (
	operationTopic = "policy-acruntime-participant"
	syncTopic      = "acm-ppnt-sync"
)

// recorded are the messages that the real ONAP runtime 9.1.0 has sent on some topics in one part of the recording, in their
// order.
func recorded(t *testing.T, part string, topics ...string) []Message {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "..", "test", "testdata", "acm-9.1.0", part+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var out []Message
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, MaxRecord)
	for lines.Scan() {
		var line struct {
			Topic   string          `json:"topic"`
			Message json.RawMessage `json:"message"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		m, err := Decode(line.Message)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(topics, line.Topic) {
			out = append(out, m)
		}
	}
	if len(out) == 0 {
		t.Fatalf("part %s has no messages", part)
	}
	return out
}

// replay plays messages to a participant whose cluster carries out every order at once, and returns the orders that were given
// to elements, in their order, with the reasons for which held orders were dropped.
func replay(s *State, messages []Message) (orders []OrderType, dropped []string) {
	recording := Identity{ParticipantID: participant, ReplicaID: "45b06d8a-952a-59ca-99f9-678637e3cae7"}
	for _, m := range messages {
		for _, effect := range Handle(recording, s, m, m.Timestamp.Time) {
			s.Apply(effect)
			switch e := effect.(type) {
			case PutElement:
				if e.Element.Order.Type != NoOrder && e.Element.Settled == nil {
					orders = append(orders, e.Element.Order.Type)
					settle(s, e.Element.ID, "")
				}
			case ReleaseOrder:
				if e.Dropped != "" {
					dropped = append(dropped, e.Dropped)
				}
			}
		}
		for id, e := range s.Elements {
			if e.Settled != nil && e.Settled.DeployState == Deleted {
				delete(s.Elements, id) // As the participant does when the runtime has been told.
			}
		}
	}
	return orders, dropped
}

// TestRecordedOrdersAreCarriedOut is the first part of the recording, read from both topics.
func TestRecordedOrdersAreCarriedOut(t *testing.T) {
	s := NewState()
	orders, dropped := replay(s, recorded(t, "1-without-sync-topic", operationTopic, syncTopic))
	if want := []OrderType{OrderDeploy, OrderUndeploy}; !slices.Equal(orders, want) || len(dropped)+len(s.Held) != 0 {
		t.Errorf("carried out were %q, dropped %q, held %v", orders, dropped, s.Held)
	}
}

// TestRecordedOrdersThatWereOvertakenAreDropped is the second part: both orders on an instance wait when the second topic is read
// at last, and the runtime waits for the removal alone.
func TestRecordedOrdersThatWereOvertakenAreDropped(t *testing.T) {
	s := NewState()
	const instance = "f5ae278e-7d2e-43f6-98f2-e0abefeb2f42"
	_, dropped := replay(s, recorded(t, "1-without-sync-topic", operationTopic))
	if len(dropped) != 1 || len(s.Held) != 1 {
		t.Errorf("held are %v, dropped %q", slices.Collect(maps.Keys(s.Held)), dropped)
	}
	orders, _ := replay(s, recorded(t, "2-sync-topic-late", operationTopic, syncTopic))
	if want := []OrderType{OrderUndeploy, OrderDeploy, OrderUndeploy, OrderPrepare}; !slices.Equal(orders, want) || len(s.Held) != 0 {
		t.Errorf("carried out were %q, held are %v", orders, s.Held)
	}
	if left := s.instance(instance); len(left) != 1 || left[0].Present || left[0].Order.Type != OrderUndeploy {
		t.Errorf("the instance is %+v", left)
	}
}

// TestRecordedLifecycle is the third part: every order of a whole life.
func TestRecordedLifecycle(t *testing.T) {
	s := NewState()
	replay(s, recorded(t, "1-without-sync-topic", operationTopic, syncTopic))
	replay(s, recorded(t, "2-sync-topic-late", operationTopic, syncTopic))
	orders, dropped := replay(s, recorded(t, "3-whole-lifecycle", operationTopic, syncTopic))
	want := []OrderType{
		OrderDeploy, OrderUnlock, OrderLock, OrderUpdate, OrderMigrate, OrderReview, OrderDelete, OrderDelete, OrderUndeploy, OrderDelete,
	}
	if !slices.Equal(orders, want) || len(dropped)+len(s.Held)+len(s.Elements)+len(s.Definitions) != 0 {
		t.Errorf("carried out were %q, dropped %q; left is %+v", orders, dropped, s)
	}
}
