package kubeflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/kustomize"
)

// reasonRenderingAmbiguous is the reason of a KfDef with applications of both kinds; stable across releases.
const reasonRenderingAmbiguous = "RenderingAmbiguous"

const renderingKustomize = kubeflowv1.Rendering(kustomize.Kustomize)

// renderingOf decides how a KfDef is rendered: as its spec says, as it was rendered before, or as its applications say. What was
// detected once stays: a branch that moves must not move the objects into other namespaces, which deletes them and makes them anew.
func renderingOf(
	ctx context.Context, cr *kubeflowv1.KfDef, last *Result, in kustomize.Input,
) (rendering kubeflowv1.Rendering, why string, problem *plan.Problem) {
	switch {
	case cr.Spec.Rendering != "":
		return cr.Spec.Rendering, "spec.rendering says so", nil
	case cr.Status.Rendering != "":
		return cr.Status.Rendering, "status.rendering says that it was before", nil
	case last.Rendered() && keepsRendering(last.Content):
		return last.Content.Rendering, last.Content.Why, nil
	}
	found, why, err := kustomize.Detect(ctx, in)
	if errors.Is(err, kustomize.ErrUnavailable) {
		return "", "", notRendered(err)
	}
	if err != nil {
		return "", "", undetected(err)
	}
	return kubeflowv1.Rendering(found), why, nil
}

// undetected is the problem of a KfDef of which the rendering could not be found: since its applications do not agree, or since the detection
// was ended, such as by a bound on time or memory.
func undetected(err error) *plan.Problem {
	out := &plan.Problem{
		Class: plan.Terminal, Reason: reasonRenderingAmbiguous, Field: "spec.rendering",
		Message: "is empty, and the applications do not agree how they are rendered: " + err.Error(),
		Remedy: fmt.Sprintf("set it to %s, which renders them as kfctl v1.2 did, or to %s, which renders every path as kustomize build does",
			kustomize.Kfctl, kustomize.Kustomize),
	}
	if !errors.As(err, new(kustomize.Ambiguous)) {
		out.Reason, out.Message = reasonApplicationFailed, "is empty, and how the applications are rendered cannot be found: "+err.Error()
		out.Remedy += ", or split the KfDef"
	}
	return out
}

// keepsRendering says that the rendering of a content is kept: as soon as it gave any application. One that gave none may be that of a path
// with a slip of the pen.
func keepsRendering(content Content) bool {
	if content.Rendering == "" {
		return false
	}
	for i, a := range content.Applications {
		// The second of one name was not rendered, and has no error.
		if a.Error == "" && firstOf(content.Spec, i) == i {
			return true
		}
	}
	return false
}

// keyOf is the key of an object of an application, in the namespace where it is made.
func keyOf(cr *kubeflowv1.KfDef, facts Facts, application int, o *unstructured.Unstructured) plan.Key {
	return plan.KeyIn(o, cmp.Or(facts.Result.Content.Applications[application].Namespace, cr.Namespace), facts.Namespaced)
}

// What follows the text of a conflict, with the rendering Kustomize and with Kfctl.
const (
	leaveOneOut    = ": leave it out of one of them, or make both the same"
	madeAsTheFirst = ", and is made as the first has it"
)

// conflicts says of applications which object of theirs one before them, in the order of the stages, renders with another content.
func conflicts(cr *kubeflowv1.KfDef, facts Facts, order []int) map[int]string {
	type made struct {
		application string
		object      *unstructured.Unstructured
	}
	out, first := map[int]string{}, map[plan.Key]made{}
	for _, i := range order {
		a := facts.Result.Content.Applications[i]
		for _, o := range a.Objects {
			key := keyOf(cr, facts, i, o)
			o = plan.InNamespace(o, key.Namespace)
			before, twice := first[key]
			if !twice {
				first[key] = made{a.Name, o}
			} else if at, differ := difference(before.object.Object, o.Object); differ && out[i] == "" {
				slices.Reverse(at)
				out[i] = fmt.Sprintf("%s is rendered by application %q, too, and differs in %s",
					key, before.application, controller.Cut(strings.Join(at, "."), maxPath))
			}
		}
	}
	return out
}

// maxPath bounds the path of a field in a message, in bytes.
const maxPath = 300

// difference is the path of the first field in which two values differ, the innermost name first. A field that is null is one that is not
// there.
func difference(a, b any) (path []string, differ bool) {
	one, first := a.(map[string]any)
	two, second := b.(map[string]any)
	if !first || !second {
		return nil, !reflect.DeepEqual(a, b)
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(one)), maps.Keys(two))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if inner, differs := difference(one[name], two[name]); differs {
			return append(inner, name), true
		}
	}
	return nil, false
}

// maxUnplaced is how many objects a warning names.
const maxUnplaced = 10

// unplaced warns of objects whose namespace nobody names: kustomize build leaves them to kubectl, whose namespace is another.
func unplaced(cr *kubeflowv1.KfDef, facts Facts, application int) string {
	content := facts.Result.Content
	if content.Rendering != renderingKustomize || content.Applications[application].Namespace != "" {
		return ""
	}
	var names []string
	for _, o := range content.Applications[application].Objects {
		if in, known := facts.Namespaced[o.GroupVersionKind().GroupKind()]; known && in && o.GetNamespace() == "" {
			names = append(names, o.GetKind()+" "+o.GetName())
		}
	}
	if len(names) == 0 {
		return ""
	}
	more := ""
	if n := len(names) - maxUnplaced; n > 0 {
		names, more = names[:maxUnplaced], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("made in namespace %s, since they name none: %s%s; spec.applications[%d].namespace names another",
		cr.Namespace, strings.Join(names, ", "), more, application)
}
