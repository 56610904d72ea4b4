package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/status"
	"mlkeeper.dev/internal/engine/watch"
)

// largeService is a TrustyAIService of about a megabyte as it is read.
func largeService(t *testing.T, namespace, name, uid string) *unstructured.Unstructured {
	t.Helper()
	cr := &v1.TrustyAIService{}
	cr.Namespace, cr.Name, cr.UID = namespace, name, types.UID(uid)
	cr.Spec.Env = []corev1.EnvVar{{Name: "LARGE", Value: strings.Repeat("x", 1<<20)}}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(cr)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}

// TestANamespaceFillsItsOwnPartOfTheCache: what exceeds it is told, keeps nobody else from anything, and is read once others are gone.
func TestANamespaceFillsItsOwnPartOfTheCache(t *testing.T) {
	s, _ := bareStacks()
	s.def.New = func() *v1.TrustyAIService { return &v1.TrustyAIService{} }
	read := func(namespace, name, uid string) error {
		_, err := s.decode(largeService(t, namespace, name, uid))
		return err
	}
	const fit = namespaceBudget>>20 + 2 // Of each, 64 KiB do not count.
	for i := range fit {
		for range 2 {
			if err := read("a", fmt.Sprint(i), "u"); err != nil {
				t.Fatalf("%d: %v", i, err)
			}
		}
	}
	large := new(tooLargeError)
	if err := read("a", "more", "u"); !errors.As(err, &large) || !strings.Contains(err.Error(), "namespace a") {
		t.Fatalf("of too many the last is kept: %v", err)
	}
	small := largeService(t, "a", "small", "u")
	delete(small.Object, "spec")
	if _, err := s.decode(small); err != nil {
		t.Errorf("a small one is not kept: %v", err)
	}
	for _, other := range []string{"b", ""} {
		if err := read(other, "more", "u"); err != nil {
			t.Errorf("one of namespace %q is not kept: %v", other, err)
		}
	}
	bad := &watch.Undecodable{Unstructured: largeService(t, "a", "more", "u"), Err: large}
	if problem := s.whyUndecodable(bad); problem.Class != plan.Terminal || problem.Reason != reasonTooLarge || problem.Value != "a" {
		t.Errorf("told is %+v", problem)
	}
	// The end of an object is heard of after its successor was read.
	if err := read("a", "0", "successor"); err != nil {
		t.Error(err)
	}
	s.budgets.drop(largeService(t, "a", "0", "u"))
	if fitting := s.budgets.fitting("a"); len(fitting) > 0 {
		t.Errorf("there is room for %v beside the successor", fitting)
	}
	s.sized(largeService(t, "a", "1", "u"), nil, false)
	problem := s.whyUndecodable(bad)
	if problem.Class != plan.Waiting || problem.Reason != status.ReasonProgressing {
		t.Errorf("with room for it, told is %+v", problem)
	}
	// Another one may take the room before it is read, and go again.
	if bad.SetResourceVersion("2"); s.whyUndecodable(bad).Message == problem.Message {
		t.Errorf("told is the same twice, so that it is not read: %+v", problem)
	}
	if err := read("a", "more", "u"); err != nil || len(s.budgets.fitting("a")) > 0 {
		t.Errorf("with room for it: %v", err)
	}
	for i := range fit {
		s.budgets.drop(largeService(t, "a", fmt.Sprint(i), "u"))
	}
	s.budgets.drop(largeService(t, "a", "0", "successor"))
	s.budgets.drop(largeService(t, "a", "more", "u"))
	if s.budgets.drop(largeService(t, "b", "more", "u")); len(s.budgets.of) > 0 {
		t.Errorf("counted is what is gone: %v", s.budgets.of)
	}
}

// TestNothingCountsForWhatIsNotCached: what cannot be decoded is cached by its metadata, and no event may tell of the end of what was not served.
func TestNothingCountsForWhatIsNotCached(t *testing.T) {
	s, _ := bareStacks()
	s.def.New = func() *v1.TrustyAIService { return &v1.TrustyAIService{} }
	bad := largeService(t, "a", "bad", "u")
	bad.Object["spec"].(map[string]any)["replicas"] = "many"
	if _, err := s.decode(bad); err == nil || len(s.budgets.of) > 0 {
		t.Errorf("%v, and counted is %v", err, s.budgets.of)
	}
	if _, err := s.decode(largeService(t, "a", "gone", "u")); err != nil {
		t.Fatal(err)
	}
	if s.budgets.dropName(client.ObjectKey{Namespace: "a", Name: "gone"}); len(s.budgets.of) > 0 {
		t.Errorf("counted is what is gone: %v", s.budgets.of)
	}
}

// TestAStatusOfOrdinarySizeDoesNotCount: what fits does so after MLKeeper has written its status.
func TestAStatusOfOrdinarySizeDoesNotCount(t *testing.T) {
	one := largeService(t, "a", "one", "u")
	before := sizeOfResource(one.Object)
	one.Object["status"] = map[string]any{"message": strings.Repeat("x", freeSize/2)}
	if after := sizeOfResource(one.Object); after > before+valueSize {
		t.Errorf("it counts for %d bytes with its status, and %d without", after, before)
	}
	one.Object["status"] = map[string]any{"message": strings.Repeat("x", 1<<20)}
	if after := sizeOfResource(one.Object); after < before+(1<<20)-freeSize {
		t.Errorf("it counts for %d bytes with a megabyte of status, and %d without", after, before)
	}
}

// TestItemsCountForWhatTheyBecome: an empty item of a list has two bytes of JSON and is a struct in memory.
func TestItemsCountForWhatTheyBecome(t *testing.T) {
	list := make([]any, 1000)
	for i := range list {
		list[i] = map[string]any{}
	}
	if size := sizeOf(map[string]any{"items": list}); size < 1000*valueSize {
		t.Errorf("a thousand items count for %d bytes", size)
	}
}
