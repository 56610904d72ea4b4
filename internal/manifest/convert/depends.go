package convert

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Depends holds what a conversion asked of the cluster, and what it was told: another answer may give other objects. Kinds
// that no rule knows are not among them.
type Depends map[schema.GroupVersionKind]bool

// Record is served, and keeps what it answers.
func (d Depends) Record(served func(schema.GroupVersionKind) bool) func(schema.GroupVersionKind) bool {
	return func(gvk schema.GroupVersionKind) bool {
		is := served(gvk)
		d[gvk] = is
		return is
	}
}

// Now is what the conversion would be told now.
func (d Depends) Now(served func(schema.GroupVersionKind) bool) Depends {
	out := make(Depends, len(d))
	for gvk := range d {
		out[gvk] = served(gvk)
	}
	return out
}

// String lists what is asked and answered, always in the same order.
func (d Depends) String() string {
	out := make([]string, 0, len(d))
	for gvk, served := range d {
		out = append(out, fmt.Sprintf("%s/%s/%s=%t", gvk.Group, gvk.Version, gvk.Kind, served))
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}
