package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"mlkeeper.dev/test/bench/internal/audit"
	"mlkeeper.dev/test/bench/internal/chart"
	"mlkeeper.dev/test/bench/internal/report"
	"mlkeeper.dev/test/bench/internal/stat"
	"mlkeeper.dev/test/bench/internal/world"
)

// editPause is between two edits; each edits another custom resource.
const editPause = 100 * time.Millisecond

// edit edits custom resources that are Ready while many others converge. An edit changes the interval of the
// ServiceMonitor, which is one child and restarts no pod.
func (b *Bench) edit(ctx context.Context) error {
	c, id, others, err := b.half(ctx, world.ADR)
	if err != nil {
		return err
	}
	defer c.Stop()
	edited := world.Services(world.ADR, "edited", 0, b.Config.Edits)
	if err := c.Prepare(ctx, edited); err != nil {
		return err
	}
	op, err := c.Run(ctx, b.Config.Operator, "mlkeeper", id.Kubeconfig, world.DefaultLease)
	if err != nil {
		return err
	}
	defer op.Stop(30 * time.Second)
	if err := errors.Join(op.AwaitReady(ctx, time.Minute), op.AwaitLeading(ctx, time.Minute)); err != nil {
		return err
	}
	if _, _, err := b.bringUp(ctx, c, op.Process, edited); err != nil {
		return err
	}
	// The first apply of an object that was made with a POST also migrates its managedFields, once in its life; so every
	// service is edited once before.
	b.say("editing %d custom resources once, without load", len(edited))
	for _, s := range edited {
		if err := editSpec(ctx, c, s, "20s"); err != nil {
			return err
		}
	}
	if err := c.Quiet(ctx, settled, readyTimeout); err != nil {
		return err
	}
	mark := c.Audit.Mark()
	b.say("editing them while %d others converge", len(others))
	failed := make(chan error, 1)
	// The status of the edited ones changes too.
	follower, err := c.Follow(ctx, world.TrustyAIServices, func(f world.Followed) bool {
		return isReady(f) && strings.HasPrefix(f.Metadata.Namespace, "bench-")
	}, nil)
	if err != nil {
		return err
	}
	defer follower.Stop()
	go func() {
		_, err := b.create(ctx, c, others, nil)
		failed <- err
	}()
	under := 0
	for _, s := range edited {
		if err := editSpec(ctx, c, s, "25s"); err != nil {
			return err
		}
		if len(follower.Ready()) < len(others) {
			under++
		}
		if err := world.Pause(ctx, editPause); err != nil {
			return err
		}
	}
	if err := <-failed; err != nil {
		return err
	}
	if err := follower.Await(ctx, len(others), readyTimeout, op.Running); err != nil {
		return err
	}
	if err := c.Quiet(ctx, settled, readyTimeout); err != nil {
		return err
	}
	entries, err := c.Audit.Entries(mark, "")
	if err != nil {
		return err
	}
	b.reportEdit(entries, id.User, edited, under)
	return nil
}

func editSpec(ctx context.Context, c *world.Cluster, s world.Service, interval string) error {
	path := fmt.Sprintf("/apis/trustyai.opendatahub.io/v1/namespaces/%s/trustyaiservices/%s?fieldManager=somebody", s.Namespace, s.Name)
	body := fmt.Sprintf(`{"spec":{"serviceMonitoring":{"ref":{"spec":{"endpoints":[{"interval":%q}]}}}}}`, interval)
	_, err := c.Wire.Do(ctx, "PATCH", path, "application/merge-patch+json", []byte(body))
	return err
}

// edits are the times of edits, read from the audit log.
type edits struct {
	// child is until the changed child was written, status until the last status was, in seconds.
	child, status []float64
	requests      []audit.Entry
}

// editsOf reads what the operator did for each edited service after the edit was acknowledged.
func editsOf(entries []audit.Entry, user string, edited []world.Service) edits {
	at := map[string]time.Time{}
	for _, s := range edited {
		at[s.Namespace] = time.Time{}
	}
	for _, e := range entries {
		if _, ours := at[e.NS]; ours && e.User != user && e.Resource == "trustyaiservices" && e.Verb == "patch" && e.OK() {
			at[e.NS] = e.Done
		}
	}
	child, status := map[string]time.Time{}, map[string]time.Time{}
	var out edits
	for _, e := range entries {
		// What was answered before the edit was is not the answer to it; a write that came while the edit was still being
		// answered is.
		if began, ours := at[e.NS]; !ours || e.User != user || began.IsZero() || e.Done.Before(began.Add(-editPause)) {
			continue
		}
		switch class := e.Class(); {
		case class == audit.Write && e.Resource == "servicemonitors" && e.OK():
			child[e.NS] = e.Done
		case class == audit.Write && e.Subresource == "status" && e.OK():
			status[e.NS] = e.Done
		}
		if e.Class() != audit.Event && e.Class() != audit.Lease {
			out.requests = append(out.requests, e)
		}
	}
	for ns, began := range at {
		if end, ok := child[ns]; ok {
			out.child = append(out.child, max(0, end.Sub(began).Seconds()))
		}
		if end, ok := status[ns]; ok {
			out.status = append(out.status, max(0, end.Sub(began).Seconds()))
		}
	}
	return out
}

// writeTimes are how many seconds the API server took to answer each creation of a user.
func writeTimes(entries []audit.Entry, user string) []float64 {
	var out []float64
	for _, e := range entries {
		if e.User == user && e.Class() == audit.Write && e.Verb == "create" && e.OK() {
			out = append(out, e.Done.Sub(e.Received).Seconds())
		}
	}
	return out
}

func (b *Bench) reportEdit(entries []audit.Entry, user string, edited []world.Service, under int) {
	e := editsOf(entries, user, edited)
	b.Result.Add(report.Measure{
		ID: "edit.requests", What: "requests per edit that changes one child", Value: float64(len(e.requests)) / float64(len(edited)),
		Statistic: fmt.Sprintf("mean of %d edits", len(edited)), Detail: audit.Count(e.requests).String(),
	})
	s := stat.Summarize(e.child)
	b.Result.Add(report.Measure{
		ID: "edit.p99", What: fmt.Sprintf("edit until the child is written, while %d converge", b.Config.Services), Value: s.P99, Unit: "s", Samples: e.child,
		Statistic: fmt.Sprintf("p99 of %d edits", s.N), Detail: fmt.Sprintf("median %s; %d of the edits while others were not Ready yet", report.Number(s.P50, "s"), under),
	})
	single := stat.Summarize(writeTimes(entries, user))
	b.Result.Add(report.Measure{
		ID: "edit.ratio", What: "edit until the child is written, over a single write at the same time", Value: s.P99 / single.P99, Unit: "×",
		Statistic: "p99 over p99", Detail: fmt.Sprintf("the API server answered %d creations meanwhile, the median after %s, the p99 after %s",
			single.N, report.Number(single.P50, "s"), report.Number(single.P99, "s")),
	})
	t := stat.Summarize(e.status)
	b.Result.Add(report.Measure{
		ID: "edit.status", What: "edit until the status is written", Value: t.P99, Unit: "s", Statistic: fmt.Sprintf("p99 of %d edits", t.N),
		Detail: "median " + report.Number(t.P50, "s"),
	})
	milli := func(values []float64) []float64 {
		var out []float64
		for _, v := range values {
			out = append(out, 1000*v)
		}
		return out
	}
	b.Result.Charts = append(b.Result.Charts, chart.Chart{
		Title: "Edit of a spec under load", Kind: chart.Line, XLabel: "ms from the acknowledged edit", YLabel: "percent",
		Series: []chart.Series{chart.CDF("child written", milli(e.child)), chart.CDF("status written", milli(e.status))},
	})
}
