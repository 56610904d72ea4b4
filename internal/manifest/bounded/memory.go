package bounded

import "strings"

// ofValue is what a value takes in memory besides its text, in bytes, about.
const ofValue = 64

// Marks counts the characters of a JSON text that are among some, and in no text.
func Marks(raw []byte, among string) int {
	out, text := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case !text && strings.IndexByte(among, c) >= 0:
			out++
		}
	}
	return out
}

// JSONInMemory is what a JSON text takes in memory once it is decoded, in bytes, about.
func JSONInMemory(raw []byte) int64 {
	return int64(len(raw)) + ofValue*int64(Marks(raw, ",{[:"))
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
