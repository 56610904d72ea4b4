package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// fill replaces Spring's placeholders in the values of a YAML file, after it was parsed as Spring parses it: what a variable contains
// is text and changes nothing around it, whatever its characters. The result is YAML again.
func fill(text []byte, env func(string) (string, bool)) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		hint := ""
		if strings.Contains(string(text), "${") {
			hint = "; a value that begins with ${ and stands inside of [ ] or { } needs quotes"
		}
		return nil, fmt.Errorf("read the file as YAML: %w%s", err, hint)
	}
	if len(document.Content) == 0 {
		return nil, nil
	}
	f := &filler{env: env, values: map[string]string{}}
	f.remember(document.Content[0], "", 0)
	f.fillNode(document.Content[0], 0)
	if err := f.err(); err != nil {
		return nil, err
	}
	return yaml.Marshal(document.Content[0])
}

// maxDepth bounds how deeply a file and its placeholders are nested.
const maxDepth = 32

// filler replaces placeholders.
type filler struct {
	env func(string) (string, bool)
	// values are the texts of the file by the names of their keys with dots between them, since files since Oslo refer to their own:
	// ${participant.intermediaryParameters.topics.syncTopic}.
	values map[string]string
	// missing are variables that are not set, circular those that need themselves.
	missing, circular []string
}

func (f *filler) err() error {
	var out []error
	for _, one := range []struct {
		names []string
		what  string
	}{
		{f.missing, "the file needs environment variables that are not set: "},
		{f.circular, "these values of the file refer to themselves, or are nested too deeply: "},
	} {
		if len(one.names) > 0 {
			out = append(out, errors.New(one.what+strings.Join(slices.Compact(one.names), ", ")))
		}
	}
	return errors.Join(out...)
}

// remember collects the texts below a node.
func (f *filler) remember(node *yaml.Node, path string, depth int) {
	switch {
	case depth > maxDepth:
	case node.Kind == yaml.ScalarNode:
		f.values[path] = node.Value
	case node.Kind == yaml.MappingNode:
		for n := 0; n+1 < len(node.Content); n += 2 {
			f.remember(node.Content[n+1], strings.TrimPrefix(path+"."+node.Content[n].Value, "."), depth+1)
		}
	}
}

// fillNode replaces what is below a node. A filled value is text: a password of digits is no number.
func (f *filler) fillNode(node *yaml.Node, depth int) {
	if depth > maxDepth {
		return
	}
	switch node.Kind {
	case yaml.ScalarNode:
		if filled := f.fill(node.Value, nil); filled != node.Value {
			node.SetString(filled)
			if node.Tag == "!!str" {
				node.Style = yaml.DoubleQuotedStyle
			}
		}
	case yaml.MappingNode:
		for n := 1; n < len(node.Content); n += 2 {
			f.fillNode(node.Content[n], depth+1)
		}
	case yaml.SequenceNode:
		for _, item := range node.Content {
			f.fillNode(item, depth+1)
		}
	}
}

// opening is how a placeholder begins: ${NAME} or ${NAME:default}.
var opening = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_.-]*)([:}])`)

// fill replaces the placeholders of a text. within are the names of those that it is the value of.
func (f *filler) fill(text string, within []string) string {
	var out strings.Builder
	for {
		found := opening.FindStringSubmatchIndex(text)
		if found == nil {
			break
		}
		name, rest := text[found[2]:found[3]], text[found[5]:]
		value, set := f.lookup(name, within)
		after := rest
		if text[found[4]] == ':' {
			end := closing(rest)
			if end < 0 {
				break // It is no placeholder.
			}
			if !set {
				value, set = f.fill(rest[:end], within), true
			}
			after = rest[end+1:]
		}
		if !set {
			f.missing = append(f.missing, name)
		}
		out.WriteString(text[:found[0]] + value)
		text = after
	}
	return out.String() + text
}

// closing finds the brace that ends a default, which may have placeholders; -1 for none.
func closing(text string) int {
	depth := 0
	for n := range len(text) {
		switch {
		case strings.HasPrefix(text[n:], "${"):
			depth++
		case text[n] == '}' && depth == 0:
			return n
		case text[n] == '}':
			depth--
		}
	}
	return -1
}

// lookup finds the value of a name: in the environment, as it is, and in the file. Spring finds KAFKA_SERVER for kafka.server, too.
func (f *filler) lookup(name string, within []string) (string, bool) {
	for _, variable := range []string{name, strings.ToUpper(strings.NewReplacer(".", "_", "-", "").Replace(name))} {
		if value, set := f.env(variable); set {
			return value, true
		}
	}
	value, set := f.values[name]
	if !set {
		return "", false
	}
	if slices.Contains(within, name) || len(within) > maxDepth {
		f.circular = append(f.circular, name)
		return "", true
	}
	return f.fill(value, append(slices.Clone(within), name)), true
}
