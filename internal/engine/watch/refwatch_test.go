package watch

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	"github.com/go-logr/logr"

	"mlkeeper.dev/internal/engine/watch/source"
)

func meta(name, uid, rv string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(uid), ResourceVersion: rv,
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}},
	}}
}

// refFixture is a watch whose reflector is the test.
func refFixture(t *testing.T) (w *refWatch, s *refStore, woken func() int) {
	t.Helper()
	count := 0
	r := &references{watches: map[place]*refWatch{}, held: map[Holder]map[Ref]struct{}{}}
	r.wake = append(r.wake, func(Holder) { count++ })
	w = newRefWatch(r, place{})
	s = &refStore{watch: w, patience: source.NewBackoff(&testclock.FakeClock{}, logr.Discard())}
	w.store = s
	return w, s, func() int { n := count; count = 0; return n }
}

func (w *refWatch) expect(t *testing.T, name string, state knowledge, rv string) {
	t.Helper()
	m, got, err := w.look(name)
	have := ""
	if m != nil {
		have = m.ResourceVersion
		if m.ManagedFields != nil {
			t.Error("managedFields are kept")
		}
	}
	if err != nil || got != state || have != rv {
		t.Fatalf("%s: state %v version %q error %v, want %v %q", name, got, have, err, state, rv)
	}
}

func TestRefWatchKeepsReferencedNamesOnly(t *testing.T) {
	w, s, woken := refFixture(t)
	h := Holder{Name: "h"}
	w.keep("a", h)
	w.keep("b", h)
	w.expect(t, "a", pending, "")
	if err := s.Replace([]any{meta("a", "1", "5"), meta("z", "9", "6")}, "7"); err != nil {
		t.Fatal(err)
	}
	w.expect(t, "a", settled, "5")
	w.expect(t, "b", settled, "")
	if woken() != 2 {
		t.Fatal("not woken once for each name after the sync")
	}
	_ = s.Add(meta("z", "9", "8"))
	_ = s.Replace([]any{meta("a", "1", "5")}, "9")
	if woken() != 0 || len(w.names) != 2 {
		t.Fatal("a bystander or an unchanged list woke the holder")
	}
	_ = s.Add(meta("b", "2", "10"))
	_ = s.Delete(meta("a", "1", "11"))
	w.expect(t, "a", settled, "")
	w.expect(t, "b", settled, "10")
	if woken() != 2 {
		t.Fatal("not woken by the events")
	}
	if w.drop("a", h) || !w.drop("b", h) {
		t.Fatal("the end of the last reference is not told")
	}
}

func TestRefWatchLiveReadLosesNoEvent(t *testing.T) {
	for _, tc := range []struct {
		name  string
		event func(*refStore)
		got   *metav1.PartialObjectMetadata
		want  string
		then  func(*refStore)
		after string
	}{
		{name: "quiet", got: meta("a", "1", "5"), want: "5"},
		{name: "quiet and absent", want: ""},
		{name: "newer event wins", event: func(s *refStore) { _ = s.Update(meta("a", "1", "6")) }, got: meta("a", "1", "5"), want: "6"},
		{name: "newer answer wins", event: func(s *refStore) { _ = s.Update(meta("a", "1", "4")) }, got: meta("a", "1", "5"), want: "5"},
		{name: "gone after the answer", event: func(s *refStore) { _ = s.Delete(meta("a", "1", "6")) }, got: meta("a", "1", "5"), want: ""},
		{name: "back after it was gone", event: func(s *refStore) { _ = s.Delete(meta("a", "1", "4")) }, got: meta("a", "2", "5"), want: "5"},
		{name: "appeared during the read", event: func(s *refStore) { _ = s.Add(meta("a", "1", "6")) }, want: "6"},
		{name: "late news", got: meta("a", "2", "5"), want: "5", then: func(s *refStore) {
			_ = s.Update(meta("a", "1", "3"))
			_ = s.Delete(meta("a", "1", "4"))
		}, after: "5"},
		{name: "late list", got: meta("a", "2", "5"), want: "5", then: func(s *refStore) { _ = s.Replace(nil, "4") }, after: "5"},
		{name: "later list", got: meta("a", "2", "5"), want: "5", then: func(s *refStore) { _ = s.Replace(nil, "6") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, s, _ := refFixture(t)
			_ = s.Replace([]any{bystander{key: "a"}}, "1")
			w.keep("a", Holder{Name: "h"})
			w.expect(t, "a", unread, "")
			if tc.event != nil {
				tc.event(s)
			}
			if tc.got != nil {
				trim(tc.got)
			}
			w.fill("a", tc.got)
			w.expect(t, "a", settled, tc.want)
			if tc.then != nil {
				tc.then(s)
				w.expect(t, "a", settled, tc.after)
			}
		})
	}
}

func TestRefWatchKnowsAbsenceWithoutARead(t *testing.T) {
	w, s, woken := refFixture(t)
	_ = s.Replace([]any{bystander{key: "b"}, meta("c", "3", "1")}, "1")
	h := Holder{Name: "h"}
	w.keep("a", h)
	w.expect(t, "a", settled, "")
	_ = s.Add(meta("a", "1", "5"))
	w.expect(t, "a", settled, "5")
	if woken() != 1 {
		t.Fatal("not woken when the object appeared")
	}
	for _, there := range []string{"b", "c"} {
		w.keep(there, h)
		w.expect(t, there, unread, "")
	}
	_ = s.Delete(meta("d", "4", "6"))
	_ = s.Add(meta("e", "5", "7"))
	w.keep("d", h)
	w.expect(t, "d", settled, "")
	w.keep("e", h)
	w.expect(t, "e", unread, "")
	_ = s.Delete(meta("e", "5", "8"))
	w.expect(t, "e", settled, "")
}

// TestRefWatchNewListOfTheSame: a watch that broke is followed by a new list. Who was told that a name is absent is not woken to
// hear it again.
func TestRefWatchNewListOfTheSame(t *testing.T) {
	w, s, woken := refFixture(t)
	h := Holder{Name: "h"}
	_ = s.Replace([]any{bystander{key: "there"}}, "1")
	w.keep("absent", h)
	w.expect(t, "absent", settled, "")
	_ = s.Replace([]any{bystander{key: "there"}}, "5")
	w.expect(t, "absent", settled, "")
	if woken() != 0 {
		t.Fatal("woken although nothing has changed")
	}
	_ = s.Add(meta("absent", "1", "6"))
	w.expect(t, "absent", settled, "6")
	if woken() != 1 {
		t.Fatal("not woken when the object appeared")
	}
	// One that was there, and went while the watch was broken.
	w.keep("there", h)
	w.expect(t, "there", unread, "")
	_ = s.Replace([]any{meta("absent", "1", "6")}, "9")
	w.expect(t, "there", settled, "")
	if woken() != 1 {
		t.Fatal("not woken although the object is gone")
	}
}

func TestRefWatchNameDuringTheList(t *testing.T) {
	w, s, woken := refFixture(t)
	w.keep("a", Holder{Name: "h"})
	reduce := s.Transformer()
	a, _ := reduce(meta("a", "1", "5"))
	b, _ := reduce(meta("b", "2", "5"))
	if _, ok := b.(bystander); !ok {
		t.Fatalf("a bystander is kept as %T", b)
	}
	w.keep("b", Holder{Name: "h"})
	_ = s.Replace([]any{a, b}, "7")
	w.expect(t, "a", settled, "5")
	w.expect(t, "b", unread, "")
	if woken() != 2 {
		t.Fatal("not woken to read the name")
	}
}

func TestResourceDecodingNeverFails(t *testing.T) {
	read := func() *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetName("x")
		u.SetResourceVersion("1")
		return u
	}
	for name, decode := range map[string]func(*unstructured.Unstructured) (metav1.Object, error){
		"error":    func(*unstructured.Unstructured) (metav1.Object, error) { return nil, errors.New("no") },
		"panic":    func(*unstructured.Unstructured) (metav1.Object, error) { panic("no") },
		"nothing":  func(*unstructured.Unstructured) (metav1.Object, error) { return nil, nil },
		"stranger": func(*unstructured.Unstructured) (metav1.Object, error) { return &metav1.ObjectMeta{}, nil },
	} {
		out := decodeResource(decode, read())
		bad, ok := out.(*Undecodable)
		if !ok || bad.Err == nil || bad.GetName() != "x" {
			t.Errorf("%s: stored %T", name, out)
		}
		if again := decodeResource(decode, out); again != out {
			t.Errorf("%s: decoded twice", name)
		}
	}
}
