package acm

import (
	"errors"
	"testing"
)

// FuzzDecode feeds records as a hostile broker would, to the decoder and to the state machine behind it.
func FuzzDecode(f *testing.F) {
	for _, release := range []string{"london", "master"} {
		for _, record := range samples(f, release) {
			f.Add([]byte(record))
		}
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		s := NewState()
		s.Definitions[composition] = Definition{CompositionID: composition}
		s.Elements[element] = Element{ID: element, InstanceID: instance}
		m, err := Decode(record)
		effects := Handle(me(), s, m, noon)
		var refused *Refused
		if errors.As(err, &refused) {
			effects = Refuse(me(), s, refused.Message, refused.Why)
		}
		for _, e := range effects {
			s.Apply(e)
		}
		for id := range s.Elements {
			if !uuid.MatchString(id) {
				t.Errorf("an element is named %q", id)
			}
		}
	})
}
