package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// misoperation is the campaign in which a user changes every field of a custom resource, also to what makes no sense, as Acto
// (SOSP '23) does it.
const misoperation = "misoperation"

// Base is a custom resource whose spec users change.
type Base struct {
	// Name names it in plans, as Workload.
	Name string
	// Prepare makes what the custom resource refers to.
	Prepare func(*World) error
	// Manifest is the custom resource. "NS" stands for the namespace, and "SERVER" for the address of a server.
	Manifest string
	// Server says that what it is made from comes from a server, which each custom resource has for itself. Two of them differ in the address of
	// that, so that such a base is part of soaks only.
	Server bool
	// Values are further values of fields, by their path without indexes, such as "storage.databaseConfigurations": names of
	// objects that Prepare made, and values that only the kind knows.
	Values map[string][]any
	// Called are the words by which messages of the kind call a field, and those below it, by its path like Values: where messages are for users of
	// another API, or name what Kubernetes waits with.
	Called map[string][]string
	// Stamp, when set, completes a changed spec as the program does that writes such specs.
	Stamp func(spec map[string]any)
	// Remembers says of a difference from a fresh custom resource of the spec that it tells of the way there by documentation.
	Remembers func(spec map[string]any, d Diff) bool
}

// Operation is one write of a user: the spec of the base with some edits.
type Operation struct {
	// Name says what the operation does.
	Name string `json:"name"`
	// Edits are made to the spec of the base; none gives the spec that it was created with.
	Edits []Edit `json:"edits,omitempty"`
	// Hasty says that the next operation follows at once.
	Hasty bool `json:"hasty,omitempty"`
}

// Edit sets or removes one field of a spec.
type Edit struct {
	// Path is the JSON pointer below the spec. Objects on the way that are absent are made; "-" appends to a list.
	Path string `json:"path"`
	// Remove takes the field away; otherwise it becomes Value.
	Remove bool `json:"remove,omitempty"`
	Value  any  `json:"value"`
}

// edited is a copy of a spec with edits. What they cannot reach stays as it is.
func edited(spec map[string]any, edits []Edit) (map[string]any, error) {
	root := map[string]any{"spec": spec}
	raw, err := json.Marshal(root)
	if err != nil {
		return nil, fmt.Errorf("encode a spec: %w", err)
	}
	root = map[string]any{}
	if err := utiljson.Unmarshal(raw, &root); err != nil {
		return nil, err
	}
	for _, e := range edits {
		value, err := decoded(e.Value)
		if err != nil {
			return nil, err
		}
		root["spec"] = put(root["spec"], segments(e.Path), e.Remove, value)
	}
	out, ok := root["spec"].(map[string]any)
	if !ok {
		return nil, errors.New("the spec is no object")
	}
	return out, nil
}

// decoded is a value as JSON decodes it, so that a plan from a file and one from memory are alike.
func decoded(value any) (any, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode a value: %w", err)
	}
	var out any
	err = utiljson.Unmarshal(raw, &out)
	return out, err
}

// put sets or removes what a path leads to, and returns what it changed.
func put(in any, path []string, remove bool, value any) any {
	if len(path) == 0 {
		return value
	}
	key, last := path[0], len(path) == 1
	switch v := in.(type) {
	case nil:
		if remove {
			return nil
		}
		return map[string]any{key: put(nil, path[1:], false, value)}
	case map[string]any:
		if remove && last {
			delete(v, key)
			return v
		}
		if _, there := v[key]; there || !remove {
			v[key] = put(v[key], path[1:], remove, value)
		}
		return v
	case []any:
		if key == "-" {
			return append(v, put(nil, path[1:], false, value))
		}
		i, err := strconv.Atoi(key)
		if err != nil || i < 0 || i >= len(v) {
			return v
		}
		if remove && last {
			return slices.Delete(v, i, i+1)
		}
		v[i] = put(v[i], path[1:], remove, value)
		return v
	}
	return in
}

// get is what a path leads to, or nil.
func get(in any, path []string) any {
	for _, key := range path {
		switch v := in.(type) {
		case map[string]any:
			in = v[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			in = v[i]
		default:
			return nil
		}
	}
	return in
}

// segments splits a JSON pointer.
func segments(path string) []string {
	if path == "" {
		return nil
	}
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, p := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(p)
	}
	return parts
}

// pointerOf joins the segments of a JSON pointer.
func pointerOf(path []string) string {
	out := ""
	for _, p := range path {
		out += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(p)
	}
	return out
}
