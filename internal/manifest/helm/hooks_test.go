package helm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/release/v1/util"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
)

// helmRuns are the names of the hooks of an event in the order in which Helm runs them. Helm's library reads and sorts them; what it does
// with them then is in a package that would bring its databases into the go.mod of the product (pkg/action, execHook): they are sorted by
// weight, and those of one weight by name.
func helmRuns(t interface{ Fatal(args ...any) }, template string, event release.HookEvent) []string {
	hooks, _, err := util.SortManifests(map[string]string{"templates/a.yaml": template}, common.VersionSet{}, util.InstallOrder)
	if err != nil {
		t.Fatal(err)
	}
	hooks = slices.DeleteFunc(hooks, func(h *release.Hook) bool { return !slices.Contains(h.Events, event) })
	slices.SortStableFunc(hooks, func(a, b *release.Hook) int {
		return cmp.Or(cmp.Compare(a.Weight, b.Weight), strings.Compare(a.Name, b.Name))
	})
	var out []string
	for _, h := range hooks {
		out = append(out, h.Kind+"/"+h.Name)
	}
	return out
}

// TestHooksAreInTheOrderOfHelm: whatever runs to its end comes in Helm's order, and after everything that Helm makes before it.
func TestHooksAreInTheOrderOfHelm(t *testing.T) {
	events := []string{
		"pre-install", "pre-upgrade", "post-install", "post-upgrade", "pre-install,pre-upgrade", "post-install, Post-Upgrade", "pre-delete", "test",
	}
	rapid.Check(t, func(t *rapid.T) {
		var template strings.Builder
		for i := range rapid.IntRange(0, 8).Draw(t, "hooks") {
			kind := rapid.SampledFrom([]string{"batch/v1/Job", "v1/Pod", "v1/ConfigMap", "v1/ServiceAccount"}).Draw(t, "kind")
			at := strings.LastIndexByte(kind, '/')
			_, _ = fmt.Fprintf(&template, "---\napiVersion: %s\nkind: %s\nmetadata: {name: %s%d, annotations: {helm.sh/hook: %q, helm.sh/hook-weight: %q}}\n",
				kind[:at], kind[at+1:], rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"), i,
				rapid.SampledFrom(events).Draw(t, "event"), rapid.SampledFrom([]string{"-1", "0", "2", " 1", "x"}).Draw(t, "weight"))
		}
		upgrade := rapid.Bool().Draw(t, "upgrade")
		d := &decoder{in: Input{Chart: &Chart{}, Upgrade: upgrade}, out: &Rendered{}}
		if err := d.file("a.yaml", template.String(), false); err != nil {
			t.Fatal(err)
		}
		sortHooks(d.out.Before)
		sortHooks(d.out.After)
		of := "-install"
		if upgrade {
			of = "-upgrade"
		}
		for event, hooks := range map[string][]*unstructured.Unstructured{"pre" + of: d.out.Before, "post" + of: d.out.After} {
			var ours []string
			for _, u := range hooks {
				if Runs(u, upgrade) {
					ours = append(ours, u.GetKind()+"/"+u.GetName())
				}
			}
			want := helmRuns(t, template.String(), release.HookEvent(event))
			ends := func(list []string) []string {
				return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return !strings.HasPrefix(name, "Job/") && !strings.HasPrefix(name, "Pod/") })
			}
			if !slices.Equal(ends(ours), ends(want)) || !slices.Equal(slices.Sorted(slices.Values(ours)), slices.Sorted(slices.Values(want))) {
				t.Fatalf("%s: Helm runs %q, and we %q, of\n%s", event, want, ours, template.String())
			}
			for i, one := range ends(want) {
				before := want[:slices.Index(want, one)]
				for _, first := range before {
					if slices.Index(ours, first) > slices.Index(ours, one) {
						t.Fatalf("%s: Helm makes %s before %s (%d), and we %q", event, first, one, i, ours)
					}
				}
			}
		}
	})
}

func TestWhichHooksAreDeletedWhenTheyHaveCompleted(t *testing.T) {
	for policy, want := range map[string]bool{"hook-succeeded": true, "before-hook-creation, Hook-Succeeded": true, "hook-failed": false, "": false} {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetAnnotations(map[string]string{deleteAnnotation: policy})
		if got := DeletedWhenCompleted(u); got != want {
			t.Errorf("%q: %t", policy, got)
		}
	}
}

// TestLabelsAndAnnotationsAreTexts: beside a number or a boolean, neither a hook nor what is kept would be seen as what it is. Helm refuses
// the object when it makes it, and what it never makes it takes.
func TestLabelsAndAnnotationsAreTexts(t *testing.T) {
	for metadata, want := range map[string]string{
		"annotations: {helm.sh/resource-policy: keep, x: true}":              "metadata.annotations.x is a boolean: write it in quotes",
		"labels: {app.kubernetes.io/managed-by: Helm, rev: 1}":               "metadata.labels.rev is a number: write it in quotes",
		"annotations: {helm.sh/hook: pre-install, helm.sh/hook-weight: -5}":  "metadata.annotations.helm.sh/hook-weight is a number: write it in quotes",
		"annotations: {helm.sh/hook: post-upgrade, helm.sh/hook-weight: -5}": "metadata.annotations.helm.sh/hook-weight is a number: write it in quotes",
		"annotations: {helm.sh/hook: test, helm.sh/hook-weight: -5}":         "",
		"annotations: {helm.sh/hook: pre-delete, helm.sh/hook-weight: -5}":   "",
	} {
		files := "-- templates/a.yaml --\n{apiVersion: v1, kind: Pod, metadata: {name: a, " + metadata + "}}\n"
		out, err := Render(t.Context(), input(chartOf(t, files), nil))
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != "chart small: small/templates/a.yaml: Pod a: "+want+" in its template or its values") {
			t.Errorf("%s: %v", metadata, err)
		}
		if made := names(slices.Concat(out.Before, out.Objects, out.After)); made != "" {
			t.Errorf("%s: makes %s", metadata, made)
		}
		if strings.Contains(metadata, "pre-delete") && !slices.Contains(out.Warnings.Texts, "Pod a is left out: it is a hook of pre-delete, which MLKeeper has not") {
			t.Errorf("warnings %q", out.Warnings.Texts)
		}
	}
}
