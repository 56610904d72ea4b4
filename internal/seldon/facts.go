package seldon

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/bounded"
	"mlkeeper.dev/internal/manifest/helm"
	"mlkeeper.dev/internal/rendering"
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
	// URL is where Seldon Deploy is reached, and URLWarning why the operator could not look for a better address; empty where it could.
	URL, URLWarning string
	// KeepsRevisions says that revisions are kept for a rollback, and RevisionsAbsent that there is no Secret for them yet.
	KeepsRevisions, RevisionsAbsent bool
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
	// Result is nil while there is none with objects.
	Result *Result
	// Pending says that what is declared now is being rendered, Older that the objects of the result are of something else that was
	// declared before.
	Pending, Older bool
	// Problem is why the values cannot be put together; nil where they can.
	Problem *plan.Problem
	// Rollback is what it has for going back; the result is then that of before.
	Rollback Rollback
}

// report says why a component is not as it is declared; a warning tells that it is, but of what the repository gave before.
func (p Part) report() (problem *plan.Problem, warning string) {
	switch {
	case p.Problem != nil:
		out := *p.Problem
		if p.Result.Rendered() {
			out.Message += rendering.StaysDeclared
		}
		return &out, ""
	case p.Rollback.Failed != nil && (p.Pending || !p.Older || p.Rollback.Refused == nil):
		return p.rolledBack(), ""
	case p.Rollback.Failed != nil:
		// What is declared is another than what has failed, and what is wrong with that is to be corrected.
		out := *p.Rollback.Refused
		out.Message += rendering.StaysDeclared
		return &out, ""
	case p.Pending || p.Result == nil:
		return nil, ""
	}
	problem, warning = p.Result.Report(!p.Older)
	if e := p.Result.Content.Health.Error; e != nil && problem == nil {
		problem = &plan.Problem{
			Class: plan.Terminal, Reason: reasonChartFailed, Field: "spec." + p.name + ".healthCheckExprs" + e.Field, Message: e.Message,
			Remedy: "correct the expression",
		}
	}
	return problem, warning
}

// all are the objects of a component.
func (p Part) all() []*unstructured.Unstructured {
	if p.Result == nil {
		return nil
	}
	c := p.Result.Content
	return slices.Concat(p.definitions(), c.Before, c.Objects, c.After)
}

// definitions are those that the chart brings beside its templates.
func (p Part) definitions() []*unstructured.Unstructured {
	if p.spec.CRDs == v1alpha1.SkipDefinitions {
		return nil
	}
	return p.Result.Content.Definitions
}

// older says that the chart is older than one that was rendered before.
func (p Part) older() bool { return p.Result.Content.DefinitionsVersion != p.Result.Content.Version }

// leavesDefinitions says that the CustomResourceDefinitions that exist stay as they are: fields that an older one does not know would be lost
// of the objects that are stored.
func (p Part) leavesDefinitions() bool { return p.older() || p.Rollback.Failed != nil }

// keepsNewer says that CustomResourceDefinitions stay as a newer version of the chart has them, although the policy would replace them.
func (p Part) keepsNewer() bool {
	c := p.Result.Content
	replaced := slices.Concat(c.Before, c.Objects, c.After)
	if p.spec.CRDs != v1alpha1.CreateDefinitions {
		replaced = append(replaced, p.definitions()...)
	}
	return p.older() && slices.ContainsFunc(replaced, func(u *unstructured.Unstructured) bool {
		return u.GroupVersionKind().GroupKind() == customResourceDefinitions
	})
}

// Result is what became of fetching and rendering a chart.
type Result = rendering.Result[Content]

// Content is what a chart renders, or what was rendered before where certificates have to be made first.
type Content struct {
	// Chart and Version are those of the archive.
	Chart, Version string
	// ValuesDigest is a keyed digest of all values, patches and metadata.
	ValuesDigest string
	revision
	// DefinitionsVersion is the newest version of the chart so far.
	DefinitionsVersion                  string
	Definitions, Before, Objects, After []*unstructured.Unstructured
	// Left are the hooks of the installation that an upgrade leaves as they are.
	Left     []*unstructured.Unstructured
	Warnings bounded.Warnings
	Health   rendering.Health
	Told
}

// Told is what templates asked for.
type Told struct {
	// APIs and Certificates are what the templates were told of those that they asked for.
	APIs         map[string]bool
	Certificates map[string]string
	// Wanted are certificates that have to be made first.
	Wanted []helm.Certificate
	// Names are the names of before of what is random, where they are yet to be recorded.
	Names map[string]string
}

// size is what the APIs take in memory, in bytes, about. Of the rest there are few, with short names.
func (t Told) size() int64 { return bounded.InMemoryOfTexts(slices.Collect(maps.Keys(t.APIs))...) }
