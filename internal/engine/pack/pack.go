// Package pack moves the strings of a cached object into one block of memory. Decoding allocates each of them by itself, between garbage:
// with ten thousand objects half of every page is free then and cannot be returned, since Go's collector moves nothing. It changes
// where strings are and never what they say.
package pack

import (
	"reflect"
	"strings"
)

// Strings moves strings into one block of memory. Equal ones share it.
func Strings(all ...*string) {
	places := make(map[string]int, len(all))
	size := 0
	for _, s := range all {
		if _, seen := places[*s]; !seen && *s != "" {
			places[*s] = size
			size += len(*s)
		}
	}
	if size == 0 {
		return
	}
	var memory strings.Builder
	memory.Grow(size)
	// In the order of the places, which is that of the first of each.
	for _, s := range all {
		if at, ok := places[*s]; ok && at == memory.Len() {
			memory.WriteString(*s)
		}
	}
	packed := memory.String()
	for _, s := range all {
		if at, ok := places[*s]; ok {
			*s = packed[at : at+len(*s)]
		}
	}
}

// Object moves all strings that a pointer leads to, but for those behind interfaces and in maps whose values are no strings.
// Nobody else may read the object meanwhile.
func Object(pointer any) {
	c := collector{seen: map[uintptr]bool{}}
	c.visit(reflect.ValueOf(pointer))
	texts := make([]string, 0, 2*len(c.maps))
	for _, m := range c.maps {
		for it := m.MapRange(); it.Next(); {
			texts = append(texts, it.Key().String(), it.Value().String())
		}
	}
	all := c.strings
	for i := range texts {
		all = append(all, &texts[i])
	}
	Strings(all...)
	c.refill(texts)
}

// stringPointer is the type of pointers to strings, to which those to named types such as types.UID convert.
var stringPointer = reflect.TypeFor[*string]()

// collector finds the strings of an object.
type collector struct {
	strings []*string
	// maps are those from strings to strings, whose strings have no address.
	maps []reflect.Value
	seen map[uintptr]bool
}

func (c *collector) visit(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && !c.seen[v.Pointer()] {
			c.seen[v.Pointer()] = true
			c.visit(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				c.visit(v.Field(i))
			}
		}
	case reflect.Slice, reflect.Array:
		switch v.Type().Elem().Kind() {
		case reflect.String, reflect.Struct, reflect.Pointer, reflect.Slice:
			for i := range v.Len() {
				c.visit(v.Index(i))
			}
		}
	case reflect.Map:
		if v.Type().Key().Kind() == reflect.String && v.Type().Elem().Kind() == reflect.String && v.Len() > 0 {
			c.maps = append(c.maps, v)
		}
	case reflect.String:
		if v.CanAddr() {
			c.strings = append(c.strings, v.Addr().Convert(stringPointer).Interface().(*string))
		}
	}
}

// refill puts the packed strings of the maps back.
func (c *collector) refill(texts []string) {
	for _, m := range c.maps {
		n := 2 * m.Len()
		m.Clear()
		for i := 0; i < n; i += 2 {
			m.SetMapIndex(reflect.ValueOf(texts[i]).Convert(m.Type().Key()), reflect.ValueOf(texts[i+1]).Convert(m.Type().Elem()))
		}
		texts = texts[n:]
	}
}
