package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// TestPolicy: what is not pinned comes over https or from a server that the administrator chose, and not at all where digests are required.
func TestPolicy(t *testing.T) {
	digest, commit := strings.Repeat("a", 64), strings.Repeat("b", 40)
	maps := []Mapping{{From: "https://github.com", To: "http://mirror.example"}, {From: "http://old.example", To: "https://new.example"}}
	for _, c := range []struct {
		uri                             string
		usual, allowHTTP, requireDigest string
	}{
		{"https://a.example/x.tar.gz", "", "", ReasonDigestRequired},
		{"http://a.example/x.tar.gz", ReasonInsecureTransport, "", ReasonDigestRequired},
		{"http://a.example/x.tar.gz#sha256:" + digest, "", "", ""},
		{"https://a.example/x.tar.gz?checksum=sha256:" + digest, "", "", ""},
		{"git::http://a.example/x", ReasonInsecureTransport, "", ReasonDigestRequired},
		{"git::http://a.example/x?ref=main", ReasonInsecureTransport, "", ReasonDigestRequired},
		{"git::http://a.example/x?ref=" + commit, "", "", ""},
		{"git::https://a.example/x?ref=v1.2.0", "", "", ReasonDigestRequired},
		{"git@a.example:x/y?ref=v1.2.0", "", "", ReasonDigestRequired},
		{"oci://a.example/x:1.2.0", "", "", ReasonDigestRequired},
		{"oci://a.example/x@sha256:" + digest, "", "", ""},
		{"https://github.com/x.tar.gz", "", "", ReasonDigestRequired},
		{"http://old.example/x.tar.gz", "", "", ReasonDigestRequired},
	} {
		for policy, want := range map[Policy]string{
			{}: c.usual, {AllowHTTP: true}: c.allowHTTP, {RequireDigest: true}: c.requireDigest, {AllowHTTP: true, RequireDigest: true}: c.requireDigest,
		} {
			s := open(t, func(o *Options) { o.Map, o.Policy = maps, policy })
			_, err := s.locate(Request{URI: c.uri})
			got := ""
			if refused := new(Error); errors.As(err, &refused) {
				got = refused.Reason
			}
			if got != want {
				t.Errorf("%s with %+v: %v, not %q", c.uri, policy, err, want)
			}
		}
	}
}

// TestPolicyOfCharts: a chart is pinned by the request alone; what the index of its repository says came the same way as the chart.
func TestPolicyOfCharts(t *testing.T) {
	chart := tarball(t, folder("x/"), file("x/Chart.yaml", "name: x"))
	sum := sha256.Sum256(chart)
	digest := hex.EncodeToString(sum[:])
	var asked atomic.Int32
	server := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if strings.HasSuffix(r.URL.Path, "/index.yaml") {
			_, _ = w.Write([]byte("entries: {x: [{version: 1.0.0, digest: " + digest + ", urls: [x-1.0.0.tgz]}]}"))
			return
		}
		_, _ = w.Write(chart)
	})
	for _, c := range []struct {
		policy       Policy
		digest, want string
	}{
		{Policy{}, "", ReasonInsecureTransport},
		{Policy{}, digest, ""},
		{Policy{AllowHTTP: true}, "", ""},
		{Policy{AllowHTTP: true, RequireDigest: true}, "", ReasonDigestRequired},
		{Policy{RequireDigest: true}, digest, ""},
	} {
		before := asked.Load()
		s := open(t, func(o *Options) { o.Policy = c.policy })
		a, err := s.FetchChart(context.Background(), ChartRequest{Repository: server.URL, Name: "x", Version: "1.0.0", Digest: c.digest})
		if c.want != "" {
			wantError(t, err, Terminal, c.want)
			if asked.Load() != before {
				t.Errorf("%+v: the server is asked", c)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		a.Close()
	}
}
