package main

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// served is one model of a model config and the versions of it that are served, the highest first.
type served struct {
	name     string
	versions []int64
}

// textField is one field of a message in protobuf's text format: a text, or fields of its own. One of a list is a field
// for each element.
type textField struct {
	name, text string
	message    bool
	fields     []textField
}

// textRule is what a field of a message may hold: string, enum, number, or the name of a message.
type textRule struct {
	holds    string
	repeated bool
}

// textRules are the fields of tensorflow_serving/config/model_server_config.proto and of the policy in
// sources/storage_path/file_system_storage_path_source.proto, by message. What the stock server ends at is missing:
// custom_model_config, for which main.cc sets no loader, and logging_config, for which it sets no creator of loggers
// (core/server_request_logger.cc).
var textRules = map[string]map[string]textRule{
	"ModelServerConfig": {"model_config_list": {holds: "ModelConfigList"}},
	"ModelConfigList":   {"config": {holds: "ModelConfig", repeated: true}},
	"ModelConfig": {
		"name": {holds: "string"}, "base_path": {holds: "string"}, "model_type": {holds: "enum"}, "model_platform": {holds: "string"},
		"model_version_policy": {holds: "ServableVersionPolicy"}, "version_labels": {holds: "VersionLabel", repeated: true},
	},
	"ServableVersionPolicy": {"latest": {holds: "Latest"}, "all": {holds: "All"}, "specific": {holds: "Specific"}},
	"Latest":                {"num_versions": {holds: "number"}},
	"All":                   {},
	"Specific":              {"versions": {holds: "number", repeated: true}},
	"VersionLabel":          {"key": {holds: "string"}, "value": {holds: "number"}},
}

var (
	textToken = regexp.MustCompile(`^(?:\s|#[^\n]*)*(?:("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[A-Za-z_]\w*|-?\d+|[{}<>\[\]:,;])|$)`)
	wholeText = map[string]*regexp.Regexp{
		"string": regexp.MustCompile(`^["']`), "enum": regexp.MustCompile(`^[A-Za-z_]`), "number": regexp.MustCompile(`^-?\d`),
	}
)

// textReader reads protobuf's text format; the operator's own parser is not used, so as not to share its faults.
type textReader struct{ tokens []string }

func newTextReader(text string) (*textReader, error) {
	r := &textReader{}
	for text != "" {
		found := textToken.FindStringSubmatch(text)
		if found == nil {
			return nil, fmt.Errorf("expected a token, found %.20q", text)
		}
		if found[1] != "" {
			r.tokens = append(r.tokens, found[1])
		}
		text = text[len(found[0]):]
	}
	return r, nil
}

// next takes the next token if it is one of those; without any it takes every one.
func (r *textReader) next(of ...string) string {
	if len(r.tokens) == 0 || len(of) > 0 && !slices.Contains(of, r.tokens[0]) {
		return ""
	}
	token := r.tokens[0]
	r.tokens = r.tokens[1:]
	return token
}

// fields reads the fields of a message up to its end.
func (r *textReader) fields(end string) ([]textField, error) {
	var out []textField
	for {
		if len(r.tokens) == 0 && end == "" || end != "" && r.next(end) != "" {
			return out, nil
		}
		name := r.next()
		if !wholeText["enum"].MatchString(name) {
			return nil, fmt.Errorf("expected the name of a field, found %q", name)
		}
		colon := r.next(":") != ""
		list := colon && r.next("[") != ""
		for more := !list || r.next("]") == ""; more; {
			f, err := r.value(name, colon)
			if err != nil {
				return nil, err
			}
			out = append(out, f)
			more = list && r.next("]") == ""
			if more && r.next(",") == "" {
				return nil, fmt.Errorf("field %s: expected a comma or the end of the list", name)
			}
		}
		_ = r.next(",", ";")
	}
}

// value reads a message, or a text after a colon.
func (r *textReader) value(name string, colon bool) (textField, error) {
	f := textField{name: name}
	if open := r.next("{", "<"); open != "" {
		var err error
		f.message = true
		f.fields, err = r.fields(map[string]string{"{": "}", "<": ">"}[open])
		return f, err
	}
	f.text = r.next()
	if !colon || f.text == "" || strings.ContainsAny(f.text[:1], "{}<>[]:,;") {
		return f, fmt.Errorf("field %s: expected a value, found %q", name, f.text)
	}
	return f, nil
}

// fit says which field of a message is unknown, of another kind, or there twice.
func fit(message string, fields []textField) error {
	seen := map[string]bool{}
	for _, f := range fields {
		rule, known := textRules[message][f.name]
		switch {
		case !known:
			return fmt.Errorf("message type %q has no field named %q", message, f.name)
		case seen[f.name] && !rule.repeated:
			return fmt.Errorf("non-repeated field %q is specified multiple times", f.name)
		case message == "ServableVersionPolicy" && len(seen) > 0:
			return fmt.Errorf("field %q is specified along with another of the oneof", f.name)
		}
		seen[f.name] = true
		if whole := wholeText[rule.holds]; whole != nil {
			if f.message || !whole.MatchString(f.text) {
				return fmt.Errorf("field %q is no %s", f.name, rule.holds)
			}
		} else if !f.message {
			return fmt.Errorf("field %q is no message", f.name)
		} else if err := fit(rule.holds, f.fields); err != nil {
			return err
		}
	}
	return nil
}

// named are the fields of a name.
func named(fields []textField, name string) []textField {
	return slices.DeleteFunc(slices.Clone(fields), func(f textField) bool { return f.name != name })
}

// textOf is the text of the field of a name, without its quotes.
func textOf(fields []textField, name string) string {
	for _, f := range named(fields, name) {
		return strings.Trim(f.text, `"'`)
	}
	return ""
}

// modelsOf reads a model config, and refuses what TensorFlow Serving refuses at its start.
func modelsOf(config string) ([]served, error) {
	r, err := newTextReader(config)
	if err != nil {
		return nil, err
	}
	fields, err := r.fields("")
	if err == nil {
		err = fit("ModelServerConfig", fields)
	}
	if err != nil {
		return nil, err
	}
	var out []served
	for _, list := range named(fields, "model_config_list") {
		for _, f := range named(list.fields, "config") {
			m, err := modelOf(f.fields)
			if err != nil {
				return nil, err
			}
			if slices.ContainsFunc(out, func(o served) bool { return o.name == m.name }) {
				return nil, fmt.Errorf("illegal to list model %s multiple times in config list", m.name)
			}
			out = append(out, m)
		}
	}
	return out, nil
}

// modelOf follows model_servers/server_core.cc: GetPlatform, ValidateModelConfigList, and UpdateModelVersionLabelMap without
// allow_version_labels_for_unavailable_models. There are no files: every version of policy specific is there, and version 1
// where the policy names none.
func modelOf(fields []textField) (served, error) {
	m := served{name: textOf(fields, "name")}
	platform, kind := textOf(fields, "model_platform"), textOf(fields, "model_type")
	if kind == "MODEL_TYPE_UNSPECIFIED" {
		kind = ""
	}
	base := textOf(fields, "base_path")
	switch {
	case platform != "" && kind != "":
		return m, errors.New("illegal setting both model_type(deprecated) and model_platform")
	case platform == "" && kind == "":
		return m, errors.New("illegal setting neither model_type(deprecated) nor model_platform")
	case platform != "tensorflow" && kind != "TENSORFLOW":
		return m, fmt.Errorf("platform %s%s is not supported", platform, kind)
	case !path.IsAbs(base) && !strings.Contains(base, "://"):
		return m, fmt.Errorf("expected model %s to have an absolute path or URI; got base_path()=%s", m.name, base)
	}
	for _, policy := range named(fields, "model_version_policy") {
		for _, specific := range named(policy.fields, "specific") {
			for _, f := range named(specific.fields, "versions") {
				version, err := strconv.ParseInt(f.text, 10, 64)
				if err != nil {
					return m, err
				}
				m.versions = append(m.versions, version)
			}
		}
	}
	if m.versions == nil {
		m.versions = []int64{1}
	}
	slices.SortFunc(m.versions, func(a, b int64) int { return int(b - a) })
	for _, label := range named(fields, "version_labels") {
		version, err := strconv.ParseInt(textOf(label.fields, "value"), 10, 64)
		if err != nil || !slices.Contains(m.versions, version) {
			return m, fmt.Errorf("request to assign label to version %d of model %s, which is not currently available for inference", version, m.name)
		}
	}
	return m, nil
}
