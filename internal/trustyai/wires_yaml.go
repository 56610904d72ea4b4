package trustyai

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"mlkeeper.dev/internal/manifest/bounded"
)

const (
	processorsKey = "payloadProcessors"
	// maxMeshConfig bounds the text that is parsed, and that is kept of each namespace; a ConfigMap can hold four times as much.
	maxMeshConfig = 256 << 10
)

// largestMeshConfig is what it may become once it is parsed.
var largestMeshConfig = bounded.Size{Values: 1 << 16, Bytes: 1 << 20}

// Reasons why a ModelMesh configuration is not edited; the text stays as it is.
const (
	ReasonConfigNotYAML     = "ConfigNotYAML"
	ReasonConfigTooLarge    = "ConfigTooLarge"
	ReasonConfigNotEditable = "ConfigNotEditable"
)

// wireError is a reason why an object of somebody else cannot be edited, with the remedy in the message.
type wireError struct{ reason, message string }

func (e *wireError) Error() string { return e.message }

// meshMade is what MLKeeper made around its URL in a ModelMesh configuration, to be unmade when the URL goes.
type meshMade struct {
	// Key, File and Data say that payloadProcessors, config.yaml and data were not there before.
	Key  bool `json:"key,omitempty"`
	File bool `json:"file,omitempty"`
	Data bool `json:"data,omitempty"`
	// Was is the null, such as "~", that stood in the place of the URL.
	Was string `json:"was,omitempty"`
}

func meshMadeOf(detail string) meshMade {
	var m meshMade
	if json.Unmarshal([]byte(detail), &m) != nil {
		return meshMade{}
	}
	// The annotation is hostile input: nothing but a null may ever be written on its word.
	if !slices.Contains([]string{"~", "null", "Null", "NULL"}, m.Was) {
		m.Was = ""
	}
	return m
}

func (m meshMade) detail() string {
	if m == (meshMade{}) {
		return ""
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return ""
	}
	return string(raw)
}

func (m meshMade) or(o meshMade) meshMade {
	out := meshMade{Key: m.Key || o.Key, File: m.File || o.File, Data: m.Data || o.Data, Was: m.Was}
	if out.Was == "" {
		out.Was = o.Was
	}
	return out
}

// meshConfig is a parsed ModelMesh configuration. The nodes tell where things are; edits are made in the text itself,
// since encoding the nodes anew would lose blank lines, indentation and the layout of comments.
type meshConfig struct {
	text string
	// root is nil for an empty document; key and value are nil while payloadProcessors is absent.
	root, key, value *yaml.Node
}

// parseMeshConfig parses one YAML document with a mapping at its top.
func parseMeshConfig(text string) (*meshConfig, error) {
	if len(text) > maxMeshConfig {
		return nil, &wireError{ReasonConfigTooLarge, fmt.Sprintf("config.yaml has more than the %d bytes "+
			"that are edited: add the payload processor by hand", maxMeshConfig)}
	}
	if err := bounded.YAML([]byte(text), largestMeshConfig); errors.As(err, new(*bounded.LargeError)) {
		return nil, &wireError{ReasonConfigTooLarge, fmt.Sprintf("config.yaml is too large to be edited: %v: add the payload processor by hand", err)}
	}
	root, err := parseOneDocument(text)
	if err != nil {
		return nil, &wireError{ReasonConfigNotYAML, fmt.Sprintf("config.yaml is not one YAML mapping (%v): correct it, "+
			"and the payload processor is added", err)}
	}
	c := &meshConfig{text: text, root: root}
	if root == nil {
		return c, nil
	}
	merges := false
	for i := 0; i+1 < len(root.Content); i += 2 {
		k := root.Content[i]
		merges = merges || k.Tag == "!!merge"
		if k.Kind != yaml.ScalarNode || k.Value != processorsKey {
			continue
		}
		if c.key != nil {
			return nil, &wireError{ReasonConfigNotYAML, "config.yaml sets payloadProcessors twice: remove one of them"}
		}
		c.key, c.value = k, root.Content[i+1]
	}
	if c.key == nil && merges {
		return nil, &wireError{ReasonConfigNotEditable, "config.yaml merges other mappings into its top level, and a " +
			"payloadProcessors there would hide theirs: set payloadProcessors explicitly, even to \"\""}
	}
	if c.value != nil && (c.value.Kind != yaml.ScalarNode || c.value.Anchor != "") {
		return nil, &wireError{ReasonConfigNotEditable, "payloadProcessors in config.yaml is not plain text: write it as " +
			"URLs separated by spaces"}
	}
	return c, nil
}

func parseOneDocument(text string) (root *yaml.Node, err error) {
	defer func() {
		// The parser has panicked on hostile text in the past; a ConfigMap of a user must not end the operator.
		if p := recover(); p != nil {
			root, err = nil, fmt.Errorf("it cannot be parsed: %v", p)
		}
	}()
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var doc, next yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if err := decoder.Decode(&next); err == nil {
		return nil, errors.New("it holds several documents")
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(doc.Content) != 1 {
		return nil, nil
	}
	switch root := doc.Content[0]; {
	case root.Kind == yaml.MappingNode:
		return root, nil
	case root.Kind == yaml.ScalarNode && root.Tag == "!!null" && root.Value == "":
		return nil, nil
	default:
		return nil, errors.New("its top level is no mapping")
	}
}

// urls are the payload processors, which ModelMesh separates by white space.
func (c *meshConfig) urls() []string {
	if c.value == nil || c.value.Tag == "!!null" {
		return nil
	}
	return strings.Fields(c.value.Value)
}

// holds says that edited is this configuration with these payload processors and nothing else changed. Every edit is
// checked with it, so that text of an unforeseen shape is refused and never damaged.
func (c *meshConfig) holds(edited string, keyed bool, urls []string) bool {
	after, err := parseMeshConfig(edited)
	if err != nil || (after.key != nil) != keyed || !slices.Equal(after.urls(), urls) {
		return false
	}
	return slices.EqualFunc(c.others(), after.others(), sameNode)
}

// others are the keys and values of the top level but payloadProcessors.
func (c *meshConfig) others() []*yaml.Node {
	if c.root == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(c.root.Content), func(n *yaml.Node) bool { return n == c.key || n == c.value })
}

func sameNode(a, b *yaml.Node) bool {
	return a.Kind == b.Kind && a.Tag == b.Tag && a.Value == b.Value && a.Anchor == b.Anchor &&
		slices.EqualFunc(a.Content, b.Content, sameNode)
}

// offset is the place in the text of a node. It counts lines as the parser does, which knows five line breaks.
func (c *meshConfig) offset(n *yaml.Node) int {
	line, column := 1, 1
	for i, r := range c.text {
		if line == n.Line && column == n.Column {
			return i
		}
		switch {
		case r == '\r' && strings.HasPrefix(c.text[i:], "\r\n"):
			continue
		case r == '\n', r == '\r', r == '\u0085', r == '\u2028', r == '\u2029':
			line, column = line+1, 1
		case i == 0 && r == '\ufeff':
		default:
			column++
		}
	}
	return len(c.text)
}

func (c *meshConfig) newline() string {
	if strings.Contains(c.text, "\r\n") {
		return "\r\n"
	}
	return "\n"
}

// span is a piece of the text.
type span struct{ from, to int }

// places finds the payload processors in the text, in order; nil when they are not written literally.
func (c *meshConfig) places() []span {
	var out []span
	at := c.offset(c.value)
	for _, url := range c.urls() {
		i := strings.Index(c.text[at:], url)
		if i < 0 {
			return nil
		}
		out = append(out, span{at + i, at + i + len(url)})
		at += i + len(url)
	}
	return out
}
