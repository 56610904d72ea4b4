package kustomize

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// maxSubstituted bounds what the variables of an application add to its objects, in bytes.
const maxSubstituted = 16 << 20

// substituteMark is the label or annotation of Flux by which an object keeps its text.
const substituteMark = "kustomize.toolkit.fluxcd.io/substitute"

// maxDefaults is how deep a default may be within another.
const maxDefaults = 8

var (
	variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// beginning is that of a variable in a text, up to its brace or what stands for it.
	beginning = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)(\}|:=|:-|=)`)
)

// texts are the fields whose values are texts alone, or maps and lists of these.
var texts = []string{
	"data", "stringData", "labels", "annotations", "matchLabels", "nodeSelector", "value", "args", "command",
}

// substitute replaces the variables in the texts of objects. A text that is a variable and nothing else may become a number or a boolean,
// as with Flux, but for those fields that hold texts alone. Nothing is replaced where there is no map of variables. Errors quote no value,
// since values may come from Secrets.
func substitute(objects []*unstructured.Unstructured, variables map[string]string) ([]*unstructured.Unstructured, error) {
	if variables == nil {
		return objects, nil
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if !variable.MatchString(name) {
			return nil, fmt.Errorf("the variable %q has no valid name: begin with a letter, and use letters, digits and _", truncate(name))
		}
	}
	s := &substitution{variables: variables}
	for _, o := range objects {
		if o.GetLabels()[substituteMark] == "disabled" || o.GetAnnotations()[substituteMark] == "disabled" {
			continue
		}
		who := truncate(o.GetKind()) + " " + truncate(o.GetName())
		replaced, err := s.value(o.Object, false)
		if err == nil {
			o.Object, _ = replaced.(map[string]any)
			err = checkIdentity(o)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", who, err)
		}
	}
	return objects, nil
}

// substitution replaces variables, and counts the bytes of what it puts in their place.
type substitution struct {
	variables map[string]string
	size      int
}

// value replaces variables in a value and everything in it; text says that it holds texts alone.
func (s *substitution) value(value any, text bool) (any, error) {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		// In one order, so that the same one of several errors is told each time.
		for _, name := range slices.Sorted(maps.Keys(v)) {
			replaced, err := s.value(v[name], text || slices.Contains(texts, name))
			if err != nil {
				return nil, err
			}
			key, _, err := s.text(name)
			if err != nil {
				return nil, err
			}
			if _, twice := out[key]; twice {
				// Either may be the one that the file names, which is then the value of the variable.
				return nil, errors.New("a variable gives two fields the name of one: use another")
			}
			out[key] = replaced
		}
		return out, nil
	case []any:
		for i := range v {
			var err error
			if v[i], err = s.value(v[i], text); err != nil {
				return nil, err
			}
		}
	case string:
		out, alone, err := s.text(v)
		if err == nil && !text && alone {
			return typed(out), nil
		}
		return out, err
	}
	return value, nil
}

// typed is a number or a boolean where a text is one.
func typed(text string) any {
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return text
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return text
	}
	switch value.(type) {
	case bool, int64, float64:
		return value
	}
	return text
}

// text replaces every ${NAME} of a text, and says whether it is one variable and nothing else. Of dollar signs before a brace, each pair
// stands for one that is kept, as in fluxcd/pkg (envsubst/parse/scan.go).
func (s *substitution) text(text string) (out string, alone bool, err error) {
	var b strings.Builder
	rest := text
	for {
		at := strings.Index(rest, "${")
		if at < 0 {
			break
		}
		before := strings.TrimRight(rest[:at], "$")
		signs := at + 1 - len(before)
		b.WriteString(before + strings.Repeat("$", signs/2))
		if signs%2 == 0 {
			b.WriteByte('{')
			rest = rest[at+2:]
			continue
		}
		value, after, err := s.reference(rest[at:], 0)
		if err != nil {
			return "", false, err
		}
		alone = len(rest) == len(text) && at == 0 && after == ""
		b.WriteString(value)
		rest = after
	}
	b.WriteString(rest)
	return b.String(), alone, nil
}

// reference is the value of the variable that a text begins with, and what follows it. A default is for a variable that is empty, too, and is
// looked at in any case, as in fluxcd/pkg (envsubst/funcs.go, toDefault; envsubst/template.go, evalFunc).
func (s *substitution) reference(text string, depth int) (value, rest string, err error) {
	m := beginning.FindStringSubmatch(text)
	if m == nil || depth > maxDefaults {
		return "", "", noVariable(text, depth)
	}
	value, known := s.variables[m[1]]
	rest = text[len(m[0]):]
	if m[2] != "}" {
		var otherwise string
		if otherwise, rest, err = s.otherwise(text, rest, depth); err != nil {
			return "", "", err
		}
		if known = true; value == "" {
			value = otherwise
		}
	}
	if !known {
		return "", "", fmt.Errorf("the variable %q has no value: set it in postBuild, write $%s to keep the text, or ${%s:=VALUE} for a default",
			truncate(m[1]), truncate(m[0]), truncate(m[1]))
	}
	if s.size += len(value); s.size > maxSubstituted {
		return "", "", fmt.Errorf("has more than %d bytes once its variables are replaced: split it", maxSubstituted)
	}
	return value, rest, nil
}

// otherwise is the default of the variable that of begins with, up to its brace, and what follows that. It may have variables of its own.
func (s *substitution) otherwise(of, text string, depth int) (out, rest string, err error) {
	var b strings.Builder
	for {
		at := strings.IndexAny(text, "$}")
		switch {
		case at < 0:
			return "", "", noVariable(of, depth)
		case text[at] == '}':
			b.WriteString(text[:at])
			return b.String(), text[at+1:], nil
		case !strings.HasPrefix(text[at:], "${"):
			b.WriteString(text[:at+1])
			text = text[at+1:]
			continue
		}
		b.WriteString(text[:at])
		value, after, err := s.reference(text[at:], depth+1)
		if err != nil {
			return "", "", err
		}
		b.WriteString(value)
		text = after
	}
}

// noVariable is the error of a text that begins as a variable does and is none.
func noVariable(text string, depth int) error {
	end := strings.IndexByte(text, '}')
	found := truncate(text[:end+1])
	switch {
	case depth > maxDefaults:
		return fmt.Errorf("%q is a default more than %d deep in others: set one of the variables around it in postBuild", found, maxDefaults)
	case end < 0 || beginning.MatchString(text):
		return fmt.Errorf("%q has no closing brace: write $%s to keep the text, or give the object the annotation %s: disabled",
			truncate(text), truncate(text), substituteMark)
	}
	return fmt.Errorf("%q is no variable: write $%s to keep the text, or give the object the annotation %s: disabled", found, found, substituteMark)
}
