package acm

import "fmt"

// What a participant keeps is bounded, since anybody who may write to the broker can invent compositions and elements: by number, and by
// the bytes of all properties and names. The participant keeps it in memory, and the cluster in etcd, whose default quota is 2 GiB.
const (
	maxElements    = 10_000
	maxDefinitions = 1_000
	maxSize        = 64 << 20
)

// usage is how much of the limits is used.
type usage struct{ elements, definitions, size int }

// usage is that of all that is known.
func (s *State) usage() usage {
	out := usage{elements: len(s.Elements), definitions: len(s.Definitions)}
	for _, e := range s.Elements {
		out.size += e.size()
	}
	for _, d := range s.Definitions {
		out.size += d.size()
	}
	return out
}

// added is what effects add to the usage.
func (s *State) added(effects []Effect) usage {
	elements, definitions := map[string]int{}, map[string]int{}
	for _, effect := range effects {
		switch e := effect.(type) {
		case PutElement:
			elements[e.Element.ID] = e.Element.size()
		case DropElement:
			delete(elements, e.ID)
		case PutDefinition:
			definitions[e.Definition.CompositionID] = e.Definition.size()
		case DropDefinition:
			delete(definitions, e.CompositionID)
		}
	}
	out := usage{}
	for id, size := range elements {
		before, known := s.Elements[id]
		if !known {
			out.elements++
		}
		out.size += size - before.size()
	}
	for id, size := range definitions {
		before, known := s.Definitions[id]
		if !known {
			out.definitions++
		}
		out.size += size - before.size()
	}
	return out
}

// exceeds says why effects exceed the limits; empty where they do not, or where they add nothing.
func (s *State) exceeds(effects []Effect) string {
	added := s.added(effects)
	if added.elements <= 0 && added.definitions <= 0 && added.size <= 0 {
		return ""
	}
	used := s.usage()
	for _, one := range []struct {
		used, added, limit int
		format             string
	}{
		{used.elements, added.elements, maxElements, "%d elements are known, and the participant keeps no more than %d"},
		{used.definitions, added.definitions, maxDefinitions, "%d compositions are known, and the participant keeps no more than %d"},
		{used.size, added.size, maxSize, "the properties of all elements and compositions have %d bytes, and the participant keeps no more than %d"},
	} {
		if one.added > 0 && one.used+one.added > one.limit {
			return fmt.Sprintf(one.format+": delete automation compositions or deprime compositions that nobody needs, and give the order again",
				one.used, one.limit)
		}
	}
	return ""
}

// limited replaces effects that exceed the limits: an order or a priming is refused, and what a runtime tells without being asked has no
// effect.
func limited(me Identity, s *State, m Message, effects []Effect) []Effect {
	why := s.exceeds(effects)
	if why == "" {
		return effects
	}
	refused := Refuse(me, s, m, why)
	if len(refused) > 0 && m.MessageType != TypeSync {
		return refused
	}
	return append([]Effect{IgnoreOrder{MessageID: m.MessageID, InstanceID: m.InstanceID, Why: why}}, refused...)
}

func (e Element) size() int {
	out := e.Content.size()
	for _, other := range []*Content{e.Previous, e.Candidate} {
		if other != nil {
			out += other.size()
		}
	}
	return out
}

func (c Content) size() int { return c.Common.size() + c.Properties.size() }

func (d Definition) size() int {
	out := 0
	for id, properties := range d.Elements {
		out += len(id.Name) + len(id.Version) + properties.size()
	}
	return out
}

func (p Properties) size() int {
	out := 0
	for key, value := range p {
		out += len(key) + len(value)
	}
	return out
}
