package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"mlkeeper.dev/test/bench/internal/report"
	"mlkeeper.dev/test/bench/internal/world"
)

// large is the cluster with many managed objects that the scenarios share: half of its custom resources are of the ADR's
// shape and half of upstream's.
type large struct {
	c        *world.Cluster
	id       *world.Identity
	op       *world.Operator
	services []world.Service
	sampler  *sampler
	// used is how many children were spoiled so far: none is spoiled twice, since MLKeeper yields a field that somebody
	// insists on.
	used int
}

// shapes are those of the mix.
var shapes = []world.Shape{world.ADR, world.Upstream}

// oneController switches on the controller of the large cluster alone.
const oneController = "--controllers=trustyai"

func (l *large) stop() {
	if l.sampler != nil {
		l.sampler.stop()
	}
	if l.op != nil {
		l.op.Stop(30 * time.Second)
	}
	l.c.Stop()
}

// big returns the large cluster with all its objects and an operator that leads.
func (b *Bench) big(ctx context.Context) (*large, error) {
	l, err := b.bigEmpty(ctx)
	if err != nil {
		return nil, err
	}
	return l, b.grow(ctx, l, b.Config.Objects)
}

// bigEmpty returns the large cluster as it is, and boots it where there is none.
func (b *Bench) bigEmpty(ctx context.Context) (*large, error) {
	if b.large != nil {
		return b.large, b.leading(ctx, b.large)
	}
	if _, err := b.captured(ctx); err != nil {
		return nil, err
	}
	c, id, err := b.boot(ctx)
	if err != nil {
		return nil, err
	}
	b.large = &large{c: c, id: id}
	return b.large, b.leading(ctx, b.large)
}

// leading starts an operator where none runs. Its lease outlives a restart of the API server.
func (b *Bench) leading(ctx context.Context, l *large) error {
	if l.op != nil && l.op.Running() == nil {
		return nil
	}
	op, err := l.c.Run(ctx, b.Config.Operator, "mlkeeper", l.id.Kubeconfig, world.LongLease, oneController)
	if err != nil {
		return err
	}
	l.op = op
	if l.sampler != nil {
		l.sampler.stop()
	}
	l.sampler = sample(op.Process)
	return errors.Join(op.AwaitReady(ctx, 2*time.Minute), op.AwaitLeading(ctx, 5*time.Minute))
}

// grow adds services until there are at least so many managed objects.
func (b *Bench) grow(ctx context.Context, l *large, objects int) error {
	per := 0
	for _, s := range shapes {
		for _, r := range b.stacks[s.Name].all() {
			// The ConfigMap that a service is wired to is not managed: it belongs to ModelMesh.
			if bytes.Contains(r.Body, []byte(controllerLabel)) {
				per++
			}
		}
	}
	want := (objects*len(shapes) + per - 1) / per
	if want <= len(l.services) {
		return nil
	}
	services := world.Mixed(shapes, "large", len(l.services), want-len(l.services))
	b.say("growing to %d managed objects: %d custom resources more", objects, len(services))
	began := time.Now()
	if err := l.c.Prepare(ctx, services); err != nil {
		return err
	}
	if err := l.c.Quiet(ctx, settled, readyTimeout); err != nil {
		return err
	}
	if _, _, err := b.bringUp(ctx, l.c, l.op.Process, services); err != nil {
		return err
	}
	l.services = append(l.services, services...)
	if err := l.c.Quiet(ctx, settled, readyTimeout); err != nil {
		return err
	}
	n, err := b.managed(ctx, l)
	if err != nil {
		return err
	}
	l.sampler.mark(fmt.Sprintf("%d objects", n))
	b.say("%d managed objects of %d custom resources after %s", n, len(l.services), time.Since(began).Round(time.Second))
	b.Result.Settings["large cluster"] = fmt.Sprintf("%d managed objects of %d custom resources, half of each shape, Inventories not counted", n, len(l.services))
	return nil
}

// resources are the resources of all children, without doubles.
func (b *Bench) resources() []string {
	var out []string
	for _, shape := range shapes {
		out = append(out, b.stacks[shape.Name].Resources()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// managed counts the children by their label.
func (b *Bench) managed(ctx context.Context, l *large) (int, error) {
	total := 0
	for _, resource := range b.resources() {
		n, err := listMetadata(ctx, l.c.Wire, resource+"?labelSelector="+controllerLabel)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// listMetadata lists a resource's metadata and counts the objects.
func listMetadata(ctx context.Context, wire *world.Wire, path string) (int, error) {
	data, err := wire.Metadata(ctx, path)
	if err != nil {
		return 0, err
	}
	var list struct {
		Items []struct{} `json:"items"`
	}
	err = json.Unmarshal(data, &list)
	return len(list.Items), err
}

// sampler reads the memory of a process every second.
type sampler struct {
	mu     sync.Mutex
	start  time.Time
	x, y   []float64
	marks  []mark
	cancel context.CancelFunc
}

type mark struct {
	x    float64
	text string
}

func sample(p *world.Process) *sampler {
	ctx, cancel := context.WithCancel(context.Background())
	s := &sampler{start: time.Now(), cancel: cancel}
	go func() {
		for world.Pause(ctx, time.Second) == nil {
			rss, err := p.RssAnon()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.x, s.y = append(s.x, time.Since(s.start).Seconds()), append(s.y, rss/(1<<20))
			s.mu.Unlock()
		}
	}()
	return s
}

func (s *sampler) mark(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marks = append(s.marks, mark{time.Since(s.start).Seconds(), text})
}

func (s *sampler) stop() { s.cancel() }

// missing records that a metric is not there.
func (b *Bench) missing(metric string) {
	b.Result.Note("The manager has no metric " + metric + ".")
}

// count adds a figure that is a number of things.
func (b *Bench) count(id, what string, n int, detail string) {
	b.Result.Add(report.Measure{ID: id, What: what, Value: float64(n), Statistic: "count", Detail: detail})
}
