package bounded

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestAliasesCountForWhatTheyStandFor: the library bounds how many values aliases stand for, and not how long their texts are.
func TestAliasesCountForWhatTheyStandFor(t *testing.T) {
	long := "a: &a " + strings.Repeat("x", 1000) + "\n"
	deep := "a0: &a0 x\n"
	for i := range 60 {
		deep += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 10))
	}
	for name, c := range map[string]struct {
		text  string
		most  Size
		large bool
	}{
		"a text within":          {"a: [b, c]", Size{100, 100}, false},
		"a long text":            {"a: " + strings.Repeat("x", 100), Size{100, 100}, true},
		"aliases of a text":      {long + "b: [" + strings.Repeat("*a, ", 100) + "]", Size{1000, 50_000}, true},
		"fewer of them":          {long + "b: [" + strings.Repeat("*a, ", 40) + "]", Size{1000, 50_000}, false},
		"values":                 {"[" + strings.Repeat("[], ", 1000) + "]", Size{1000, 50_000}, true},
		"keys without a value":   {"{" + strings.Repeat("a, ", 600) + "b}", Size{1000, 50_000}, true},
		"marks that are text":    {"a: |\n  " + strings.Repeat("-", 900), Size{1000, 50_000}, false},
		"aliases in aliases":     {deep, Size{10_000, 1 << 20}, true},
		"an alias that is a key": {long + "b: {*a : 1}", Size{1000, 2500}, false},
		"nothing":                {"", Size{10, 10}, false},
	} {
		err := YAML([]byte(c.text), c.most)
		if large := errors.As(err, new(*LargeError)); large != c.large || !large && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{"a: &a [*a]", "*unknown", "a: [*"} {
		if err := YAML([]byte(text), Size{100, 100}); err == nil || errors.As(err, new(*LargeError)) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// FuzzYAML compares the sizes with those of what the text becomes.
func FuzzYAML(f *testing.F) {
	for _, text := range []string{
		"a: {b: [1, 2.5, null, x]}", "a: &a [x]\nb: [*a, *a]", "{a,b,c}", "[a: b, ? c, {d}]", "- - a:\n  - ? b\n", "[[[[]]]]", "a: &a {b: c}\nd: {<<: *a}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		const values = 16
		if len(text) > 1<<10 || YAML(text, Size{Values: values, Bytes: 1 << 10}) != nil {
			return
		}
		var value any
		if yaml.Unmarshal(text, &value) == nil && Values(value) > values {
			t.Errorf("%q has %d values", text, Values(value))
		}
	})
}
