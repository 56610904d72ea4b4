package kustomize

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// documents parses a YAML stream.
func documents(content []byte) ([]*yaml.Node, error) {
	var out []*yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	for {
		doc := &yaml.Node{}
		err := decoder.Decode(doc)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("is no YAML (%w)", err)
		}
		out = append(out, doc)
	}
}

// field finds a field of a mapping: the node of its name and that of its value.
func field(node *yaml.Node, name string) (key, value *yaml.Node) {
	if node == nil || node.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return node.Content[i], node.Content[i+1]
		}
	}
	return nil, nil
}
