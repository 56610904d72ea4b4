// Package install shows that MLKeeper is installed wholly or not at all on a real control plane: from config/install.yaml,
// with make, with the parts of config/components, and over the definitions of an operator that was there before.
package install
