package acm

import (
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
