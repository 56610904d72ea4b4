package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"mlkeeper.dev/internal/manifest/manifesttest"
	"mlkeeper.dev/test/bench/internal/report"
	"mlkeeper.dev/test/bench/internal/stat"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/thirdparty"
)

// The sample KfDef of Kubeflow 1.11, and the address that its manifests are served at in place of their repository.
const (
	sampleKfDef      = "config/samples/kfdef-kubeflow-1.11.yaml"
	manifestsAddress = "https://manifests.test"
)

// repository is the address of the manifests in the sample, account the line that names its ServiceAccount.
var (
	repository = regexp.MustCompile(`git::https://github\.com/kubeflow/manifests\?ref=[0-9a-f]{40}`)
	account    = regexp.MustCompile(`(?m)^  serviceAccountName: .*\n`)
)

// kfdef111 compares the sample KfDef of Kubeflow 1.11, of a checkout of its manifests, with kustomize and kubectl.
func (b *Bench) kfdef111(ctx context.Context) error {
	k, err := b.kubeflow111(ctx)
	if err != nil {
		return err
	}
	defer k.server.Close()
	var baselines, operators, ratios, peaks []float64
	for pair := range b.few(kfDefPairs) {
		baseline, err := b.kubectl(ctx, k)
		if err != nil {
			return fmt.Errorf("kubectl of pair %d: %w", pair+1, err)
		}
		applied, _, peak, err := b.keeper(ctx, k)
		if err != nil {
			return fmt.Errorf("operator of pair %d: %w", pair+1, err)
		}
		baselines, operators, ratios = append(baselines, baseline), append(operators, applied), append(ratios, applied/baseline)
		peaks = append(peaks, peak)
		b.say("pair %d: %.1f s over %.1f s = %.3f, at most %.0f MiB", pair+1, applied, baseline, applied/baseline, peak/(1<<20))
	}
	b.Result.Add(report.Measure{
		ID: "kfdef111.apply", What: "Kubeflow 1.11 until every object is accepted", Value: stat.Median(ratios), Unit: "×", Samples: ratios,
		Statistic: fmt.Sprintf("median of %d pairs", len(ratios)),
		Detail:    fmt.Sprintf("seconds of the operator %.1f, of kubectl %.1f", operators, baselines),
	})
	b.Result.Add(report.Measure{
		ID: "kfdef111.memory", What: "memory (RssAnon) at its peak with Kubeflow 1.11", Value: stat.Summarize(peaks).Max, Unit: "B", Samples: peaks,
		Statistic: "largest of all runs",
	})
	return nil
}

// kubeflow111 serves the checkout and renders the objects of the sample. What the kustomizations refer to by address comes from the network, or
// from where --manifests-map says.
func (b *Bench) kubeflow111(ctx context.Context) (*kubeflow, error) {
	raw, err := os.ReadFile(sampleKfDef)
	if err != nil {
		return nil, err
	}
	if !repository.Match(raw) {
		return nil, fmt.Errorf("%s has no repository of the manifests", sampleKfDef)
	}
	files, err := manifesttest.Folder(b.Config.Manifests)
	if err != nil {
		return nil, err
	}
	for name := range files {
		if strings.HasPrefix(name, ".git/") {
			delete(files, name)
		}
	}
	if files[filepath.Join("example", "kustomization.yaml")] == nil {
		return nil, errors.New(b.Config.Manifests + " is no checkout of github.com/kubeflow/manifests")
	}
	archive, err := manifesttest.Pack(files)
	if err != nil {
		return nil, err
	}
	manifest := account.ReplaceAllString(repository.ReplaceAllLiteralString(string(raw), manifestsAddress+"/manifests.tar.gz"), "")
	manifest = strings.Replace(manifest, "  name: kubeflow\n", "  name: kubeflow\n  namespace: kubeflow\n", 1)
	k := &kubeflow{manifest: manifest, maps: b.Config.ManifestsMap}
	k.serve(manifestsAddress, func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "manifests.tar.gz", time.Time{}, bytes.NewReader(archive))
	})
	if err := b.render(ctx, k); err != nil {
		return nil, err
	}
	objects, err := cluster.Parse(string(k.objects))
	if err != nil {
		k.server.Close()
		return nil, err
	}
	k.secrets = thirdparty.OfCertificates(objects)
	return k, nil
}
