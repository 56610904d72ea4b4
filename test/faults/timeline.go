package faults

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// note adds a line to the timeline.
func (r *run) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, fmt.Sprintf("%8.3fs ", time.Since(r.start).Seconds())+fmt.Sprintf(format, args...))
}

// respecified tells which fields of the spec an event changed; empty where it has the same generation as the one before.
func respecified(before, now *unstructured.Unstructured) string {
	if before == nil || before.GetUID() != now.GetUID() || before.GetGeneration() == now.GetGeneration() {
		return ""
	}
	was, is := map[string]string{}, map[string]string{}
	same := func(text string) string { return text }
	flatten("spec", before.Object["spec"], same, was)
	flatten("spec", now.Object["spec"], same, is)
	var out []string
	for _, d := range compare(snapshot{"": was}, snapshot{"": is}, mask{}) {
		out = append(out, fmt.Sprintf("%s is %.100s, not %.100s", d.Path, d.Have, d.Want))
	}
	return short(" " + strings.Join(out, ", "))
}

// timeline tells what happened, in its order.
func (r *run) timeline() []string {
	var out []string
	r.journal.mu.Lock()
	for _, e := range r.journal.entries {
		if e.write() || e.Note != "" || e.Operator > 1 {
			out = append(out, e.line(r.start))
		}
	}
	r.journal.mu.Unlock()
	last := map[string]*unstructured.Unstructured{}
	for _, e := range r.history.sorted() {
		line := fmt.Sprintf("%8.3fs %s %s %s", e.At.Sub(r.start).Seconds(), e.Type, e.Resource, e.Object.GetName())
		if c := conditionOf(e.Object, "Ready"); c != nil && e.Resource == r.kind.Resource {
			line += fmt.Sprintf(" Ready=%v (%v: %v) generation %d", c["status"], c["reason"], c["message"], e.Object.GetGeneration())
		}
		out = append(out, line+respecified(last[r.key(e)], e.Object))
		last[r.key(e)] = e.Object
	}
	r.mu.Lock()
	out = append(out, r.notes...)
	r.mu.Unlock()
	slices.SortStableFunc(out, strings.Compare)
	for key, u := range r.history.all("") {
		if _, ours := replicasOf(u); ours || strings.HasPrefix(key, r.kind.Resource) {
			out = append(out, fmt.Sprintf("at the end: %s generation %d %s", key, u.GetGeneration(), short(fmt.Sprint(u.Object["status"]))))
		}
	}
	return out
}
