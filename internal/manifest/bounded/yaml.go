package bounded

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Size is what a text of YAML becomes once it is decoded: its values, keys included, and the bytes of their texts. An alias counts for what
// it stands for, each time.
type Size struct{ Values, Bytes int }

// LargeError says that a text becomes more than a bound.
type LargeError struct{ Most Size }

// Error implements error. It tells nothing of the text, which may be secret.
func (e *LargeError) Error() string {
	return fmt.Sprintf("it has more than %d values, or more than %d KiB, with each alias counted as what it stands for", e.Most.Values, e.Most.Bytes>>10)
}

// YAML returns a *LargeError if a text becomes more than a bound once it is decoded. It is asked before a text is converted to JSON: the
// bound of the library counts the values that aliases stand for, and not the bytes of their texts (go.yaml.in/yaml/v2, decode.go,
// allowedAliasRatio). Another error says that the text cannot be parsed.
func YAML(text []byte, most Size) error {
	marks := marksOf(text)
	// A node takes 160 bytes and more: what a text is parsed to is bounded before.
	if len(text) > most.Bytes || marks > most.Values {
		return &LargeError{Most: most}
	}
	if !bytes.ContainsRune(text, '*') && 2*marks <= most.Values {
		return nil // It has no alias, and a mark begins two nodes at most.
	}
	document, err := parse(text)
	if err != nil {
		return err
	}
	m := measure{most: most, known: map[*yaml.Node]Size{}, open: map[*yaml.Node]bool{}}
	_, err = m.size(document)
	return err
}

// marksOf counts the characters that may begin or separate values. A key or a value has at least one before it, but for the first.
func marksOf(text []byte) int {
	count := 1
	for _, c := range text {
		switch c {
		case ',', '[', '{', ':', '-', '?':
			count++
		}
	}
	return count
}

// parse reads the first document of a text.
func parse(text []byte) (document *yaml.Node, err error) {
	defer func() {
		// The parser has panicked on hostile text in the past; a text of a user must not end the operator.
		if p := recover(); p != nil {
			document, err = nil, fmt.Errorf("it cannot be parsed: %v", p)
		}
	}()
	document = &yaml.Node{}
	return document, yaml.Unmarshal(text, document)
}

// measure adds up what nodes become. What an anchor marks is measured once, so that aliases within aliases take no time.
type measure struct {
	most  Size
	known map[*yaml.Node]Size
	open  map[*yaml.Node]bool
}

func (m *measure) size(of *yaml.Node) (Size, error) {
	if of.Kind == yaml.AliasNode {
		of = of.Alias
	}
	if known, is := m.known[of]; is {
		return known, nil
	}
	if m.open[of] {
		return Size{}, fmt.Errorf("line %d: an anchor contains an alias of itself", of.Line)
	}
	if of.Anchor != "" {
		m.open[of] = true
		defer delete(m.open, of)
	}
	size := Size{Values: 1, Bytes: len(of.Value)}
	for _, inner := range of.Content {
		more, err := m.size(inner)
		if err != nil {
			return Size{}, err
		}
		// Each is within the bound, so that no sum overflows.
		if size.Values, size.Bytes = size.Values+more.Values, size.Bytes+more.Bytes; size.Values > m.most.Values || size.Bytes > m.most.Bytes {
			return Size{}, &LargeError{Most: m.most}
		}
	}
	if of.Anchor != "" {
		m.known[of] = size
	}
	return size, nil
}
