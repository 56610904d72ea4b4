package kubeflow

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Facts are everything that the plan needs beyond the custom resource.
type Facts struct {
	// Answer is what the repositories gave.
	Answer *Answer
	// ActAs is the user whose rights the objects are written with; empty for the operator's own.
	ActAs string
	// Namespaced says of the kinds that are rendered whether their objects are in namespaces, as far as that is known.
	Namespaced map[schema.GroupKind]bool
}

// Answer is what became of fetching and rendering.
type Answer struct {
	// Repos are the repositories that were fetched.
	Repos []Repo
	// Applications are in the order of the spec.
	Applications []Application
	// Failure says why nothing was rendered; nil where it was.
	Failure *Failure
	// Stale says why what was rendered is of what the repositories gave before; empty where it is of what they have.
	Stale string
}

// unsettled says that asking again is of use.
func (a *Answer) unsettled() bool { return a.Failure != nil && a.Failure.Transient || a.Stale != "" }

// Repo is a repository as it was used.
type Repo struct{ Name, Digest string }

// Application is one application as it was rendered.
type Application struct {
	Name     string
	Objects  []*unstructured.Unstructured
	Warnings []string
	// Error says why it has no objects.
	Error string
}

// Failure is why a repository could not be used.
type Failure struct {
	// Transient says that it may pass by itself.
	Transient                             bool
	Reason, Field, Value, Message, Remedy string
}
