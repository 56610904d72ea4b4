package helm

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"mlkeeper.dev/internal/manifest/bounded"
	"mlkeeper.dev/internal/manifest/kustomize"
	"mlkeeper.dev/internal/manifest/worker"
)

// job is what a worker renders. It reads the files of the chart as a tree.
type job struct {
	Chart, Release, Namespace, Version string
	Values                             []byte
	Revision                           int
	Upgrade, Secret                    bool
	Since                              time.Time
	Adjustments                        kustomize.Adjustments
}

// chartTree is the name of that tree.
const chartTree = "chart"

// The methods that a worker calls while it renders, and at its end.
const (
	methodServes      = "serves"
	methodAll         = "all"
	methodBytes       = "bytes"
	methodCertificate = "certificate"
	methodLookup      = "lookup"
	methodDone        = "done"
)

// purpose is what bytes are for, and how many.
type purpose struct {
	Name  Name
	Count int
}

// known is the answer to a question for a certificate.
type known struct {
	Pair  Pair
	Found bool
}

// looked is an object to look up, and its content as JSON; empty where there is none.
type looked struct{ APIVersion, Kind, Namespace, Name string }

// result is what became of a chart, besides its objects.
type result struct {
	Asked        map[string]bool
	Used, Wanted []Certificate
	LooksUp      bool
	Warnings     bounded.Warnings
	Error        string
	Unfit        *UnfitError
	Wrong        *kustomize.FieldError
}

// The lists of the objects of a chart.
const listDefinitions, listBefore, listObjects, listAfter = "definitions", "before", "objects", "after"

func (r Rendered) lists() map[string][]*unstructured.Unstructured {
	return map[string][]*unstructured.Unstructured{
		listDefinitions: r.Definitions, listBefore: r.Before, listObjects: r.Objects, listAfter: r.After,
	}
}

func resultOf(r Rendered) result {
	return result{Asked: r.Asked, Used: r.Used, Wanted: r.Wanted, LooksUp: r.LooksUp, Warnings: r.Warnings}
}

// rendered is the result as it was in the worker, with the objects that it sent.
func (r result) rendered(o *worker.Objects) Rendered {
	out := Rendered{
		Definitions: o.List(listDefinitions), Before: o.List(listBefore), Objects: o.List(listObjects), After: o.List(listAfter),
		Asked: r.Asked, Used: r.Used, Wanted: r.Wanted, LooksUp: r.LooksUp, Warnings: r.Warnings,
	}
	if out.Asked == nil {
		out.Asked = map[string]bool{}
	}
	return out
}

// handlers answer what the caller of Render knows.
func (in Input) handlers(ctx context.Context) map[string]worker.Handler {
	return map[string]worker.Handler{
		methodServes: worker.Handle(func(_ *worker.Run, apiVersion string) (bool, error) { return in.Cluster.Serves(apiVersion), nil }),
		methodAll:    worker.Handle(func(*worker.Run, bool) ([]string, error) { return in.Cluster.All(), nil }),
		methodBytes:  worker.Handle(func(_ *worker.Run, p purpose) ([]byte, error) { return in.Generated.Bytes(p.Name, p.Count), nil }),
		methodCertificate: worker.Handle(func(_ *worker.Run, c Certificate) (out known, err error) {
			out.Pair, out.Found = in.Generated.Certificate(c)
			return out, nil
		}),
		methodLookup: worker.Handle(func(_ *worker.Run, l looked) ([]byte, error) {
			if in.Lookup == nil {
				return nil, nil
			}
			found, err := in.Lookup(ctx, l.APIVersion, l.Kind, l.Namespace, l.Name)
			if err != nil || found == nil {
				return nil, err
			}
			return json.Marshal(found)
		}),
	}
}

// parent is what a worker has of the one who called Render.
type parent struct {
	from  *worker.Parent
	since time.Time
}

// ask asks what has no errors.
func ask[R, A any](c *parent, method string, args A) R {
	result, err := worker.Call[R](c.from, method, args)
	if err != nil {
		panic(err)
	}
	return result
}

// Serves asks for an API of the cluster.
func (c *parent) Serves(apiVersion string) bool { return ask[bool](c, methodServes, apiVersion) }

// All asks for all APIs of the cluster.
func (c *parent) All() []string { return ask[[]string](c, methodAll, true) }

// Bytes implements GeneratedCredentials.
func (c *parent) Bytes(name Name, n int) []byte {
	return ask[[]byte](c, methodBytes, purpose{Name: name, Count: n})
}

// Since implements GeneratedCredentials.
func (c *parent) Since() time.Time { return c.since }

// Certificate implements GeneratedCredentials.
func (c *parent) Certificate(of Certificate) (Pair, bool) {
	k := ask[known](c, methodCertificate, of)
	return k.Pair, k.Found
}

// Lookup is that of an Input.
func (c *parent) Lookup(_ context.Context, apiVersion, kind, namespace, name string) (map[string]any, error) {
	raw, err := worker.Call[[]byte](c.from, methodLookup, looked{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name})
	if err != nil || len(raw) == 0 {
		return nil, err
	}
	var found map[string]any
	return found, json.Unmarshal(raw, &found)
}
