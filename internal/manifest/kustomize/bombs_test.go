package kustomize

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"mlkeeper.dev/internal/limit"
	"mlkeeper.dev/internal/manifest/worker"
)

// laughs is a YAML document whose aliases stand for a billion texts.
const laughs = `apiVersion: v1
kind: ConfigMap
metadata: {name: a}
a: &a [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]
b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]
c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]
d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]
e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d]
f: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e, *e]
g: &g [*f, *f, *f, *f, *f, *f, *f, *f, *f, *f]
h: &h [*g, *g, *g, *g, *g, *g, *g, *g, *g, *g]
`

// bombs are repositories that take more than there is. Most are a few lines.
func bombs() map[string]fs.FS {
	files := func(kustomization string, more ...string) fstest.MapFS {
		out := fstest.MapFS{"app/base/kustomization.yaml": {Data: []byte(kustomization)}}
		for i := 0; i < len(more); i += 2 {
			out["app/base/"+more[i]] = &fstest.MapFile{Data: []byte(more[i+1])}
		}
		return out
	}
	const object = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: x, b: y}}"
	many, list := files(""), &strings.Builder{}
	list.WriteString("configMapGenerator:\n- name: many\n  files:\n")
	for i := range 100_000 {
		name := "f" + strconv.Itoa(i)
		many["app/base/files/"+name] = &fstest.MapFile{Data: []byte("x")}
		list.WriteString("  - files/" + name + "\n")
	}
	many["app/base/kustomization.yaml"] = &fstest.MapFile{Data: []byte(list.String())}
	replacements := "resources: [a.yaml]\nreplacements:\n"
	for range 40 {
		replacements += "- source: {kind: ConfigMap, fieldPath: data.a}\n" +
			"  targets: [{select: {kind: ConfigMap}, fieldPaths: [data.a], options: {delimiter: /, index: 100}}]\n"
	}
	copies := "resources: [a.yaml]\npatches:\n- target: {kind: ConfigMap}\n  patch: |\n"
	for i := range 40 {
		copies += fmt.Sprintf("    - {op: copy, from: /data, path: /data/c%d}\n", i)
	}
	var objects strings.Builder
	for i := range 1900 {
		fmt.Fprintf(&objects, "---\n{kind: A, apiVersion: v1, metadata: {name: b%d}}\n", i)
	}
	return map[string]fs.FS{
		"a hundred thousand files": many,
		"a var in sixty thousand places": files("resources: [a.yaml]\nvars: [{name: v, objref: {kind: ConfigMap, name: b, apiVersion: v1}, fieldref: {fieldpath: data.a}}]\nconfigurations: [c.yaml]", "c.yaml", "varReference: [{path: data, kind: ConfigMap}]", "a.yaml",
			"{kind: ConfigMap, apiVersion: v1, metadata: {name: b}, data: {a: "+strings.Repeat("x", 1<<16)+", b: "+strings.Repeat("$(v)", 1<<16)+"}}"),
		"replacements that double":   files(replacements, "a.yaml", object),
		"copies of copies":           files(copies, "a.yaml", object),
		"two gigabytes of output":    files("resources: [a.yaml]\ncommonAnnotations: {a: "+strings.Repeat("x", 1<<20)+"}", "a.yaml", objects.String()),
		"aliases":                    files("resources: [a.yaml]", "a.yaml", laughs),
		"aliases in a kustomization": files(laughs),
		"aliases in a patch":         files("resources: [a.yaml]\npatches: [{path: b.yaml}]", "a.yaml", object, "b.yaml", laughs),
		"an alias of itself":         files("resources: [a.yaml]", "a.yaml", "{kind: A, apiVersion: v1, metadata: {name: b}, x: &x [*x]}"),
		"brackets":                   files("resources: [a.yaml]", "a.yaml", strings.Repeat("[", 5<<20)),
		"dense":                      files("resources: [a.yaml]", "a.yaml", "{kind: A, apiVersion: v1, metadata: {name: a}, x: ["+strings.Repeat("[],", 8<<20)+"]}"),
		"doubling folders":           doubling("resources", "", "app/l18/a.yaml"),
		"doubling components":        doubling("components", "kind: Component\n", ""),
		"a file of gigabytes":        gigabytes{files("resources: [a.yaml]", "a.yaml", "")},
	}
}

// doubling is a graph of kustomizations in which each is reached twice as often as the one before.
func doubling(field, kind, object string) fstest.MapFS {
	out := fstest.MapFS{"app/base/kustomization.yaml": {Data: []byte("resources: [a.yaml]\n" + field + ": [../l0]\n")}, "app/base/a.yaml": {Data: []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: base}}")}}
	for i := range 18 {
		at := fmt.Sprintf("app/l%d", i)
		out[at+"/kustomization.yaml"] = &fstest.MapFile{Data: []byte(kind + field + ": [a, b]\n")}
		for _, side := range []string{"a", "b"} {
			out[at+"/"+side+"/kustomization.yaml"] = &fstest.MapFile{Data: fmt.Appendf(nil, "%snamePrefix: %s\n%s: [../../l%d]\n", kind, side, field, i+1)}
		}
	}
	last := "resources: []\n"
	if object != "" {
		out[object] = &fstest.MapFile{Data: []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")}
		last = "resources: [a.yaml]\n"
	}
	out["app/l18/kustomization.yaml"] = &fstest.MapFile{Data: []byte(kind + last)}
	return out
}

// gigabytes is a repository whose a.yaml has two gigabytes.
type gigabytes struct{ fstest.MapFS }

type large struct{ fs.FileInfo }

func (large) Size() int64 { return 2 << 30 }

func (l large) Info() (fs.FileInfo, error) { return l, nil }

func (l large) Type() fs.FileMode { return 0 }

// ReadAt implements io.ReaderAt.
func (large) ReadAt(p []byte, _ int64) (int, error) {
	for i := range p {
		p[i] = '#'
	}
	return len(p), nil
}

type largeFile struct {
	fs.File
	io.ReaderAt
}

func (g gigabytes) Open(name string) (fs.File, error) {
	f, err := g.MapFS.Open(name)
	if strings.HasSuffix(name, "a.yaml") && err == nil {
		return largeFile{f, large{}}, nil
	}
	return f, err
}

func (g gigabytes) ReadDir(name string) ([]fs.DirEntry, error) {
	list, err := g.MapFS.ReadDir(name)
	for i, e := range list {
		if info, err := e.Info(); e.Name() == "a.yaml" && err == nil {
			list[i] = large{info}
		}
	}
	return list, err
}

// TestNoKustomizationEndsTheManager renders what is refused by nothing but the bounds of the workers, while another namespace renders, too.
// The manager, which is this process, does not grow.
func TestNoKustomizationEndsTheManager(t *testing.T) {
	all := bombs()
	pool := &worker.Pool{Memory: limit.New(worker.Share, worker.Share)}
	before, stop := resident(t), make(chan struct{})
	var peak int64
	var others int
	var beside sync.WaitGroup
	beside.Go(func() {
		for ticks := time.Tick(10 * time.Millisecond); ; {
			select {
			case <-stop:
				return
			case <-ticks:
				peak = max(peak, resident(t))
			}
		}
	})
	beside.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			in := input("-- app/base/kustomization.yaml --\nresources: [a.yaml]\n-- app/base/a.yaml --\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n", nil)
			in.Workers, in.Namespace = pool, "other"
			if out, err := Render(context.Background(), in); err != nil || len(out[0].Objects) != 1 {
				t.Errorf("the other namespace has %v, %v", out, err)
				return
			}
			others++
		}
	})
	for name, repo := range all {
		t.Run(name, func(t *testing.T) {
			in := input("", nil)
			in.Workers, in.Namespace, in.Repos["manifests"] = pool, "bombs", repo
			within := times{one: 2 * time.Second, all: 4 * time.Second, turn: time.Second}
			out, err := renderWithin(t.Context(), in, within)
			if err != nil {
				t.Fatalf("it is not the application that is at fault: %v", err)
			}
			if out[0].Err == nil || len(out[0].Objects) > 0 {
				t.Errorf("%d objects, %v", len(out[0].Objects), out[0].Err)
			}
			t.Log(out[0].Err)
		})
	}
	close(stop)
	beside.Wait()
	if grown := (peak - before) >> 20; grown > 300 {
		t.Errorf("the manager grew by %d MiB", grown)
	} else {
		t.Logf("the manager grew by %d MiB, and the other namespace rendered %d times", grown, others)
	}
	if others < len(all)/2 {
		t.Errorf("the other namespace rendered %d times beside %d bombs", others, len(all))
	}
}

// resident is what this process has of the memory, in bytes.
func resident(t testing.TB) int64 {
	raw, err := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(raw))
	if err != nil || len(fields) < 2 {
		t.Errorf("%q, %v", raw, err)
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		t.Error(err)
	}
	return pages * int64(os.Getpagesize())
}

// TestABombEndsItsApplicationAlone has bombs among other applications, and as many of them as take all the time there is.
func TestABombEndsItsApplicationAlone(t *testing.T) {
	repo := doubling("resources", "", "app/l18/a.yaml")
	for _, name := range []string{"x", "y"} {
		repo[name+"/base/kustomization.yaml"] = &fstest.MapFile{Data: []byte("resources: [a.yaml]\n")}
		repo[name+"/base/a.yaml"] = &fstest.MapFile{Data: []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")}
	}
	in := input("", nil)
	in.Repos["manifests"] = repo
	bomb := in.Applications[0]
	good := func(name string) Application {
		a := bomb
		a.Name, a.Path = name, name
		return a
	}
	named := func(name string) Application {
		a := bomb
		a.Name = name
		return a
	}
	in.Applications = []Application{good("x"), bomb, good("y"), named("second"), named("third")}
	out, err := renderWithin(t.Context(), in, times{one: time.Second, all: 4 * time.Second, turn: time.Second})
	if err != nil || len(out) != len(in.Applications) {
		t.Fatal(out, err)
	}
	for i, want := range []string{"", "rendering it takes more than 1s of processor time", "", "rendering it takes more than 1s of processor time", ""} {
		got := out[i]
		if got.Name != in.Applications[i].Name {
			t.Errorf("%q is at %d", got.Name, i)
		}
		if i < 4 && (got.Err == nil) != (want == "") || got.Err != nil && !strings.Contains(got.Err.Error(), want) {
			t.Errorf("%s: %v; want %q", got.Name, got.Err, want)
		}
		if (got.Err == nil) != (len(got.Objects) == 1) {
			t.Errorf("%s: %d objects, %v", got.Name, len(got.Objects), got.Err)
		}
	}
	if _, err := renderWithin(t.Context(), in, times{one: time.Second, all: time.Second, turn: time.Second}); err != nil {
		t.Error(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Render(gone, in); !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
	if _, _, err := Detect(gone, in); !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
}

// TestWhatEndsForMemoryTakesNoTimeOfOthers has applications that take too much memory, but little time, before one that takes little of both.
func TestWhatEndsForMemoryTakesNoTimeOfOthers(t *testing.T) {
	in := input("-- good/base/kustomization.yaml --\nresources: [a.yaml]\n-- good/base/a.yaml --\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n", nil)
	bomb := bombs()["replacements that double"].(fstest.MapFS) //nolint:forcetypeassert // the test fails
	good, isMap := in.Repos["manifests"].(fstest.MapFS)
	if !isMap {
		t.Fatalf("the repository is a %T", in.Repos["manifests"])
	}
	for name, file := range bomb {
		good[name] = file
	}
	one := in.Applications[0]
	in.Applications = nil
	for _, name := range []string{"first", "second", "third", "fourth", "good"} {
		one.Name, one.Path = name, "app"
		if name == "good" {
			one.Path = name
		}
		in.Applications = append(in.Applications, one)
	}
	out, err := Render(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range out[:4] {
		limited := new(worker.LimitError)
		if !errors.As(r.Err, &limited) || !strings.Contains(limited.What, "of memory") || limited.Took <= 0 || limited.Took > most.one/2 {
			t.Errorf("%s: %v, after %v", r.Name, r.Err, limited.Took)
		}
	}
	if last := out[4]; last.Err != nil || len(last.Objects) != 1 {
		t.Errorf("%d objects, %v", len(last.Objects), last.Err)
	}
}

// killing has the kernel end the worker that reads a file, as often as it says.
type killing struct {
	fs.FS
	file  string
	times int
}

func (k *killing) Open(name string) (fs.File, error) {
	if name == k.file && k.times > 0 {
		k.times--
		lists, _ := filepath.Glob("/proc/self/task/*/children")
		for _, list := range lists {
			children, _ := os.ReadFile(list)
			for child := range strings.FieldsSeq(string(children)) {
				if pid, err := strconv.Atoi(child); err == nil {
					if process, err := os.FindProcess(pid); err == nil {
						_ = process.Kill()
					}
				}
			}
		}
	}
	return k.FS.Open(name)
}

// TestAWorkerThatTheKernelEnds may have been taken for what others took: the application is rendered once more. When that is ended, too,
// it fails alone.
func TestAWorkerThatTheKernelEnds(t *testing.T) {
	for times, failed := range map[int]bool{1: false, 2: true} {
		in, files := input("", nil), fstest.MapFS{}
		one := in.Applications[0]
		in.Applications = nil
		for _, name := range []string{"first", "second", "third"} {
			one.Name, one.Path = name, name
			in.Applications = append(in.Applications, one)
			files[name+"/base/kustomization.yaml"] = &fstest.MapFile{Data: []byte("resources: [a.yaml]")}
			files[name+"/base/a.yaml"] = &fstest.MapFile{Data: []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: " + name + "}}")}
		}
		repo := &killing{FS: files, file: "second/base/a.yaml", times: times}
		in.Repos["manifests"] = repo
		out, err := Render(t.Context(), in)
		if err != nil || len(out) != 3 || repo.times != 0 {
			t.Fatalf("%d kills: %d applications, %v, and %d kills are left", times, len(out), err, repo.times)
		}
		for _, a := range out {
			if fails := failed && a.Name == "second"; (a.Err != nil) != fails || fails != (len(a.Objects) == 0) {
				t.Errorf("%d kills: %s has %d objects: %v", times, a.Name, len(a.Objects), a.Err)
			}
		}
		if err := out[1].Err; failed && (!errors.As(err, new(*worker.LimitError)) || !strings.Contains(fmt.Sprint(err), "--work-memory")) {
			t.Errorf("it says no limit, or no remedy: %v", err)
		}
	}
}
