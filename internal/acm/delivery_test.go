package acm

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestAnyDelivery: whatever comes twice, late or in another order, what counts in the end is the newest order. A minute lies between
// two orders.
func TestAnyDelivery(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages := draw(t, 60)
		last := messages[len(messages)-1]
		messages = append(messages, messages...)
		deliver(t, rapid.Permutation(messages).Draw(t, "delivered"), last)
	})
}

// TestAnyClocks: records with a key come in the order in which they were sent, some of them again, and their times say nothing.
func TestAnyClocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages := draw(t, 0)
		for n := range messages {
			messages[n].PartitionKey, messages[n].Timestamp = composition, at(rapid.IntRange(-3600, 3600).Draw(t, "time"))
		}
		var delivered []Message
		for n := range messages {
			delivered = append(delivered, messages[rapid.IntRange(0, n).Draw(t, "again from"):n+1]...)
		}
		deliver(t, delivered, messages[len(messages)-1])
	})
}

// draw makes orders, so many seconds apart.
func draw(t *rapid.T, apart int) []Message {
	number := rapid.IntRange(1, 6).Draw(t, "orders")
	messages := make([]Message, 0, 2*number)
	for n := 1; n <= number; n++ {
		m := rapid.SampledFrom([]Message{
			deployMessage(n, `{"b":1}`), orderMessage(TypePropertiesUpdate, n, `{"b":2}`), changeMessage(n, "UNDEPLOY", "NONE"),
			changeMessage(n, "NONE", "UNLOCK"),
		}).Draw(t, "order")
		m.Updates, m.Timestamp = deployMessage(n, `{"b":1}`).Updates, at(n*apart)
		messages = append(messages, m)
	}
	return messages
}

// deliver plays messages, with orders that end at any time, and checks which order stands in the end.
func deliver(t *rapid.T, messages []Message, last Message) {
	s := NewState()
	for _, m := range messages {
		for _, e := range Handle(me(), s, m, noon) {
			s.Apply(e)
		}
		if rapid.Bool().Draw(t, "settled") {
			settle(s, element, "")
		}
	}
	got := s.Elements[element]
	if got.Order.ID != last.MessageID || got.Order.Type != order(last) {
		t.Fatalf("the last order is %+v, not %s", got.Order, last.MessageID)
	}
}

// keyed is a message as runtimes since 9.0.2 send it: under the key of its composition.
func keyed(m Message) Message {
	m.PartitionKey = composition
	return m
}

func TestRepeatedOrdersChangeNothing(t *testing.T) {
	for name, form := range map[string]func(Message) Message{"keyed": keyed, "without keys": func(m Message) Message { return m }} {
		s := NewState()
		deploy, undeploy := form(deployMessage(10, `{}`)), form(changeMessage(20, "UNDEPLOY", "NONE"))
		told(t, s, primeMessage(0, `{}`), deploy)
		if got := told(t, s, deploy); got != nil {
			t.Errorf("%s: a repeated order that is underway gives %v", name, got)
		}
		settle(s, element, "")
		// The runtime would take an answer for that of the order which it has given meanwhile.
		if got := told(t, s, deploy); got != nil {
			t.Errorf("%s: a repeated order that is done gives %v", name, got)
		}
		told(t, s, undeploy)
		settle(s, element, "")
		if got := told(t, s, deploy, undeploy); got != nil || s.Elements[element].Present || s.Elements[element].Order.ID != undeploy.MessageID {
			t.Errorf("%s: a batch that comes again gives %v, %+v", name, got, s.Elements[element])
		}
	}
}

// TestClocksOfReplicas: an hour lies between the clocks of the runtime's two replicas.
func TestClocksOfReplicas(t *testing.T) {
	deployed := func() *State {
		s := NewState()
		told(t, s, primeMessage(0, `{}`), keyed(deployMessage(3600, `{}`)))
		settle(s, element, "")
		return s
	}
	t.Run("records with keys come in their order", func(t *testing.T) {
		s := deployed()
		told(t, s, keyed(changeMessage(20, "UNDEPLOY", "NONE")))
		if e := s.Elements[element]; e.Order.Type != OrderUndeploy || e.Present {
			t.Errorf("UNDEPLOY gives %+v", e)
		}
	})
	t.Run("without keys the times count", func(t *testing.T) {
		s := deployed()
		got := told(t, s, changeMessage(20, "UNDEPLOY", "NONE"))
		if len(got) != 2 || s.Elements[element].Order.Type != OrderDeploy {
			t.Fatalf("UNDEPLOY gives %v", got)
		}
		answer := got[1].(ElementAnswer).Outcome
		if answer.Result() != Failed || answer.OrderID != id(20) || answer.States != (States{Deployed, Locked}) || !strings.Contains(answer.Failure, "clocks") {
			t.Errorf("it is answered with %+v", answer)
		}
	})
	t.Run("what has lain on the broker is not answered", func(t *testing.T) {
		s := deployed()
		// The runtime waits for the deployment, whose acknowledgement it may not have read yet.
		if got := told(t, s, changeMessage(-60, "UNDEPLOY", "NONE")); len(got) != 1 || got[0].(IgnoreOrder).MessageID != id(-60) {
			t.Errorf("UNDEPLOY gives %v", got)
		}
	})
	t.Run("while the last order is on its way, nothing is answered", func(t *testing.T) {
		s := deployed()
		e := s.Elements[element]
		e.Settled = nil
		s.Elements[element] = e
		if got := told(t, s, changeMessage(20, "UNDEPLOY", "NONE")); len(got) != 1 || got[0].(IgnoreOrder).MessageID != id(20) {
			t.Errorf("UNDEPLOY gives %v", got)
		}
	})
	t.Run("what has ended is not overtaken by less than clocks differ", func(t *testing.T) {
		s := deployed()
		told(t, s, changeMessage(3590, "UNDEPLOY", "NONE"))
		if e := s.Elements[element]; e.Order.Type != OrderUndeploy {
			t.Errorf("UNDEPLOY gives %+v", e)
		}
	})
}
