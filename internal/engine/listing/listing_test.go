package listing

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// server lists objects of given sizes as an API server does: in pages, but all of them where its cache is asked.
type server struct {
	sizes []int
	// asked are the limits, the tokens and the selectors of the requests.
	asked []string
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	from, _ := strconv.Atoi(query.Get("continue"))
	limit, _ := strconv.Atoi(query.Get("limit"))
	s.asked = append(s.asked, query.Get("limit")+"@"+strconv.Itoa(from)+" "+query.Get("labelSelector"))
	to, metadata := len(s.sizes), map[string]any{}
	if query.Get("resourceVersion") != "0" && limit > 0 && from+limit < to {
		to, metadata = from+limit, map[string]any{"continue": strconv.Itoa(from + limit)}
	}
	items := []any{}
	for i, size := range s.sizes[from:to] {
		items = append(items, map[string]any{
			"apiVersion": "v1", "kind": "Pod",
			"metadata": map[string]any{"name": fmt.Sprint(from + i), "annotations": map[string]any{"a": strings.Repeat("x", size)}},
		})
	}
	raw, _ := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "PodList", "metadata": metadata, "items": items})
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(raw)
}

// of lists from a server.
func of(t *testing.T, s *server) Lister {
	t.Helper()
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	cfg := &rest.Config{Host: web.URL}
	Bound(cfg)
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace("ns")
}

func sized(sizes ...int) []int { return sizes }

const kib, mib = 1 << 10, 1 << 20

// TestListsAreBounded: what users made large is read in small pages, and no answer is decoded that has more bytes than a page may have.
func TestListsAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		sizes []int
		total int64
		want  int
		fails string
		asked []string
	}{
		"none": {asked: []string{"100@0 a=b"}},
		"some": {sizes: sized(1, 2, 3), want: 3, asked: []string{"100@0 a=b"}},
		"many": {sizes: slices.Repeat(sized(1), 201), want: 201, asked: []string{"100@0 a=b", "100@100 a=b", "100@200 a=b"}},
		"large": {sizes: slices.Repeat(sized(mib), 4), want: 4, asked: []string{
			"100@0 a=b", "50@0 a=b", "25@0 a=b", "12@0 a=b", "6@0 a=b", "3@0 a=b", "1@0 a=b", "1@1 a=b", "1@2 a=b", "1@3 a=b",
		}},
		"too large":       {sizes: sized(1, 4*mib), fails: "an answer has more than"},
		"many bytes":      {sizes: slices.Repeat(sized(100*kib), 100), total: MaxListed, fails: "there are more than 8388608 bytes"},
		"without an end":  {sizes: slices.Repeat(sized(100*kib), 100), want: 100},
		"as much as fits": {sizes: slices.Repeat(sized(70*kib), 100), total: MaxListed, want: 100},
	} {
		s := &server{sizes: c.sizes}
		var got []string
		err := Each(t.Context(), of(t, s), "a=b", c.total, func(u *unstructured.Unstructured) bool {
			got = append(got, u.GetName())
			return true
		})
		if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: the error is %v", name, err)
		}
		if c.fails == "" && (len(got) != c.want || len(slices.Compact(slices.Clone(got))) != c.want) {
			t.Errorf("%s: visited are %v", name, got)
		}
		if c.asked != nil && !slices.Equal(s.asked, c.asked) {
			t.Errorf("%s: asked is %v", name, s.asked)
		}
	}
}

func TestAVisitEndsAList(t *testing.T) {
	s, n := &server{sizes: slices.Repeat(sized(1), 300)}, 0
	err := Each(t.Context(), of(t, s), "", MaxListed, func(*unstructured.Unstructured) bool {
		n++
		return n < 2
	})
	if err != nil || n != 2 || len(s.asked) != 1 {
		t.Errorf("%d are visited in %d requests, error %v", n, len(s.asked), err)
	}
}

// TestTheCacheOfTheAPIServerIsAskedFirst: it does not count, so that what is too large there is read in pages.
func TestTheCacheOfTheAPIServerIsAskedFirst(t *testing.T) {
	for name, c := range map[string]struct {
		sizes []int
		asked int
		fails bool
	}{
		"few":       {sizes: sized(1, 1), asked: 1},
		"many":      {sizes: slices.Repeat(sized(1), 100), asked: 1},
		"large":     {sizes: slices.Repeat(sized(mib), 5), asked: 9},
		"too large": {sizes: sized(4 * mib), fails: true},
	} {
		s := &server{sizes: c.sizes}
		got, err := First(t.Context(), of(t, s), "a=b", 2)
		if (err != nil) != c.fails || !c.fails && (len(got) != 2 || len(s.asked) != c.asked) {
			t.Errorf("%s: %d objects in the requests %v, error %v", name, len(got), s.asked, err)
		}
		if c.fails && !errors.Is(err, errTooLarge) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

// TestOtherAnswersAreNotBounded: only what this package asks for is.
func TestOtherAnswersAreNotBounded(t *testing.T) {
	s := &server{sizes: sized(5 * mib)}
	list, err := of(t, s).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("listed are %v, error %v", list, err)
	}
}
