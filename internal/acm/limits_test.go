package acm

import (
	"reflect"
	"strings"
	"testing"
)

// full is a state with as much as a participant keeps: of elements, of definitions, or of bytes.
func full(of string) *State {
	s := NewState()
	s.Definitions[composition] = Definition{CompositionID: composition, Elements: map[Identifier]Properties{kserveElement: properties(`{"a":1}`)}}
	switch of {
	case "elements":
		for n := range maxElements {
			s.Elements[id(100_000+n)] = Element{ID: id(100_000 + n), InstanceID: id(5)}
		}
	case "definitions":
		for n := range maxDefinitions - 1 {
			s.Definitions[id(100_000+n)] = Definition{CompositionID: id(100_000 + n)}
		}
	case "bytes":
		large := Content{Properties: properties(`{"x":"` + strings.Repeat("x", 1<<20) + `"}`)}
		for n := range maxSize >> 20 {
			s.Elements[id(100_000+n)] = Element{ID: id(100_000 + n), InstanceID: id(5), Content: large}
		}
	}
	return s
}

// TestLimits: what a message adds beyond the limits is refused, whichever message it is, and nothing else is.
func TestLimits(t *testing.T) {
	other := primeMessage(1, `{"a":1}`)
	other.CompositionID = id(77)
	sync, restart := syncMessage(1, "i1", States{Deployed, Locked}), syncMessage(1, "", States{Deployed, Locked})
	for _, m := range []Message{sync, restart} {
		m.Instances[0].Elements[0].Properties = properties(`{"b":2}`)
	}
	restart.MessageType, restart.RevisionComposition = TypeRestart, ""
	undeploy := changeMessage(1, "UNDEPLOY", "NONE")
	undeploy.Updates = deployMessage(1, `{}`).Updates
	precheck := deployMessage(1, `{"b":2}`)
	precheck.MessageType, precheck.Precheck = TypeMigration, true
	for _, c := range []struct {
		name string
		m    Message
		// adds are the limits that the message would exceed.
		adds string
	}{
		{"an order to deploy", deployMessage(1, `{"b":2}`), "elements bytes"},
		{"an order to undeploy what is not known", undeploy, "elements bytes"},
		{"a precheck", precheck, "elements bytes"},
		{"a priming", other, "definitions bytes"},
		{"a synchronization", sync, "elements bytes"},
		{"a restart", restart, "elements bytes"},
		{"a priming of what is known", primeMessage(1, `{"a":1}`), ""},
		{"a question for the state", Message{MessageType: TypeStatusReq}, ""},
	} {
		for _, of := range []string{"elements", "definitions", "bytes"} {
			s := full(of)
			before := s.clone()
			got := told(t, s, c.m)
			if !strings.Contains(c.adds, of) {
				if len(got) == 0 || strings.Contains(failureOf(got), "keeps no more") {
					t.Errorf("%s is refused with full %s: %+v", c.name, of, got)
				}
				continue
			}
			if len(s.Elements) != len(before.Elements) || !reflect.DeepEqual(s.Definitions, before.Definitions) || !strings.Contains(failureOf(got), "keeps no more") {
				t.Errorf("%s with full %s gives %+v, and leaves %d elements of %d", c.name, of, got, len(s.Elements), len(before.Elements))
			}
		}
	}
}

// failureOf is what effects say is wrong.
func failureOf(effects []Effect) string {
	var out []string
	for _, effect := range effects {
		switch e := effect.(type) {
		case ElementAnswer:
			out = append(out, e.Outcome.Failure)
		case PrimeAnswer:
			out = append(out, e.Failure)
		case IgnoreOrder:
			out = append(out, e.Why)
		}
	}
	return strings.Join(out, "\n")
}

// TestLimitsAreLeft: a participant at its limits undeploys and deletes what it has, and takes something else instead.
func TestLimitsAreLeft(t *testing.T) {
	for _, of := range []string{"elements", "bytes"} {
		s := full(of)
		known := id(100_000)
		change := changeMessage(1, "UNDEPLOY", "NONE")
		change.InstanceID = id(5)
		if got := told(t, s, change); strings.Contains(failureOf(got), "keeps no more") || s.Elements[known].Order.Type != OrderUndeploy {
			t.Errorf("with full %s an order to undeploy gives %d effects, and leaves %+v", of, len(got), s.Elements[known].Order)
		}
		s.Apply(DropElement{known})
		if got := told(t, s, deployMessage(2, `{"b":2}`)); s.Elements[element].Order.Type != OrderDeploy {
			t.Errorf("with less than full %s an order to deploy gives %+v", of, got)
		}
	}
}

// TestNamesCount: what a definition is named takes memory as its properties do.
func TestNamesCount(t *testing.T) {
	s := NewState()
	for n := range maxSize >> 20 {
		s.Definitions[id(100_000+n)] = Definition{Elements: map[Identifier]Properties{{Name: strings.Repeat("x", 1<<20)}: nil}}
	}
	if got := told(t, s, primeMessage(1, `{"a":1}`)); !strings.Contains(failureOf(got), "keeps no more") {
		t.Errorf("a priming gives %+v", got)
	}
}
