package kustomize

import "go.yaml.in/yaml/v3"

// unfold has the texts that a file folds (>) written in quotes. kustomize turns an object into JSON by way of YAML (kyaml, MarshalJSON of RNode),
// and the encoder adds an empty line to a folded text where a line with a deeper indentation begins, so that another text is read back.
// kustomize v3.2.0 held objects as JSON.
func unfold(node *yaml.Node) {
	if node.Kind == yaml.ScalarNode && node.Style&yaml.FoldedStyle != 0 {
		node.Style = node.Style&^yaml.FoldedStyle | yaml.DoubleQuotedStyle
	}
	for _, child := range node.Content {
		unfold(child)
	}
}
