//go:build !oldest

package version

// Kubernetes is the release that go.mod pins; a test keeps the two equal.
const Kubernetes = "v1.36.3"
