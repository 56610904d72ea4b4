package seldon

import (
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/convert"
	"mlkeeper.dev/internal/manifest/helm"
)

// Facts are everything that the plan needs beyond the custom resource.
type Facts struct {
	// ActAs is the user whose rights the objects are written with; empty for the operator's own.
	ActAs string
	// Keys are the generated credentials.
	Keys *keys
	// Parts are the components that are switched on, in the order in which they are made.
	Parts []Part
	// Missing says of a switch what it waits for: something of the cluster, or of the user's Secrets.
	Missing map[string]plan.Problem
	// Istio is the version in which the cluster serves Gateways; empty where it does not.
	Istio string
	// AliasNamespace says that the Namespace of the alias is ours to make.
	AliasNamespace bool
	// Postgres and Elastic are the passwords of the trial instances.
	Postgres, Elastic Password
	// URL is where Seldon Deploy is reached.
	URL string
	// Namespaced says of the kinds that are rendered whether their objects are in namespaces, as far as that is known.
	Namespaced map[schema.GroupKind]bool
}

// Password is that of a trial instance.
type Password struct {
	// Text is the password; empty where the instance is not wanted.
	Text string
	// Theirs says that a user made the Secret that holds it, which is left alone.
	Theirs bool
	// Absent says that there is no Secret yet: one that is made meanwhile is left as it is.
	Absent bool
}

// Part is one component as it was rendered.
type Part struct {
	component
	// Answer is nil while there is none with objects.
	Answer *Answer
	// Pending says that what is declared now is being rendered, Older that the objects of the answer are of something else that was
	// declared before.
	Pending, Older bool
	// Problem is why the values cannot be put together; nil where they can.
	Problem *plan.Problem
}

// failure is why a component is not as it is declared. It is nil where it is, and where a failure may pass and what the repository
// gave before is rendered with what is declared.
func (p Part) failure() *plan.Problem {
	switch a := p.Answer; {
	case p.Problem != nil:
		return p.Problem
	case p.Pending || a == nil || a.Failure == nil:
		return nil
	case a.Failure.Class == plan.Waiting && a.rendered() && !p.Older:
		return nil
	default:
		return a.Failure
	}
}

// Content is what a chart renders.
type Content struct {
	// Inputs tell what was declared when it was rendered.
	Inputs string
	// Chart, Version and Digest are those of the archive.
	Chart, Version, Digest string
	// ValuesDigest is a keyed digest of all values.
	ValuesDigest                        string
	Definitions, Before, Objects, After []*unstructured.Unstructured
	Warnings                            []string
}

// Answer is what became of fetching and rendering a chart. Where that failed, or something has to be made first, the content is what
// was rendered before, if anything was.
type Answer struct {
	Content
	// APIs and Certificates are what the templates asked for, and what they were told.
	APIs         map[string]bool
	Certificates map[string]string
	// Depends are the removed APIs that the content was converted from and to, and whether the cluster served them.
	Depends convert.Depends
	// LooksUp says that the templates looked something up.
	LooksUp bool
	// Wanted are certificates that have to be made first.
	Wanted []helm.Certificate
	// Failure says why the content is not of what is declared, or not of what the repository gives now; nil where it is.
	Failure *plan.Problem
}

// rendered says that there is something that was rendered, now or before.
func (a *Answer) rendered() bool { return a != nil && a.Chart != "" }

var _ controller.Retryable = (*Answer)(nil)

// Retry implements controller.Retryable.
func (a *Answer) Retry() time.Duration {
	switch {
	case a.Failure == nil:
		return 0
	case a.Failure.Class == plan.Waiting:
		return controller.RetryPassing
	}
	return controller.RetryLasting
}

// with is an answer that stands, but for a failure.
func (a *Answer) with(failure *plan.Problem) *Answer {
	if a == nil {
		return &Answer{Failure: failure}
	}
	if reflect.DeepEqual(a.Failure, failure) {
		return a
	}
	out := *a
	out.Failure = failure
	return &out
}

// all are the objects of an answer.
func (a *Answer) all() []*unstructured.Unstructured {
	if a == nil {
		return nil
	}
	return slices.Concat(a.Definitions, a.Before, a.Objects, a.After)
}
