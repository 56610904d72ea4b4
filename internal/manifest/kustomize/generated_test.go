package kustomize

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"pgregory.net/rapid"

	"mlkeeper.dev/internal/manifest/manifesttest"
	"mlkeeper.dev/internal/manifest/worker"
)

// count is how many kustomizations are made up; a night may take 10000.
var count = flag.Int("generated", 20, "how many kustomizations are generated")

// repositories has what repositories are made of: what refers to something, what takes most, and what does not fit.
var repositories = manifesttest.Grammar{
	"<line>": {
		"", "", "", "bases: [<resource>]", "components: [<resource>]", "crds: [<any>]",
		"configurations: [c.yaml]", "openapi: {path: <any>}", "transformers: [<plugin>]", "generators: [<plugin>]", "validators: [<plugin>]", "namePrefix: <word>",
		"nameSuffix: <word>", "namespace: <word>", "commonLabels: {<word>: <word>}", "commonAnnotations: {<word>: <word>}", "images: [{name: <word>, newTag: <word>}]",
		"labels: [{pairs: {<word>: <word>}, includeSelectors: true, fields: [{path: <word>, create: true}]}]", "replicas: [{name: <word>, count: 3}]",
		"patchesStrategicMerge: [<patch>]", "patches: [{path: <patch>}]", "patches: [{target: <object>, path: <patch>, options: {allowNameChange: true}}]",
		"patches: [{target: <object>, patch: '[{op: copy, from: /data, path: /data/<word>}]'}]", "buildMetadata: [originAnnotations, <word>]",
		"patchesJson6902: [{target: {version: v1, kind: ConfigMap, name: <word>}, path: <patch>}]", "sortOptions: {order: fifo}",
		"configMapGenerator: [{name: <word>, files: [<any>], literals: [<word>=<word>]}]", "configMapGenerator: [{name: <word>, behavior: merge, envs: [<any>]}]",
		"secretGenerator: [{name: <word>, files: [<word>=<any>], type: <word>}]", "generatorOptions: {disableNameSuffixHash: true, labels: {<word>: <word>}}",
		"vars: [{name: <word>, objref: <object>, fieldref: {fieldpath: data.<word>}}]", "replacements: [{path: <any>}]", "kind: Component",
		"replacements: [{source: <object>, targets: [{select: <object>, fieldPaths: [data.<word>], options: {delimiter: /, index: 99}}]}]",
		"helmCharts: [{name: <word>, repo: 'https://<word>'}]", "<word>: <word>",
	},
	"<also>":     {"", "", ", b.yaml", ", <resource>"},
	"<resource>": {"../other", "../other", "sub", "<any>"},
	"<patch>":    {"p.yaml", "j.yaml", "<any>"},
	"<plugin>":   {"t.yaml", "t.yaml", "<any>"},
	"<any>":      {"a.yaml", "e.env", ".", "..", "../base", "../../../../etc/passwd", "https://example.test/x", "none", "l.yaml"},
	"<object>":   {"{kind: ConfigMap}", "{name: a}", "{kind: Deployment, name: a}", "{kind: '.*'}", "{labelSelector: 'a in (b)'}"},
	"<word>":     {"a", "a", "a", "b", "x-y", "ConfigMap", "''", "'*'", "9", "null", "[a]", "{a: b}", "'$(a)'", "a.b/c", "'é\U0001F600'", "&w a", "*w"},
	"<data>":     {"a: x", "a: $(a)", "<word>: <word>, b: '$(<word>)$(a)'"},
}

// folder has the files of a folder.
var folder = map[string]string{
	"kustomization.yaml": "resources: [a.yaml<also>]\n<line>\n<line>\n",
	"a.yaml":             "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {<data>}}\n",
	"b.yaml": "{apiVersion: apps/v1, kind: Deployment, metadata: {name: <word>}, spec: {template: {spec: {containers: [{name: a, image: <word>}]}}}}\n---\n" +
		"{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: <word>, metadata: {name: <word>}}]}\n",
	"p.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: <word>}, data: {<data>}}\n",
	"j.yaml": "[{op: add, path: /data/<word>, value: <word>}, {op: move, from: /data/a, path: /data/<word>}]\n",
	"t.yaml": "{apiVersion: builtin, kind: PatchTransformer, metadata: {name: <word>}, target: <object>, path: <patch>}\n---\n" +
		"{apiVersion: builtin, kind: ReplacementTransformer, metadata: {name: m}, replacements: [{source: <object>, targets: [{select: <object>, fieldPaths: ['*']}]}]}\n",
	"c.yaml": "varReference: [{path: data/<word>}]\nnameReference: [{kind: ConfigMap, fieldSpecs: [{path: data/<word>, kind: <word>}]}]\n",
	"e.env":  "a=<word>\n<word>\n",
	"l.yaml": laughs,
}

// generatedTree is a repository with two folders that may refer to each other.
func generatedTree(t *rapid.T) fstest.MapFS {
	out := fstest.MapFS{}
	for _, name := range []string{"app/base/", "app/other/"} {
		for _, file := range slices.Sorted(maps.Keys(folder)) {
			out[name+file] = &fstest.MapFile{Data: []byte(repositories.Text(t, folder[file], 4))}
		}
	}
	return out
}

// printed are files as the other tests of the package have them.
func printed(files fstest.MapFS) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		_, _ = fmt.Fprintf(&out, "-- %s --\n%s", name, files[name].Data)
	}
	return out.String()
}

// TestGeneratedKustomizations renders what is made up. After all of it a good kustomization is still rendered.
func TestGeneratedKustomizations(t *testing.T) {
	manifesttest.RenderGenerated(t, *count, func(ctx context.Context, i int, namespace string, workers *worker.Pool) (bool, error) {
		files := rapid.Custom(generatedTree).Example(i)
		in := input("", func(a *Application) { a.Path = []string{"app", "app/base"}[i%2] })
		in.Namespace, in.Workers, in.Repos = namespace, workers, map[string]fs.FS{"manifests": files}
		out, err := renderWithin(ctx, in, times{one: time.Second, all: 2 * time.Second, turn: time.Second})
		if err != nil || len(out) != 1 {
			return false, fmt.Errorf("%d results, %w\n%s", len(out), err, printed(files))
		}
		switch err := out[0].Err; {
		case err == nil:
			return false, nil
		case !strings.HasPrefix(err.Error(), `application "app": `), strings.Contains(err.Error(), "ended too early"), len(out[0].Objects) > 0:
			return false, fmt.Errorf("not refused with a reason: %w, %d objects\n%s", err, len(out[0].Objects), printed(files))
		}
		return true, nil
	})
	if r := rendered(t, input("-- app/base/kustomization.yaml --\nresources: [a.yaml]\n-- app/base/a.yaml --\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n", nil)); r.Err != nil {
		t.Error(r.Err)
	}
}
