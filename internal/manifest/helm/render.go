package helm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/internal/manifest/bounded"
	"mlkeeper.dev/internal/manifest/kustomize"
	"mlkeeper.dev/internal/manifest/worker"
)

// maxTime is how long one rendering may take. The largest of Seldon's charts takes half a second.
const maxTime = 30 * time.Second

// Input is everything that a rendering depends on.
type Input struct {
	Chart              *Chart
	Release, Namespace string
	Values             map[string]any
	// Revision counts the renderings of the release for another chart or other values, the first one being 1. Upgrade says that an earlier
	// one was installed, as .Release.IsUpgrade tells templates, and that the hooks are those of an upgrade.
	Revision int
	Upgrade  bool
	Cluster  Cluster
	// Generated are the credentials that templates generate.
	Generated GeneratedCredentials
	// Secret says that some of the values are secret. No text of an error quotes values then, nor what templates are told of Secrets and
	// of generated credentials.
	Secret bool
	// Adjustments are the patches and the metadata of what the templates render, hooks included.
	Adjustments kustomize.Adjustments
	// Lookup answers the templates' lookup: the content of one object, or of a list where the name is empty; nil where there is
	// none. Without it nothing is ever found.
	Lookup func(ctx context.Context, apiVersion, kind, namespace, name string) (map[string]any, error)
	// Workers are the processes that render; nil for those that all share who name none. Its turns are counted for Namespace.
	Workers *worker.Pool
}

// Rendered is what became of a chart.
type Rendered struct {
	// Definitions are the chart's crds/, Before the hooks of an installation or of an upgrade that come before the objects, After those
	// that come after them. Hooks are in the order in which Helm runs them; those of the other one of the two are among them, too (Runs).
	Definitions, Before, Objects, After []*unstructured.Unstructured
	// Asked are the APIs that the templates asked for, and whether the cluster had them.
	Asked map[string]bool
	// Used are the certificates that the templates asked for. Wanted are those of them that Generated did not have: nothing is
	// rendered until it has them.
	Used, Wanted []Certificate
	// LooksUp says that the templates looked something up in the cluster, so that the next rendering may be another.
	LooksUp bool
	// Warnings tell of what was left out.
	Warnings bounded.Warnings
}

// Render renders a chart in a process of its own, which is ended when it takes too long or too much. The error is one sentence
// with the remedy; it is ErrUnavailable where the chart is not at fault, an UnfitError where no values would have it installed, and a
// kustomize.FieldError where the Adjustments are at fault.
func Render(ctx context.Context, in Input) (Rendered, error) {
	return renderInWorker(ctx, in, maxTime)
}

// render renders a chart in this process, which is a worker.
func render(ctx context.Context, in Input) (out Rendered, err error) {
	// Helm has panicked on odd charts before. One author's file must not end the operator of all.
	asked := &templateFunctions{generated: in.Generated, counts: map[string]int{}, begun: map[string]bool{}, secret: in.Secret}
	defer func() {
		if cause := recover(); cause != nil {
			const gaveUp = "Helm gave up on it"
			err = fmt.Errorf("chart %s: %s: try helm template on it", in.Chart.Name, asked.tell(fmt.Errorf("%s (%v)", gaveUp, cause), gaveUp))
		}
	}()
	c, err := in.Chart.parse()
	if err != nil {
		return out, err
	}
	if unfit := checkDependencies(c); unfit != nil {
		return out, unfit
	}
	caps, told := capabilitiesOf(in.Cluster, usesList(c) || usesListIn(in.Values))
	values, err := valuesOf(c, in, caps)
	if err != nil {
		return out, fmt.Errorf("chart %s: %s", in.Chart.Name, asked.tell(err, "the values do not fit the chart"))
	}
	if unfit := checkKubeVersion(c, caps.KubeVersion); unfit != nil {
		return out, unfit
	}
	markFiles(c)
	asked.lookup = func(apiVersion, kind, namespace, name string) (map[string]any, error) {
		return in.Lookup(ctx, apiVersion, kind, namespace, name)
	}
	files, err := engine.Engine{CustomTemplateFuncs: asked.functions()}.RenderWithContext(ctx, c, values)
	if err != nil {
		return out, fmt.Errorf("chart %s: %s", in.Chart.Name, asked.tell(err, failedAt(c, err)))
	}
	out.Asked, out.Used, out.Wanted, out.LooksUp = told(), asked.used, asked.wanted, asked.lookups > 0
	if len(out.Wanted) > 0 {
		return out, nil
	}
	d := &decoder{in: in, out: &out, asked: asked}
	for _, crd := range c.CRDObjects() {
		if err := d.file(crd.Filename, string(crd.File.Data), true); err != nil {
			return Rendered{}, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if isNotes(name) {
			continue
		}
		if err := d.file(name, files[name], false); err != nil {
			return Rendered{}, err
		}
	}
	if err := d.adjust(); err != nil {
		return Rendered{}, err
	}
	sortHooks(out.Before)
	sortHooks(out.After)
	return out, nil
}

// tell is the text of an error; where it may quote something secret, only what has failed.
func (s *templateFunctions) tell(err error, what string) string {
	if s.secret {
		return what + " (why is left out, as it may hold values of Secrets)"
	}
	return oneLine(err)
}

// failedAt is the file and the line of a chart that an error of the engine is from. The engine's text begins with them.
func failedAt(c *chartv2.Chart, err error) string {
	text := err.Error()
	what, first := "its templates fail", len(text)
	for _, file := range templatesOf(c) {
		at := strings.Index(text, file+":")
		if at < 0 || at >= first {
			continue
		}
		line := text[at+len(file)+1:]
		line = line[:len(line)-len(strings.TrimLeft(line, numerals))]
		if n, _ := strconv.Atoi(line); n > 0 {
			what, first = fmt.Sprintf("%s fails in line %d", file, n), at
		}
	}
	return what
}

// templatesOf are the files of a chart that are rendered, and of the charts within it, as the engine names them.
func templatesOf(c *chartv2.Chart) []string {
	var out []string
	for _, f := range c.Templates {
		out = append(out, path.Join(c.ChartFullPath(), f.Name))
	}
	for _, inner := range c.Dependencies() {
		out = append(out, templatesOf(inner)...)
	}
	return out
}

// oneLine is an error of the engine in one line, without what only the engine knows.
func oneLine(err error) string {
	const most = 1000
	return bounded.Text(strings.Join(strings.Fields(err.Error()), " "), most)
}

// errLookups says that a chart looks up too much.
var errLookups = errors.New("the templates look up too many objects: simplify them")
