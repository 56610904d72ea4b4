package kubeflow

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/bounded"
	"mlkeeper.dev/internal/rendering"
)

// Facts are everything that the plan needs beyond the custom resource.
type Facts struct {
	// Result is what the repositories gave.
	Result *Result
	// Pending says that it is the result of another spec than the one that is declared now, which is being rendered.
	Pending bool
	// Current says that it is the result of what is declared now.
	Current bool
	// Problem is why nobody can tell what is declared now: an object that the KfDef names is absent or unreadable. The result is the last
	// one then. Without a reason there is none.
	Problem plan.Problem
	// ActAs is the user whose rights the objects are written with; empty for the operator's own.
	ActAs string
	// Awaited is what the KfDefs that this one depends on have to do with it.
	Awaited Awaited
	// Namespaced says of the kinds that are rendered whether their objects are in namespaces, as far as that is known.
	Namespaced map[schema.GroupKind]bool
}

// Result is what became of fetching and rendering.
type Result = rendering.Result[Content]

// Content is what was rendered.
type Content struct {
	// Spec are the applications as they were declared then, Applications what each rendered.
	Spec         []kubeflowv1.Application
	Applications []Application
	// Rendering is how they were rendered, and Why it is that one.
	Rendering kubeflowv1.Rendering
	Why       string
	// Unresolved says of applications, by their place, which address in their kustomizations cannot be fetched, and why.
	Unresolved map[int]plan.Problem
}

// Application is one application as it was rendered.
type Application struct {
	Name string
	// Objects are what it rendered, and Namespace is where those are made that name none; empty for the namespace of the KfDef.
	Objects   []*unstructured.Unstructured
	Namespace string
	// Warnings are its part of those that are kept of all applications.
	Warnings bounded.Warnings
	Health   rendering.Health
	// Error says why it was not rendered; its objects are those of before then, in the namespace of then.
	Error string
}
