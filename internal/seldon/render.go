package seldon

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/bounded"
	"mlkeeper.dev/internal/rendering"
)

// The stages that are no component's.
const (
	stageGenerated   = "generated"
	stageDefinitions = "definitions"
)

// order is that of the stages. Each is there whatever is switched on and whatever hooks a chart has, so that neither renumbers any.
var order = []string{core, analytics, catalogue, payloadStore, routing, detectors, enterprise}

// Render puts the objects of the components into stages. It is pure.
func (s *system) Render(cr *v1alpha1.SeldonOperator, facts Facts) plan.Plan {
	out := plan.Plan{ActAs: facts.ActAs, WakeAt: facts.Keys.wakeAt, Inputs: inputsOf(facts.Parts)}
	for _, part := range facts.Parts {
		if at := part.Rollback.CountAt; !at.IsZero() && (out.WakeAt.IsZero() || at.Before(out.WakeAt)) {
			out.WakeAt = at
		}
	}
	generated, gateways := secretsOf(cr, facts), routingObjects(cr, facts)
	var forDetectors []plan.Object
	if cr.Spec.Enable.Detectors {
		forDetectors = s.detectorObjects(cr, facts)
	}
	out.Stages = append(out.Stages, plan.Stage{Name: stageGenerated, Objects: generated})
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
	stages := map[string]plan.Stage{}
	seen := map[plan.Key]bool{}
	for _, o := range slices.Concat(generated, gateways, forDetectors) {
		seen[o.Key()] = true
	}
	for _, part := range facts.Parts {
		problems(part, &out)
		if part.Result == nil {
			continue
		}
		b := builder{cr: cr, facts: facts, part: part, seen: seen}
		stages[part.name] = b.stage(&definitions)
		out.Keep = append(out.Keep, b.left()...)
	}
	stages[routing] = plan.Stage{Objects: gateways}
	if cr.Spec.Enable.Detectors {
		own := plan.Stage{}
		for _, o := range forDetectors {
			if plan.AlwaysRetained(o.Key()) {
				definitions.Objects = append(definitions.Objects, o)
				continue
			}
			own.Objects = append(own.Objects, o)
		}
		stages[detectors] = own
		if !cr.Spec.Enable.PayloadStore {
			out.Warnings = append(out.Warnings, "detectors: the request logger has no payload store to write to; set spec.enable.payloadstore to true")
		}
	}
	out.Stages = append(out.Stages, definitions)
	for _, name := range order {
		stage := stages[name]
		stage.Name = name
		out.Stages = append(out.Stages, stage)
	}
	out.SetDeletionPolicy(cr.Spec.DeletionPolicy)
	out.Warnings = shorten(facts, out.Warnings)
	return out
}

// shorten has the last of many warnings count the others, with those that were not kept.
func shorten(facts Facts, warnings []string) []string {
	told := bounded.Warnings{}
	for _, part := range facts.Parts {
		if part.Result != nil {
			told.More += part.Result.Content.Warnings.More
		}
	}
	told.Add(warnings...)
	return told.Lines()
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
	if part.keepsNewer() {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%s: the CustomResourceDefinitions stay as version %s of the chart has them, since those of "+
			"version %s may lose fields of stored objects; apply them yourself if that is wanted",
			part.name, part.Result.Content.DefinitionsVersion, part.Result.Content.Version))
	}
	if part.Rollback.TooLarge {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%s: an upgrade that fails cannot be rolled back, since the manifests of the revision that runs "+
			"take more than %d KiB compressed, or more than %d MiB of memory", part.name, maxKept>>10, maxUnpacked>>20))
	}
	if err := part.Rollback.Unusable; err != nil {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%s: nothing was rolled back, since the manifests of revision %d, which are kept for that, cannot "+
			"be applied: %v", part.name, part.Rollback.Revision, err))
	}
	for _, w := range part.Result.Content.Warnings.Texts {
		out.Warnings = append(out.Warnings, part.name+": "+w)
	}
	if warning != "" {
		out.Warnings = append(out.Warnings, part.name+": "+warning)
	}
}

var (
	claims                    = schema.GroupKind{Kind: "PersistentVolumeClaim"}
	customResourceDefinitions = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
)
