package kubeflow

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/manifest/convert"
)

// Facts are everything that the plan needs beyond the custom resource.
type Facts struct {
	// Answer is what the repositories gave.
	Answer *Answer
	// Pending says that it is the answer to another spec than the one that is declared now, which is being rendered.
	Pending bool
	// ActAs is the user whose rights the objects are written with; empty for the operator's own.
	ActAs string
	// Namespaced says of the kinds that are rendered whether their objects are in namespaces, as far as that is known.
	Namespaced map[schema.GroupKind]bool
}

// Answer is what became of fetching and rendering.
type Answer struct {
	// Inputs tell which spec was rendered; empty where nothing was.
	Inputs string
	// Spec are the applications of that spec.
	Spec []kubeflowv1.Application
	// Repos are the repositories that were rendered.
	Repos []Repo
	// Applications are in the order of Spec.
	Applications []Application
	// Failure says why what the repositories have now is not known; nil where it is. What was rendered of what they gave before
	// stays here meanwhile.
	Failure *Failure
}

var _ controller.Retryable = (*Answer)(nil)

// Retry implements controller.Retryable.
func (a *Answer) Retry() time.Duration {
	failed := func(a Application) bool { return a.Error != "" }
	switch {
	case a.Failure != nil && a.Failure.Transient:
		return controller.RetryPassing
	case a.Failure != nil || slices.ContainsFunc(a.Applications, failed):
		return controller.RetryLasting
	}
	return 0
}

// with is an answer that stands, but for why the repositories cannot be asked now.
func (a *Answer) with(failure *Failure) *Answer {
	if a == nil {
		return &Answer{Failure: failure}
	}
	if a.Failure == failure || a.Failure != nil && failure != nil && *a.Failure == *failure {
		return a
	}
	out := *a
	out.Failure = failure
	return &out
}

// keep takes over the objects of the applications that were rendered before and failed now.
func (a *Answer) keep(before *Answer) {
	if before == nil {
		return
	}
	for i := range a.Applications {
		one := &a.Applications[i]
		if one.Error == "" {
			continue
		}
		j := slices.IndexFunc(before.Applications, func(b Application) bool { return b.Name == one.Name })
		if j >= 0 {
			one.Objects, one.Depends = before.Applications[j].Objects, before.Applications[j].Depends
		}
	}
}

// depends are the APIs that the conversion of the applications depended on, as the cluster served them then and as it serves
// them now.
func (a *Answer) depends(served func(schema.GroupVersionKind) bool) (then, now string) {
	if a == nil {
		return "", ""
	}
	for _, one := range a.Applications {
		then += one.Depends.String() + ";"
		now += one.Depends.Now(served).String() + ";"
	}
	return then, now
}

// outdated says that the applications would be converted otherwise now.
func (a *Answer) outdated(served func(schema.GroupVersionKind) bool) bool {
	then, now := a.depends(served)
	return then != now
}

// Repo is a repository as it was used.
type Repo struct{ Name, Digest string }

// Application is one application as it was rendered.
type Application struct {
	Name     string
	Objects  []*unstructured.Unstructured
	Warnings []string
	// Depends are the removed APIs that its objects were converted from and to, and whether the cluster served them.
	Depends convert.Depends
	// Error says why it was not rendered; its objects are those of before then.
	Error string
}

// Failure is why a repository could not be used.
type Failure struct {
	// Transient says that it may pass by itself.
	Transient                             bool
	Reason, Field, Value, Message, Remedy string
}
