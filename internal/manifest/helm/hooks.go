package helm

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Helm's marks on hooks.
const (
	hookAnnotation   = "helm.sh/hook"
	weightAnnotation = "helm.sh/hook-weight"
	deleteAnnotation = "helm.sh/hook-delete-policy"
)

// succeeded is the policy by which a hook is deleted once it has completed.
const succeeded = "hook-succeeded"

// events are those of a hook, or the values of another of its annotations.
func events(u *unstructured.Unstructured, of string) []string {
	var out []string
	text, _ := annotation(u, of)
	for event := range strings.SplitSeq(text, ",") {
		out = append(out, strings.ToLower(strings.TrimSpace(event)))
	}
	return out
}

// Runs says that a hook is one of an installation or, with upgrade, of an upgrade. Helm leaves alone what the other one of the two has
// made.
func Runs(u *unstructured.Unstructured, upgrade bool) bool {
	of := "-install"
	if upgrade {
		of = "-upgrade"
	}
	return slices.ContainsFunc(events(u, hookAnnotation), func(event string) bool { return event == "pre"+of || event == "post"+of })
}

// Ends says that a hook runs to its end, for which Helm waits before it goes on: a Job or a Pod.
func Ends(u *unstructured.Unstructured) bool {
	kind := u.GroupVersionKind().GroupKind()
	return kind == schema.GroupKind{Group: "batch", Kind: "Job"} || kind == schema.GroupKind{Kind: "Pod"}
}

// DeletedWhenCompleted says that a hook is to be deleted once it has completed.
func DeletedWhenCompleted(u *unstructured.Unstructured) bool {
	return slices.Contains(events(u, deleteAnnotation), succeeded)
}

// Weight is where a hook stands among the hooks of its event.
func Weight(u *unstructured.Unstructured) int {
	weight, _ := strconv.Atoi(u.GetAnnotations()[weightAnnotation])
	return weight
}

// hook is the list that a hook belongs to by its events; nil for none. Tests are left to helm test, and what Helm would run at a deletion or a
// rollback alone is left out.
func (d *decoder) hook(u *unstructured.Unstructured) *[]*unstructured.Unstructured {
	of, other := "-install", "-upgrade"
	if d.in.Upgrade {
		of, other = other, of
	}
	has := events(u, hookAnnotation)
	for _, side := range []struct {
		event string
		to    *[]*unstructured.Unstructured
	}{
		{"crd-install", &d.out.Definitions},
		{"pre" + of, &d.out.Before},
		{"post" + of, &d.out.After},
		{"pre" + other, &d.out.Before},
		{"post" + other, &d.out.After},
	} {
		if slices.Contains(has, side.event) {
			return side.to
		}
	}
	if slices.ContainsFunc(has, func(event string) bool { return event == "test" || event == "test-success" || event == "test-failure" }) {
		return nil
	}
	// What is none of Helm's events may be any value of the chart, such as a secret one.
	known := slices.DeleteFunc(has, func(event string) bool { return !slices.Contains(leftOut, event) })
	d.out.Warnings.Add(fmt.Sprintf("%s %s is left out: it is a hook of %s, which MLKeeper has not",
		u.GetKind(), u.GetName(), cmp.Or(strings.Join(known, ","), "an event that Helm does not know")))
	return nil
}

// leftOut are the events of Helm whose hooks are not run.
var leftOut = []string{"pre-delete", "post-delete", "pre-rollback", "post-rollback"}

// sortHooks puts hooks into the order in which Helm runs them: by weight, and those of one weight by name (pkg/action, hookByWeight). Those
// of one weight that run to their end come last, since they may need the others: Helm would wait for them forever where they do.
func sortHooks(hooks []*unstructured.Unstructured) {
	slices.SortStableFunc(hooks, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(Weight(a), Weight(b)), compareBool(Ends(a), Ends(b)), cmp.Compare(a.GetName(), b.GetName()))
	})
}

// compareBool has false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
