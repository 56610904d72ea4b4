package plan

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/health"
)

// Key is the identity of an object in the cluster, whatever the version it is read in.
type Key struct {
	schema.GroupKind
	// Namespace is empty for cluster-scoped objects.
	Namespace string
	Name      string
}

// String prints the key as "deployment ns/name", the form used in messages.
func (k Key) String() string {
	name := k.Name
	if k.Namespace != "" {
		name = k.Namespace + "/" + k.Name
	}
	return k.Kind + " " + name
}

// Immutable says what happens when a change is refused because a field is immutable.
type Immutable string

const (
	// ImmutableByKind recreates Jobs, role bindings and immutable ConfigMaps and Secrets, and stalls otherwise.
	ImmutableByKind Immutable = ""
	// ImmutableRecreate deletes the object by UID and creates it again once it is gone.
	ImmutableRecreate Immutable = "Recreate"
	// ImmutableStall leaves the object as it is and reports the difference.
	ImmutableStall Immutable = "Stall"
)

// Replicas says who has spec.replicas of an object.
type Replicas string

const (
	// ReplicasObserved leaves them to a HorizontalPodAutoscaler that has written them and targets the object, and declares them otherwise.
	ReplicasObserved Replicas = ""
	// ReplicasDeclared declares them whoever has written them, such as 0, which pauses a HorizontalPodAutoscaler.
	ReplicasDeclared Replicas = "Declared"
	// ReplicasLeft leaves them as they are. An object that is created has those declared.
	ReplicasLeft Replicas = "Left"
)

// HealthRules tell the health of objects by their content alone.
type HealthRules interface {
	// ID tells rules apart: those with one ID tell the same of the same object.
	ID() string
	// For says that there are rules for a kind.
	For(apiVersion, kind string) bool
	// Of returns the health of an object, and what it took to tell it, in the units of CEL's costs; false leaves the health to its kind.
	Of(u *unstructured.Unstructured) (told health.Result, cost uint64, found bool)
}

// Object is one desired object.
type Object struct {
	// Desired is the whole object as the controller wants it, without the engine's marks, status or owner references.
	Desired *unstructured.Unstructured
	// Retain says that the object must be retained after its custom resource: it gets no owner reference (invariant 5).
	Retain bool
	// Orphan says that the object must be retained after its custom resource, and is deleted when it leaves the plan; it gets no owner
	// reference either.
	Orphan bool
	// Optional says that the object is left out, and named in status, while its API is not served.
	Optional bool
	// IfNotPresent says that the object is created if it is absent and otherwise left as it is in this pass: its content
	// was made anew since none was known, and must not replace one that was made meanwhile.
	IfNotPresent bool
	// Generated says that the content is random and was made anew in this pass, since none that could be used is stored. It differs in each pass until
	// one is stored, and is no change of what is declared (invariants 18 and 19).
	Generated bool
	// Adopt says that the object is adopted where it is there already and nobody owns it, such as the Namespace that a
	// custom resource is in and renders too.
	Adopt bool
	// Inherit says that the object, where it is there already and nobody owns it, was made for the custom resource by the
	// previous operator: it is adopted as if MLKeeper had made it (invariant 8).
	Inherit bool
	// Partial says that the object exists and is declared only in part: what the previous operator declared stays as it
	// is, until the object is declared as a whole (invariant 8). Such an object is never created.
	Partial bool
	// OnImmutable says what happens when a change is refused because a field is immutable.
	OnImmutable Immutable
	// Drift says what becomes of the values that others set in the object.
	Drift Drift
	// Health tells the health of the object where its custom resource says how; nil leaves it to its kind.
	Health HealthRules
	// Replicas says who has spec.replicas of an object that exists.
	Replicas Replicas
	// IgnoreHealth says that the object's health does not count for Ready. That it is being deleted does.
	IgnoreHealth bool
	// Step orders the objects of a stage: nothing of a step is created or changed before the steps below it are as declared and healthy.
	// What is as declared is repaired meanwhile. A step of which a Hook has not completed holds back the steps above it for as long as
	// that takes, and pruning with them; others open by time, as the gates of stages do.
	Step int
	// StepOf names the stage whose steps Step is one of, for a Namespace or a CustomResourceDefinition of another stage; empty for its own
	// stage. It is created with its own stage, since the steps may need it, and changed in its step.
	StepOf string
	// Hook says that the object, a Job or a Pod, runs to its end: it is healthy when it has completed, and the custom resource is Stalled
	// when it has failed. It is run anew for another value of keeper.RunAnnotation.
	Hook bool
	// DeleteCompleted deletes a Hook once it has completed. It is not run again. Anything else it deletes once all Hooks of its stage have
	// completed, for which it was made; it is made again before one that is to run again.
	DeleteCompleted bool
	// Suspended leaves the object as it is.
	Suspended bool
	// Hold says what the object waits for before it is written at all, such as a generated Secret that it depends on and that
	// is not stored yet; empty mostly. What is there is left as it is.
	Hold string
}

// Key returns the identity of the desired object.
func (o Object) Key() Key { return KeyOf(o.Desired) }

// maxRun is the bound of the schemas on the run of an entry of an inventory.
const maxRun = 128

// Run returns what a Hook, or what is made for Hooks alone, is to be run for; empty where it is run whenever it changes. A chart may have any text
// in keeper.RunAnnotation where the controller sets none.
func (o Object) Run() string {
	if !o.Hook && !o.DeleteCompleted || o.Desired == nil {
		return ""
	}
	if run := o.Desired.GetAnnotations()[keeper.RunAnnotation]; len(run) <= maxRun {
		return run
	}
	return ""
}

// KeyOf returns the identity of an object.
func KeyOf(u *unstructured.Unstructured) Key {
	return Key{GroupKind: u.GroupVersionKind().GroupKind(), Namespace: u.GetNamespace(), Name: u.GetName()}
}

// KeyOfEntry returns the identity of an object that an inventory lists.
func KeyOfEntry(e keeper.InventoryEntry) Key {
	return Key{GroupKind: schema.GroupKind{Group: e.Group, Kind: e.Kind}, Namespace: e.Namespace, Name: e.Name}
}

// DefinedBy returns the kind of the custom resources that a CustomResourceDefinition defines, as its spec names it.
func DefinedBy(crd *unstructured.Unstructured) (out schema.GroupKind) {
	out.Group, _, _ = unstructured.NestedString(crd.Object, "spec", "group")
	out.Kind, _, _ = unstructured.NestedString(crd.Object, "spec", "names", "kind")
	return out
}

// Stage is a group of objects that are written together.
type Stage struct {
	// Name names the stage in messages and in Inventories, which are found again by it; a DNS label that no other stage of the plan has.
	Name    string
	Objects []Object
	// WaitHealthy holds back the creation of what later stages declare until every object of this stage is healthy
	// (invariant 14: only where dependsOn or wait asks). Without it a Namespace holds back what is in it, a CRD its custom resources.
	WaitHealthy bool
	// Suspended leaves the objects of this stage as they are: none is written, and what it had before is not pruned. That includes
	// what stages had whose names begin with the name of this one and a dash, whether the plan has them or not.
	Suspended bool
	// After names stages every object of which must be healthy before those of this one are created.
	After []string
	// KeepsPruned says that what the stage no longer has is not pruned.
	KeepsPruned bool
	// Hold says why nothing of this stage is created, such as that a stage of After could not be rendered; empty mostly. What
	// is there is updated nevertheless.
	Hold string
	// Timeout opens the gate of this stage, and that of After, with a warning after this long; zero means
	// DefaultGateTimeout.
	Timeout time.Duration
}

// DefaultGateTimeout is how long a gate holds back what comes after it before it opens with a warning.
const DefaultGateTimeout = 5 * time.Minute

// Plan is what a controller renders from facts.
type Plan struct {
	// Stages are applied in order and torn down in reverse.
	Stages []Stage
	// Keep names objects of earlier plans that are not pruned yet, such as a configuration that pods still use.
	Keep []Key
	// ActAs is the user whose rights the objects are written with, such as system:serviceaccount:NAMESPACE:NAME; empty for
	// the operator's own.
	ActAs string
	// PreviousOwner is how the previous operator marked the objects of the custom resource. What nobody owns and is marked so is
	// adopted as if MLKeeper had made it (invariant 8).
	PreviousOwner Mark
	// Inputs tells apart what the pods of the custom resource follow from beside its spec and the operator: credentials,
	// certificates, and what users' objects and archives hold. A restart for another is no rollout of the operator's. Empty
	// where there is none, and while it is not known.
	Inputs string
	// AppliedInputs are the Inputs that what runs was rendered from, where a controller records them: for a manager that has not seen it
	// become Ready, and would take a change that was made meanwhile for the operator's.
	AppliedInputs string
	// Problems stand in the way of the spec as written. While there is one that does not allow it nothing is pruned, and the stages hold
	// what should keep running nevertheless.
	Problems []Problem
	// Warnings are shown in status.
	Warnings []string
	// Notes say how the plan was made where there is more than one way; `mlkeeper render` prints them.
	Notes []string
	// WakeAt is the next deadline at which the plan may differ without any event, such as a certificate's renewal;
	// zero means never.
	WakeAt time.Time
}

// Has says that the plan declares an object.
func (p *Plan) Has(key Key) bool {
	return slices.ContainsFunc(p.Stages, func(stage Stage) bool {
		return slices.ContainsFunc(stage.Objects, func(o Object) bool { return o.Key() == key })
	})
}

// SetDeletionPolicy marks every object of the plan, so that it is orphaned where the policy says so. A controller calls it when
// the plan has all objects.
func (p *Plan) SetDeletionPolicy(policy keeper.DeletionPolicy) {
	if policy != keeper.DeletionOrphan {
		return
	}
	for i := range p.Stages {
		for j := range p.Stages[i].Objects {
			p.Stages[i].Objects[j].Orphan = true
		}
	}
}

// Policy is the policy of the object's inventory entry; empty for an object that is deleted with its custom resource.
func (o Object) Policy() keeper.EntryPolicy {
	switch {
	case o.Retain || o.keptByAnnotation():
		return keeper.Retain
	case o.Orphan:
		return keeper.Orphan
	}
	return ""
}

// keptByAnnotation says that the manifest of the object says that it is never pruned.
func (o Object) keptByAnnotation() bool {
	if o.Desired == nil {
		return false
	}
	metadata, _ := o.Desired.Object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	return annotations[keeper.PruneAnnotation] == keeper.PruneDisabled
}

// Mark is an annotation with a value; empty for none.
type Mark struct{ Annotation, Value string }

// Of says that an object carries the mark.
func (m Mark) Of(annotations map[string]string) bool {
	return m.Annotation != "" && annotations[m.Annotation] == m.Value
}

// Class is how the engine treats a problem.
type Class string

const (
	// Terminal problems need a change of the input: condition Stalled.
	Terminal Class = "Terminal"
	// Waiting problems clear when the named thing appears or changes; a watch wakes the custom resource.
	Waiting Class = "Waiting"
	// Blocked problems cannot be watched (403, quota, a name held by a foreign object) and are retried with backoff up
	// to five minutes (invariant 15).
	Blocked Class = "Blocked"
)

// Problem is a reason why the spec cannot be met as written, with the remedy. It is an error, so that gather can
// return one.
type Problem struct {
	Class Class
	// Reason is one CamelCase word, stable across releases.
	Reason string
	// Field is the path of the field, such as spec.storage.pv; empty where no field is at fault.
	Field string
	// Value is the offending value; never a secret.
	Value string
	// Message says what is wrong.
	Message string
	// Remedy says what to do.
	Remedy string
	// Object is the object of the plan that is at fault; empty where it is none.
	Object Key
	// AllowsPruning says that the stages of the plan have everything that is to run, although it is not what the spec says, so that what the
	// plan no longer has is pruned while the problem stands.
	AllowsPruning bool
	// Brief says that it passes without anybody's help, mostly within seconds, such as what is being fetched: a custom resource that is Ready is not
	// told otherwise for it, as after each start of the manager.
	Brief bool
}

// ReasonFetching is the reason while a background job has no result yet; stable across releases.
const ReasonFetching = "Fetching"

// MayPrune says that no problem is in the way of a deletion of what the plan no longer has.
func MayPrune(problems []Problem) bool {
	return !slices.ContainsFunc(problems, func(p Problem) bool { return !p.AllowsPruning })
}

// Error prints the problem as one line: field, value, message, remedy.
func (p Problem) Error() string {
	switch {
	case p.Field == "":
		return p.Advice()
	case p.Value == "":
		return p.Field + ": " + p.Advice()
	}
	return p.Field + " (" + p.Value + "): " + p.Advice()
}

// Advice is the message with the remedy, for a text that names field and value otherwise.
func (p Problem) Advice() string {
	if p.Remedy == "" {
		return p.Message
	}
	return p.Message + "; " + p.Remedy
}

// KeepRecorded has an object stay that the plan no longer has, if an inventory has recorded it: what is declared in its place cannot be made.
func (p *Plan) KeepRecorded(recorded []keeper.InventoryEntry, key Key) {
	for _, e := range recorded {
		if KeyOfEntry(e) == key {
			p.Keep = append(p.Keep, key)
		}
	}
}
