// Package seldon shows SeldonOperator on the real control plane, with the manifests of Seldon's documentation and with small
// charts of MLKeeper's own that are shaped like the real ones.
package seldon
