package tfserver

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// manageEvery is the period of the manager's loop (core/aspired_versions_manager.h).
const manageEvery = 100 * time.Millisecond

// Core is the server without its ports.
type Core struct {
	options Options
	store   Store
	out     io.Writer
	counts  counts
	// pollEvery is the period of looking for versions; none of zero or less.
	pollEvery, manageEvery time.Duration

	// reload is held by a reload of the config until its models are there.
	reload sync.Mutex
	// done is closed by Close, and running are the loops and loads.
	done    chan struct{}
	running sync.WaitGroup

	mu     sync.Mutex
	config proto.Message
	// connected says that versions are looked for, opened that the initial load is over.
	connected, opened bool
	models            []servable
	labels            map[string]map[string]int64
	harnesses         map[string]map[int64]*harness
	pending           map[string][]wanted
	told              map[string]map[int64]told
	// decided is the first version of each new model that became available or ended, since the last reload began.
	decided map[string]*told
	// changed is closed at the next change of what is told.
	changed chan struct{}
	// loads counts those that run.
	loads int
}

// NewCore makes a server that has no config yet.
func NewCore(options Options, store Store, out io.Writer) *Core {
	return &Core{
		options: options, store: store, out: out, pollEvery: time.Duration(options.FileSystemPollSeconds) * time.Second, manageEvery: manageEvery,
		done: make(chan struct{}), config: message("ModelServerConfig"), labels: nil, harnesses: map[string]map[int64]*harness{},
		pending: map[string][]wanted{}, told: map[string]map[int64]told{}, decided: map[string]*told{}, changed: make(chan struct{}),
	}
}

// Close ends the server.
func (c *Core) Close() {
	close(c.done)
	c.running.Wait()
}

func (c *Core) log(format string, args ...any) {
	fmt.Fprintf(c.out, format+"\n", args...)
}

// Reload is ReloadConfig: it returns when every new model has a version that is available or has ended, or with an error.
func (c *Core) Reload(config proto.Message) error {
	c.reload.Lock()
	defer c.reload.Unlock()
	c.mu.Lock()
	first, err := c.accept(config)
	if err != nil || empty(config) {
		c.mu.Unlock()
		return err
	}
	before := c.models
	c.models = servables(config)
	var fresh []string
	for _, s := range c.models {
		if !slices.ContainsFunc(before, func(b servable) bool { return b.name == s.name }) {
			fresh = append(fresh, s.name)
			delete(c.decided, s.name)
		}
	}
	for _, b := range before {
		if !slices.ContainsFunc(c.models, func(s servable) bool { return s.name == b.name }) {
			c.pending[b.name] = nil
		}
	}
	if !c.connected {
		c.connected = true
		c.connect()
	}
	c.mu.Unlock()
	if err := c.await(fresh, first); err != nil {
		return err
	}
	if logged(config) {
		return invalid("No request-logger-creator provided.")
	}
	return nil
}

// accept does the checks of ReloadConfig in their order, and takes the config: one whose labels are refused is the server's config
// nevertheless, though nothing else of it happens.
func (c *Core) accept(config proto.Message) (first bool, err error) {
	first = empty(c.config)
	if !first && !proto.Equal(c.config, config) && (custom(c.config) || custom(config) || empty(config)) {
		return false, precondition("Cannot transition to requested config. It is only legal to transition from one ModelConfigList to another.")
	}
	if empty(config) {
		c.log("Taking no action for empty config.")
		return first, nil
	}
	if custom(config) {
		return false, status.Error(codes.Aborted, "ModelServer does not yet support custom model config.")
	}
	if err := validate(config); err != nil {
		return false, err
	}
	if err := samePlatforms(c.config, config); err != nil {
		return false, err
	}
	c.config = config
	if err := c.relabel(config); err != nil {
		return false, err
	}
	return first, routes(config)
}

// relabel is UpdateModelVersionLabelMap.
func (c *Core) relabel(config proto.Message) error {
	labels := map[string]map[string]int64{}
	for _, m := range models(config) {
		name := nameOf(m)
		wanted := labelsOf(m)
		for _, label := range slices.Sorted(maps.Keys(wanted)) {
			version := wanted[label]
			had, known := c.labels[name][label]
			anyVersion := c.options.AllowLabelsForUnavailable && (!known || had == version)
			if !anyVersion && c.told[name][version].state != Available {
				return precondition("Request to assign label to version %d of model %s, which is not currently available for inference", version, name)
			}
			if labels[name] == nil {
				labels[name] = map[string]int64{}
			}
			labels[name][label] = version
		}
	}
	c.labels = labels
	return nil
}

// connect begins to look for versions.
func (c *Core) connect() {
	c.running.Go(func() { c.every(c.manageEvery, c.cycle) })
	switch {
	case c.pollEvery == 0:
		c.running.Go(c.poll)
	case c.pollEvery > 0:
		c.running.Go(func() { c.every(c.pollEvery, c.poll) })
	}
}

// every calls a function at once and then again and again.
func (c *Core) every(period time.Duration, do func()) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		do()
		select {
		case <-c.done:
			return
		case <-ticker.C:
		}
	}
}

// poll looks for versions once.
func (c *Core) poll() {
	c.mu.Lock()
	all := c.models
	c.mu.Unlock()
	versions, err := c.pollAll(all)
	if err != nil {
		c.log("FileSystemStoragePathSource encountered a filesystem access error: %s", status.Convert(err).Message())
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, v := range versions {
		// A model that a reload has removed meanwhile stays removed.
		if slices.ContainsFunc(c.models, func(s servable) bool { return s.name == name }) {
			c.pending[name] = v
		}
	}
}

// await waits until the first version of each model has become available or ended. The initial load and a later one say it in other words.
func (c *Core) await(names []string, first bool) error {
	for {
		c.mu.Lock()
		missing := slices.ContainsFunc(names, func(n string) bool { return c.decided[n] == nil })
		changed := c.changed
		if !missing {
			c.opened = true
			defer c.mu.Unlock()
			return c.unavailable(names, first)
		}
		c.mu.Unlock()
		select {
		case <-changed:
		case <-c.done:
			return status.Error(codes.Canceled, "the stand-in ends")
		}
	}
}

// unavailable is an error if a model ended before it was available.
func (c *Core) unavailable(names []string, first bool) error {
	var parts []string
	for _, name := range slices.Sorted(slices.Values(names)) {
		if c.decided[name].state == Available {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(c.told[name])) {
			if t := c.told[name][id]; t.state == End {
				part := fmt.Sprintf("{name: %s version: %d}", name, id)
				if t.err != nil {
					part += " due to error: " + printed(t.err)
				}
				parts = append(parts, "{"+part+"}, ")
				break
			}
		}
	}
	if len(parts) == 0 {
		return nil
	}
	what := "model(s)"
	if first {
		what = "servable(s)"
	}
	return status.Errorf(codes.Unknown, "%d %s did not become available: {%s}", len(parts), what, strings.Join(parts, ""))
}

// Version is one version of a model as the server tells of it.
type Version struct {
	Number int64
	State  string
	Err    error
}

// Versions are all versions of a model of which the server tells, the highest first.
func (c *Core) Versions(model string) []Version {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Version
	for id, t := range c.told[model] {
		out = append(out, Version{id, t.state, t.err})
	}
	slices.SortFunc(out, func(a, b Version) int {
		if a.Number > b.Number {
			return -1
		}
		return 1
	})
	return out
}

// Spec names a version of a model, by its number, by a label, or the latest.
type Spec struct {
	Model   string
	Version *int64
	Label   string
}

// Handle is the model that serves a request, and its version.
func (c *Core) Handle(spec Spec) (Model, int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if spec.Model == "" {
		return Model{}, 0, invalid("ModelSpec has no name specified.")
	}
	version := spec.Version
	if spec.Label != "" {
		labelled, known := c.labels[spec.Model][spec.Label]
		if !known {
			return Model{}, 0, invalid("Unrecognized servable version label: %s", spec.Label)
		}
		version = &labelled
	}
	var found *harness
	for id, h := range c.harnesses[spec.Model] {
		if h.state == ready && (version == nil && (found == nil || id > found.id) || version != nil && id == *version) {
			found = h
		}
	}
	if found != nil {
		return found.model, found.id, nil
	}
	if version != nil {
		return Model{}, 0, notFound("Servable not found for request: Specific(%s, %d)", spec.Model, *version)
	}
	return Model{}, 0, notFound("Servable not found for request: Latest(%s)", spec.Model)
}
