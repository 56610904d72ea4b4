package wiring

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Wire describes one kind of foreign object that a controller edits. Its functions are pure.
type Wire struct {
	// Name names the wire in messages, metrics and Reader.Targets.
	Name string
	// GVK is the kind that is edited; while it is not served the wire rests.
	GVK schema.GroupVersionKind
	// LabelSelector and FieldSelector restrict the watch; both may be empty.
	LabelSelector, FieldSelector string
	// CreateName, when set, is the name of the object that is created in a namespace where it is absent and entries
	// are wanted. It is deleted again, when no entry is wanted any more, only if it is unchanged since.
	CreateName string
	// Claim is nil where the annotations of an object reach no pods.
	Claim *Claim
	// Strip reduces a watched object to what Wanted and Edit's comparison need, within bounds, since users write it: of the metadata
	// observe.Metadata keeps a part, and of managedFields Claims stay. Nil keeps the object.
	Strip func(*unstructured.Unstructured) *unstructured.Unstructured
	// Wanted returns the entries that the object should hold, given the custom resources alive in its namespace,
	// oldest first. A custom resource that is being deleted, suspended or stalled before its first Ready is not alive.
	Wanted func(target *unstructured.Unstructured, alive []client.Object) []Entry
	// Edit returns a copy of the live object in which exactly the wanted entries are MLKeeper's: entries recorded
	// earlier and no longer wanted are taken out, entries of others stay untouched. recorded comes from the wiring
	// annotation, which Edit does not touch: the outcomes say what it is to hold. A nil result with nil error means
	// that nothing is to change. It never removes what it did not record. Given a watched object that Strip reduced,
	// it must decide alike, and nobody writes that result.
	Edit func(live *unstructured.Unstructured, recorded, wanted []Entry) (*unstructured.Unstructured, []Outcome, error)
}

// Entry is one thing that MLKeeper puts into a foreign object, such as a payload processor URL or a logger.
type Entry struct {
	// Owner is the ID of the custom resource ("<Kind>.<group>/<namespace>/<name>") that wants it.
	Owner string `json:"owner"`
	// Value is the entry itself, such as the URL.
	Value string `json:"value"`
	// Detail holds what else is needed to take the entry out again, such as the mode of a logger.
	Detail string `json:"detail,omitempty"`
}

// Outcome tells what became of one wanted entry, for the status of its custom resource.
type Outcome struct {
	Entry Entry
	// Wired says that the object holds the entry.
	Wired bool
	// Record says that the entry belongs in the wiring annotation once the edit is written: MLKeeper put it there, or
	// did so earlier and cannot take it out now. An entry that somebody else put there is Wired but not recorded, so
	// that it is never taken out. Edit returns an outcome for every wanted entry and for every recorded one it keeps.
	Record bool
	// Reason is one CamelCase word; Message says why not, and what to do.
	Reason, Message string
}
