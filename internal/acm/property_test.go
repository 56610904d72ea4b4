package acm

import (
	"testing"

	"pgregory.net/rapid"
)

// TestAnyDelivery: whatever comes twice, late or in another order, what counts in the end is the newest order.
func TestAnyDelivery(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		newest := rapid.IntRange(1, 6).Draw(t, "orders")
		messages := make([]Message, 0, 2*newest)
		for n := 1; n <= newest; n++ {
			m := rapid.SampledFrom([]Message{
				deployMessage(n, `{"b":1}`), orderMessage(TypePropertiesUpdate, n, `{"b":2}`), changeMessage(n, "UNDEPLOY", "NONE"),
				changeMessage(n, "NONE", "UNLOCK"),
			}).Draw(t, "order")
			m.Updates = deployMessage(n, `{"b":1}`).Updates
			messages = append(messages, m)
		}
		last := messages[newest-1]
		messages = append(messages, messages...)
		s := NewState()
		for _, m := range rapid.Permutation(messages).Draw(t, "delivered") {
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
	})
}
