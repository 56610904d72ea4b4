package kustomize

import (
	"context"
	"fmt"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"mlkeeper.dev/internal/limit"
	"mlkeeper.dev/internal/manifest/worker"
)

// TestALargeKfDefIsRenderedBesideOthers has each application wait for a worker of its own while two namespaces have theirs, each for longer than
// all of the rendering may take by itself. In the bubble time passes only while everything waits, and so not for what the workers do.
func TestALargeKfDefIsRenderedBesideOthers(t *testing.T) {
	const applications = 5
	in, files := input("", nil), fstest.MapFS{}
	one := in.Applications[0]
	in.Applications = nil
	for i := range applications {
		a := one
		a.Name = fmt.Sprint("app", i)
		a.Path = a.Name
		in.Applications = append(in.Applications, a)
		files[a.Path+"/base/kustomization.yaml"] = &fstest.MapFile{Data: []byte("resources: [a.yaml]")}
		files[a.Path+"/base/a.yaml"] = &fstest.MapFile{Data: []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")}
	}
	in.Repos["manifests"], in.Namespace = files, "large"
	synctest.Test(t, func(t *testing.T) {
		memory := limit.New(worker.Share, worker.Share)
		in.Workers = &worker.Pool{Memory: memory}
		end, stop := context.WithCancel(t.Context())
		defer stop()
		for _, busy := range []string{"busy", "busier"} {
			go func() {
				for end.Err() == nil && memory.Acquire(end, busy, worker.Share) {
					select {
					case <-end.Done():
					case <-time.After(2 * time.Minute):
					}
					memory.Release(busy, worker.Share)
				}
			}()
		}
		synctest.Wait()
		ctx, cancel := limit.WithTimeout(t.Context(), 3*time.Minute, nil)
		defer cancel()
		out, err := renderWithin(ctx, in, times{one: 10 * time.Second, all: 40 * time.Second, turn: time.Nanosecond})
		if err != nil || len(out) != applications {
			t.Fatalf("%d applications were rendered: %v", len(out), err)
		}
		for _, a := range out {
			if a.Err != nil || len(a.Objects) != 1 {
				t.Errorf("%s: %d objects, %v", a.Name, len(a.Objects), a.Err)
			}
		}
	})
}
