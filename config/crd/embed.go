// Package crd holds the CustomResourceDefinitions, generated from the types in api/, for the programs that read them. It
// holds no logic.
package crd

import "embed"

// Definitions holds the CustomResourceDefinitions as <folder>/<group>_<plural>.yaml: a folder for the engine, and one for each
// controller.
//
//go:embed */*_*.yaml
var Definitions embed.FS
