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

// longest is the length of the longest text in a document.
func longest(node *yaml.Node) int64 {
	most := int64(len(node.Value))
	for _, inner := range node.Content {
		most = max(most, longest(inner))
	}
	return most
}

// aliasesFit says that a document holds no more than maxValues values once its aliases are written out, as kustomize does
// before anything else: ten lines of aliases of aliases stand for a billion values.
func aliasesFit(doc *yaml.Node) bool {
	return (&counter{anchored: map[*yaml.Node]int64{}}).count(doc) <= maxValues
}

// counter counts the values of a document, an anchored one once.
type counter struct{ anchored map[*yaml.Node]int64 }

func (c *counter) count(node *yaml.Node) int64 {
	if node.Kind == yaml.AliasNode {
		known, ok := c.anchored[node.Alias]
		if !ok {
			// An alias inside of what it stands for never ends.
			return maxValues + 1
		}
		return known
	}
	sum := int64(1)
	for _, inner := range node.Content {
		sum = min(sum+c.count(inner), maxValues+1)
	}
	if node.Anchor != "" {
		c.anchored[node] = sum
	}
	return sum
}
