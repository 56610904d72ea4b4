package acmruntime

import "slices"

// The states of an element in the form of master (ElementState).
const (
	present    = "PRESENT"
	notPresent = "NOT_PRESENT"
	isNew      = "NEW"
	isRemoved  = "REMOVED"
)

// addDtos adds the elements in the form of master (DtoMapperService); last are those before the order, nil for orders that change none.
func (r *Runtime) addDtos(out object, i *Instance, last []*Element) object {
	if r.Release != Master {
		return out
	}
	list := []object{}
	for _, e := range i.Elements {
		var before *Element
		if n := slices.IndexFunc(last, func(one *Element) bool { return one.ID == e.ID }); n >= 0 {
			before = last[n]
		}
		if i.target == nil {
			list = append(list, orderDto(i, e, before))
		} else {
			list = append(list, migrationDto(i, e, before))
		}
	}
	out["participantDtoList"] = []object{{"participantId": r.Participant, "elementDtos": list}}
	return out
}

// orderDto is an element in an order on an instance of one composition (createDtoList).
func orderDto(i *Instance, e, before *Element) object {
	out := object{"compositionElement": compositionDto(i.Composition, e, present), "instanceElementTarget": instanceDto(i, e, present)}
	if before != nil {
		out["instanceElement"] = instanceDto(i, before, present)
	}
	return out
}

// migrationDto is an element in a migration (createMigrateDto) or in the rollback of one, which goes the other way (createRollbackDto).
func migrationDto(i *Instance, e, before *Element) object {
	back := i.DeployState == unMigrating
	from, to, comes, goes := i.Composition, i.target, isNew, isRemoved
	if back {
		from, to, comes, goes = to, from, goes, comes
	}
	switch e.MigrationState {
	case comes:
		return object{
			"compositionElement": absentDefinition(from, e, notPresent), "instanceElement": absentElement(i.ID, e, notPresent),
			"compositionElementTarget": compositionDto(to, e, isNew), "instanceElementTarget": instanceDto(i, e, isNew),
		}
	case goes:
		// createMigrateDto gives the id of the composition for that of the instance here.
		instance := i.Composition.ID
		if back {
			instance = i.ID
		}
		return object{
			"compositionElement": compositionDto(from, e, present), "instanceElement": instanceDto(i, e, present),
			"compositionElementTarget": absentDefinition(to, e, isRemoved), "instanceElementTarget": absentElement(instance, e, isRemoved),
		}
	}
	if before == nil {
		before = e
	}
	return object{
		"compositionElement": compositionDto(from, e, present), "instanceElement": instanceDto(i, before, present),
		"compositionElementTarget": compositionDto(to, e, present), "instanceElementTarget": instanceDto(i, e, present),
	}
}

// compositionDto is the definition of an element in a composition, found by its name alone (AcElementDtoMapper.toCompositionElementDto).
func compositionDto(c *Composition, e *Element, state string) object {
	in := e.Definition.Properties
	if n := slices.IndexFunc(c.Definitions, func(d *Definition) bool { return d.Name == e.Definition.Name }); n >= 0 {
		in = c.Definitions[n].Properties
	}
	return object{
		"compositionId": c.ID, "elementDefinitionId": e.Definition.identifier(), "inProperties": in, "outProperties": object{}, "state": state,
	}
}

// instanceDto is an element with what was reported of it (AcElementDtoMapper.toInstanceElementDto).
func instanceDto(i *Instance, e *Element, state string) object {
	outer := e.Reported.OutProperties
	if outer == nil {
		outer = object{}
	}
	return object{"instanceId": i.ID, "elementId": e.ID, "inProperties": e.Properties, "outProperties": outer, "state": state}
}

func absentDefinition(c *Composition, e *Element, state string) object {
	return object{
		"compositionId": c.ID, "elementDefinitionId": e.Definition.identifier(), "inProperties": object{}, "outProperties": object{}, "state": state,
	}
}

func absentElement(instance string, e *Element, state string) object {
	return object{"instanceId": instance, "elementId": e.ID, "inProperties": object{}, "outProperties": object{}, "state": state}
}
