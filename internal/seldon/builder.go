package seldon

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/helm"
)

// builder makes the objects of one component.
type builder struct {
	cr    *v1alpha1.SeldonOperator
	facts Facts
	part  Part
	// seen are the objects of no chart, and those of all components so far: what is rendered twice is made once, as the first has it.
	seen map[plan.Key]bool
}

// stage is that of a component: hooks that come before the objects, the objects, hooks that come after them, each as steps. What must be
// there first of all goes to the definitions, and is changed in its step.
func (b *builder) stage(definitions *plan.Stage) plan.Stage {
	content := b.part.Result.Content
	out := plan.Stage{Name: b.part.name, Suspended: b.part.spec.Suspend, Timeout: b.part.patience()}
	add := func(o plan.Object, step int) {
		if o.Suspended, o.Step = b.part.spec.Suspend, step; plan.AlwaysRetained(o.Key()) {
			o.StepOf, o.IfNotPresent = out.Name, o.Key().GroupKind == customResourceDefinitions && b.part.leavesDefinitions()
			definitions.Objects = append(definitions.Objects, o)
			return
		}
		out.Objects = append(out.Objects, o)
	}
	for _, o := range b.objects(b.part.definitions()) {
		o.Suspended, o.IfNotPresent = b.part.spec.Suspend, b.part.spec.CRDs == v1alpha1.CreateDefinitions || b.part.leavesDefinitions()
		definitions.Objects = append(definitions.Objects, o)
	}
	step := b.hooks(content.Before, 0, add)
	for _, o := range b.objects(content.Objects) {
		add(o, step)
	}
	b.hooks(content.After, step+1, add)
	return out
}

// hooks adds hooks from a step on, and returns the one that follows them. A weight begins a step, and what runs to its end ends one, since
// Helm waits for it before the next hook.
func (b *builder) hooks(rendered []*unstructured.Unstructured, step int, add func(plan.Object, int)) int {
	for i, u := range rendered {
		if i > 0 && (helm.Ends(rendered[i-1]) || helm.Weight(u) != helm.Weight(rendered[i-1])) {
			step++
		}
		for _, o := range b.objects(rendered[i : i+1]) {
			if o.Hook = helm.Ends(u); o.Hook {
				o.Health = nil // It is healthy when it has completed.
				if b.part.Result.Content.Run != "" {
					// Helm deletes hooks by their own policy alone (pkg/action/hooks.go, deleteHookByPolicy). One of the first revision that has
					// completed is not known as such once its manifest changes, and what is retained is not run again for that.
					o.OnImmutable = plan.ImmutableRecreate
				}
			}
			o.DeleteCompleted = helm.DeletedWhenCompleted(u) && o.Key().GroupKind != claims && !plan.AlwaysRetained(o.Key())
			if o.Hook || o.DeleteCompleted {
				o.Desired = runFor(o.Desired, b.part.Result.Content.Run)
			}
			add(o, step)
		}
	}
	if len(rendered) > 0 {
		step++
	}
	return step
}

// runFor marks a hook with what it is run for, so that another revision runs it again, as Helm does at each upgrade.
func runFor(u *unstructured.Unstructured, run string) *unstructured.Unstructured {
	if run == "" {
		return u
	}
	u = u.DeepCopy()
	annotations := u.GetAnnotations()
	annotations[keeper.RunAnnotation] = run // A hook has annotations.
	u.SetAnnotations(annotations)
	return u
}

// left are the objects of hooks that an upgrade leaves as they are, and those of the revision that was rolled back from.
func (b *builder) left() []plan.Key {
	var out []plan.Key
	for _, u := range slices.Concat(b.part.Result.Content.Left, b.part.Rollback.Hooks) {
		if key := plan.KeyIn(u, b.cr.Namespace, b.facts.Namespaced); !slices.Contains(out, key) {
			out = append(out, key)
		}
	}
	return out
}

func (b *builder) objects(rendered []*unstructured.Unstructured) []plan.Object {
	var out []plan.Object
	for _, u := range rendered {
		key := plan.KeyIn(u, b.cr.Namespace, b.facts.Namespaced)
		if b.seen[key] {
			continue
		}
		b.seen[key] = true
		o := plan.Object{Desired: plan.InNamespace(u, key.Namespace)}
		orphan := b.part.spec.DeletionPolicy == keeper.DeletionOrphan // The component may be switched off, too.
		o.Retain = orphan || helm.Keeps(u) || key.GroupKind == claims ||
			key.GroupKind == customResourceDefinitions && !b.cr.Spec.DeleteCRDs
		o.Adopt = key.Kind == "Namespace" && key.Group == ""
		o.OnImmutable = b.onImmutable(key, o.Retain)
		b.part.Result.Content.Health.Observe(&o, b.part.spec.DriftDetection)
		out = append(out, o)
	}
	return out
}

// builtIn knows the kinds that Kubernetes has by itself, whatever else was added to the scheme of all clients.
var builtIn = sync.OnceValue(func() *runtime.Scheme {
	out := runtime.NewScheme()
	if err := scheme.AddToScheme(out); err != nil {
		panic(err) // Two Go types of Kubernetes claim one kind.
	}
	return out
})

// onImmutable says what happens to an object of which an upgrade changes what cannot be changed, such as the selector of a
// Deployment: it is made again, unless it holds data. A custom resource may: that of an operator for databases is one.
func (b *builder) onImmutable(key plan.Key, retained bool) plan.Immutable {
	switch {
	case retained, !builtIn().IsGroupRegistered(key.Group):
		return plan.ImmutableByKind
	case key.Group == "" && (key.Kind == "Namespace" || key.Kind == "PersistentVolume"):
		return plan.ImmutableByKind
	case key.Kind == "StatefulSet" && !b.part.spec.RecreateStatefulSets:
		return plan.ImmutableByKind
	}
	return plan.ImmutableRecreate
}
