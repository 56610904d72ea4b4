package scenario

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"mlkeeper.dev/test/bench/internal/chart"
	"mlkeeper.dev/test/bench/internal/report"
	"mlkeeper.dev/test/bench/internal/stat"
	"mlkeeper.dev/test/bench/internal/world"
)

// memory reads the memory of the operator at three sizes, and again with many objects of others.
func (b *Bench) memory(ctx context.Context) error {
	l, err := b.bigEmpty(ctx)
	if err != nil {
		return err
	}
	var sizes, rss, heap []float64
	for _, objects := range []int{b.Config.Objects / 4, b.Config.Objects / 2, b.Config.Objects} {
		if err := b.grow(ctx, l, objects); err != nil {
			return err
		}
		wait := b.Config.MemoryWait
		if objects < b.Config.Objects {
			// The smaller sizes only give the slope: the garbage collector needs no five minutes for that.
			wait /= 5
		}
		r, h, err := b.readMemory(ctx, l.op, wait)
		if err != nil {
			return err
		}
		n, err := b.managed(ctx, l)
		if err != nil {
			return err
		}
		sizes, rss, heap = append(sizes, float64(n)), append(rss, stat.Median(r)), append(heap, h)
		if objects == b.Config.Objects {
			b.Result.Add(report.Measure{
				ID: "memory.total", What: fmt.Sprintf("memory (RssAnon) with %d managed objects", n), Value: stat.Median(r), Unit: "B", Samples: r,
				Statistic: fmt.Sprintf("median of %d readings, %s after convergence", len(r), wait), Detail: b.Result.Settings["large cluster"],
			})
		}
	}
	b.Result.Add(report.Measure{
		ID: "memory.slope", What: "memory (RssAnon) per managed object", Value: stat.Slope(sizes, rss), Unit: "B", Statistic: "least squares over three sizes",
		Detail: fmt.Sprintf("objects %.0f, RssAnon %s", sizes, mebibytes(rss)),
	})
	b.Result.Add(report.Measure{
		ID: "memory.slopeHeap", What: "live heap per managed object", Value: stat.Slope(sizes, heap), Unit: "B", Statistic: "least squares over three sizes",
		Detail: fmt.Sprintf("heap in use %s", mebibytes(heap)),
	})
	if err := b.profile(ctx, l.op, "heap?gc=1", "memory-heap.pprof"); err != nil {
		return err
	}
	if err := b.foreign(ctx, l); err != nil {
		return err
	}
	l.sampler.mu.Lock()
	defer l.sampler.mu.Unlock()
	c := chart.Chart{
		Title: "Memory over time", Kind: chart.Line, XLabel: "seconds since the start of the operator", YLabel: "RssAnon, MiB", Limit: 80,
		Series: []chart.Series{{Name: "mlkeeper", X: l.sampler.x, Y: l.sampler.y}},
	}
	for _, m := range l.sampler.marks {
		c.Marks = append(c.Marks, chart.Mark{X: m.x, Text: m.text})
	}
	b.Result.Charts = append(b.Result.Charts, c)
	return nil
}

func mebibytes(values []float64) []string {
	var out []string
	for _, v := range values {
		out = append(out, report.Number(v, "B"))
	}
	return out
}

// readMemory waits, and then reads RssAnon a few times, since the garbage collector moves it, and the heap in use.
func (b *Bench) readMemory(ctx context.Context, op *world.Operator, wait time.Duration) (rss []float64, heap float64, err error) {
	b.say("waiting %s for memory to settle", wait)
	if err := world.Pause(ctx, wait); err != nil {
		return nil, 0, err
	}
	readings, every := 30, 500*time.Millisecond
	if b.Config.Quick {
		readings, every = 3, 100*time.Millisecond
	}
	for range readings {
		v, err := op.RssAnon()
		if err != nil {
			return nil, 0, err
		}
		rss = append(rss, v)
		if err := world.Pause(ctx, every); err != nil {
			return nil, 0, err
		}
	}
	m, err := op.Metrics(ctx)
	return rss, m.Sum("go_memstats_heap_inuse_bytes"), err
}

// foreign makes Secrets and ConfigMaps of others, in the namespaces of the services, where the operator looks.
func (b *Bench) foreign(ctx context.Context, l *large) error {
	before, _, err := b.readMemory(ctx, l.op, 0)
	if err != nil {
		return err
	}
	b.say("making %d Secrets and ConfigMaps of others", b.Config.Foreign)
	began := time.Now()
	objects := make([]*unstructured.Unstructured, 0, b.Config.Foreign)
	for i := range b.Config.Foreign {
		meta := metav1.ObjectMeta{Namespace: l.services[i%len(l.services)].Namespace, Name: fmt.Sprintf("foreign-%05d", i)}
		// A kibibyte of content each, as a password or a small configuration has.
		content := fmt.Sprintf("%01024d", i)
		var o runtime.Object = &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: meta, Data: map[string]string{"content": content}}
		if i%2 == 0 {
			o = &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: meta, StringData: map[string]string{"content": content}}
		}
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return err
		}
		objects = append(objects, &unstructured.Unstructured{Object: fields})
	}
	l.sampler.mark("foreign objects come")
	if err := l.c.CreateAll(ctx, objects); err != nil {
		return err
	}
	l.sampler.mark(fmt.Sprintf("%d foreign", b.Config.Foreign))
	b.say("made them in %s", time.Since(began).Round(time.Second))
	after, _, err := b.readMemory(ctx, l.op, b.Config.MemoryWait)
	if err != nil {
		return err
	}
	b.Result.Add(report.Measure{
		ID: "memory.foreign", What: fmt.Sprintf("change of memory by %d foreign Secrets and ConfigMaps", b.Config.Foreign),
		Value: stat.Median(after) - stat.Median(before), Unit: "B", Statistic: "difference of medians",
		Detail: fmt.Sprintf("%s before, %s after %s", report.Number(stat.Median(before), "B"), report.Number(stat.Median(after), "B"), b.Config.MemoryWait),
	})
	return nil
}
