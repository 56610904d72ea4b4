package rendering

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/limit"
	"mlkeeper.dev/internal/manifest/convert"
	"mlkeeper.dev/internal/origin"
	"mlkeeper.dev/internal/source"
)

// Subject is what is rendered: a custom resource, or a part of one. A custom resource that was made anew is another subject.
type Subject struct {
	types.NamespacedName
	UID  types.UID
	Part string
}

// Source is where something to render comes from; its field and its name tell the user which one failed.
type Source struct {
	Name string
	origin.Origin
}

// Job is one rendering with content C, as it is declared now.
type Job[C any] struct {
	Subject
	// Inputs tell apart what is declared, and Trigger what has the same inputs rendered anew, such as the request of a user.
	Inputs, Trigger string
	// Every is how often the sources are asked for something newer.
	Every   time.Duration
	Sources []Source
	// Resolve fetches what the sources refer to before the rendering, and notes it in the Result of the run: while what that gave and the
	// sources stay the same, nothing is rendered again. It is nil where they refer to nothing. A problem leaves the last result standing.
	Resolve func(context.Context, *Run[C]) *plan.Problem
	// Changed tells apart what the rendering would learn now, where that is not what it learned then: empty where it is. It is
	// nil where only the conversion depends on the cluster.
	Changed func(C) string
	// Render completes the result of a run. A problem leaves the last result standing.
	Render func(context.Context, Run[C]) *plan.Problem

	serves func(schema.GroupVersionKind) bool
}

// Run is one run of a job in the background.
type Run[C any] struct {
	Live controller.Live
	// Trees are the contents of the sources, in their order.
	Trees []fs.FS
	// Converter converts to what the cluster serves.
	convert.Converter
	// Fetch brings what a source refers to. The tree is there until the run ends.
	Fetch func(context.Context, source.Request) (*source.Artifact, error)
	// Last is the last result, nil where there is none; Result is the one that the run makes.
	Last, Result *Result[C]
}

// Cache has jobs run, and keeps the last result of every subject until its custom resource is forgotten, or memory is needed for another.
type Cache[C any] struct {
	fetcher origin.Fetcher
	memory  *Memory

	mu   sync.Mutex
	last map[Subject]entry[C]
	// restored are results of before that stand in for the last ones, such as after a rollback.
	restored map[Subject]*Result[C]
	// evicted is told of a custom resource whose results were dropped; nil for nobody.
	evicted func(types.NamespacedName)
}

// entry is a result with the job that it is of: as it was requested, and under what name it ran.
type entry[C any] struct {
	result        *Result[C]
	request, name string
}

// New makes a cache whose jobs fetch by fetcher, and whose results share memory.
func New[C any](fetcher origin.Fetcher, memory *Memory) *Cache[C] {
	return &Cache[C]{fetcher: fetcher, memory: memory, last: map[Subject]entry[C]{}, restored: map[Subject]*Result[C]{}}
}

// OnEvict has a function called with each custom resource whose results were dropped for lack of memory: whoever else keeps something
// of them drops it, too. It must not call the cache. It is set before the first job.
func (c *Cache[C]) OnEvict(evicted func(types.NamespacedName)) { c.evicted = evicted }

// Get returns the result of a job. The job runs once for its inputs and trigger, and once more whenever the cluster would have it
// render something else, as after an upgrade. Before it has ended, Get returns the last result, if there is one, and false.
func (c *Cache[C]) Get(read controller.Reader, job Job[C]) (result *Result[C], done bool) {
	job.serves = read.Serves
	request := strings.Join([]string{job.Part, job.Inputs, job.Trigger}, " ")
	last, name := c.entry(job.Subject), request
	if last.request == request {
		name = last.name
		if changed := job.changed(last.result); changed != "" {
			name = request + " " + changed
		}
	}
	result, done = read.Render(name, job.Every, func(ctx context.Context, live controller.Live) any {
		out := c.run(ctx, live, job)
		c.put(ctx, job.Subject, entry[C]{result: out, request: request, name: name})
		return out
	}).(*Result[C])
	c.memory.used(owner{c, job.NamespacedName})
	if !done {
		return last.result, false
	}
	if c.Last(job.Subject) == nil {
		// It was dropped when its job had yet to end, and counts again.
		c.put(context.Background(), job.Subject, entry[C]{result: result, request: request, name: name})
	}
	return result, true
}

// Use returns the last result of a subject, which is in use while nobody can ask for another one; nil where there is none.
func (c *Cache[C]) Use(of Subject) *Result[C] {
	c.memory.used(owner{c, of.NamespacedName})
	return c.Last(of)
}

// Last returns the last result of a subject; nil where there is none.
func (c *Cache[C]) Last(of Subject) *Result[C] { return c.entry(of).result }

// Restored returns the result that stands in for the last one of a subject; nil where there is none.
func (c *Cache[C]) Restored(of Subject) *Result[C] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.restored[of]
}

// Restore has a result stand in for the last one of a subject, and none where it is nil. It is dropped as that is, and can be made again.
func (c *Cache[C]) Restore(of Subject, result *Result[C]) {
	c.mu.Lock()
	before := c.restored[of]
	if c.restored[of] = result; result == nil {
		delete(c.restored, of)
	}
	c.mu.Unlock()
	if result != before {
		c.memory.count(owner{c, of.NamespacedName})
	}
}

// Forget drops the results of a custom resource that is gone, whatever its UID.
func (c *Cache[C]) Forget(key types.NamespacedName) {
	c.drop(key)
	c.memory.count(owner{c, key})
}

func (c *Cache[C]) drop(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.last, func(of Subject, _ entry[C]) bool { return of.NamespacedName == key })
	maps.DeleteFunc(c.restored, func(of Subject, _ *Result[C]) bool { return of.NamespacedName == key })
}

// evict implements evictable.
func (c *Cache[C]) evict(key types.NamespacedName) {
	c.drop(key)
	if c.evicted != nil {
		c.evicted(key)
	}
}

// taken implements evictable.
func (c *Cache[C]) taken(of types.NamespacedName) (bytes int64, again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	again = true
	for subject, e := range c.last {
		if subject.NamespacedName == of {
			bytes, again = bytes+e.result.Bytes, again && e.result.again()
		}
	}
	for subject, result := range c.restored {
		if subject.NamespacedName == of {
			bytes += result.Bytes
		}
	}
	return bytes, again
}

// besides is what the results of the other parts of a custom resource take.
func (c *Cache[C]) besides(of Subject) (bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for subject, e := range c.last {
		if subject != of && subject.NamespacedName == of.NamespacedName {
			bytes += e.result.Bytes
		}
	}
	return bytes
}

func (c *Cache[C]) entry(of Subject) entry[C] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last[of]
}

// put keeps the result of a job, but for one that was cancelled, as when the custom resource has gone.
func (c *Cache[C]) put(ctx context.Context, of Subject, e entry[C]) {
	c.mu.Lock()
	cancelled := errors.Is(ctx.Err(), context.Canceled)
	if !cancelled {
		c.last[of] = e
	}
	c.mu.Unlock()
	if !cancelled {
		c.memory.count(owner{c, of.NamespacedName})
	}
}

// run fetches, renders and converts. Each of these has the whole timeout of a job, so that slow downloads leave time for what follows them.
func (c *Cache[C]) run(ctx context.Context, live controller.Live, job Job[C]) *Result[C] {
	ctx = source.Together(limit.WithNamespace(ctx, job.Namespace))
	last, next := c.Last(job.Subject), &Result[C]{Inputs: job.Inputs, Depends: convert.Depends{}}
	run := Run[C]{Live: live, Converter: convert.Converter{Served: next.Depends.Record(job.serves)}, Last: last, Result: next}
	for _, s := range job.Sources {
		artifact, err := s.Fetch(ctx, c.fetcher)
		if err != nil {
			return last.With(s.Problem(err))
		}
		defer artifact.Close()
		run.Trees = append(run.Trees, artifact.FS())
		next.Sources = append(next.Sources, Revision{Name: s.Name, Digest: artifact.Digest})
		if artifact.Stale != nil {
			next.Failure = s.Problem(artifact.Stale)
		}
	}
	if job.Resolve != nil {
		var fetched []*source.Artifact
		defer func() {
			for _, a := range fetched {
				a.Close()
			}
		}()
		run.Fetch = func(ctx context.Context, r source.Request) (*source.Artifact, error) {
			artifact, err := c.fetcher.Fetch(ctx, r)
			if err == nil {
				fetched = append(fetched, artifact)
			}
			return artifact, err
		}
		limit.Again(ctx)
		if failure := job.Resolve(ctx, &run); failure != nil {
			return last.With(failure)
		}
	}
	if last.Rendered() && !last.Volatile && last.Inputs == next.Inputs && slices.Equal(last.Sources, next.Sources) &&
		slices.Equal(last.Fetched, next.Fetched) && job.changed(last) == "" {
		return last.With(next.Failure)
	}
	limit.Again(ctx)
	if failure := job.Render(ctx, run); failure != nil {
		return last.With(failure)
	}
	if !c.memory.fits(c.besides(job.Subject) + next.Bytes) {
		return last.With(c.memory.tooLarge())
	}
	return next
}

// changed tells apart what a result would depend on now; it is empty where that is what it depends on.
func (j Job[C]) changed(last *Result[C]) string {
	var out string
	if now := last.Depends.Now(j.serves); !maps.Equal(now, last.Depends) {
		out = now.String()
	}
	if j.Changed != nil {
		out += j.Changed(last.Content)
	}
	return out
}

// ifItStays is the remedy of what mostly passes by itself, such as a server that is restarted.
const ifItStays = "if it stays, look at the server, the network policies and the proxy; it is tried again with growing pauses"

// Problem says why a source could not be fetched.
func (s Source) Problem(err error) *plan.Problem {
	out := &plan.Problem{
		Class: plan.Waiting, Reason: source.ReasonUnreachable, Field: s.Field, Value: s.Name, Message: err.Error(),
	}
	var fetch *source.Error
	if errors.As(err, &fetch) {
		out.Reason, out.Message, out.Remedy = fetch.Reason, fetch.Message, fetch.Remedy
		if fetch.Remedy == "" && (fetch.Reason == source.ReasonUnreachable || fetch.Reason == source.ReasonServerError) {
			out.Remedy = ifItStays
		}
		if fetch.Field != "" {
			out.Field += "." + fetch.Field
		}
		if fetch.Class == source.Terminal {
			out.Class = plan.Terminal
		}
	}
	return out
}

// Digest tells values apart. Who does not know the key cannot try values against it.
func Digest(key string, value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("bug: what is rendered from does not encode: %v", err))
	}
	mac := hmac.New(sha256.New, []byte(key))
	_, _ = mac.Write(raw)
	return hex.EncodeToString(mac.Sum(nil)[:16])
}
