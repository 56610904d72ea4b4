package bounded

// ofValue is what a value takes in memory besides its text, in bytes, about.
const ofValue = 64

// JSONInMemory is what a JSON text takes in memory once it is decoded, in bytes, about.
func JSONInMemory(raw []byte) int64 {
	size, text := int64(len(raw)), false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case !text && (c == ',' || c == '{' || c == '[' || c == ':'):
			size += ofValue
		}
	}
	return size
}

// InMemory is what a value of JSON takes in memory, in bytes, about.
func InMemory(value any) int64 {
	size := int64(ofValue)
	switch value := value.(type) {
	case string:
		size += int64(len(value))
	case map[string]any:
		for name, inner := range value {
			size += int64(len(name)) + InMemory(inner)
		}
	case []any:
		for _, inner := range value {
			size += InMemory(inner)
		}
	}
	return size
}
