package convert

// mapAt finds a map below a map by the names of its fields; nil when there is none or it is something else, which the
// API server is left to say.
func mapAt(m map[string]any, names ...string) map[string]any {
	for _, name := range names {
		m, _ = m[name].(map[string]any)
	}
	return m
}

// mapsAt returns the maps of a list.
func mapsAt(m map[string]any, name string) []map[string]any {
	items, _ := m[name].([]any)
	var out []map[string]any
	for _, item := range items {
		if inner, ok := item.(map[string]any); ok {
			out = append(out, inner)
		}
	}
	return out
}

// absent says that a field is missing or null.
func absent(m map[string]any, name string) bool { return m[name] == nil }

// fill sets a field that is missing or null.
func fill(m map[string]any, name string, value any) {
	if absent(m, name) {
		m[name] = value
	}
}

// move renames a field; one that is null or missing is dropped.
func move(from map[string]any, name string, to map[string]any, as string) {
	if !absent(from, name) {
		to[as] = from[name]
	}
	delete(from, name)
}

// childAt is the map below a field, which is made where it is missing or null. What is something else, which the API server is
// left to refuse, stays, and what is filled in is lost.
func childAt(m map[string]any, name string) map[string]any {
	fill(m, name, map[string]any{})
	if child, isMap := m[name].(map[string]any); isMap {
		return child
	}
	return map[string]any{}
}
