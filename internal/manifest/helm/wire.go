package helm

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"time"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
)

// job is what a worker renders. Its files follow one by one, so that no chart is copied as a whole.
type job struct {
	Chart, Release, Namespace, Version string
	Values                             []byte
	Since                              time.Time
	Files                              int
	// Within is how long the worker may live.
	Within time.Duration
}

// The kinds of messages of a worker.
const (
	askServes      = "serves"
	askBytes       = "bytes"
	askCertificate = "certificate"
	askLookup      = "lookup"
	tellResult     = "result"
)

// message is what a worker asks for while it renders, or tells at its end.
type message struct {
	Kind string
	// Text is the API that it asks for, or the purpose of bytes.
	Text        string
	Count       int
	Certificate Certificate
	Lookup      [4]string
	Result      result
}

// answer is what a worker is told.
type answer struct {
	Found bool
	Bytes []byte
	Pair  Pair
	Error string
}

// result is what became of a chart, its objects as JSON.
type result struct {
	Definitions, Before, Objects, After [][]byte
	Asked                               map[string]bool
	Used, Wanted                        []Certificate
	LooksUp                             bool
	Warnings                            []string
	Error                               string
}

// maxResult bounds what a worker sends, in bytes.
const maxResult = 4 * maxOutput

// converse gives a worker its job, answers what it asks, and returns its result.
func converse(ctx context.Context, in Input, within time.Duration, to io.Writer, from io.Reader) (Rendered, error) {
	values, err := json.Marshal(in.Values)
	if err != nil {
		return Rendered{}, fmt.Errorf("chart %s: the values do not fit: %w", in.Chart.Name, err)
	}
	tell, hear := gob.NewEncoder(to), gob.NewDecoder(io.LimitReader(from, maxResult))
	err = tell.Encode(job{
		Chart: in.Chart.Name, Release: in.Release, Namespace: in.Namespace, Version: in.Cluster.Version, Values: values,
		Since: in.Kept.Since(), Files: len(in.Chart.files), Within: within,
	})
	for _, f := range in.Chart.files {
		if err == nil {
			err = tell.Encode(f)
		}
	}
	for err == nil {
		var m message
		if err = hear.Decode(&m); err != nil {
			break
		}
		if m.Kind == tellResult {
			return m.Result.rendered()
		}
		err = tell.Encode(in.answer(ctx, m))
	}
	return Rendered{}, errWorker
}

// errWorker says that a worker ended before it had a result.
var errWorker = errors.New("the worker has ended")

// answer is what the caller of Render knows.
func (in Input) answer(ctx context.Context, m message) (out answer) {
	switch m.Kind {
	case askServes:
		out.Found = in.Cluster.Serves(m.Text)
	case askBytes:
		out.Bytes = in.Kept.Bytes(m.Text, m.Count)
	case askCertificate:
		out.Pair, out.Found = in.Kept.Certificate(m.Certificate)
	case askLookup:
		if in.Lookup == nil {
			break
		}
		found, err := in.Lookup(ctx, m.Lookup[0], m.Lookup[1], m.Lookup[2], m.Lookup[3])
		if err == nil && found != nil {
			out.Found = true
			out.Bytes, err = json.Marshal(found)
		}
		if err != nil {
			out.Error = err.Error()
		}
	}
	return out
}

// resultOf is what a worker tells.
func resultOf(out Rendered, err error) result {
	if err != nil {
		return result{Error: err.Error()}
	}
	told := result{Asked: out.Asked, Used: out.Used, Wanted: out.Wanted, LooksUp: out.LooksUp, Warnings: out.Warnings}
	for _, list := range []struct {
		from []*unstructured.Unstructured
		to   *[][]byte
	}{{out.Definitions, &told.Definitions}, {out.Before, &told.Before}, {out.Objects, &told.Objects}, {out.After, &told.After}} {
		for _, o := range list.from {
			raw, err := json.Marshal(o.Object)
			if err != nil {
				return result{Error: fmt.Sprintf("%s %s cannot be written as JSON (%v): correct its template", o.GetKind(), o.GetName(), err)}
			}
			*list.to = append(*list.to, raw)
		}
	}
	return told
}

// rendered is the result as it was in the worker.
func (r result) rendered() (Rendered, error) {
	if r.Error != "" {
		return Rendered{}, errors.New(r.Error)
	}
	out := Rendered{Asked: r.Asked, Used: r.Used, Wanted: r.Wanted, LooksUp: r.LooksUp, Warnings: r.Warnings}
	if out.Asked == nil {
		out.Asked = map[string]bool{}
	}
	for _, list := range []struct {
		from [][]byte
		to   *[]*unstructured.Unstructured
	}{{r.Definitions, &out.Definitions}, {r.Before, &out.Before}, {r.Objects, &out.Objects}, {r.After, &out.After}} {
		for _, raw := range list.from {
			u := &unstructured.Unstructured{}
			if err := json.Unmarshal(raw, &u.Object); err != nil {
				return Rendered{}, fmt.Errorf("an object is no JSON: %w", err)
			}
			*list.to = append(*list.to, u)
		}
	}
	return out, nil
}

// caller is what a worker has of the one who called Render.
type caller struct {
	tell  *gob.Encoder
	hear  *gob.Decoder
	since time.Time
}

// hearJob takes the job and the files of its chart.
func (c *caller) hearJob() (job, *Chart, error) {
	var j job
	if err := c.hear.Decode(&j); err != nil {
		return j, nil, err
	}
	c.since = j.Since
	chart := &Chart{Name: j.Chart}
	for range j.Files {
		f := &archive.BufferedFile{}
		if err := c.hear.Decode(f); err != nil {
			return j, nil, err
		}
		chart.files = append(chart.files, f)
	}
	return j, chart, nil
}

// ask waits for an answer. Without one there is nobody left to render for.
func (c *caller) ask(m message) answer {
	var a answer
	if err := errors.Join(c.tell.Encode(m), c.hear.Decode(&a)); err != nil {
		panic(err)
	}
	return a
}

// Serves asks for an API of the cluster.
func (c *caller) Serves(apiVersion string) bool {
	return c.ask(message{Kind: askServes, Text: apiVersion}).Found
}

// Bytes implements Kept.
func (c *caller) Bytes(purpose string, n int) []byte {
	return c.ask(message{Kind: askBytes, Text: purpose, Count: n}).Bytes
}

// Since implements Kept.
func (c *caller) Since() time.Time { return c.since }

// Certificate implements Kept.
func (c *caller) Certificate(of Certificate) (Pair, bool) {
	a := c.ask(message{Kind: askCertificate, Certificate: of})
	return a.Pair, a.Found
}

// Lookup is that of an Input.
func (c *caller) Lookup(_ context.Context, apiVersion, kind, namespace, name string) (map[string]any, error) {
	a := c.ask(message{Kind: askLookup, Lookup: [4]string{apiVersion, kind, namespace, name}})
	if a.Error != "" {
		return nil, errors.New(a.Error)
	}
	if !a.Found {
		return nil, nil
	}
	var found map[string]any
	return found, json.Unmarshal(a.Bytes, &found)
}
