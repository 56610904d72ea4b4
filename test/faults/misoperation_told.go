package faults

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ordinary are names of fields that messages about anything have. Such a field is named only together with the one above it.
var ordinary = []string{"name", "key", "value", "values", "type", "path", "spec", "image", "replicas", "size", "service", "secret", "operator"}

// shownOfText is how much of a long text a message has to show, and shortest is the least length of a word that names anything.
const shownOfText, shortest = 30, 3

// explained says whether a verdict on a spec that cannot be carried out tells a user what to correct (O10): the answer of the API server, or the
// message of the condition, has to name a field that the write changed, or its value. Edits before it count only as far as it puts them back.
func explained(v verdict, b *Base, origin map[string]any, edits, before []Edit) []Finding {
	var out []Finding
	if !v.Refused && v.Reason == "" {
		out = append(out, Finding{Oracle: "O10", Text: "the condition Ready gives no reason: " + v.String()})
	}
	changed := written(origin, edits, before)
	told := func(e Edit) bool {
		return tells(v.Message, e) || slices.ContainsFunc(b.words(e), func(word string) bool { return len(following(v.Message, word)) > 0 })
	}
	if len(changed) == 0 || slices.ContainsFunc(changed, told) {
		return out
	}
	return append(out, Finding{Oracle: "O10", Text: fmt.Sprintf("neither the field nor the value is named for %s: %s", changed[0].Path, v)})
}

// words are those by which messages call the field of an edit.
func (b *Base) words(e Edit) []string {
	var out []string
	path := named(segments(e.Path)) + "."
	for _, of := range slices.Sorted(maps.Keys(b.Called)) {
		if strings.HasPrefix(path, of+".") {
			out = append(out, b.Called[of]...)
		}
	}
	return out
}

// written are the changes of a write: its edits, and what it puts back of those before it.
func written(origin map[string]any, edits, before []Edit) []Edit {
	out := slices.Clone(edits)
	for _, e := range before {
		if slices.ContainsFunc(edits, func(one Edit) bool { return one.Path == e.Path }) {
			continue
		}
		value := get(origin, segments(e.Path))
		out = append(out, Edit{Path: e.Path, Value: value, Remove: value == nil})
	}
	return out
}

// tells says that a message names the field of an edit, its value, or a field or a text within that value.
func tells(message string, e Edit) bool {
	return tellsOf(withoutIndexes(message), message, segments(e.Path), e.Value)
}

func tellsOf(fields, message string, path []string, value any) bool {
	if namesField(fields, path) {
		return true
	}
	switch v := value.(type) {
	case map[string]any:
		return slices.ContainsFunc(slices.Sorted(maps.Keys(v)), func(key string) bool {
			return tellsOf(fields, message, append(slices.Clone(path), key), v[key])
		})
	case []any:
		return slices.ContainsFunc(v, func(item any) bool { return tellsOf(fields, message, append(slices.Clone(path), "0"), item) })
	case string:
		return namesText(message, v)
	}
	return false
}

// namesField says that a message names a field by its path, or by that of an object that it is in; or by its own name, together with that of the
// object above it where messages about anything have its name.
func namesField(message string, path []string) bool {
	message = strings.ToLower(message)
	names := strings.Split(strings.ToLower(named(path)), ".")
	for n := len(names); n > 0; n-- {
		of := strings.Join(names[:n], ".")
		if n == 1 {
			of = "spec." + of // A single word may be of a sentence.
		}
		for _, rest := range following(message, of) {
			if n == len(names) || !deeper.MatchString(rest) {
				return true
			}
		}
	}
	last := names[len(names)-1]
	if len(last) < shortest || slices.Contains(ordinary, last) {
		return false
	}
	return len(following(message, last)) > 0
}

// namesText says that a message has a text as a whole word, or the beginning of a long one; quoted or not.
func namesText(message, text string) bool {
	if len(text) < shortest {
		return false
	}
	if len(text) > shownOfText {
		return strings.Contains(message, text[:shownOfText])
	}
	quoted := strconv.Quote(text)
	return len(following(message, text)) > 0 || len(following(message, quoted[1:len(quoted)-1])) > 0
}

// following is what follows a word in a message, wherever that has it as a word of its own.
func following(message, word string) []string {
	var out []string
	for at := 0; ; {
		i := strings.Index(message[at:], word)
		if i < 0 {
			return out
		}
		begin, end := at+i, at+i+len(word)
		if !letter(message, begin-1) && !letter(message, end) {
			out = append(out, message[end:])
		}
		at = begin + 1
	}
}

// letter says that a byte of a text is that of a letter or a digit.
func letter(text string, i int) bool {
	return i >= 0 && i < len(text) && alphanumeric.MatchString(text[i:i+1])
}

// withoutIndexes writes the fields of a message without the indexes of lists, and keys like fields.
func withoutIndexes(message string) string {
	return keyed.ReplaceAllString(indexed.ReplaceAllString(message, ""), ".$1")
}

var (
	alphanumeric = regexp.MustCompile(`[A-Za-z0-9]`)
	deeper       = regexp.MustCompile(`^\.[a-z]`)
	indexed      = regexp.MustCompile(`\[\d+\]`)
	keyed        = regexp.MustCompile(`\[([\w./-]+)\]`)
)
