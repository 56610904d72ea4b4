package sanitize

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/openapi"
)

// served is an API server's OpenAPI document that a test can change.
type served struct {
	mu      sync.Mutex
	url     string
	raw     string
	fetched int
	fail    error
}

func (s *served) Paths() (map[string]openapi.GroupVersion, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return map[string]openapi.GroupVersion{"apis/g/v1": s}, s.fail
}

func (s *served) Schema(string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetched++
	return []byte(s.raw), s.fail
}

func (s *served) ServerRelativeURL() string { return s.url }

const widget = `{"openapi":"3.0.0","components":{"schemas":{"g.v1.Widget":{"type":"object","properties":{
  "apiVersion":{"type":"string"},"kind":{"type":"string"},"spec":{"type":"object","properties":{"size":{"type":"integer"}}},
  "any":{"type":"object","x-kubernetes-preserve-unknown-fields":true}},
  "x-kubernetes-group-version-kind":[{"group":"g","version":"v1","kind":"Widget"}]}}}}`

const small1 = `{apiVersion: g/v1, kind: Widget, spec: {size: 1, color: red}, any: {color: red}}`

func TestCleanerFetchesOncePerHash(t *testing.T) {
	server := &served{url: "/openapi/v3/apis/g/v1?hash=1", raw: widget}
	cleaner := NewCleaner(server)
	clean := func(want int) {
		t.Helper()
		_, warnings, err := cleaner.Clean(t.Context(), object(t, small1))
		if err != nil || len(warnings) != want {
			t.Fatalf("warnings %q, error %v", warnings, err)
		}
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { _, _, _ = cleaner.Clean(t.Context(), object(t, small1)) })
	}
	wg.Wait()
	clean(1)
	if server.fetched != 1 {
		t.Fatalf("fetched %d times", server.fetched)
	}
	gv := schema.GroupVersion{Group: "g", Version: "v1"}
	cleaner.Invalidate(gv)
	clean(1)
	if server.fetched != 1 {
		t.Fatalf("fetched again with the same hash: %d", server.fetched)
	}
	server.url, server.raw = server.url+"2", strings.Replace(widget, `"size":{`, `"color":{"type":"string"},"size":{`, 1)
	clean(1)
	cleaner.Invalidate(gv)
	clean(0)
	if server.fetched != 2 {
		t.Fatalf("fetched %d times", server.fetched)
	}
	cleaner.Invalidate(schema.GroupVersion{Group: "never", Version: "v1"})
}

func TestCleanerWithoutSchema(t *testing.T) {
	server := &served{url: "1", raw: widget}
	cleaner := NewCleaner(server)
	for _, text := range []string{`{apiVersion: g/v1, kind: Gadget}`, `{apiVersion: h/v1, kind: Widget}`, `{apiVersion: v1, kind: Pod}`} {
		if _, _, err := cleaner.Clean(t.Context(), object(t, text)); !errors.Is(err, ErrNoSchema) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, raw := range []string{"", "{}", `{"components":{"schemas":{"a":null}}}`, `{"components":{"schemas":{"a":{"x-kubernetes-group-version-kind":[1,{"kind":2}]}}}}`} {
		broken := NewCleaner(&served{url: "1", raw: raw})
		if _, _, err := broken.Clean(t.Context(), object(t, small1)); err == nil {
			t.Errorf("%q gave a schema", raw)
		}
	}
	down := &served{url: "1", raw: widget, fail: errors.New("down")}
	again := NewCleaner(down)
	if _, _, err := again.Clean(t.Context(), object(t, small1)); !errors.Is(err, down.fail) {
		t.Errorf("error %v", err)
	}
	down.fail = nil
	if _, _, err := again.Clean(t.Context(), object(t, small1)); err != nil {
		t.Errorf("an error was cached: %v", err)
	}
}

func TestCleanerForgetsTheOldestDocument(t *testing.T) {
	cleaner := NewCleaner(&served{})
	for i := range 2 * maxDocuments {
		cleaner.documentOf(schema.GroupVersion{Group: strings.Repeat("x", i+1)})
	}
	if len(cleaner.documents) != maxDocuments || len(cleaner.order) != maxDocuments {
		t.Errorf("%d documents", len(cleaner.documents))
	}
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]bool{
		`failed to create typed patch object (x/y; apps/v1, Kind=Deployment): .spec.foo: field not declared in schema`: true,
		`.spec.template.spec.containers[name="x"].env: duplicate entries for key [name="A"]`:                           true,
		`the object has been modified`: false,
	} {
		if got := Refused(errors.New(text)); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
	if Refused(nil) {
		t.Error("refused without an error")
	}
}
