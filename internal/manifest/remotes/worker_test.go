package remotes

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"mlkeeper.dev/internal/limit"
	"mlkeeper.dev/internal/manifest/worker"
)

// junk is about a megabyte of YAML that takes a hundred times as much once it is read.
var junk = "configMapGenerator: [" + strings.Repeat("[],", maxKustomization/3-50) + "[]]\n"

// bomb is a repository whose kustomizations are nested, each with junk.
func bomb() fstest.MapFS {
	out := fstest.MapFS{"good/kustomization.yaml": {Data: []byte("resources: ['https://github.com/argo/flows/manifests/crds?ref=v3.7.3']")}}
	for i := range maxNested {
		out[fmt.Sprintf("bomb/%d/kustomization.yaml", i)] = &fstest.MapFile{Data: fmt.Appendf(nil, "resources: [../%d]\n%s", i+1, junk)}
	}
	return out
}

// TestNoAddressesEndTheManager has the kustomizations of one application take all memory that a worker has: it fails alone, and says why.
func TestNoAddressesEndTheManager(t *testing.T) {
	var asked []string
	out, err := Resolve(t.Context(), there.input(&asked, bomb(), "good", "bomb/0", "good"))
	if err != nil {
		t.Fatal(err)
	}
	if err := out.Errors[1]; err == nil || !strings.Contains(err.Error(), "takes more than 256 MiB of memory: split it") {
		t.Errorf("the bomb: %v", err)
	}
	if out.Errors[0] != nil || out.Errors[2] != nil || len(asked) != 1 {
		t.Errorf("the others: %v, %v; asked for %q", out.Errors[0], out.Errors[2], asked)
	}
	if _, err := fs.Stat(out.Repos["r"], ".fetched/github.com_argo_flows_v3.7.3/manifests/base/controller.yaml"); err != nil {
		t.Error(err)
	}
}

// TestKustomizationsAreReadByWorkers holds what the manager takes for one that takes much.
func TestKustomizationsAreReadByWorkers(t *testing.T) {
	repo := fstest.MapFS{"kustomization.yaml": {Data: []byte(junk)}}
	var asked []string
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := resolved(t, there.input(&asked, repo, "."))
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; err != nil || took > 16 {
		t.Errorf("the manager takes %d MiB (%v)", took, err)
	}
}

// TestWhatIsWrittenIsBounded: the manager holds neither the files that kustomizations name by address, however often they do, nor many
// kustomizations that are written anew.
func TestWhatIsWrittenIsBounded(t *testing.T) {
	const dirs, uri = 40, "https://example.org/v1.0.0/large.yaml"
	large := []byte("# " + strings.Repeat("x", 1<<20) + "\n{}")
	w := world{uri: fstest.MapFS{"file": {Data: large}}}
	repo, list := fstest.MapFS{}, ""
	for i := range dirs {
		list += fmt.Sprintf("- d%d\n", i)
		repo[fmt.Sprintf("d%d/kustomization.yaml", i)] = &fstest.MapFile{Data: []byte("resources: ['" + uri + "']")}
	}
	repo["kustomization.yaml"] = &fstest.MapFile{Data: []byte("resources:\n" + list)}
	var asked []string
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	tree, err := resolved(t, w.input(&asked, repo, "."))
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; err != nil || took > dirs/2 || len(asked) != 1 {
		t.Errorf("the manager takes %d MiB (%v) for %q", took, err, asked)
	}
	files, err := fs.Glob(tree, "d7/fetched-*.yaml")
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v", files, err)
	}
	file, err := tree.Open(files[0])
	if err != nil {
		t.Fatal(err)
	}
	end := make([]byte, 3)
	if _, err := file.(io.ReaderAt).ReadAt(end, int64(len(large)-3)); err != nil || string(end) != "\n{}" {
		t.Errorf("it ends in %q (%v)", end, err)
	}
	for i := range 3 {
		repo[fmt.Sprintf("d%d/kustomization.yaml", i)].Data = fmt.Appendf(nil, "resources: ['%s']\nnamePrefix: %s", uri, strings.Repeat("x", maxWritten/3))
	}
	if _, err := resolved(t, w.input(&asked, repo, ".")); err == nil || !strings.Contains(err.Error(), "that name addresses have more than") {
		t.Errorf("three large kustomizations: %v", err)
	}
}

// TestNoWorkerWaitsForAServer holds that others are rendered while something is fetched.
func TestNoWorkerWaitsForAServer(t *testing.T) {
	var asked []string
	in := there.input(&asked, archive(here), "app", "side")
	in.Repos["r"].(fstest.MapFS)["app/kustomization.yaml"].Data = []byte("resources: [../side, 'https://github.com/argo/flows/onward?ref=v3.7.3']")
	in.Workers = &worker.Pool{Memory: limit.New(worker.Share, worker.Share)}
	fetch := in.Fetch
	in.Fetch = func(a Address) (fs.FS, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if !in.Workers.Memory.Acquire(ctx, "another", worker.Share) {
			t.Error("a worker waits for " + a.URI)
			return nil, errGone
		}
		in.Workers.Memory.Release("another", worker.Share)
		return fetch(a)
	}
	out, err := Resolve(t.Context(), in)
	if err != nil || len(out.Errors) > 0 || len(asked) != 2 {
		t.Errorf("%v, %v, asked for %q", err, out, asked)
	}
}

// TestAnApplicationOfNoRepositoryIsNotResolved leaves it to the rendering to say so.
func TestAnApplicationOfNoRepositoryIsNotResolved(t *testing.T) {
	var asked []string
	in := there.input(&asked, archive(here), "side")
	in.Applications[0].Repo = "none"
	if out, err := Resolve(t.Context(), in); err != nil || len(out.Errors) > 0 || len(asked) > 0 {
		t.Errorf("%v, %v, asked for %q", err, out, asked)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Resolve(ended, in); err == nil {
		t.Error("it is resolved although nobody waits for it")
	}
}

// TestErrorsOfAddressesAreShort has kustomizations name what is as long as a kustomization may be, in a repository and in one that was fetched.
func TestErrorsOfAddressesAreShort(t *testing.T) {
	long := strings.Repeat("x", 1<<16)
	const uri = "https://example.org/team/more?ref=v1.0.0"
	w := world{"git::" + uri: fstest.MapFS{"kustomization.yaml": {Data: []byte("resources: [../../../../" + long + "]")}}}
	for entry, want := range map[string]string{"https://example.org/v1.0.0/" + long + ".yaml": "is longer than 2048 bytes", uri: `/kustomization.yaml: "../../../../xxx`} {
		var asked []string
		_, err := resolved(t, w.input(&asked, fstest.MapFS{"kustomization.yaml": {Data: []byte("resources: ['" + entry + "']")}}, "."))
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > maxError {
			t.Errorf("%.300v", err)
		}
	}
}
