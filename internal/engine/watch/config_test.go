package watch

import (
	"testing"

	"k8s.io/client-go/rest"

	"mlkeeper.dev/test/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// testConfig reaches the cluster of the package as its administrator.
func testConfig(t *testing.T) *rest.Config { return cluster.Shared(t).Config }
