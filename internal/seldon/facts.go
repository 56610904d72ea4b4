package seldon

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/helm"
)

// Facts are everything that the plan needs beyond the custom resource.
type Facts struct {
	// ActAs is the user whose rights the objects are written with; empty for the operator's own.
	ActAs string
	// Keys is what is random once.
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
	// Answer is nil while there is none.
	Answer *Answer
	// Pending says that the answer is of other values than those that are declared now, which are being rendered.
	Pending bool
	// Problem is why the values cannot be put together; nil where they can.
	Problem *plan.Problem
}

// Answer is what became of fetching and rendering a chart.
type Answer struct {
	// Chart, Version and Digest are those of the archive that was rendered.
	Chart, Version, Digest string
	// ValuesDigest is a keyed digest of all values.
	ValuesDigest string
	// Definitions, Before, Objects and After are what the chart renders.
	Definitions, Before, Objects, After []*unstructured.Unstructured
	// APIs and Certificates are what the templates asked for, and what they were told.
	APIs         map[string]bool
	Certificates map[string]string
	// Served are the kinds of what was rendered that the cluster was asked for, and whether it served them.
	Served map[schema.GroupVersionKind]bool
	// LooksUp says that the templates looked something up.
	LooksUp bool
	// Wanted are certificates that have to be made first; nothing was rendered then.
	Wanted   []helm.Certificate
	Warnings []string
	// Stale says why the chart is the one that the repository gave before; empty where it is what it gives now.
	Stale string
	// Failure says why nothing was rendered; nil where it was.
	Failure *plan.Problem
}

// unsettled says that asking again is of use.
func (a *Answer) unsettled() bool {
	return a.Failure != nil && a.Failure.Class == plan.Waiting || a.Stale != ""
}

// all are the objects of an answer.
func (a *Answer) all() []*unstructured.Unstructured {
	if a == nil {
		return nil
	}
	return slices.Concat(a.Definitions, a.Before, a.Objects, a.After)
}
