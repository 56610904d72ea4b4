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
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/manifest/manifesttest"
	"mlkeeper.dev/test/bench/internal/audit"
	"mlkeeper.dev/test/bench/internal/report"
	"mlkeeper.dev/test/bench/internal/stat"
	"mlkeeper.dev/test/bench/internal/world"
)

const (
	seldonPairs = 3
	// seldonIdle is how long the idle operator is looked at.
	seldonIdle      = 10 * time.Minute
	seldonNamespace = "seldon-bench"
	seldonPath      = "/apis/operator.seldon.io/v1alpha1/namespaces/" + seldonNamespace + "/seldonoperators/stack"
)

// seldonCharts are the stand-in charts of the components that are compared, with the names of their releases, and with what helm
// is told for them: by its defaults Seldon Deploy needs Argo CD, Istio and Knative.
var seldonCharts = []struct{ component, chart, version, release, set string }{
	{"core", "seldon-core-operator", "1.15.0", "seldon-core", ""},
	{"enterprise", "seldon-deploy", "2.0.0", "seldon-deploy", "gitops.argocd.enabled=false,requestLogger.create=false,virtualService.create=false"},
	{"analytics", "seldon-core-analytics", "1.15.0", "seldon-core-analytics", ""},
	{"catalogue", "postgresql", "12.1.2", "seldon-internal-postgres", ""},
	{"payloadstore", "opensearch", "2.8.0", "seldon-internal-opensearch", ""},
}

// uncompared is the component whose chart has APIs that Kubernetes serves no more, so that helm does not install it at all.
const uncompared = "analytics"

// compared is how many components are.
func compared() int { return len(seldonCharts) - 1 }

// seldonSpan is how long something took, in seconds, and how many requests.
type seldonSpan struct{ seconds, requests float64 }

// seldon compares a SeldonOperator with helm install and helm upgrade of the same charts.
func (b *Bench) seldon(ctx context.Context) error {
	repository, err := b.chartRepository()
	if err != nil {
		return err
	}
	defer repository.Close()
	var install, same [2][]seldonSpan
	for i := range b.few(seldonPairs) {
		for side, run := range []func(context.Context, string) (seldonSpan, seldonSpan, error){b.helm, b.seldonOperator} {
			first, again, err := run(ctx, repository.URL)
			if err != nil {
				return fmt.Errorf("side %d of pair %d: %w", side, i+1, err)
			}
			install[side], same[side] = append(install[side], first), append(same[side], again)
		}
		h, o := install[0][i], install[1][i]
		b.say("pair %d: install %.2f s over %.2f s, %.0f requests over %.0f; no change %.4f s over %.2f s", i+1, o.seconds, h.seconds, o.requests, h.requests,
			same[1][i].seconds, same[0][i].seconds)
	}
	seconds, requests := func(s seldonSpan) float64 { return s.seconds }, func(s seldonSpan) float64 { return s.requests }
	add := func(id, what string, of [2][]seldonSpan, value func(seldonSpan) float64) {
		var r, over, under []float64
		for i := range of[0] {
			over, under = append(over, value(of[1][i])), append(under, value(of[0][i]))
			r = append(r, value(of[1][i])/value(of[0][i]))
		}
		b.Result.Add(report.Measure{
			ID: "seldon." + id, What: what, Value: stat.Median(r), Unit: "×", Samples: r, Statistic: fmt.Sprintf("median of %d pairs", len(r)),
			Detail: fmt.Sprintf("operator %.3f, helm %.3f (medians)", stat.Median(over), stat.Median(under)),
		})
	}
	add("install", "four charts until every object is accepted, over helm install", install, seconds)
	add("installRequests", "requests for it, over those of helm install", install, requests)
	add("same", "a pass over four charts without a change, over helm upgrade", same, seconds)
	add("sameRequests", "requests for it, over those of helm upgrade", same, requests)
	return b.seldonIdle(ctx, repository.URL)
}

// chartRepository serves the charts.
func (b *Bench) chartRepository() (*httptest.Server, error) {
	var charts []manifesttest.Chart
	for _, one := range seldonCharts {
		files, err := manifesttest.Folder(filepath.Join(b.Config.Charts, one.chart))
		if err != nil {
			return nil, err
		}
		raw, err := manifesttest.Pack(files)
		if err != nil {
			return nil, err
		}
		charts = append(charts, manifesttest.Chart{Name: one.chart, Version: one.version, Archive: raw})
	}
	return httptest.NewServer(manifesttest.ChartRepository(charts...)), nil
}

// helm installs the charts with helm install, and upgrades them to what they are.
func (b *Bench) helm(ctx context.Context, _ string) (install, same seldonSpan, err error) {
	c, id, err := b.bootTrusted(ctx, seldonNamespace)
	if err != nil {
		return install, same, err
	}
	defer c.Stop()
	if install, err = b.helmRun(ctx, c, id, "install"); err == nil {
		same, err = b.helmRun(ctx, c, id, "upgrade")
	}
	return install, same, err
}

// helmRun runs a command of helm for every chart, and measures it.
func (b *Bench) helmRun(ctx context.Context, c *world.Cluster, id *world.Identity, command string) (seldonSpan, error) {
	mark, began := c.Audit.Mark(), time.Now()
	for _, one := range seldonCharts {
		if one.component == uncompared {
			continue
		}
		helm := exec.CommandContext(ctx, b.Config.Helm, command, one.release, filepath.Join(b.Config.Charts, one.chart),
			"--namespace", seldonNamespace, "--kubeconfig", id.Kubeconfig, "--set", one.set)
		helm.Env = append(os.Environ(), "HELM_CONFIG_HOME="+c.Dir, "HELM_CACHE_HOME="+c.Dir, "HELM_DATA_HOME="+c.Dir)
		if out, err := helm.CombinedOutput(); err != nil {
			return seldonSpan{}, fmt.Errorf("helm %s %s: %w\n%s", command, one.chart, err, out)
		}
	}
	took := time.Since(began).Seconds()
	if err := world.Pause(ctx, time.Second); err != nil {
		return seldonSpan{}, err
	}
	entries, err := c.Audit.Entries(mark, id.User)
	return seldonSpan{took, float64(len(entries))}, err
}

// seldonOperator applies a SeldonOperator with the same charts, and asks to reconcile it when nothing has changed.
func (b *Bench) seldonOperator(ctx context.Context, repository string) (install, same seldonSpan, err error) {
	c, id, err := b.bootTrusted(ctx, seldonNamespace)
	if err != nil {
		return install, same, err
	}
	defer c.Stop()
	op, err := b.runSeldon(ctx, c, id, repository)
	if err != nil {
		return install, same, err
	}
	defer op.Stop(30 * time.Second)
	if err := errors.Join(c.Apply(ctx, seldonVolumes()), c.Quiet(ctx, settled, readyTimeout)); err != nil {
		return install, same, err
	}
	stack := seldonStack("catalogue", "payloadstore")
	mark, began := c.Audit.Mark(), time.Now()
	if err := errors.Join(c.Apply(ctx, []*unstructured.Unstructured{stack}), b.seldonAccepted(ctx, c, op)); err != nil {
		return install, same, err
	}
	if err := c.Quiet(ctx, settled, readyTimeout); err != nil {
		return install, same, err
	}
	entries, err := c.Audit.Entries(mark, id.User)
	if err != nil {
		return install, same, err
	}
	install.requests = float64(len(entries))
	for _, e := range audit.Writes(entries) {
		if e.OK() && e.Subresource == "" && e.Resource != "inventories" && e.Verb != "update" {
			install.seconds = max(install.seconds, e.Done.Sub(began).Seconds())
		}
	}
	// Only of a stack that is Ready the status waits for the answers of all repositories.
	if err := errors.Join(b.seldonReady(ctx, c, op), c.Quiet(ctx, settled, readyTimeout)); err != nil {
		return install, same, err
	}
	same, err = b.seldonAgain(ctx, c, id)
	return install, same, err
}

// runSeldon runs the operator with the charts of a repository, and waits until it leads.
func (b *Bench) runSeldon(ctx context.Context, c *world.Cluster, id *world.Identity, repository string) (*world.Operator, error) {
	flags := []string{"--controllers=seldon", "--allow-operator-privileges=seldon", "--source-allow-cidr", "127.0.0.0/8", "--source-allow-http", "--source-dir", filepath.Join(c.Dir, "sources")}
	for _, one := range seldonCharts {
		flags = append(flags, "--seldon-chart", fmt.Sprintf("%s=%s,%s,%s", one.component, repository, one.chart, one.version))
	}
	op, err := c.Run(ctx, b.Config.Operator, "mlkeeper", id.Kubeconfig, world.DefaultLease, flags...)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(op.AwaitReady(ctx, time.Minute), op.AwaitLeading(ctx, time.Minute), c.Quiet(ctx, settled, readyTimeout)); err != nil {
		op.Stop(30 * time.Second)
		return nil, err
	}
	return op, nil
}

// seldonStack is a SeldonOperator with some switches on.
func seldonStack(switches ...string) *unstructured.Unstructured {
	enable := map[string]any{}
	for _, one := range switches {
		enable[one] = true
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "operator.seldon.io/v1alpha1", "kind": "SeldonOperator", "metadata": map[string]any{"name": "stack", "namespace": seldonNamespace},
		"spec": map[string]any{"enable": enable},
	}}
}

// seldonAccepted waits until every component has all of its objects.
func (b *Bench) seldonAccepted(ctx context.Context, c *world.Cluster, op *world.Operator) error {
	return b.seldonUntil(ctx, c, op, func(u *unstructured.Unstructured) error {
		components, _, _ := unstructured.NestedSlice(u.Object, "status", "components")
		made := 0
		for _, item := range components {
			one, _ := item.(map[string]any)
			if phase := one["phase"]; phase == "Progressing" || phase == "Ready" {
				made++
			}
		}
		if made < len(components) || made < compared() {
			return fmt.Errorf("%d of %d components are made", made, len(components))
		}
		return nil
	})
}

// seldonUntil waits until the SeldonOperator is as it should be.
func (b *Bench) seldonUntil(ctx context.Context, c *world.Cluster, op *world.Operator, right func(*unstructured.Unstructured) error) error {
	return until(ctx, func() error {
		u, err := c.Read(ctx, seldonPath)
		if err == nil {
			err = right(u)
		}
		return err
	}, op)
}

// seldonAgain asks for a pass, and measures from the acknowledgement until the status tells of it.
func (b *Bench) seldonAgain(ctx context.Context, c *world.Cluster, id *world.Identity) (seldonSpan, error) {
	body := fmt.Sprintf(`{"metadata":{"annotations":{%q:"again"}}}`, keeper.ReconcileAtAnnotation)
	mark := c.Audit.Mark()
	if _, err := c.Wire.Do(ctx, http.MethodPatch, seldonPath, "application/merge-patch+json", []byte(body)); err != nil {
		return seldonSpan{}, err
	}
	began := time.Now()
	if err := c.Quiet(ctx, settled, readyTimeout); err != nil {
		return seldonSpan{}, err
	}
	u, err := c.Read(ctx, seldonPath)
	if err != nil {
		return seldonSpan{}, err
	}
	if told, _, _ := unstructured.NestedString(u.Object, "status", "lastHandledReconcileAt"); told != "again" {
		return seldonSpan{}, fmt.Errorf("it was not reconciled again: its status tells %q", told)
	}
	entries, err := c.Audit.Entries(mark, id.User)
	out := seldonSpan{requests: float64(len(entries))}
	for _, e := range audit.Writes(entries) {
		out.seconds = max(out.seconds, e.Done.Sub(began).Seconds())
	}
	return out, err
}
