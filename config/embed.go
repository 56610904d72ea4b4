// Package config holds the manifests of this folder, for the commands that print and that check an installation. It holds no logic.
package config

import "embed"

// Manifests holds the kustomizations of the operator and of its components, and what they consist of.
//
//go:embed admission components crd manager monitoring operator rbac
var Manifests embed.FS
