//go:build oldest

package version

// Kubernetes is the release that versions/1.34.mod pins, which is built with
// this tag; a test keeps the two equal.
const Kubernetes = "v1.34.4"
