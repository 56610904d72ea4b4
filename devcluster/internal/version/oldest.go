//go:build oldest

package version

// Kubernetes is the release that versions/1.34.mod pins, which is built with
// this tag; a test keeps the two equal.
const Kubernetes = "v1.34.4"

// MutatingPolicies is the version of the API that serves MutatingAdmissionPolicies.
const MutatingPolicies = "v1beta1"

// APIServerFlags switch on in the API server what devcluster needs and the release
// leaves off by default.
var APIServerFlags = []string{"--feature-gates=MutatingAdmissionPolicy=true", "--runtime-config=admissionregistration.k8s.io/v1beta1=true"}
