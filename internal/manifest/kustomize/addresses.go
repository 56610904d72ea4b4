package kustomize

// IsAddress says that an entry of a kustomization names something elsewhere, which kustomize would fetch. A rendering refuses it:
// whoever renders replaces it by a path first.
func IsAddress(entry string) bool { return remote(entry) }
