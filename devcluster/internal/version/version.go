// Package version stamps the Kubernetes version into the control plane.
//
// Release builds of Kubernetes set it with the linker's -X flag. Without it the
// API server calls itself v0.0.0-master+$Format, which breaks Helm charts that
// compare versions. Doing it at run time lets a plain go build and go test
// produce a server with an honest version.
package version

import (
	"strings"
	_ "unsafe" // for go:linkname

	"k8s.io/component-base/version"
)

// The variables below are the ones that -X would set. The exported setter of
// the package refuses any version other than the one that was linked in.
var (
	//go:linkname gitVersion k8s.io/component-base/version.gitVersion
	gitVersion string
	//go:linkname gitMajor k8s.io/component-base/version.gitMajor
	gitMajor string
	//go:linkname gitMinor k8s.io/component-base/version.gitMinor
	gitMinor string
)

// Stamp sets the version of this process. It must run before any component is
// constructed, because they read the version once.
func Stamp() {
	numbers := strings.Split(strings.TrimPrefix(Kubernetes, "v"), ".")
	gitVersion, gitMajor, gitMinor = Kubernetes, numbers[0], numbers[1]
	if err := version.SetDynamicVersion(Kubernetes); err != nil {
		// Both values are constants.
		panic(err)
	}
}
