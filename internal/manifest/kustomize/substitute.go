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

var (
	variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// reference is a variable in a text, with what stands for it where it has no value. A second dollar sign keeps the text.
	reference = regexp.MustCompile(`\$?\$\{[^}]*\}`)
	// within is what may be in its braces.
	within = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)(?::[=-](.*))?$`)
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
		for name, inner := range v {
			replaced, err := s.value(inner, text || slices.Contains(texts, name))
			if err != nil {
				return nil, err
			}
			key, err := s.text(name)
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
		out, err := s.text(v)
		if span := reference.FindStringIndex(v); err == nil && !text && out != v && span[0] == 0 && span[1] == len(v) {
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

// text replaces every ${NAME} of a text, with what follows := or :- where the variable has no value.
func (s *substitution) text(text string) (string, error) {
	var out strings.Builder
	at := 0
	for _, span := range reference.FindAllStringIndex(text, -1) {
		found := text[span[0]:span[1]]
		out.WriteString(text[at:span[0]])
		at = span[1]
		if strings.HasPrefix(found, "$$") {
			out.WriteString(found[1:])
			continue
		}
		m := within.FindStringSubmatch(found[2 : len(found)-1])
		if m == nil {
			return "", fmt.Errorf("%q is no variable: write $%s to keep the text, or give the object the annotation %s: disabled",
				truncate(found), truncate(found), substituteMark)
		}
		value, known := s.variables[m[1]]
		if !known && strings.Contains(found, ":") {
			value, known = m[2], true
		}
		if !known {
			return "", fmt.Errorf("the variable %q has no value: set it in postBuild, write $%s to keep the text, or ${%s:=VALUE} for a default",
				truncate(m[1]), truncate(found), truncate(m[1]))
		}
		if s.size += len(value); s.size > maxSubstituted {
			return "", fmt.Errorf("has more than %d bytes once its variables are replaced: split it", maxSubstituted)
		}
		out.WriteString(value)
	}
	out.WriteString(text[at:])
	return out.String(), nil
}
