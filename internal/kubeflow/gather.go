package kubeflow

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/room"
)

// retry is how long after a failure that may pass the repositories are asked for again.
const retry = 30 * time.Second

// The reasons of problems, stable across releases.
const (
	reasonNotTrusted        = "NotTrusted"
	reasonFetching          = "Fetching"
	reasonApplicationFailed = "ApplicationFailed"
)

// Gather has the repositories fetched and rendered in the background, and looks up which kinds are in namespaces.
func (s *system) Gather(_ context.Context, read room.Reader, cr *kubeflowv1.KfDef) (Facts, error) {
	if !s.settings.Trusted {
		return Facts{}, plan.Problem{
			Class: plan.Terminal, Reason: reasonNotTrusted,
			Message: "the applications of a KfDef are applied with the operator's own rights, which its administrator has not allowed",
			Remedy:  "start the manager with --kubeflow-trusted and grant it the rights, as config/trusted does",
		}
	}
	answer := s.answer(read, cr)
	if answer == nil {
		return Facts{}, plan.Problem{
			Class: plan.Waiting, Reason: reasonFetching, Message: "the repositories are being fetched and rendered",
			Remedy: "nothing to do",
		}
	}
	facts := Facts{Answer: answer, Namespaced: map[schema.GroupKind]bool{}}
	for _, a := range answer.Applications {
		for _, o := range a.Objects {
			gvk := o.GroupVersionKind()
			if namespaced, served := read.Namespaced(gvk); served {
				facts.Namespaced[gvk.GroupKind()] = namespaced
			}
		}
	}
	scopes(answer, facts.Namespaced)
	return facts, nil
}

// answer asks once for each spec, and each wish to reconcile now; after a failure that may pass it asks again.
func (s *system) answer(read room.Reader, cr *kubeflowv1.KfDef) *Answer {
	name := "rendered " + questionOf(cr)
	question := s.question(cr.DeepCopy(), read.Serves)
	answer, _ := read.Probe(name, room.Once, question).(*Answer)
	if answer != nil && answer.Failure != nil && answer.Failure.Transient {
		answer, _ = read.Probe(name, retry, question).(*Answer)
	}
	return answer
}

// questionOf tells apart what is asked: another spec is another question.
func questionOf(cr *kubeflowv1.KfDef) string {
	raw, err := json.Marshal([]any{
		cr.Spec.Repos, cr.Spec.Applications, cr.Name, cr.Namespace, cr.UID, cr.Annotations[keeper.ReconcileAtAnnotation],
	})
	if err != nil {
		panic(fmt.Sprintf("bug: the spec of a KfDef does not encode: %v", err))
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}
