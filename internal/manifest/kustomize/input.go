package kustomize

import (
	"io/fs"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/internal/manifest/bounded"
	"mlkeeper.dev/internal/manifest/worker"
)

// Input is what the rendering of a KfDef depends on.
type Input struct {
	// Name and Namespace are those of the KfDef; params.env may ask for both, and a legacy application is put into the
	// namespace unless a parameter of that name says otherwise.
	Name, Namespace string
	// Rendering is how the applications are rendered; empty for Kfctl. Detect finds it for a KfDef that does not name it.
	Rendering Rendering
	// KfctlRan says that kfctl's operator had the KfDef before.
	KfctlRan bool
	// UID tells KfDefs of one name apart, over time too, where a name has to be unique. Without it the name counts.
	UID string
	// Project is what the parameter project becomes, the Google Cloud project of a KfDef with that plugin. Elsewhere it
	// is empty, as it was for kfctl.
	Project string
	// Repos are the unpacked repositories by name, rooted at their top folder. Links in them are not followed.
	Repos map[string]fs.FS `json:"-"`
	// Applications are in the order of the KfDef.
	Applications []Application
	// Workers are the processes that render; nil for those that all share who name none. Their turns are counted for Namespace.
	Workers *worker.Pool `json:"-"`
}

// Application is one entry of spec.applications.
type Application struct {
	Name string
	// Repo and Path are those of repoRef; an empty path is the top of the repository.
	Repo, Path string
	// HasConfig and HasRepoRef say that kustomizeConfig and its repoRef are there.
	HasConfig, HasRepoRef bool
	Overlays              []string
	Parameters            []Parameter
	// Adjustments are what kfctl did not know.
	Adjustments
	// Images replace images after everything else; kfctl had no such field.
	Images []Image
}

// Parameter is a line for params.env.
type Parameter struct{ Name, Value string }

// Image replaces the image called Name; an empty field keeps that part of it.
type Image struct{ Name, NewName, NewTag, Digest string }

// Rendered is what became of one application.
type Rendered struct {
	Name string
	// Objects are in the order in which kfctl applied them: by kind, unknown kinds last.
	Objects []*unstructured.Unstructured
	// Warnings name what was ignored, left out or done differently from kfctl. They quote paths, fields and names only. Of all applications
	// together no more texts are kept than of one.
	Warnings bounded.Warnings
	// Err says why there are no objects, and what to change. It is the application's own: the others are rendered.
	Err error
}

// The bounds of one application besides those of the process that renders it. They are far above what real repositories need: the largest
// application of Kubeflow 1.2 has 266 objects in 1 MB, all of Kubeflow 1.11 653 objects.
const (
	// maxObjects is how many objects an application may have.
	maxObjects = 2000
	// maxDepth is how deep kustomizations may be nested.
	maxDepth = 40
	// maxReported is how many names a message lists.
	maxReported = 10
	// maxText bounds an error, in bytes: it quotes what files have, of any length, and is kept beside the objects.
	maxText = 4 << 10
)
