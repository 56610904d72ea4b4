package helm

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
)

// job is what a worker renders. Its files follow one by one, so that no chart is copied as a whole.
type job struct {
	Chart, Release, Namespace, Version string
	Values                             []byte
	Revision                           int
	Upgrade                            bool
	Since                              time.Time
	Files                              int
	// Within is how long the worker may live.
	Within time.Duration
}

// The kinds of messages of a worker.
const (
	requestServes      = "serves"
	requestAll         = "all"
	requestBytes       = "bytes"
	requestCertificate = "certificate"
	requestLookup      = "lookup"
	resultMessage      = "result"
)

// message is what a worker asks for while it renders, or tells at its end.
type message struct {
	Kind string
	// Text is the API that it asks for.
	Text        string
	Name        Name
	Count       int
	Certificate Certificate
	Lookup      [4]string
	Result      result
}

// answer is the reply to a request of a worker.
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

// serveWorker gives a worker its job, answers what it asks, and returns its result.
func serveWorker(ctx context.Context, in Input, within time.Duration, to io.Writer, from io.Reader) (Rendered, error) {
	values, err := json.Marshal(in.Values)
	if err != nil {
		return Rendered{}, fmt.Errorf("chart %s: the values do not fit: %w", in.Chart.Name, err)
	}
	encoder, decoder := gob.NewEncoder(to), gob.NewDecoder(io.LimitReader(from, maxResult))
	err = encoder.Encode(job{
		Chart: in.Chart.Name, Release: in.Release, Namespace: in.Namespace, Version: in.Cluster.Version, Values: values,
		Revision: in.Revision, Upgrade: in.Upgrade, Since: in.Kept.Since(), Files: len(in.Chart.files), Within: within,
	})
	for _, f := range in.Chart.files {
		if err == nil {
			err = encoder.Encode(f)
		}
	}
	for err == nil {
		var m message
		if err = decoder.Decode(&m); err != nil {
			break
		}
		if m.Kind == resultMessage {
			return m.Result.rendered()
		}
		err = encoder.Encode(in.answer(ctx, m))
	}
	return Rendered{}, errWorker
}

// errWorker says that a worker ended before it had a result.
var errWorker = errors.New("the worker has ended")

// answer is what the caller of Render knows.
func (in Input) answer(ctx context.Context, m message) (out answer) {
	switch m.Kind {
	case requestServes:
		out.Found = in.Cluster.Serves(m.Text)
	case requestAll:
		out.Bytes = []byte(strings.Join(in.Cluster.All(), "\n"))
	case requestBytes:
		out.Bytes = in.Kept.Bytes(m.Name, m.Count)
	case requestCertificate:
		out.Pair, out.Found = in.Kept.Certificate(m.Certificate)
	case requestLookup:
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

// resultOf encodes what a worker rendered.
func resultOf(out Rendered, err error) result {
	if err != nil {
		return result{Error: err.Error()}
	}
	encoded := result{Asked: out.Asked, Used: out.Used, Wanted: out.Wanted, LooksUp: out.LooksUp, Warnings: out.Warnings}
	for _, list := range []struct {
		from []*unstructured.Unstructured
		to   *[][]byte
	}{{out.Definitions, &encoded.Definitions}, {out.Before, &encoded.Before}, {out.Objects, &encoded.Objects}, {out.After, &encoded.After}} {
		for _, o := range list.from {
			raw, err := json.Marshal(o.Object)
			if err != nil {
				return result{Error: fmt.Sprintf("%s %s cannot be written as JSON (%v): correct its template", o.GetKind(), o.GetName(), err)}
			}
			*list.to = append(*list.to, raw)
		}
	}
	return encoded
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

// parent is what a worker has of the one who called Render.
type parent struct {
	requests *gob.Encoder
	answers  *gob.Decoder
	since    time.Time
}

// readJob takes the job and the files of its chart.
func (c *parent) readJob() (job, *Chart, error) {
	var j job
	if err := c.answers.Decode(&j); err != nil {
		return j, nil, err
	}
	c.since = j.Since
	chart := &Chart{Name: j.Chart}
	for range j.Files {
		f := &archive.BufferedFile{}
		if err := c.answers.Decode(f); err != nil {
			return j, nil, err
		}
		chart.files = append(chart.files, f)
	}
	return j, chart, nil
}

// ask waits for an answer. Without one there is nobody left to render for.
func (c *parent) ask(m message) answer {
	var a answer
	if err := errors.Join(c.requests.Encode(m), c.answers.Decode(&a)); err != nil {
		panic(err)
	}
	return a
}

// Serves asks for an API of the cluster.
func (c *parent) Serves(apiVersion string) bool {
	return c.ask(message{Kind: requestServes, Text: apiVersion}).Found
}

// All asks for all APIs of the cluster.
func (c *parent) All() []string {
	return strings.Fields(string(c.ask(message{Kind: requestAll}).Bytes))
}

// Bytes implements Kept.
func (c *parent) Bytes(name Name, n int) []byte {
	return c.ask(message{Kind: requestBytes, Name: name, Count: n}).Bytes
}

// Since implements Kept.
func (c *parent) Since() time.Time { return c.since }

// Certificate implements Kept.
func (c *parent) Certificate(of Certificate) (Pair, bool) {
	a := c.ask(message{Kind: requestCertificate, Certificate: of})
	return a.Pair, a.Found
}

// Lookup is that of an Input.
func (c *parent) Lookup(_ context.Context, apiVersion, kind, namespace, name string) (map[string]any, error) {
	a := c.ask(message{Kind: requestLookup, Lookup: [4]string{apiVersion, kind, namespace, name}})
	if a.Error != "" {
		return nil, errors.New(a.Error)
	}
	if !a.Found {
		return nil, nil
	}
	var found map[string]any
	return found, json.Unmarshal(a.Bytes, &found)
}
