package observe

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
)

// maxFieldDepth bounds the nesting of a set of fields. The API server's own is less than a hundred.
const maxFieldDepth = 1000

// canonical writes one spelling of a set of fields as the API server keeps it: objects of objects, whose keys name the
// fields. What is no such set, of which no API server would answer, stands for itself.
//
// It is done for every event of every object that is watched, so that it makes no copy of what it reads.
func canonical(to io.Writer, fields []byte) {
	p := fieldParser{rest: fields}
	set, ok := p.object(0)
	if !ok || len(bytes.TrimSpace(p.rest)) > 0 {
		_, _ = to.Write(fields)
		return
	}
	set.write(to)
}

// field is a key with what is below it.
type field struct {
	// key is what is between the quotes, with the escapes of JSON taken out.
	key   []byte
	below fieldSet
}

// fieldSet is an object, sorted by its keys.
type fieldSet []field

// The marks around a set in its canonical spelling; a key that has one makes its set stand for itself.
var open, closed, end = []byte{0}, []byte{1}, []byte{2}

func (s fieldSet) write(to io.Writer) {
	_, _ = to.Write(open)
	for i := range s {
		_, _ = to.Write(s[i].key)
		if len(s[i].below) == 0 {
			_, _ = to.Write(end)
			continue
		}
		s[i].below.write(to)
	}
	_, _ = to.Write(closed)
}

// fieldParser reads the JSON of a set of fields.
type fieldParser struct{ rest []byte }

func (p *fieldParser) skip(c byte) bool {
	p.rest = bytes.TrimLeft(p.rest, " \t\r\n")
	if len(p.rest) == 0 || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func (p *fieldParser) object(depth int) (fieldSet, bool) {
	if depth > maxFieldDepth || !p.skip('{') {
		return nil, false
	}
	if p.skip('}') {
		return nil, true
	}
	var out fieldSet
	for {
		key, ok := p.key()
		if !ok || !p.skip(':') {
			return nil, false
		}
		below, ok := p.object(depth + 1)
		if !ok {
			return nil, false
		}
		out = append(out, field{key, below})
		if p.skip(',') {
			continue
		}
		if !p.skip('}') {
			return nil, false
		}
		slices.SortFunc(out, func(a, b field) int { return bytes.Compare(a.key, b.key) })
		return out, true
	}
}

func (p *fieldParser) key() ([]byte, bool) {
	if !p.skip('"') {
		return nil, false
	}
	escaped := false
	for i := 0; i < len(p.rest); i++ {
		switch p.rest[i] {
		case '\\':
			escaped = true
			i++
		case '"':
			key := p.rest[:i]
			p.rest = p.rest[i+1:]
			if !escaped {
				return key, true
			}
			return unescape(key)
		}
	}
	return nil, false
}

// unescape takes the escapes of JSON out of a key, such as those of the quotes in k:{"name":"x"}.
func unescape(key []byte) ([]byte, bool) {
	quoted := make([]byte, 0, len(key)+2)
	quoted = append(append(append(quoted, '"'), key...), '"')
	var text string
	if err := json.Unmarshal(quoted, &text); err != nil || strings.ContainsAny(text, "\x00\x01\x02") {
		return nil, false
	}
	return sortKey([]byte(text)), true
}

// sortKey brings the fields of an item's key, such as those of k:{"port":80,"protocol":"TCP"}, into one order.
func sortKey(key []byte) []byte {
	inner, isKey := bytes.CutPrefix(key, []byte("k:"))
	if !isKey || !bytes.Contains(inner, []byte(",")) {
		return key
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(inner, &fields); err != nil {
		return key
	}
	sorted, err := json.Marshal(fields)
	if err != nil {
		return key
	}
	return append([]byte("k:"), sorted...)
}
