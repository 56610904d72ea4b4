package main

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheBinaryHasRootCertificates renders a KfDef whose archive is on an https server, in a process that finds no root
// certificates, as in an image of nothing but the binary. The server's own CA is not among those of the binary; without any,
// the error would be that of an operator without roots.
func TestTheBinaryHasRootCertificates(t *testing.T) {
	const server = "MLKEEPER_TEST_SERVER"
	if url := os.Getenv(server); url != "" {
		file := filepath.Join(t.TempDir(), "kfdef.yaml")
		kfdef := `apiVersion: kfdef.apps.kubeflow.org/v1
kind: KfDef
metadata: {name: kubeflow, namespace: kubeflow}
spec:
  serviceAccountName: mlkeeper
  applications:
    - {name: istio, kustomizeConfig: {repoRef: {name: manifests, path: istio}}}
  repos:
    - {name: manifests, uri: "` + url + `/manifests.tar.gz"}
`
		if err := os.WriteFile(file, []byte(kfdef), 0o600); err != nil {
			t.Fatal(err)
		}
		stdout, stderr, err := execute(t, "render", "--source-allow-cidr", "127.0.0.0/8", "-f", file)
		t.Log(stdout, stderr, err)
		return
	}
	own := httptest.NewUnstartedServer(nil)
	own.Config.ErrorLog = log.New(io.Discard, "", 0)
	own.StartTLS()
	defer own.Close()
	test := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	test.Env = append(os.Environ(), server+"="+own.URL, "SSL_CERT_FILE=/nonexistent", "SSL_CERT_DIR=/nonexistent")
	out, err := test.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "signed by an unknown authority") {
		t.Errorf("%v\n%s", err, out)
	}
}
