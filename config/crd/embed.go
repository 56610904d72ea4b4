// Package crd holds the CustomResourceDefinitions, generated from the types in api/, for the programs that read them. It
// holds no logic.
package crd

import "embed"

// Bases holds the CustomResourceDefinitions as bases/<group>_<plural>.yaml.
//
//go:embed bases/*.yaml
var Bases embed.FS
