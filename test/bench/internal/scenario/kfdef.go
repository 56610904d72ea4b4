package scenario

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/test/bench/internal/audit"
	"mlkeeper.dev/test/bench/internal/report"
	"mlkeeper.dev/test/bench/internal/stat"
	"mlkeeper.dev/test/bench/internal/world"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/thirdparty"
)

const (
	kfDefPairs = 3
	// kfDefLoops is after how many attempts kubectl is given up.
	kfDefLoops = 20
	kfDefPath  = "/apis/kfdef.apps.kubeflow.org/v1/namespaces/kubeflow/kfdefs/kubeflow"
)

// kubeflow is a KfDef with its archive, served on this machine in place of its address.
type kubeflow struct {
	server *httptest.Server
	asked  atomic.Int64
	// maps are what the operator is told of where things come from.
	maps []string
	// manifest is the KfDef with a name, objects what it renders, and secrets what the controllers in it make.
	manifest string
	objects  []byte
	secrets  []thirdparty.Secret
}

// flags are what the operator is told about the archive.
func (k *kubeflow) flags() []string {
	out := []string{"--source-allow-cidr", "127.0.0.0/8"}
	for _, one := range k.maps {
		out = append(out, "--source-map", one)
	}
	return out
}

// serve serves an archive in place of an address.
func (k *kubeflow) serve(address string, archive http.HandlerFunc) {
	k.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.asked.Add(1)
		w.Header().Set("ETag", `"one"`)
		archive(w, r)
	}))
	k.maps = append(k.maps, address+"="+k.server.URL)
}

// render has the operator's own command render the objects.
func (b *Bench) render(ctx context.Context, k *kubeflow) error {
	render := exec.CommandContext(ctx, b.Config.Operator, append([]string{"render", "--offline", "--show-secrets", "-f", "-"}, k.flags()...)...)
	render.Stdin = strings.NewReader(k.manifest)
	var failure strings.Builder
	render.Stderr = &failure
	var err error
	if k.objects, err = render.Output(); err != nil {
		k.server.Close()
		return fmt.Errorf("render the KfDef: %w\n%s", err, failure.String())
	}
	return nil
}

// kfdef compares the KfDef of Kubeflow 1.2 with the tools that people use in its place.
func (b *Bench) kfdef(ctx context.Context) error {
	k, err := b.kubeflow(ctx)
	if err != nil {
		return err
	}
	defer k.server.Close()
	var baselines, operators, ratios, nows, peaks, bare []float64
	for pair := range b.few(kfDefPairs) {
		baseline, err := b.kubectl(ctx, k)
		if err != nil {
			return fmt.Errorf("kubectl of pair %d: %w", pair+1, err)
		}
		writes, err := b.bareKubeflow(ctx, k)
		if err != nil {
			return fmt.Errorf("bare writes of pair %d: %w", pair+1, err)
		}
		applied, now, peak, err := b.keeper(ctx, k)
		if err != nil {
			return fmt.Errorf("operator of pair %d: %w", pair+1, err)
		}
		baselines, operators, ratios = append(baselines, baseline), append(operators, applied), append(ratios, applied/baseline)
		for _, n := range now {
			nows = append(nows, n/baseline)
		}
		peaks, bare = append(peaks, peak), append(bare, applied/writes)
		b.say("pair %d: %.1f s over %.1f s = %.3f, bare writes %.1f s, reconcile now %.3f s, at most %.0f MiB", pair+1, applied, baseline, applied/baseline,
			writes, stat.Median(now), peak/(1<<20))
	}
	detail := fmt.Sprintf("seconds of the operator %.1f, of kubectl %.1f", operators, baselines)
	b.Result.Add(report.Measure{
		ID: "kfdef.apply", What: "Kubeflow 1.2 until every object is accepted", Value: stat.Median(ratios), Unit: "×", Samples: ratios,
		Statistic: fmt.Sprintf("median of %d pairs", len(ratios)), Detail: detail,
	})
	b.Result.Add(report.Measure{
		ID: "kfdef.bare", What: "the same over bare writes of the objects", Value: stat.Median(bare), Unit: "×", Samples: bare,
		Statistic: fmt.Sprintf("median of %d pairs", len(bare)),
	})
	b.Result.Add(report.Measure{
		ID: "kfdef.now", What: "Kubeflow 1.2, reconcile now with the archive revalidated", Value: stat.Median(nows), Unit: "×", Samples: nows,
		Statistic: fmt.Sprintf("median of %d", len(nows)), Detail: detail,
	})
	b.Result.Add(report.Measure{
		ID: "kfdef.memory", What: "memory (RssAnon) at its peak with Kubeflow 1.2", Value: stat.Summarize(peaks).Max, Unit: "B", Samples: peaks,
		Statistic: "largest of all runs",
	})
	return b.neighbours(ctx)
}

// kubeflow serves the archive of Kubeflow 1.2 and renders the objects.
func (b *Bench) kubeflow(ctx context.Context) (*kubeflow, error) {
	raw, err := os.ReadFile(filepath.Join(b.Config.Kubeflow, "kfctl_istio_dex.v1.2.0.yaml"))
	if err != nil {
		return nil, err
	}
	k := &kubeflow{
		manifest: strings.Replace(string(raw), "metadata:\n", "metadata:\n  name: kubeflow\n", 1), secrets: thirdparty.Kubeflow12,
	}
	k.serve("https://github.com", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, filepath.Join(b.Config.Kubeflow, "manifests-1.2.0.tar.gz"))
	})
	return k, b.render(ctx, k)
}

// bootKubeflow boots a cluster on which the controllers of a Kubeflow make their Secrets, and returns what ends both.
func (b *Bench) bootKubeflow(ctx context.Context, k *kubeflow) (*world.Cluster, *world.Identity, func(), error) {
	c, id, err := b.bootTrusted(ctx, "kubeflow")
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := thirdparty.Run(ctx, c.Client, k.secrets); err != nil {
			b.say("the controllers of Kubeflow failed: %v", err)
		}
	}()
	return c, id, func() {
		cancel()
		<-done
		c.Stop()
	}, nil
}

// kubectl returns how many seconds kustomize and kubectl take until every object is accepted.
func (b *Bench) kubectl(ctx context.Context, k *kubeflow) (float64, error) {
	c, _, stop, err := b.bootKubeflow(ctx, k)
	if err != nil {
		return 0, err
	}
	defer stop()
	dir := filepath.Join(c.Dir, "objects")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return 0, err
	}
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "objects.yaml"), k.objects, 0o600),
		os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte("resources: [objects.yaml]\n"), 0o600),
	); err != nil {
		return 0, err
	}
	script := `"$1" build "$2" | "$3" kubectl --dir "$4" apply --server-side --force-conflicts -f - >/dev/null`
	began := time.Now()
	for attempt := range kfDefLoops {
		out, err := exec.CommandContext(ctx, "bash", "-c", "set -o pipefail; "+script, "bash", b.Config.Kustomize, dir, b.Config.Devcluster, c.Dir).CombinedOutput()
		if err == nil {
			b.say("kubectl succeeded at attempt %d", attempt+1)
			return time.Since(began).Seconds(), nil
		}
		if attempt == kfDefLoops-1 {
			return 0, fmt.Errorf("kubectl does not succeed: %w\n%s", err, out)
		}
	}
	return 0, nil
}

// keeper returns how many seconds the operator takes until every object is accepted, how many it takes to reconcile now, and
// the most memory it used.
func (b *Bench) keeper(ctx context.Context, k *kubeflow) (applied float64, now []float64, peak float64, err error) {
	c, id, stop, err := b.bootKubeflow(ctx, k)
	if err != nil {
		return 0, nil, 0, err
	}
	defer stop()
	op, err := c.Run(ctx, b.Config.Operator, "mlkeeper", id.Kubeconfig, world.DefaultLease,
		append(k.flags(), "--controllers=kubeflow", "--allow-operator-privileges=kubeflow", "--source-dir", filepath.Join(c.Dir, "sources"))...)
	if err != nil {
		return 0, nil, 0, err
	}
	defer op.Stop(30 * time.Second)
	if err := errors.Join(op.AwaitReady(ctx, time.Minute), op.AwaitLeading(ctx, time.Minute)); err != nil {
		return 0, nil, 0, err
	}
	memory := peakOf(op.Process)
	mark := c.Audit.Mark()
	objects, err := cluster.Parse(k.manifest)
	if err != nil {
		return 0, nil, 0, err
	}
	began := time.Now()
	if err := c.Apply(ctx, objects); err != nil {
		return 0, nil, 0, err
	}
	if err := b.accepted(ctx, c, op); err != nil {
		return 0, nil, 0, err
	}
	if err := c.Quiet(ctx, settled, readyTimeout); err != nil {
		return 0, nil, 0, err
	}
	entries, err := c.Audit.Entries(mark, id.User)
	if err != nil {
		return 0, nil, 0, err
	}
	for _, e := range audit.Writes(entries) {
		if e.OK() && e.Subresource == "" && e.Resource != "inventories" && e.Verb != "update" {
			applied = max(applied, e.Done.Sub(began).Seconds())
		}
	}
	for i := range 5 {
		took, err := b.reconcileNow(ctx, c, k, fmt.Sprint(i))
		if err != nil {
			return 0, nil, 0, err
		}
		now = append(now, took)
	}
	return applied, now, memory(), nil
}

// accepted waits until no application lacks an object.
func (b *Bench) accepted(ctx context.Context, c *world.Cluster, op *world.Operator) error {
	return until(ctx, func() error {
		status, err := b.statusOf(ctx, c)
		if err == nil && len(status) == 0 {
			err = errors.New("there is no status")
		}
		for _, a := range status {
			if strings.HasSuffix(a.Message, " to exist") || a.Phase == "Pending" || a.Phase == "Failed" {
				err = fmt.Errorf("not every object is there: %s: %s", a.Name, a.Message)
			}
		}
		return err
	}, op)
}

// applicationStatus is the little of an application's status that is needed.
type applicationStatus struct{ Name, Phase, Message string }

func (b *Bench) statusOf(ctx context.Context, c *world.Cluster) ([]applicationStatus, error) {
	u, err := c.Read(ctx, kfDefPath)
	if err != nil {
		return nil, err
	}
	var out []applicationStatus
	applications, _, _ := unstructured.NestedSlice(u.Object, "status", "applications")
	for _, item := range applications {
		a, _ := item.(map[string]any)
		text := func(field string) string { s, _ := a[field].(string); return s }
		out = append(out, applicationStatus{Name: text("name"), Phase: text("phase"), Message: text("message")})
	}
	return out, nil
}

// reconcileNow asks for it, and returns how many seconds it takes until the status tells of it. The archive must have been
// asked for.
func (b *Bench) reconcileNow(ctx context.Context, c *world.Cluster, k *kubeflow, value string) (float64, error) {
	asked := k.asked.Load()
	body := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, keeper.ReconcileAtAnnotation, value)
	began := time.Now()
	if _, err := c.Wire.Do(ctx, "PATCH", kfDefPath, "application/merge-patch+json", []byte(body)); err != nil {
		return 0, err
	}
	for deadline := began.Add(time.Minute); time.Now().Before(deadline); {
		u, err := c.Read(ctx, kfDefPath)
		if err != nil {
			return 0, err
		}
		told, _, _ := unstructured.NestedString(u.Object, "status", "lastHandledReconcileAt")
		if told == value && k.asked.Load() > asked {
			return time.Since(began).Seconds(), nil
		}
		if err := world.Pause(ctx, 5*time.Millisecond); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("it was not reconciled within a minute; the archive was asked for %d times", k.asked.Load()-asked)
}

// peakOf reads the memory of a process and of those that it started until the returned function is called, which returns the most it saw.
func peakOf(p *world.Process) func() float64 {
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	most := 0.0
	go func() {
		for world.Pause(ctx, 200*time.Millisecond) == nil {
			rss, err := p.RssAnonOfAll()
			if err != nil {
				return
			}
			mu.Lock()
			most = max(most, rss)
			mu.Unlock()
		}
	}()
	return func() float64 {
		cancel()
		mu.Lock()
		defer mu.Unlock()
		return most
	}
}

// neighbours measures eight small KfDefs alone, and beside two that cannot come up.
func (b *Bench) neighbours(ctx context.Context) error {
	var took [2]float64
	for i, bad := range []bool{false, true} {
		seconds, err := b.eight(ctx, bad)
		if err != nil {
			return fmt.Errorf("small KfDefs, with bad ones %v: %w", bad, err)
		}
		took[i] = seconds
	}
	b.Result.Add(report.Measure{
		ID: "kfdef.neighbours", What: "eight small KfDefs beside two that fail, over eight alone", Value: took[1] / took[0], Unit: "×",
		Statistic: "one pair", Detail: fmt.Sprintf("%.2f s beside, %.2f s alone", took[1], took[0]),
	})
	return nil
}

// eight returns how many seconds eight small KfDefs take until all are Ready.
func (b *Bench) eight(ctx context.Context, bad bool) (float64, error) {
	// A server that accepts and never answers.
	hang := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hang.Close()
	c, id, err := b.bootTrusted(ctx, "kubeflow")
	if err != nil {
		return 0, err
	}
	defer c.Stop()
	op, err := c.Run(ctx, b.Config.Operator, "mlkeeper", id.Kubeconfig, world.DefaultLease, "--controllers=kubeflow", "--allow-operator-privileges=kubeflow",
		"--source-map", "https://example.test="+hang.URL, "--source-allow-cidr", "127.0.0.0/8")
	if err != nil {
		return 0, err
	}
	defer op.Stop(30 * time.Second)
	if err := errors.Join(op.AwaitReady(ctx, time.Minute), op.AwaitLeading(ctx, time.Minute)); err != nil {
		return 0, err
	}
	all, err := smallKfDefs(8, bad)
	if err != nil {
		return 0, err
	}
	var given, kfdefs []*unstructured.Unstructured
	for _, u := range all {
		if u.GetKind() == "KfDef" {
			kfdefs = append(kfdefs, u)
		} else {
			given = append(given, u)
		}
	}
	if err := errors.Join(c.Apply(ctx, given), c.Quiet(ctx, settled, readyTimeout)); err != nil {
		return 0, err
	}
	follower, err := c.Follow(ctx, "/apis/kfdef.apps.kubeflow.org/v1/kfdefs", isReady, nil)
	if err != nil {
		return 0, err
	}
	defer follower.Stop()
	began := time.Now()
	if err := c.CreateAll(ctx, kfdefs); err != nil {
		return 0, err
	}
	if err := follower.Await(ctx, 8, readyTimeout, op.Running); err != nil {
		return 0, err
	}
	return time.Since(began).Seconds(), nil
}
