//go:build !oldest

package version

// Kubernetes is the release that go.mod pins; a test keeps the two equal.
const Kubernetes = "v1.36.3"

// MutatingPolicies is the version of the API that serves MutatingAdmissionPolicies.
const MutatingPolicies = "v1"

// APIServerFlags switch on in the API server what devcluster needs and the release
// leaves off by default.
var APIServerFlags []string
