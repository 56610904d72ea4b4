package sanitize

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/openapi"
)

// served is an API server's OpenAPI document that a test can change.
type served struct {
	mu      sync.Mutex
	url     string
	raw     string
	fetched int
	asked   int
	fail    error
}

func (s *served) Paths() (map[string]openapi.GroupVersion, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
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
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, warnings, err := cleaner.Clean(t.Context(), object(t, small1)); err != nil || len(warnings) != 1 {
				t.Errorf("warnings %q, error %v", warnings, err)
			}
		})
	}
	wg.Wait()
	if server.fetched != 1 {
		t.Fatalf("fetched %d times", server.fetched)
	}
}

// TestNothingIsDroppedByASchemaOfBeforeTheUpgrade: a definition is upgraded and declares one of two fields that it did not. The other
// is dropped, then as before.
func TestNothingIsDroppedByASchemaOfBeforeTheUpgrade(t *testing.T) {
	const both = `{apiVersion: g/v1, kind: Widget, spec: {size: 1, color: red, colour: red}}`
	const declared = `{apiVersion: g/v1, kind: Widget, spec: {size: 1}}`
	server := &served{url: "/openapi/v3/apis/g/v1?hash=1", raw: widget}
	cleaner := NewCleaner(server)
	clean := func(text string, warned, asked, fetched int) {
		t.Helper()
		askedBefore, fetchedBefore := server.asked, server.fetched
		_, warnings, err := cleaner.Clean(t.Context(), object(t, text))
		if err != nil || len(warnings) != warned {
			t.Fatalf("warnings %q, error %v", warnings, err)
		}
		if server.asked-askedBefore != asked || server.fetched-fetchedBefore != fetched {
			t.Fatalf("asked %d times and fetched %d times", server.asked-askedBefore, server.fetched-fetchedBefore)
		}
	}
	clean(both, 2, 1, 1)
	clean(both, 2, 1, 0)
	clean(declared, 0, 0, 0)
	server.url, server.raw = server.url+"2", strings.Replace(widget, `"size":{`, `"color":{"type":"string"},"size":{`, 1)
	clean(declared, 0, 0, 0)
	clean(both, 1, 1, 1)
	clean(both, 1, 1, 0)
	clean(small1, 0, 0, 0)
	server.fail = errors.New("down")
	if _, warnings, err := cleaner.Clean(t.Context(), object(t, both)); !errors.Is(err, server.fail) {
		t.Errorf("by a schema that may be of the past: warnings %q, error %v", warnings, err)
	}
}

// hanging is an API server that answers one group version, and nothing of another.
type hanging struct{ served }

func (h *hanging) PathsWithContext(context.Context) (map[string]openapi.GroupVersionWithContext, error) {
	return map[string]openapi.GroupVersionWithContext{"apis/g/v1": openapi.ToGroupVersionWithContext(&h.served), "apis/h/v1": h}, nil
}

func (h *hanging) SchemaWithContext(ctx context.Context, _ string) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestCleanerWaitsNoLongerThanItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cleaner := NewCleaner(&hanging{served{url: "1", raw: widget}})
		long, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, _, err := cleaner.Clean(long, object(t, `{apiVersion: h/v1, kind: Widget}`))
			done <- err
		}()
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if _, _, err := cleaner.Clean(short, object(t, `{apiVersion: h/v1, kind: Widget}`)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("beside a request that hangs: %v", err)
		}
		if waited := time.Since(began); waited != time.Minute {
			t.Errorf("beside a request that hangs, who has a minute waits for %s", waited)
		}
		if _, _, err := cleaner.Clean(t.Context(), object(t, small1)); err != nil {
			t.Errorf("of another group version: %v", err)
		}
		if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the request that hangs: %v", err)
		}
	})
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
