package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"mlkeeper.dev/test/bench/internal/audit"
	"mlkeeper.dev/test/bench/internal/report"
	"mlkeeper.dev/test/bench/internal/stat"
	"mlkeeper.dev/test/bench/internal/world"
)

const (
	// changedWhileDown is how many objects are changed while the operator is down.
	changedWhileDown = 20
	// restarts and lists are how often each is measured.
	restarts = 3
	lists    = 5
	// verifiedMetric is when a custom resource had its first pass after the start of the manager, the last one of a kind.
	verifiedMetric = "mlkeeper_last_full_sync_timestamp_seconds"
)

// restart stops the operator, changes some objects and starts it again, a few times.
func (b *Bench) restart(ctx context.Context) error {
	l, err := b.big(ctx)
	if err != nil {
		return err
	}
	return b.restartOf(ctx, l, "restart.")
}

// restartOf measures the restart of the only manager of a large cluster. prefix is that of the ids of the figures.
func (b *Bench) restartOf(ctx context.Context, l *large, prefix string) error {
	bare, objects, err := b.bareLists(ctx, l)
	if err != nil {
		return err
	}
	targets, err := b.targets(l, restarts*changedWhileDown)
	if err != nil {
		return err
	}
	var took, whole []float64
	unrepaired, others, statuses := 0, map[string]int{}, 0
	for i := range restarts {
		n := len(targets) / restarts
		r, err := b.restartOnce(ctx, l, targets[i*n:(i+1)*n])
		if err != nil {
			return err
		}
		took, whole = append(took, r.took), append(whole, r.lease+r.took)
		unrepaired, statuses = unrepaired+r.unrepaired, statuses+r.statuses
		for _, o := range r.others {
			others[o]++
		}
		b.say("restart %d of %d: lease %s after the start, verified %s later, which is %.2f bare lists", i+1, restarts,
			report.Number(r.lease, "s"), report.Number(r.took, "s"), r.took/stat.Median(bare))
	}
	b.Result.Add(report.Measure{
		ID: prefix + "ratio", What: fmt.Sprintf("restart over %d objects, from the lease to the last one verified, over a bare LIST", objects),
		Value: stat.Median(took) / stat.Median(bare), Samples: ratios(took, repeat(stat.Median(bare), len(took))),
		Statistic: fmt.Sprintf("median of %d restarts", restarts),
		Detail:    fmt.Sprintf("%s over %s (medians); the lists one after the other, with client-go's metadata client", report.Number(stat.Median(took), "s"), report.Number(stat.Median(bare), "s")),
	})
	b.Result.Add(report.Measure{
		ID: prefix + "start", What: "the same from the start of the process: its caches are filled before it asks for the lease",
		Value: stat.Median(whole) / stat.Median(bare), Samples: ratios(whole, repeat(stat.Median(bare), len(whole))),
		Statistic: fmt.Sprintf("median of %d restarts", restarts),
		Detail:    fmt.Sprintf("%s over %s (medians)", report.Number(stat.Median(whole), "s"), report.Number(stat.Median(bare), "s")),
	})
	b.count(prefix+"unrepaired", fmt.Sprintf("of %d objects changed while it was down, not repaired", restarts*changedWhileDown), unrepaired, "")
	b.count(prefix+"other", "objects written after the restart that nobody had changed", len(others), fmt.Sprintf("%s; the status of a custom resource whose child was repaired is not among them: %d", describeInts(others), statuses))
	return nil
}

func repeat(v float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = v
	}
	return out
}

func describeInts(counts map[string]int) string {
	var out []string
	for name, n := range counts {
		out = append(out, fmt.Sprintf("%d %s", n, name))
		if len(out) == 20 {
			break
		}
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

// bareLists lists the metadata of everything the operator keeps track of: the children by their label, the custom
// resources and the Inventories.
func (b *Bench) bareLists(ctx context.Context, l *large) (took []float64, objects int, err error) {
	client, err := metadata.NewForConfig(l.id.Config)
	if err != nil {
		return nil, 0, err
	}
	for range lists {
		objects = 0
		began := time.Now()
		for _, path := range append(b.resources(), world.TrustyAIServices, "/apis/keeper.mlkeeper.dev/v1alpha1/inventories") {
			opts := metav1.ListOptions{LabelSelector: controllerLabel}
			if path == world.TrustyAIServices || strings.HasSuffix(path, "/inventories") {
				opts.LabelSelector = ""
			}
			list, err := client.Resource(resourceAt(path)).List(ctx, opts)
			if err != nil {
				return nil, 0, err
			}
			objects += len(list.Items)
		}
		took = append(took, time.Since(began).Seconds())
	}
	return took, objects, nil
}

// resourceAt reads the path of a collection in all namespaces.
func resourceAt(path string) schema.GroupVersionResource {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if parts[0] == "api" {
		return schema.GroupVersionResource{Version: parts[1], Resource: parts[2]}
	}
	return schema.GroupVersionResource{Group: parts[1], Version: parts[2], Resource: parts[3]}
}

// restarted is one restart.
type restarted struct {
	// took is from the lease to the last custom resource verified.
	took float64
	// lease is from the start of the process to the lease.
	lease                float64
	unrepaired, statuses int
	// others are the objects that were written and had not been changed.
	others []string
}

func (b *Bench) restartOnce(ctx context.Context, l *large, targets []child) (restarted, error) {
	l.op.Stop(time.Minute)
	for _, c := range targets {
		if err := c.spoil(ctx, l.c.Wire); err != nil {
			return restarted{}, err
		}
	}
	if err := l.c.Quiet(ctx, settled, readyTimeout); err != nil {
		return restarted{}, err
	}
	mark, began := l.c.Audit.Mark(), time.Now()
	op, err := l.c.Run(ctx, b.Config.Operator, "mlkeeper", l.id.Kubeconfig, world.LongLease, oneController)
	if err != nil {
		return restarted{}, err
	}
	l.op = op
	l.sampler.stop()
	l.sampler = sample(op.Process)
	verified, err := b.verified(ctx, op, len(l.services))
	if err != nil {
		return restarted{}, err
	}
	if err := l.c.Quiet(ctx, settled, readyTimeout); err != nil {
		return restarted{}, err
	}
	entries, err := l.c.Audit.Entries(mark, l.id.User)
	if err != nil {
		return restarted{}, err
	}
	lease, ok := firstLease(entries)
	if !ok {
		return restarted{}, errors.New("the operator took no lease")
	}
	r := restarted{took: verified.Sub(lease).Seconds(), lease: lease.Sub(began).Seconds(), unrepaired: len(b.missedRepairs(ctx, l, targets))}
	r.others, r.statuses = unexpected(entries, targets)
	return r, nil
}

// verified waits until every custom resource had a pass, and returns when the last had. Without the metric that says so,
// the counter of passes is read as often as can be.
func (b *Bench) verified(ctx context.Context, op *world.Operator, services int) (time.Time, error) {
	const kind = `kind="TrustyAIService"`
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); {
		m, err := op.Metrics(ctx)
		now := time.Now()
		if err == nil && m.Sum(reconcilesMetric, kind) >= float64(services) {
			if !m.Has(verifiedMetric) {
				b.missing(verifiedMetric)
				return now, nil
			}
			// A pass that was counted twice must not hide one that is still to come, so the time must stand still.
			at := m.Sum(verifiedMetric, kind)
			if now.Sub(seconds(at)) > 2*time.Second {
				return seconds(at), nil
			}
		}
		if err := errors.Join(op.Running(), world.Pause(ctx, 20*time.Millisecond)); err != nil {
			return time.Time{}, err
		}
	}
	return time.Time{}, errors.New("not every custom resource was verified within 5 minutes")
}

// seconds turns the time of a metric into one of Go.
func seconds(unix float64) time.Time { return time.UnixMicro(int64(unix * 1e6)) }

// leads says that a manager wrote the lease of the leader, and not that by which it is a member of the shards.
func leads(e audit.Entry) bool {
	return e.Class() == audit.Lease && e.Name == world.LeaseName && e.Verb != "get" && e.OK()
}

// firstLease returns when the first write of the leader's lease was acknowledged.
func firstLease(entries []audit.Entry) (time.Time, bool) {
	for _, e := range entries {
		if leads(e) {
			return e.Done, true
		}
	}
	return time.Time{}, false
}

// unexpected returns what was written other than the targets, and how many writes went to the status of a custom
// resource, or to the Inventory, of which a child was repaired: the inventory in it follows the child.
func unexpected(entries []audit.Entry, targets []child) (others []string, statuses int) {
	wanted, spaces := map[audit.Object]bool{}, map[string]bool{}
	for _, c := range targets {
		wanted[c.object], spaces[spaceOf(c)] = true, true
	}
	for _, e := range audit.Writes(entries) {
		switch o := e.Object(); {
		case wanted[o]:
		case e.Resource == "trustyaiservices" && spaces[o.NS], e.Resource == "inventories":
			statuses++
		default:
			others = append(others, o.String())
		}
	}
	return others, statuses
}

// spaceOf is the namespace of the service that a child belongs to; one without a namespace has it in its path.
func spaceOf(c child) string {
	if c.object.NS != "" {
		return c.object.NS
	}
	// The name is mlkeeper:trustyai-proxy:<namespace>:<service>.
	if parts := strings.Split(c.object.Name, ":"); len(parts) == 4 {
		return parts[2]
	}
	return ""
}
