package source

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
)

// registryOf serves one artifact under o/r:v1.
type registryOf struct {
	manifest []byte
	kind     string
	blobs    map[digest.Digest][]byte
	sent     atomic.Int32
	// login, if set, is asked for credentials before anything else.
	login func(w http.ResponseWriter, r *http.Request) bool
}

func artifactOf(layers map[string][]byte, order ...string) *registryOf {
	m := ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: ocispec.DescriptorEmptyJSON}
	m.SchemaVersion = 2
	out := &registryOf{kind: m.MediaType, blobs: map[digest.Digest][]byte{}}
	for _, kind := range order {
		data := layers[kind]
		d := digest.FromBytes(data)
		out.blobs[d] = data
		m.Layers = append(m.Layers, ocispec.Descriptor{MediaType: kind, Digest: d, Size: int64(len(data))})
	}
	out.manifest, _ = json.Marshal(m)
	return out
}

func (r *registryOf) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if r.login != nil && !r.login(w, q) {
		return
	}
	sum := digest.FromBytes(r.manifest)
	switch path := strings.TrimPrefix(q.URL.Path, "/v2/o/r/"); path {
	case "manifests/v1", "manifests/" + sum.String():
		w.Header().Set("Content-Type", r.kind)
		w.Header().Set("Docker-Content-Digest", sum.String())
		w.Header().Set("Content-Length", fmt.Sprint(len(r.manifest)))
		_, _ = w.Write(r.manifest)
	default:
		data, ok := r.blobs[digest.Digest(strings.TrimPrefix(path, "blobs/"))]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		r.sent.Add(1)
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		_, _ = w.Write(data)
	}
}

const fluxLayer = "application/vnd.cncf.flux.content.v1.tar+gzip"

func TestArtifactsAreFetched(t *testing.T) {
	data := forge(t)
	layers := map[string][]byte{"application/json": []byte("{}"), fluxLayer: data}
	r := artifactOf(layers, "application/json", fluxLayer)
	web := serve(t, true, r.ServeHTTP)
	s := open(t, nil)
	auth := Auth{CA: caOf(web)}
	host := strings.TrimPrefix(web.URL, "https://")
	sum := digest.FromBytes(r.manifest).String()
	for _, c := range []struct{ tail, revision string }{
		{":v1", "v1@" + sum}, {":v1", "v1@" + sum}, {"@" + sum, sum}, {"@" + sum, sum}, {":v1#sha256:" + sumOf(data), "v1@" + sum},
	} {
		a, err := fetch(t, s, Request{URI: "oci://" + host + "/o/r" + c.tail, Auth: auth})
		if err != nil {
			t.Fatalf("%s: %v", c.tail, err)
		}
		wantContents(t, a, forged)
		if a.ID != sumOf(data) || a.Digest != sum || a.Revision != c.revision {
			t.Errorf("%s: %+v", c.tail, a)
		}
	}
	if r.sent.Load() != 2 {
		t.Errorf("the layer was sent %d times to two names", r.sent.Load())
	}
	_, err := fetch(t, s, Request{URI: "oci://" + host + "/o/r:v1#sha256:" + strings.Repeat("0", 64), Auth: auth})
	wantError(t, err, Terminal, ReasonDigestMismatch)
	_, err = fetch(t, s, Request{URI: "oci://" + host + "/o/r:v2", Auth: auth})
	wantError(t, err, Terminal, ReasonNotFound)
	_, err = fetch(t, s, Request{URI: "oci://" + host + "/o/r@sha256:" + strings.Repeat("0", 64), Auth: auth})
	wantError(t, err, Terminal, ReasonNotFound)
	_, err = fetch(t, s, Request{URI: "oci://" + host + "/o/r:v1"})
	wantError(t, err, Transient, ReasonUnreachable)
	// A pinned artifact needs nobody.
	web.Close()
	if _, err := fetch(t, s, Request{URI: "oci://" + host + "/o/r@" + sum, Auth: auth}); err != nil {
		t.Error(err)
	}
}

func TestArtifactsThatAreRefused(t *testing.T) {
	data := forge(t)
	layers := map[string][]byte{"text/plain": []byte("x"), fluxLayer: data}
	change := func(from, to string) *registryOf {
		r := artifactOf(layers, fluxLayer)
		r.manifest = []byte(strings.Replace(string(r.manifest), from, to, 1))
		return r
	}
	wrong := artifactOf(layers, fluxLayer)
	wrong.blobs[digest.FromBytes(data)] = append([]byte("s3cret"), data[6:]...)
	index := artifactOf(layers, fluxLayer)
	index.kind = ocispec.MediaTypeImageIndex
	huge := artifactOf(layers, fluxLayer)
	huge.manifest = append(huge.manifest, make([]byte, maxManifest)...)
	failing := artifactOf(layers, fluxLayer)
	failing.login = func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusBadGateway)
		_, _ = w.Write([]byte(`{"errors":[{"code":"X","message":"s3cret"}]}`))
		return false
	}
	for name, c := range map[string]struct {
		r      *registryOf
		class  Class
		reason string
	}{
		"no archive":           {artifactOf(layers, "text/plain"), Terminal, ReasonArchiveInvalid},
		"no layer":             {artifactOf(layers), Terminal, ReasonArchiveInvalid},
		"an index":             {index, Terminal, ReasonArchiveInvalid},
		"no manifest":          {change("{", "s3cret"), Terminal, ReasonArchiveInvalid},
		"a layer not there":    {change(sumOf(data), strings.Repeat("0", 64)), Terminal, ReasonNotFound},
		"a digest that is no":  {change("sha256:"+sumOf(data), "sha256:../../x"), Terminal, ReasonArchiveInvalid},
		"another layer":        {wrong, Terminal, ReasonDigestMismatch},
		"a layer too large":    {change(fmt.Sprintf(`"size":%d`, len(data)), `"size":1000001`), Terminal, ReasonTooLarge},
		"a manifest too large": {huge, Terminal, ReasonTooLarge},
		"502":                  {failing, Transient, ReasonServerError},
	} {
		t.Run(name, func(t *testing.T) {
			web := serve(t, true, c.r.ServeHTTP)
			s := open(t, func(o *Options) { o.Limits.Archive = 1_000_000 })
			_, err := fetch(t, s, Request{URI: strings.Replace(web.URL, "https", "oci", 1) + "/o/r:v1", Auth: Auth{CA: caOf(web)}})
			wantError(t, err, c.class, c.reason)
			wantEmpty(t, s)
		})
	}
}

// blob is a registry with one content.
type blob []byte

func (b blob) Fetch(context.Context, ocispec.Descriptor) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(b)), nil
}

// TestAManifestOfManyLayersTakesLittleMemory, since it is the manager that reads it.
func TestAManifestOfManyLayersTakesLittleMemory(t *testing.T) {
	raw := []byte(`{"layers":[` + strings.Repeat("{},", maxManifest/3-10) + `{}]}`)
	s := open(t, nil)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := s.layer(t.Context(), blob(raw), content.NewDescriptorFromBytes("", raw), nil)
	runtime.ReadMemStats(&after)
	wantError(t, err, Terminal, ReasonArchiveInvalid)
	// Layers that are kept take 200 times the manifest. The race detector allows few buffers to be used again.
	if took := after.TotalAlloc - before.TotalAlloc; took > 16*maxManifest {
		t.Errorf("a manifest of %d MiB takes %d MiB", len(raw)>>20, took>>20)
	}
}

func TestRegistriesAreLoggedInto(t *testing.T) {
	data := forge(t)
	r := artifactOf(map[string][]byte{fluxLayer: data}, fluxLayer)
	var stray atomic.Value
	storage := serve(t, true, func(w http.ResponseWriter, q *http.Request) {
		if text := q.Header.Get("Authorization"); text != "" {
			stray.Store(text)
		}
		_, _ = w.Write(data)
	})
	tokens := serve(t, true, func(w http.ResponseWriter, q *http.Request) {
		if _, password, _ := q.BasicAuth(); password != "s3cret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"token":"granted"}`))
	})
	realm := atomic.Value{}
	realm.Store(tokens.URL)
	r.login = func(w http.ResponseWriter, q *http.Request) bool {
		if q.Header.Get("Authorization") != "Bearer granted" {
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+realm.Load().(string)+`",service="r"`)
			w.WriteHeader(http.StatusUnauthorized)
			return false
		}
		if strings.Contains(q.URL.Path, "/blobs/") {
			http.Redirect(w, q, storage.URL+"/x?signature=s3cret", http.StatusTemporaryRedirect)
			return false
		}
		return true
	}
	web := serve(t, true, r.ServeHTTP)
	s := open(t, nil)
	auth := Auth{Username: "me", Password: "s3cret", CA: append(append(caOf(web), caOf(storage)...), caOf(tokens)...)}
	uri := strings.Replace(web.URL, "https", "oci", 1) + "/o/r:v1"
	a, err := fetch(t, s, Request{URI: uri, Auth: auth})
	if err != nil {
		t.Fatal(err)
	}
	wantContents(t, a, forged)
	if stray.Load() != nil {
		t.Errorf("the storage saw %v", stray.Load())
	}
	for name, c := range map[string]struct{ realm, password, reason string }{
		"a wrong password":            {tokens.URL, "wrong", ReasonUnauthorized},
		"no password":                 {tokens.URL, "", ReasonUnauthorized},
		"a token service at metadata": {"https://169.254.169.254/token", "s3cret", ReasonAddressRefused},
		"a token service without TLS": {strings.Replace(tokens.URL, "https", "http", 1), "s3cret", ReasonAddressRefused},
	} {
		t.Run(name, func(t *testing.T) {
			realm.Store(c.realm)
			other := auth
			if other.Password = c.password; c.password == "" {
				other.Username = ""
			}
			_, err := fetch(t, open(t, nil), Request{URI: uri, Auth: other})
			wantError(t, err, Terminal, c.reason)
		})
	}
	realm.Store(tokens.URL)
	token := auth
	token.Username, token.Password, token.Token = "", "", "granted"
	if _, err := fetch(t, open(t, nil), Request{URI: uri, Auth: token}); err != nil {
		t.Error(err)
	}
}
