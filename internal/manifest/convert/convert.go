package convert

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Converter converts to what one cluster serves.
type Converter struct {
	// Served says that the cluster serves a kind in a version. It must not be nil.
	Served func(schema.GroupVersionKind) bool
}

// rule rewrites the objects of one kind.
type rule struct {
	// kind is the kind in the group in which it was once served, and from are its removed versions.
	kind schema.GroupKind
	from []string
	// to is the group and version that replaced them; the kind keeps its name.
	to schema.GroupVersion
	// rewrite changes the object, whose apiVersion is already the new one; old is the version that it had. Nil when both
	// versions have the same fields.
	rewrite func(o *object, old string) error
}

// knows says that the rule is for the objects of a kind in a version.
func (r rule) knows(gvk schema.GroupVersionKind) bool {
	return r.kind == gvk.GroupKind() && slices.Contains(r.from, gvk.Version)
}

// superseded says that a kind in a version is one of those that Kubernetes removed.
func superseded(gvk schema.GroupVersionKind) bool {
	return slices.Contains(policies, gvk.GroupKind()) || slices.ContainsFunc(rules, func(r rule) bool { return r.knows(gvk) })
}

// target is the kind that a rule makes.
func (r rule) target() schema.GroupVersionKind { return r.to.WithKind(r.kind.Kind) }

// object is an object on its way, with what is worth knowing about it.
type object struct {
	content  map[string]any
	warnings []string
}

func (o *object) warn(format string, args ...any) {
	o.warnings = append(o.warnings, fmt.Sprintf(format, args...))
}

// policies is the kind that has no successor.
var policies = []schema.GroupKind{
	{Group: "policy", Kind: "PodSecurityPolicy"}, {Group: "extensions", Kind: "PodSecurityPolicy"},
}

// Convert returns the object as the cluster takes it. An object that the cluster serves as it is, and one that nothing
// serves and no rule knows, comes back unchanged and not copied, but for an autoscaler that refers to a removed API. Nil stands
// for an object that is left out, which only a PodSecurityPolicy is; a warning says so. An error names a field that cannot be read.
//
// Warnings tell what means something else than it did, or is no longer checked. They and errors quote names and fields only: a value may
// come from a Secret.
func (c Converter) Convert(u *unstructured.Unstructured) (*unstructured.Unstructured, []string, error) {
	gvk := u.GroupVersionKind()
	if !superseded(gvk) || c.Served(gvk) {
		// Of other kinds nothing is asked: the answer would make no difference.
		return c.retarget(u), nil, nil
	}
	who := fmt.Sprintf("%s %s", gvk.Kind, u.GetName())
	if slices.Contains(policies, gvk.GroupKind()) {
		return nil, []string{who + ": left out, since no Kubernetes from 1.25 on has PodSecurityPolicies; " +
			"label its namespaces with pod-security.kubernetes.io/enforce instead"}, nil
	}
	r := c.ruleOf(gvk)
	if r == nil {
		return c.retarget(u), nil, nil
	}
	out := u.DeepCopy()
	out.SetGroupVersionKind(r.target())
	o := &object{content: out.Object}
	if r.rewrite != nil {
		if err := r.rewrite(o, gvk.Version); err != nil {
			return nil, nil, fmt.Errorf("%s: cannot be converted from %s to %s: %w", who, gvk.GroupVersion(), r.to, err)
		}
	}
	// A status is the server's; one that was copied out of a cluster has the shape of its time.
	delete(o.content, "status")
	var warnings []string
	for _, w := range o.warnings {
		warnings = append(warnings, who+": "+w)
	}
	return c.retarget(&unstructured.Unstructured{Object: o.content}), warnings, nil
}

// ruleOf is the rule for the objects of a kind in a version that makes something that is served; nil where there is none.
func (c Converter) ruleOf(gvk schema.GroupVersionKind) *rule {
	for i := range rules {
		if rules[i].knows(gvk) && c.Served(rules[i].target()) {
			return &rules[i]
		}
	}
	return nil
}
