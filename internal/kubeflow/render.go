package kubeflow

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/bounded"
	"mlkeeper.dev/internal/rendering"
)

// stageDefinitions is the first stage: what the objects of every application are in, and are defined by.
const stageDefinitions = "definitions"

// kfctlMark is the annotation by which kfctl v1.2 knew the objects of a KfDef, "NAME.NAMESPACE"; unmarked is the definition
// that it never put it on.
const (
	kfctlMark = "kfctl.kubeflow.io/kfdef-instance"
	unmarked  = "profiles.kubeflow.org"
)

// maxWarnings bounds the warnings of a status. What rendering gives are bounded.MaxWarnings of them: the others tell what the API server
// does not take.
const maxWarnings = 64

// Render puts the objects of the applications into stages. It is pure.
func (s *system) Render(cr *kubeflowv1.KfDef, facts Facts) plan.Plan {
	out := plan.Plan{}
	unfetched(facts, &out)
	if !facts.Result.Rendered() {
		return out
	}
	content := facts.Result.Content
	out.ActAs = facts.ActAs
	// The inputs of the result have the values of variables in them, which are the author's, too.
	out.Inputs = fmt.Sprint(facts.Result.Inputs, facts.Result.Sources)
	for _, fetched := range facts.Result.Fetched {
		out.Inputs += " " + fetched.Digest
	}
	out.PreviousOwner = plan.Mark{Annotation: kfctlMark, Value: cr.Name + "." + cr.Namespace}
	order, wrong, waits := sortByDependencies(content.Spec)
	definitions, applications := assignStages(cr, facts, order)
	out.Stages = append(out.Stages, plan.Stage{Name: stageDefinitions, Objects: definitions})
	if content.Rendering != "" {
		out.Notes = append(out.Notes, fmt.Sprintf("rendering %s, since %s", content.Rendering, content.Why))
	}
	clash := conflicts(cr, facts, order)
	names, more := stageNames(content.Spec), 0
	for _, i := range order {
		out.Stages = append(out.Stages, stage(content, names, i, cmp.Or(wrong[i], waits[i]), applications[i]))
	}
	facts.Awaited.hold(&out)
	out.SetDeletionPolicy(cr.Spec.DeletionPolicy)
	for i, a := range content.Applications {
		switch problem := problemOfApplication(content, i, wrong[i], clash[i]); {
		case problem != nil && facts.Current:
			// What is wrong with what was declared before is not wrong with what is declared now.
			out.Problems = append(out.Problems, *problem)
		case problem == nil && clash[i] != "":
			out.Warnings = append(out.Warnings, a.Name+": "+clash[i]+madeAsTheFirst)
		}
		if a.empty() {
			out.Warnings = append(out.Warnings, a.Name+": it has no objects: what it made before stays; take it out of spec.applications to have that pruned")
		}
		if w := unplaced(cr, facts, i); w != "" {
			out.Warnings = append(out.Warnings, a.Name+": "+w)
		}
		for _, w := range a.Warnings.Texts {
			out.Warnings = append(out.Warnings, a.Name+": "+w)
		}
		more += a.Warnings.More
	}
	for _, p := range cr.Spec.Plugins {
		out.Warnings = append(out.Warnings, fmt.Sprintf("the plugin %s is not run: it sets up a cloud, which is not MLKeeper's", p.Kind))
	}
	told := bounded.Warnings{More: more}
	told.Add(out.Warnings...)
	out.Warnings = told.Lines()
	return out
}

// unfetched reports why what is rendered is not what is declared now.
func unfetched(facts Facts, out *plan.Plan) {
	switch {
	case facts.Problem.Reason != "":
		problem := facts.Problem
		problem.Message += rendering.StaysDeclared
		out.Problems = append(out.Problems, problem)
		return
	case facts.Pending:
		out.Problems = append(out.Problems, rendering.Fetching(fetching))
		return
	case told(facts.Result):
		return
	}
	problem, warning := facts.Result.Report(facts.Current)
	if problem != nil {
		out.Problems = append(out.Problems, *problem)
	}
	if warning != "" {
		out.Warnings = append(out.Warnings, warning)
	}
}

// problemOfApplication is the problem of an application that is not made as it is declared; nil for one that is.
func problemOfApplication(content Content, i int, wrong, clash string) *plan.Problem {
	if problem, bad := content.Unresolved[i]; bad {
		return &problem
	}
	message, field := failureOfApplication(content, i, wrong, clash)
	if message == "" {
		return nil
	}
	return &plan.Problem{
		Class: plan.Terminal, Reason: reasonApplicationFailed, Field: fmt.Sprintf("spec.applications[%d]%s", i, field),
		Value: content.Applications[i].Name, Message: message,
	}
}

// failureOfApplication says why an application is not made as it is declared, and which of its fields is at fault. Where two render
// one object differently, kustomize ends, and kfctl applied one after the other.
func failureOfApplication(content Content, i int, wrong, clash string) (message, field string) {
	switch a, first := content.Applications[i], firstOf(content.Spec, i); {
	case first < i:
		return fmt.Sprintf("is the name of spec.applications[%d], too, and that one alone is made: give each application a name of its own", first), ".name"
	case a.Error != "":
		return a.Error, ""
	case wrong != "":
		return wrong, ".dependsOn"
	case a.Health.Error != nil:
		return a.Health.Error.Message, ".healthCheckExprs" + a.Health.Error.Field
	case clash != "" && content.Rendering == renderingKustomize:
		return clash + leaveOneOut, ""
	}
	return "", ""
}

// empty says that an application renders nothing, which is rather a wrong path than a wish: kustomize build refuses that, and kfctl pruned nothing.
func (a Application) empty() bool { return a.Error == "" && len(a.Objects) == 0 }

// stage is that of one application. hold says why nothing of it is created, whatever it depends on.
func stage(content Content, names []string, i int, hold string, objects []plan.Object) plan.Stage {
	spec := content.Spec[i]
	out := plan.Stage{Name: names[i], Objects: objects, WaitHealthy: spec.Wait, Hold: hold, KeepsPruned: content.Applications[i].empty()}
	if spec.Timeout != nil {
		out.Timeout = spec.Timeout.Duration
	}
	for _, name := range spec.DependsOn {
		j := slices.IndexFunc(content.Spec, func(a kubeflowv1.Application) bool { return a.Name == name })
		if j < 0 {
			continue // sortByDependencies says so.
		}
		out.After = append(out.After, names[j])
		if content.Applications[j].Error != "" && out.Hold == "" {
			out.Hold = "application " + name + ", which failed"
		}
	}
	return out
}

// assignStages gives every object its namespace and its stage. What two applications render is made once, as the first of them in the order
// of the stages has it: in a later stage it could wait for objects that need it. conflicts says where they differ.
func assignStages(cr *kubeflowv1.KfDef, facts Facts, order []int) (definitions []plan.Object, applications [][]plan.Object) {
	applications = make([][]plan.Object, len(facts.Result.Content.Applications))
	seen := map[plan.Key]bool{}
	for _, i := range order {
		a := facts.Result.Content.Applications[i]
		kept := retains(cr, facts.Result.Content.Spec[i])
		for _, o := range a.Objects {
			key := keyOf(cr, facts, i, o)
			if seen[key] {
				continue
			}
			seen[key] = true
			object := plan.Object{Desired: plan.InNamespace(o, key.Namespace)}
			a.Health.Observe(&object, facts.Result.Content.Spec[i].DriftDetection)
			if plan.AlwaysRetained(key) {
				// The namespace that the KfDef is in, and those of applications of others, may be there before.
				object.Adopt, object.Retain = key.Kind == "Namespace" || key.Name == unmarked, kept
				definitions = append(definitions, object)
				continue
			}
			object.Retain, object.IgnoreHealth = kept || key.GroupKind == claims, informational(key.GroupKind)
			applications[i] = append(applications[i], object)
		}
	}
	return definitions, applications
}

// retains says that the objects of an application stay when they leave it, and when the KfDef is deleted. What is declared now
// counts where it is declared still, since what is kept must not wait for a repository.
func retains(cr *kubeflowv1.KfDef, rendered kubeflowv1.Application) bool {
	prune := rendered.Prune
	// Of several with one name the first is made.
	if i := slices.IndexFunc(cr.Spec.Applications, func(a kubeflowv1.Application) bool { return a.Name == rendered.Name }); i >= 0 {
		prune = cr.Spec.Applications[i].Prune
	}
	return prune != nil && !*prune
}

// claims is the kind of a claim.
var claims = schema.GroupKind{Kind: "PersistentVolumeClaim"}

// informational says that the health of a kind does not count. That of a HorizontalPodAutoscaler is that of the cluster's
// metrics: what it scales serves without.
func informational(gk schema.GroupKind) bool {
	return gk == schema.GroupKind{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}
}

var notLabel = regexp.MustCompile(`[^a-z0-9-]+`)

// maxLabel is how much of an application's name is in that of its stage.
const maxLabel = 50

// stageNames are DNS labels that name the applications, each another one. The name of a stage does not depend on where its application is
// in the list: its Inventory, which owns the objects, is found by it. A name that is no label, or taken, gets a digest of itself and of its
// number among the applications of that name.
func stageNames(applications []kubeflowv1.Application) []string {
	out, taken, number := make([]string, len(applications)), map[string]bool{stageDefinitions: true}, map[string]int{}
	for i, a := range applications {
		label := strings.Trim(notLabel.ReplaceAllString(strings.ToLower(a.Name), "-"), "-")
		label = strings.Trim(label[:min(len(label), maxLabel)], "-")
		number[a.Name]++
		name := label
		for again := 0; name == "" || taken[name] || again == 0 && label != a.Name; again++ {
			sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", a.Name, number[a.Name], again))
			name = strings.Trim(fmt.Sprintf("%s-%x", label, sum[:4]), "-")
		}
		out[i], taken[name] = name, true
	}
	return out
}
