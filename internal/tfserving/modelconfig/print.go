package modelconfig

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// String prints the config as text proto: the same config always as the same bytes, which prototext does not promise.
func (c Config) String() string {
	if c.message == nil {
		return ""
	}
	var out strings.Builder
	printMessage(&out, c.message, "")
	return out.String()
}

func printMessage(out *strings.Builder, m protoreflect.Message, indent string) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if !m.Has(f) {
			continue
		}
		switch v := m.Get(f); {
		case f.IsMap():
			printMap(out, f, v.Map(), indent)
		case f.IsList():
			for j := range v.List().Len() {
				printField(out, f, v.List().Get(j), indent)
			}
		default:
			printField(out, f, v, indent)
		}
	}
}

func printMap(out *strings.Builder, f protoreflect.FieldDescriptor, m protoreflect.Map, indent string) {
	var keys []string
	m.Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, key.String())
		return true
	})
	slices.Sort(keys)
	for _, key := range keys {
		value := m.Get(protoreflect.ValueOfString(key).MapKey())
		fmt.Fprintf(out, "%s%s {\n%s  key: %s\n%s  value: %d\n%s}\n", indent, f.Name(), indent, quote(key), indent, value.Int(), indent)
	}
}

func printField(out *strings.Builder, f protoreflect.FieldDescriptor, v protoreflect.Value, indent string) {
	switch f.Kind() {
	case protoreflect.MessageKind:
		fmt.Fprintf(out, "%s%s {\n", indent, f.Name())
		printMessage(out, v.Message(), indent+"  ")
		fmt.Fprintf(out, "%s}\n", indent)
	case protoreflect.StringKind:
		fmt.Fprintf(out, "%s%s: %s\n", indent, f.Name(), quote(v.String()))
	case protoreflect.BytesKind:
		fmt.Fprintf(out, "%s%s: %s\n", indent, f.Name(), quote(string(v.Bytes())))
	case protoreflect.DoubleKind:
		fmt.Fprintf(out, "%s%s: %s\n", indent, f.Name(), strconv.FormatFloat(v.Float(), 'g', -1, 64))
	case protoreflect.EnumKind:
		fmt.Fprintf(out, "%s%s: %d\n", indent, f.Name(), v.Enum())
	default:
		fmt.Fprintf(out, "%s%s: %v\n", indent, f.Name(), v.Interface())
	}
}

// quote prints a string so that both C++ and Go read it back: octal escapes for what is not plain ASCII.
func quote(s string) string {
	var out strings.Builder
	out.WriteByte('"')
	for i := range len(s) {
		switch b := s[i]; {
		case b == '"' || b == '\\':
			out.WriteByte('\\')
			out.WriteByte(b)
		case b < 0x20 || b >= 0x7f:
			fmt.Fprintf(&out, "\\%03o", b)
		default:
			out.WriteByte(b)
		}
	}
	out.WriteByte('"')
	return out.String()
}
