package install

import (
	"testing"

	"mlkeeper.dev/test/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m) }
