package scenario

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing/fstest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/manifest/manifesttest"
	"mlkeeper.dev/test/bench/internal/report"
	"mlkeeper.dev/test/bench/internal/world"
)

const (
	// bombNamespaces are as many as can hold all slots for fetches of the manager together.
	bombNamespaces = 4
	// slowSources are the KfDefs of each namespace whose archive never comes.
	slowSources = 8
	// provoked is between two requests to reconcile a KfDef now, which end its pause.
	provoked = 100 * time.Millisecond
)

// bombs measures Tfservs of a tenant beside KfDefs of another, all of which take more than there is: applications that become too many objects or
// too large, and archives that come a byte at a time. Each is asked to be reconciled again and again. With one manager for both, over a
// manager for each, as in fairness: what is rendered keeps the machine busy in both.
func (b *Bench) bombs(ctx context.Context) error {
	slow := httptest.NewServer(http.HandlerFunc(drip))
	defer slow.Close()
	c, id, err := b.bootTrusted(ctx, "bombs")
	if err != nil {
		return err
	}
	defer c.Stop()
	kfdefs := func(controllers ...string) []string {
		return append(controllers, "--controllers=kubeflow", "--allow-operator-privileges=kubeflow",
			"--source-map=https://example.test="+slow.URL, "--source-allow-cidr=127.0.0.0/8")
	}
	shared, err := b.managerWith(ctx, c, id, "shared", kfdefs("--controllers=tfserving")...)
	if err != nil {
		return err
	}
	defer shared.Stop(30 * time.Second)
	f := fair{user: id.User}
	if f.alone, err = b.neighbour(ctx, c, f.user, shared, "alone"); err != nil {
		return err
	}
	given, err := worst()
	if err != nil {
		return err
	}
	if err := c.Apply(ctx, given); err != nil {
		return err
	}
	memory := peakOf(shared.Process)
	f.beside, err = b.besideBombs(ctx, c, shared, &f, "beside")
	peak := memory()
	if err == nil {
		err = b.told(ctx, c, shared)
	}
	if err != nil {
		return err
	}
	shared.Stop(30 * time.Second)
	theirs, err := b.managerWith(ctx, c, id, "theirs", kfdefs()...)
	if err != nil {
		return err
	}
	defer theirs.Stop(30 * time.Second)
	own, err := b.managerWith(ctx, c, id, "own", "--controllers=tfserving")
	if err != nil {
		return err
	}
	defer own.Stop(30 * time.Second)
	if f.apart, err = b.besideBombs(ctx, c, own, &f, "apart"); err != nil {
		return err
	}
	b.reportBombs(&f, peak)
	return nil
}

// drip accepts every request, and answers with a byte a second.
func drip(w http.ResponseWriter, r *http.Request) {
	for world.Pause(r.Context(), time.Second) == nil {
		if _, err := w.Write([]byte{0x1f}); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
	}
}

// worst are namespaces with KfDefs that take more than there is.
func worst() ([]*unstructured.Unstructured, error) {
	archive, err := manifesttest.Pack(bombFiles())
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for i := range bombNamespaces {
		ns := fmt.Sprintf("bombs-%d", i)
		out = append(out, namespace(ns), archived(ns, archive), kfDefOf(ns, "many", archiveURI, "many/"+bombLast), kfDefOf(ns, "large", archiveURI, "large"))
		for j := range slowSources {
			// Different addresses, since one that is fetched already is waited for.
			out = append(out, kfDefOf(ns, fmt.Sprintf("slow-%d", j), fmt.Sprintf("https://example.test/%s/%d.tar.gz", ns, j), "web"))
		}
	}
	return out, nil
}

// bombLast is the folder that has twice as many objects as the one before it, and so on.
const bombLast = "17"

// bombFiles are an application of 131,072 objects, and one whose text doubles with each of its replacements.
func bombFiles() fstest.MapFS {
	files := fstest.MapFS{"many/0/kustomization.yaml": {Data: []byte("resources: [a.yaml]\n")}}
	object := []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: x}}\n")
	files["many/0/a.yaml"] = &fstest.MapFile{Data: object}
	files["large/a.yaml"] = &fstest.MapFile{Data: object}
	for i := 1; i <= 17; i++ {
		for _, half := range []string{"left", "right"} {
			files[fmt.Sprintf("many/%d/%s/kustomization.yaml", i, half)] = &fstest.MapFile{Data: fmt.Appendf(nil, "namePrefix: %s-\nresources: [../../%d]\n", half, i-1)}
		}
		files[fmt.Sprintf("many/%d/kustomization.yaml", i)] = &fstest.MapFile{Data: []byte("resources: [left, right]\n")}
	}
	double := "- source: {kind: ConfigMap, fieldPath: data.a}\n  targets: [{select: {kind: ConfigMap}, fieldPaths: [data.a], options: {delimiter: /, index: 100}}]\n"
	files["large/kustomization.yaml"] = &fstest.MapFile{Data: []byte("resources: [a.yaml]\nreplacements:\n" + strings.Repeat(double, 40))}
	return files
}

// provoke has each of the KfDefs reconciled now, one after the other until the context ends.
func provoke(ctx context.Context, wire *world.Wire) tenantChanges {
	names := []string{"many", "large"}
	for j := range slowSources {
		names = append(names, fmt.Sprintf("slow-%d", j))
	}
	return patchAgain(ctx, wire, provoked, func(n int) (path, body string) {
		return fmt.Sprintf("/apis/kfdef.apps.kubeflow.org/v1/namespaces/bombs-%d/kfdefs/%s", n%bombNamespaces, names[n/bombNamespaces%len(names)]),
			fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, keeper.ReconcileAtAnnotation, n)
	})
}

// besideBombs measures the tenant while the KfDefs are provoked, once they have been for a while.
func (b *Bench) besideBombs(ctx context.Context, c *world.Cluster, op *world.Operator, f *fair, name string) (neighbour, error) {
	provoking, stop := context.WithCancel(ctx)
	var made tenantChanges
	var wait sync.WaitGroup
	wait.Go(func() { made = provoke(provoking, c.Wire) })
	err := world.Pause(ctx, settled)
	var measured neighbour
	if err == nil {
		measured, err = b.neighbour(ctx, c, f.user, op, name)
	}
	stop()
	wait.Wait()
	f.changes = append(f.changes, made.n)
	return measured, errors.Join(err, made.err)
}

// told waits until the status of an application of each sort says why it is not rendered: otherwise nothing was measured.
func (b *Bench) told(ctx context.Context, c *world.Cluster, op *world.Operator) error {
	for _, name := range []string{"many", "large"} {
		if err := until(ctx, func() error {
			u, err := c.Read(ctx, "/apis/kfdef.apps.kubeflow.org/v1/namespaces/bombs-0/kfdefs/"+name)
			if err != nil {
				return err
			}
			conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
			for _, item := range conditions {
				if is, _ := item.(map[string]any); is["type"] == "Stalled" && strings.Contains(fmt.Sprint(is["message"]), " takes more than ") {
					b.say("the KfDef %s: %v", name, is["message"])
					return nil
				}
			}
			return fmt.Errorf("the KfDef %s is not Stalled: %v", name, conditions)
		}, op); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bench) reportBombs(f *fair, peak float64) {
	f.report(b, "bombs", "beside KfDefs that take more than there is", fmt.Sprintf("%d and %d requests to reconcile them meanwhile", f.changes[0], f.changes[1]))
	b.Result.Add(report.Measure{
		ID: "bombs.memory", What: "memory (RssAnon) of the manager and what it renders in, at its peak beside them", Value: peak, Unit: "B", Statistic: "largest of the run",
	})
}
