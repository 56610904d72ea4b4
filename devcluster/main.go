// Command devcluster runs a real Kubernetes control plane in one binary, for
// development, tests and measurements. See doc.go.
package main

import (
	"os"

	"mlkeeper.dev/devcluster/internal/cli"
	"mlkeeper.dev/devcluster/internal/component"
	"mlkeeper.dev/devcluster/internal/enclosure"
)

func main() { os.Exit(run(os.Args[1:])) }

// run is main for the binary and for the test binary, which has to be able to
// become a component as well.
func run(args []string) int {
	if len(args) >= 2 && args[0] == component.Marker {
		return component.Run(args[1], args[2:])
	}
	if len(args) >= 1 && args[0] == enclosure.InitMarker {
		return enclosure.Init(args[1:])
	}
	return cli.Main(args)
}
