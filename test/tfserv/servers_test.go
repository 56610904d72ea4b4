package tfserv

import (
	"fmt"
	"testing"
	"time"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/tfserver"
)

// storedModel is the base path of the model that the servers have.
const storedModel = "gs://store/resnet"

// serving is the model server of every pod: the stand-in, at the port for REST of the tutorial, with one version of the tutorial's model.
func serving(t *testing.T, store *tfserver.Memory, version int64) *tfserver.Server {
	t.Helper()
	store.Put(storedModel, version)
	return tfserver.InProcess(t, store, `model_config_list { config { name: "resnet" base_path: "`+storedModel+`" model_platform: "tensorflow" } }`,
		"--rest_api_port=8500")
}

// round waits until the three servers have been asked twice more, so that the first answers are in the status.
func round(t *testing.T, servers *tfserver.Server) {
	t.Helper()
	before := servers.Asked.Load()
	cluster.Eventually(t, time.Minute, func() error {
		if n := servers.Asked.Load() - before; n < 6 {
			return fmt.Errorf("%d questions", n)
		}
		return nil
	})
}
