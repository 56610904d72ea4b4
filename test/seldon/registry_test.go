package seldon

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// chartLayer is the media type of what helm push pushes.
const chartLayer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"

// registry serves the charts as helm push leaves them in an OCI registry, over TLS.
func registry(t *testing.T) *httptest.Server {
	t.Helper()
	answers := map[string][]byte{}
	for _, chart := range charts {
		data := pack(t, chart.Name)
		m := ocispec.Manifest{
			MediaType: ocispec.MediaTypeImageManifest, Config: ocispec.DescriptorEmptyJSON,
			Layers: []ocispec.Descriptor{{MediaType: chartLayer, Digest: digest.FromBytes(data), Size: int64(len(data))}},
		}
		m.SchemaVersion = 2
		manifest, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		at := "/v2/charts/" + chart.Name
		answers[at+"/manifests/"+chart.Version] = manifest
		answers[at+"/manifests/"+digest.FromBytes(manifest).String()] = manifest
		answers[at+"/blobs/"+digest.FromBytes(data).String()] = data
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		data, ok := answers[q.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if strings.Contains(q.URL.Path, "/manifests/") {
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			w.Header().Set("Docker-Content-Digest", digest.FromBytes(data).String())
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		_, _ = w.Write(data)
	}))
	t.Cleanup(server.Close)
	return server
}

// TestRegistry brings up everything from charts of an OCI registry, whose certificate an authority in a Secret has signed.
func TestRegistry(t *testing.T) {
	c := cluster.Start(t, cluster.WithCRDs("istio", "knative"))
	server := registry(t)
	start(t, c, "oci://"+strings.TrimPrefix(server.URL, "https://")+"/charts", harness.Options{})
	ns := c.Namespace(t)
	volumes(t, c, 4)
	all := `{enable: {analytics: true, catalogue: true, payloadstore: true, routing: true, detectors: true}%s}`
	apply(t, c, ns, fmt.Sprintf(all, ""))
	cluster.Eventually(t, patience, func() error { return reason(get(t, c, ns, "stack"), "Unreachable", "certificate") })
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	c.Apply(t, fmt.Sprintf("\napiVersion: v1\nkind: Secret\nmetadata: {name: registry}\ndata: {ca.crt: %s}\n",
		base64.StdEncoding.EncodeToString(authority)), ns)
	from := ""
	for component := range charts {
		from += fmt.Sprintf(", %s: {chart: {secretName: registry}}", component)
	}
	apply(t, c, ns, fmt.Sprintf(all, from))
	cluster.Eventually(t, patience, func() error { return ready(get(t, c, ns, "stack")) })
	for _, one := range get(t, c, ns, "stack").Status.Components {
		if _, isChart := charts[one.Name]; isChart && !strings.HasPrefix(one.Digest, "sha256:") {
			t.Errorf("component %s came from %+v", one.Name, one)
		}
	}
}
