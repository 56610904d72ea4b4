package helm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"k8s.io/apimachinery/pkg/util/json"

	"mlkeeper.dev/internal/manifest/bounded"
	"mlkeeper.dev/internal/manifest/worker"
)

// kind is the kind of the workers that render charts.
const kind = "chart"

// maxError bounds an error, in bytes: it quotes what files have, of any length.
const maxError = 4 << 10

// ErrUnavailable says that a chart was not rendered through no fault of its own.
var ErrUnavailable = worker.ErrUnavailable

func init() { worker.Serve(kind, work) }

// renderInWorker renders a chart in a process of its own.
func renderInWorker(ctx context.Context, in Input, within time.Duration) (Rendered, error) {
	values, err := json.Marshal(in.Values)
	if err != nil {
		return Rendered{}, fmt.Errorf("chart %s: the values do not fit: %w", in.Chart.Name, err)
	}
	var done *result
	var objects worker.Objects
	handlers := in.handlers(ctx)
	worker.Trees(map[string]fs.FS{chartTree: in.Chart.tree}, handlers)
	objects.Collect(handlers)
	handlers[methodDone] = worker.Handle(func(_ *worker.Run, r result) (bool, error) {
		done = &r
		return true, nil
	})
	pool := in.Workers
	if pool == nil {
		pool = worker.Default
	}
	err = pool.Run(ctx, worker.Job{
		Kind: kind, Namespace: in.Namespace, StepTime: within, TotalTime: within, Handlers: handlers,
		Input: job{
			Chart: in.Chart.Name, Release: in.Release, Namespace: in.Namespace, Version: in.Cluster.Version, Values: values,
			Revision: in.Revision, Upgrade: in.Upgrade, Secret: in.Secret, Since: in.Generated.Since(), Adjustments: in.Adjustments,
		},
	})
	switch {
	case errors.As(err, new(*worker.LimitError)):
		return Rendered{}, fmt.Errorf("chart %s: %w: simplify its templates, or its patches", in.Chart.Name, err)
	case errors.Is(err, ErrUnavailable):
		return Rendered{}, err
	case err != nil || done == nil:
		return Rendered{}, fmt.Errorf("chart %s: rendering it ended too early (%w): try helm template on it", in.Chart.Name, err)
	case done.Unfit != nil:
		return Rendered{}, done.Unfit
	case done.Wrong != nil:
		return Rendered{}, done.Wrong
	case done.Error != "":
		return Rendered{}, errors.New(done.Error)
	}
	return done.rendered(&objects), nil
}

// work is the life of a worker: one chart.
func work(from *worker.Parent) error {
	var j job
	if err := from.Read(&j); err != nil {
		return err
	}
	values := map[string]any{}
	if err := json.Unmarshal(j.Values, &values); err != nil {
		return err
	}
	c := &parent{from: from, since: j.Since}
	rendered, err := render(context.Background(), Input{
		Chart: &Chart{Name: j.Chart, tree: from.Tree(chartTree)}, Release: j.Release, Namespace: j.Namespace, Values: values,
		Revision: j.Revision, Upgrade: j.Upgrade, Secret: j.Secret, Generated: c, Lookup: c.Lookup, Adjustments: j.Adjustments,
		Cluster: Cluster{Version: j.Version, Serves: c.Serves, All: c.All},
	})
	out := resultOf(rendered)
	for name, list := range rendered.lists() {
		for _, o := range list {
			if err != nil {
				break
			}
			if err = from.Send(name, o); err != nil {
				err = fmt.Errorf("chart %s: %w: correct its template", j.Chart, err)
			}
		}
	}
	if err != nil {
		out = result{Error: bounded.Text(err.Error(), maxError)}
		if unfit := (*UnfitError)(nil); errors.As(err, &unfit) {
			out.Unfit = &UnfitError{Why: bounded.Text(unfit.Why, maxError), Remedy: unfit.Remedy}
		}
		if errors.As(err, &out.Wrong) {
			out.Wrong.Why = bounded.Text(out.Wrong.Why, maxError)
		}
	}
	_, err = worker.Call[bool](from, methodDone, out)
	return err
}
