package rendered

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"

	"mlkeeper.dev/internal/engine/plan"
)

func sample(text string) plan.Plan {
	return plan.Plan{
		Stages: []plan.Stage{{
			Name: "one", WaitHealthy: true, Timeout: time.Minute,
			Objects: []plan.Object{{
				Desired: &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c", "generation": int64(1) << 60},
					"data": map[string]any{"text": text, "ratio": 0.5, "none": nil, "yes": true, "list": []any{int64(1), "2"}},
				}},
				Retain: true, Optional: true, OnImmutable: plan.ImmutableRecreate, Informational: true,
			}},
		}, {Name: "two"}},
		Problems: []plan.Problem{{Class: plan.Waiting, Reason: "R", Field: "f", Value: "v", Message: "m", Remedy: "r"}},
		Warnings: []string{"w"},
		WakeAt:   time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
	}
}

func digest(i int) string { return fmt.Sprintf("%032x", i) }

// noise does not compress, so that sizes are predictable.
func noise(seed int) string {
	var out strings.Builder
	for i := range 64 {
		out.WriteString(KeyedDigest([]byte{byte(seed), byte(i)}, nil))
	}
	return out.String()
}

func open(t *testing.T, dir string, maxBytes int64, clk *clocktesting.FakePassiveClock) *Store {
	t.Helper()
	s, err := Open(dir, maxBytes, clk)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func newClock() *clocktesting.FakePassiveClock {
	return clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
}

func TestLaw16RenderedSetsAreKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := open(t, dir, 1<<20, newClock())
	if _, ok := s.Get(digest(1)); ok {
		t.Fatal("found what was never put")
	}
	for _, text := range []string{"first", "second"} {
		if err := s.Put(digest(1), sample(text)); err != nil {
			t.Fatal(err)
		}
		got, ok := s.Get(digest(1))
		if diff := cmp.Diff(sample(text), got); !ok || diff != "" {
			t.Fatalf("found %t: %s", ok, diff)
		}
	}
	again := open(t, dir, 1<<20, newClock())
	got, ok := again.Get(digest(1))
	if diff := cmp.Diff(sample("second"), got); !ok || diff != "" {
		t.Fatalf("after a restart: found %t: %s", ok, diff)
	}
	info, err := os.Stat(filepath.Join(dir, digest(1)+suffix))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v: rendered sets may hold Secrets", info.Mode(), err)
	}
}

func TestLaw16TheLeastRecentlyUsedIsEvicted(t *testing.T) {
	dir, clk := t.TempDir(), newClock()
	packed, err := encode(digest(0), sample(noise(0)))
	if err != nil {
		t.Fatal(err)
	}
	room := int64(len(packed))*3 + 300
	s := open(t, dir, room, clk)
	tick := func() { clk.SetTime(clk.Now().Add(time.Second)) }
	for i := range 3 {
		tick()
		if err := s.Put(digest(i), sample(noise(i))); err != nil {
			t.Fatal(err)
		}
	}
	tick()
	s.Get(digest(0))
	tick()
	if err := s.Put(digest(3), sample(noise(3))); err != nil {
		t.Fatal(err)
	}
	check := func(s *Store, want ...bool) {
		t.Helper()
		for i, w := range want {
			tick()
			if _, ok := s.Get(digest(i)); ok != w {
				t.Errorf("entry %d: found %t", i, ok)
			}
		}
	}
	check(s, true, false, true, true)
	// The order survives a restart, and a smaller store drops what no longer fits: the last check used 3 last.
	smaller := open(t, dir, room*2/3, clk)
	check(smaller, false, false, true, true)
	if err := smaller.Put(digest(4), sample(noise(4)+noise(5)+noise(6)+noise(7))); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	check(smaller, false, false, true, true)
}

func TestLaw16DamagedEntriesAreMissing(t *testing.T) {
	good, err := encode(digest(1), sample("x"))
	if err != nil {
		t.Fatal(err)
	}
	zip := func(text string) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(text))
		_ = w.Close()
		return b.Bytes()
	}
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 0xff
	other, err := encode(digest(2), sample("x"))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"empty": nil, "no gzip": []byte("text"), "cut": good[:len(good)-4], "flipped": flipped, "another's": other,
		"no json": zip("text"), "another format": zip(`{"format":99,"inputs":"` + digest(1) + `"}`),
		"a newer field":         zip(`{"format":1,"inputs":"` + digest(1) + `","more":1}`),
		"no object":             zip(`{"format":1,"inputs":"` + digest(1) + `","plan":{"Stages":[{"Objects":[{}]}]}}`),
		"larger than the store": append(bytes.Clone(good), make([]byte, 1<<20)...),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, 1<<20, newClock())
			if err := s.Put(digest(1), sample("x")); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, digest(1)+suffix)
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, ok := s.Get(digest(1)); ok {
				t.Fatal("found")
			}
			if _, err := os.Lstat(file); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the file is still there: %v", err)
			}
			if s.size != 0 || len(s.entries) != 0 {
				t.Errorf("%d bytes in %d entries", s.size, len(s.entries))
			}
			if err := s.Put(digest(1), sample("x")); err != nil {
				t.Fatal(err)
			}
			if _, ok := s.Get(digest(1)); !ok {
				t.Error("not found after it was put again")
			}
		})
	}
	if _, err := decode(digest(1), bytes.NewReader(good), 10); err == nil {
		t.Error("unpacked beyond the limit")
	}
}

func TestLaw16TheStoreStaysInItsFolder(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	good, err := encode(digest(1), sample("x"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(outside, good, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, to := range map[string]string{digest(1) + suffix: outside, digest(2) + suffix: "/dev/zero"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{temporary + "1", "notes.txt", "XYZ" + suffix, digest(5) + suffix} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, 2000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, dir, 1000, newClock())
	for _, inputs := range []string{"", "../outside", "..", digest(1) + "/x", strings.ToUpper(digest(10)), strings.Repeat("a", 200), "a.b", digest(1), digest(2)} {
		if _, ok := s.Get(inputs); ok {
			t.Errorf("found %q", inputs)
		}
	}
	if err := s.Put("../outside", sample("x")); err == nil {
		t.Error("put outside")
	}
	for name, want := range map[string]bool{temporary + "1": false, "notes.txt": true, "XYZ" + suffix: true, digest(5) + suffix: false} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s is there: %t", name, err == nil)
		}
	}
	// A link planted later is not followed either, and putting replaces it.
	if err := s.Put(digest(7), sample("x")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, digest(7)+suffix)
	if err := errors.Join(os.Remove(file), os.Symlink(outside, file)); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Get(digest(7)); ok {
		t.Error("followed a link")
	}
	if content, err := os.ReadFile(outside); err != nil || !bytes.Equal(content, good) {
		t.Errorf("the file outside changed: %v", err)
	}
}

func TestOpenFailsOnAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file, 1, newClock()); err == nil {
		t.Error("opened a file")
	}
}

func TestStoreIsConcurrencySafe(t *testing.T) {
	s := open(t, t.TempDir(), 20_000, newClock())
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 50 {
				id := digest((i + j) % 10)
				if err := s.Put(id, sample(noise(j%10))); err != nil {
					t.Error(err)
				}
				if p, ok := s.Get(id); ok && len(p.Stages) != 2 {
					t.Errorf("half a plan: %v", p)
				}
			}
		})
	}
	wg.Wait()
	if s.size > s.max {
		t.Errorf("%d bytes", s.size)
	}
}

func TestLaw16DigestsOfSecretsAreKeyed(t *testing.T) {
	data := map[string][]byte{"user": []byte("a"), "password": []byte("b")}
	base := KeyedDigest([]byte("key"), data)
	if base != KeyedDigest([]byte("key"), data) || !valid(base) {
		t.Errorf("digest %q", base)
	}
	for name, other := range map[string]string{
		"another key":     KeyedDigest([]byte("other"), data),
		"another value":   KeyedDigest([]byte("key"), map[string][]byte{"user": []byte("a"), "password": []byte("c")}),
		"shifted content": KeyedDigest([]byte("key"), map[string][]byte{"use": []byte("ra"), "password": []byte("b")}),
		"swapped values":  KeyedDigest([]byte("key"), map[string][]byte{"user": []byte("b"), "password": []byte("a")}),
		"nothing":         KeyedDigest([]byte("key"), nil),
	} {
		if other == base {
			t.Errorf("%s gives the same digest", name)
		}
	}
}

func FuzzDecode(f *testing.F) {
	good, err := encode(digest(1), sample("x"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, packed []byte) {
		p, err := decode(digest(1), bytes.NewReader(packed), 1<<20)
		if err != nil {
			return
		}
		if _, err := encode(digest(1), p); err != nil {
			t.Errorf("decoded what cannot be encoded: %v", err)
		}
	})
}

func FuzzDecodeContent(f *testing.F) {
	f.Add(`{"Stages":[{"Name":"one","Objects":[{"Desired":{"apiVersion":"v1","kind":"K"}}]}],"WakeAt":"2026-01-01T00:00:00Z"}`)
	f.Add(`{"Stages":[{"Objects":[{"Desired":null}]}]}`)
	f.Fuzz(func(t *testing.T, content string) {
		var packed bytes.Buffer
		zip := gzip.NewWriter(&packed)
		_, _ = fmt.Fprintf(zip, `{"format":1,"inputs":%q,"plan":%s}`, digest(1), content)
		_ = zip.Close()
		p, err := decode(digest(1), &packed, 1<<20)
		if err != nil {
			return
		}
		for _, stage := range p.Stages {
			for _, o := range stage.Objects {
				if o.Key().Kind == "" {
					t.Errorf("an object without a kind: %v", o.Desired)
				}
			}
		}
		again, err := encode(digest(1), p)
		if err != nil {
			t.Fatalf("decoded what cannot be encoded: %v", err)
		}
		if _, err := decode(digest(1), bytes.NewReader(again), 2<<20); err != nil {
			t.Errorf("not stable: %v", err)
		}
	})
}
