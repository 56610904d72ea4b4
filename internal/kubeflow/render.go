package kubeflow

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/engine/plan"
)

// stageDefinitions is the first stage: what the objects of every application are in, and are defined by.
const stageDefinitions = "definitions"

// maxWarnings bounds the warnings of a plan.
const maxWarnings = 64

// Render puts the objects of the applications into stages. It is pure.
func (s *system) Render(cr *kubeflowv1.KfDef, facts Facts) plan.Plan {
	out := plan.Plan{}
	if f := facts.Answer.Failure; f != nil {
		class := plan.Terminal
		if f.Transient {
			class = plan.Waiting
		}
		out.Problems = append(out.Problems, plan.Problem{
			Class: class, Reason: f.Reason, Field: f.Field, Value: f.Value, Message: f.Message, Remedy: f.Remedy,
		})
		return out
	}
	definitions, applications := sortOut(cr.Namespace, facts)
	out.Stages = append(out.Stages, plan.Stage{Name: stageDefinitions, Objects: definitions})
	for i, a := range facts.Answer.Applications {
		out.Stages = append(out.Stages, plan.Stage{Name: stageName(i, a.Name), Objects: applications[i]})
		if a.Error != "" {
			out.Problems = append(out.Problems, plan.Problem{
				Class: plan.Terminal, Reason: reasonApplicationFailed, Field: fmt.Sprintf("spec.applications[%d]", i), Value: a.Name,
				Message: a.Error,
			})
		}
		for _, w := range a.Warnings {
			out.Warnings = append(out.Warnings, a.Name+": "+w)
		}
	}
	for _, p := range cr.Spec.Plugins {
		out.Warnings = append(out.Warnings, fmt.Sprintf("the plugin %s is not run: it sets up a cloud, which is not MLKeeper's", p.Kind))
	}
	if len(out.Warnings) > maxWarnings {
		more := len(out.Warnings) - maxWarnings + 1
		out.Warnings = append(out.Warnings[:maxWarnings-1], fmt.Sprintf("and %d warnings more", more))
	}
	return out
}

// sortOut gives every object its namespace and its stage. What two applications render is made once, as the first of them
// has it.
func sortOut(namespace string, facts Facts) (definitions []plan.Object, applications [][]plan.Object) {
	applications = make([][]plan.Object, len(facts.Answer.Applications))
	seen := map[plan.Key]bool{}
	for i, a := range facts.Answer.Applications {
		for _, o := range a.Objects {
			key := keyOf(o, namespace, facts)
			if seen[key] {
				continue
			}
			seen[key] = true
			object := plan.Object{Desired: o}
			if o.GetNamespace() != key.Namespace {
				object.Desired = o.DeepCopy()
				object.Desired.SetNamespace(key.Namespace)
			}
			if plan.OutlivesAlways(key) {
				// The namespace that the KfDef is in, and those of applications of others, may be there before.
				object.Adopt = key.Kind == "Namespace"
				definitions = append(definitions, object)
				continue
			}
			object.Retain, object.Informational = key.GroupKind == claims, informational(key.GroupKind)
			applications[i] = append(applications[i], object)
		}
	}
	return definitions, applications
}

// claims is the kind of a claim.
var claims = schema.GroupKind{Kind: "PersistentVolumeClaim"}

// keyOf names an object with its namespace: that of the KfDef where it names none, and none where its kind has none.
func keyOf(o *unstructured.Unstructured, namespace string, facts Facts) plan.Key {
	key := plan.KeyOf(o)
	namespaced, known := facts.Namespaced[key.GroupKind]
	switch {
	case known && !namespaced:
		key.Namespace = ""
	case key.Namespace == "":
		key.Namespace = namespace
	}
	return key
}

// informational says that the health of a kind does not count. That of a HorizontalPodAutoscaler is that of the cluster's
// metrics: what it scales serves without.
func informational(gk schema.GroupKind) bool {
	return gk == schema.GroupKind{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}
}

var notLabel = regexp.MustCompile(`[^a-z0-9-]+`)

// stageName is a DNS label that names an application and its place.
func stageName(i int, name string) string {
	label := notLabel.ReplaceAllString(strings.ToLower(name), "-")
	return strings.Trim(fmt.Sprintf("%d-%.50s", i+1, label), "-")
}
