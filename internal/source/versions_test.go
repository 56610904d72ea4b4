package source

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestTheNewestVersionInARange chooses as Helm does (Masterminds/semver): a version before a release only where the range names one.
func TestTheNewestVersionInARange(t *testing.T) {
	have := []string{"1.2.0", "1.10.0", "v1.9.0", "2.0.0-rc.1", "latest", "", "1.15", "1.2.0+build"}
	for want, version := range map[string]string{
		"1.2.0": "1.2.0", "v1.2.0": "1.2.0", "1.9.0": "v1.9.0", "1.15": "1.15", "1.2.0+build": "1.2.0+build", "3.0.0": "",
		"1.x": "1.15", "~1.9": "v1.9.0", ">=1.2 <1.10": "v1.9.0", "^2": "", ">=2.0.0-0": "2.0.0-rc.1", "*": "1.15", "<1": "",
	} {
		got := ""
		if i := newestIn(want, have); i >= 0 {
			got = have[i]
		}
		if got != version {
			t.Errorf("%s is %q, not %q", want, got, version)
		}
	}
}

func TestChartsAreFetchedByARange(t *testing.T) {
	data := forge(t)
	sum := sha256.Sum256(data)
	index := "entries: {x: ["
	for _, version := range []string{"1.0.0", "1.1.0", "2.0.0"} {
		index += fmt.Sprintf("{version: %s, digest: %s, urls: [x-%[1]s.tgz]},", version, hex.EncodeToString(sum[:]))
	}
	var asked []string
	web := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		if strings.HasSuffix(r.URL.Path, "/index.yaml") {
			_, _ = w.Write([]byte(index + "]}"))
			return
		}
		_, _ = w.Write(data)
	})
	s := open(t, func(o *Options) { o.Limits.Index = 1000 })
	r := ChartRequest{Repository: web.URL, Name: "x", Version: "1.x", Auth: Auth{CA: caOf(web)}}
	a, err := s.FetchChart(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	if want := "/index.yaml /x-1.1.0.tgz"; strings.Join(asked, " ") != want {
		t.Errorf("asked was for %q", asked)
	}
	for what, c := range map[string]struct {
		change func(*ChartRequest)
		reason string
	}{
		"nothing in it":        {func(r *ChartRequest) { r.Version = "~3.1" }, ReasonNotFound},
		"no range":             {func(r *ChartRequest) { r.Version = "newest" }, ReasonURIInvalid},
		"nothing":              {func(r *ChartRequest) { r.Version = " " }, ReasonURIInvalid},
		"a range and a digest": {func(r *ChartRequest) { r.Digest = hex.EncodeToString(sum[:]) }, ReasonURIInvalid},
	} {
		other := r
		c.change(&other)
		_, err := s.FetchChart(t.Context(), other)
		wantError(t, err, Terminal, c.reason)
		if t.Failed() {
			t.Fatal(what)
		}
	}
	index += strings.Repeat("{version: 1.0.1, urls: [y]},", 100)
	_, err = s.FetchChart(t.Context(), r)
	wantError(t, err, Terminal, ReasonTooLarge)
	// What the range gave before is used while the repository is away.
	web.Close()
	r.Before = true
	if a, err = s.FetchChart(t.Context(), r); err != nil || a.Stale == nil {
		t.Fatalf("%v, %v", a, err)
	}
	a.Close()
}

func TestTagsAreChosenByARange(t *testing.T) {
	data := forge(t)
	registry := artifactOf(map[string][]byte{fluxLayer: data}, fluxLayer)
	// The last one is no tag of a registry: a list of such ones would fill the memory.
	tags, many := []string{"v0", "1.0.0", "1.1.0_build", "latest", "1.2.0_" + strings.Repeat("b", maxTag)}, false
	var asked []string
	web := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		switch {
		case strings.HasSuffix(r.URL.Path, "/tags/list"):
			if many {
				w.Header().Set("Link", `<`+r.URL.Path+`?last=x>; rel="next"`)
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"name": "o/r", "tags": tags})
			return
		case strings.HasSuffix(r.URL.Path, "/manifests/1.1.0_build"):
			r.URL.Path = strings.Replace(r.URL.Path, "1.1.0_build", "v1", 1)
		}
		registry.ServeHTTP(w, r)
	})
	s := open(t, nil)
	r := ChartRequest{Repository: "oci://" + strings.TrimPrefix(web.URL, "https://") + "/o", Name: "r", Version: "^1", Auth: Auth{CA: caOf(web)}}
	a, err := s.FetchChart(t.Context(), r)
	if err != nil {
		t.Fatalf("%v, asked was for %q", err, asked)
	}
	if !strings.HasPrefix(a.Revision, "1.1.0_build@") {
		t.Errorf("the revision is %s", a.Revision)
	}
	a.Close()
	r.Version = "^2"
	_, err = s.FetchChart(t.Context(), r)
	wantError(t, err, Terminal, ReasonNotFound)
	for i := range 5000 {
		tags = append(tags, fmt.Sprint("0.0.", i))
	}
	many = true
	_, err = s.FetchChart(t.Context(), r)
	wantError(t, err, Terminal, ReasonTooLarge)
	web.Close()
	r.Version, r.Before = "^1", true
	if a, err = s.FetchChart(t.Context(), r); err != nil || a.Stale == nil {
		t.Fatalf("%v, %v", a, err)
	}
	a.Close()
}
