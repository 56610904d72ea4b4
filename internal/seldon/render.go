package seldon

import (
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/helm"
	"mlkeeper.dev/internal/rendering"
)

// The stages that are no component's.
const (
	stageGenerated   = "generated"
	stageDefinitions = "definitions"
)

// order is that of the stages. Each is there whatever is switched on, so that a switch renumbers none.
var order = []string{core, analytics, catalogue, payloadStore, routing, detectors, enterprise}

// maxRendered bounds the warnings of a status that rendering gives: the others tell what the API server does not take.
const maxRendered = 44

// Render puts the objects of the components into stages. It is pure.
func (s *system) Render(cr *v1alpha1.SeldonOperator, facts Facts) plan.Plan {
	out := plan.Plan{ActAs: facts.ActAs, WakeAt: facts.Keys.wakeAt, Inputs: inputsOf(facts.Parts)}
	out.Stages = append(out.Stages, plan.Stage{Name: stageGenerated, Objects: secretsOf(cr, facts)})
	for _, name := range order {
		if p, missing := facts.Missing[name]; missing {
			out.Problems = append(out.Problems, p)
		}
	}
	if !facts.Keys.there && !s.settings.DryRun {
		out.Problems = append(out.Problems, plan.Problem{
			Class: plan.Waiting, Reason: reasonGenerating, Message: "generated credentials are being stored", Remedy: "nothing to do",
			Brief: true,
		})
	}
	if facts.URLWarning != "" {
		out.Warnings = append(out.Warnings, facts.URLWarning)
	}
	definitions := plan.Stage{Name: stageDefinitions}
	stages := map[string][]plan.Stage{}
	seen := map[plan.Key]bool{}
	for _, part := range facts.Parts {
		problems(part, &out)
		if part.Result == nil {
			continue
		}
		b := builder{cr: cr, facts: facts, part: part, seen: seen}
		definitions.Objects = append(definitions.Objects, b.objects(part.Result.Content.Definitions)...)
		stages[part.name] = b.stages(&definitions)
	}
	stages[routing] = []plan.Stage{{Objects: routingObjects(cr, facts)}}
	if cr.Spec.Enable.Detectors {
		own := plan.Stage{}
		for _, o := range s.detectorObjects(cr, facts) {
			if plan.AlwaysRetained(o.Key()) {
				definitions.Objects = append(definitions.Objects, o)
				continue
			}
			own.Objects = append(own.Objects, o)
		}
		stages[detectors] = []plan.Stage{own}
		if !cr.Spec.Enable.PayloadStore {
			out.Warnings = append(out.Warnings, "detectors: the request logger has no payload store to write to; set spec.enable.payloadstore to true")
		}
	}
	out.Stages = append(out.Stages, definitions)
	for _, name := range order {
		if len(stages[name]) == 0 {
			stages[name] = []plan.Stage{{}}
		}
		for i := range stages[name] {
			if stages[name][i].Name == "" {
				stages[name][i].Name = name
			}
		}
		out.Stages = append(out.Stages, stages[name]...)
	}
	out.SetDeletionPolicy(cr.Spec.DeletionPolicy)
	if len(out.Warnings) > maxRendered {
		more := len(out.Warnings) - maxRendered + 1
		out.Warnings = append(out.Warnings[:maxRendered-1], fmt.Sprintf("and %d warnings more", more))
	}
	return out
}

// inputsOf tells apart the charts and values that the components were rendered from; empty while one is being rendered.
func inputsOf(parts []Part) string {
	var out strings.Builder
	for _, part := range parts {
		if part.Pending || part.Result == nil {
			return ""
		}
		c := part.Result.Content
		_, _ = fmt.Fprintf(&out, "%s %v %s %v\n", part.name, part.Result.Sources, c.ValuesDigest, c.Certificates)
	}
	return out.String()
}

// problems tells why a component is not as it is declared.
func problems(part Part, out *plan.Plan) {
	problem, warning := part.report()
	switch {
	case problem != nil:
		out.Problems = append(out.Problems, *problem)
	case part.Pending:
		out.Problems = append(out.Problems, rendering.Fetching("the chart of "+part.name+" is being fetched and rendered"))
	}
	if part.Result == nil {
		return
	}
	for _, w := range part.Result.Content.Warnings {
		out.Warnings = append(out.Warnings, part.name+": "+w)
	}
	if warning != "" {
		out.Warnings = append(out.Warnings, part.name+": "+warning)
	}
}

// builder makes the objects of one component.
type builder struct {
	cr    *v1alpha1.SeldonOperator
	facts Facts
	part  Part
	// seen are the objects of all components so far: what two of them render is made once, as the first has it.
	seen map[plan.Key]bool
}

// stages are those of a component: hooks that come before, the objects, hooks that come after. What must be there first of all
// goes to the definitions.
func (b *builder) stages(definitions *plan.Stage) []plan.Stage {
	var out []plan.Stage
	before, own, after := b.objects(b.part.Result.Content.Before), b.objects(b.part.Result.Content.Objects), b.objects(b.part.Result.Content.After)
	if len(before) > 0 {
		out = append(out, plan.Stage{Name: b.part.name + "-before", Objects: before})
	}
	rest := plan.Stage{Name: b.part.name}
	if len(before) > 0 {
		rest.After = []string{b.part.name + "-before"}
	}
	for _, o := range own {
		if plan.AlwaysRetained(o.Key()) {
			definitions.Objects = append(definitions.Objects, o)
			continue
		}
		rest.Objects = append(rest.Objects, o)
	}
	out = append(out, rest)
	if len(after) > 0 {
		out = append(out, plan.Stage{Name: b.part.name + "-after", Objects: after, After: []string{b.part.name}})
	}
	for i := range out {
		out[i].Suspended = b.part.spec.Suspend
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

var (
	claims                    = schema.GroupKind{Kind: "PersistentVolumeClaim"}
	customResourceDefinitions = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
)
