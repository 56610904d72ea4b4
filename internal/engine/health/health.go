package health

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Status is the health of one object, in kstatus terms.
type Status string

const (
	// Current means that the object does what it declares.
	Current Status = "Current"
	// InProgress means that the object is on its way and needs nobody's hand so far.
	InProgress Status = "InProgress"
	// Failed means that the object will not get there by itself.
	Failed Status = "Failed"
	// Terminating means that the object is being deleted.
	Terminating Status = "Terminating"
	// Unknown means that the object does not tell.
	Unknown Status = "Unknown"
)

// Reasons that this package gives by itself. Other reasons are those of the observed conditions.
const (
	// ReasonExists says that the object needs nothing but to exist.
	ReasonExists = "Exists"
	// ReasonReady says that the object reports that it does what it declares.
	ReasonReady = "Ready"
	// ReasonNotReady says that the object reports that it does not do yet what it declares, without a usable reason.
	ReasonNotReady = "NotReady"
	// ReasonFailed says that the object reports a failure without a usable reason.
	ReasonFailed = "Failed"
	// ReasonDeleting says that the object carries a deletion timestamp.
	ReasonDeleting = "Deleting"
	// ReasonNotObserved says that the controller of the object has not seen its latest generation yet.
	ReasonNotObserved = "NotObserved"
	// ReasonMalformed says that the object has a shape that no API server would have let through.
	ReasonMalformed = "Malformed"
	// ReasonPaused says that the owner holds the object on purpose.
	ReasonPaused = "Paused"
	// ReasonSuspended says that the owner suspended the object on purpose.
	ReasonSuspended = "Suspended"
)

// Result is a health with its explanation.
type Result struct {
	// Status is the verdict.
	Status Status
	// Reason is a stable word in CamelCase.
	Reason string
	// Message is one sentence for a human, without values which change by themselves.
	Message string
	// NotBefore is when an object becomes Current that has nothing left to report; zero if it is Current already. At applies it.
	NotBefore time.Time
}

// At returns the health at a time: an object is in progress until NotBefore. A NotBefore that is further ahead than any rule
// sets it is that of an API server with another time, and does not count.
func (r Result) At(now time.Time) Result {
	if rest := r.NotBefore.Sub(now); rest > 0 && rest <= 2*establishedDelay {
		return Result{Status: InProgress, Reason: ReasonNotReady, Message: r.Message, NotBefore: r.NotBefore}
	}
	return r
}

// Of computes the health of an object as read from the API server.
func Of(obj *unstructured.Unstructured) Result {
	if obj == nil || obj.Object == nil || obj.GetKind() == "" {
		return unknown(ReasonMalformed, "The object has no kind.")
	}
	o := object(obj.Object)
	// A value of another type is a deletion timestamp as well: better to wait than to call the object healthy.
	if v, found := o.value("metadata", "deletionTimestamp"); found && v != "" {
		return Result{Status: Terminating, Reason: ReasonDeleting, Message: "The object is being deleted."}
	}
	gk := obj.GroupVersionKind().GroupKind()
	r, known := rules[gk]
	if known && r.health == nil || !known && statusless(gk) {
		return Result{Status: Current, Reason: ReasonExists, Message: "The object exists, which is all that its kind needs."}
	}
	if v, found := o.value("status"); found {
		if _, ok := v.(map[string]any); !ok {
			return malformed("status")
		}
	}
	if v, found := o.value("status", "conditions"); found {
		if _, ok := v.([]any); !ok {
			return malformed("status.conditions")
		}
	}
	if !copiesGeneration[gk] {
		if res, done := observed(o, r.observes); done {
			return res
		}
	}
	if known {
		return r.health(o)
	}
	return custom(gk, o)
}

// NeedsStatus tells whether the health of a kind depends on more than its metadata, so that the engine watches the whole
// object and not only metadata. It is true for every kind of a group that the API server does not serve by itself.
func NeedsStatus(gk schema.GroupKind) bool {
	if r, known := rules[gk]; known {
		return r.health != nil
	}
	return !statusless(gk)
}

// observed compares the generation with the one that the controller has seen. Kinds whose controllers always report it
// (required) are not observed as long as they don't; for the others its absence says nothing. The numbers must be
// equal, as in kstatus: an older generation with a newer observation is what restoring a backup leaves behind.
func observed(o object, required bool) (Result, bool) {
	generation, hasGeneration := o.number("metadata", "generation")
	seen, hasSeen := o.number("status", "observedGeneration")
	if hasSeen && hasGeneration && seen != generation || required && !hasSeen {
		return Result{Status: InProgress, Reason: ReasonNotObserved, Message: "The controller has not seen the latest generation yet."}, true
	}
	return Result{}, false
}

// malformed is the health of an object with a value of the wrong type where the health must be read.
func malformed(path string) Result {
	return unknown(ReasonMalformed, "The field "+path+" has the wrong type.")
}

// current, inProgress, failed and unknown keep the rules short.
func current(reason, message string) Result {
	return Result{Status: Current, Reason: reason, Message: message}
}

func inProgress(reason, message string) Result {
	return Result{Status: InProgress, Reason: reason, Message: message}
}

func failed(reason, message string) Result {
	return Result{Status: Failed, Reason: reason, Message: message}
}

func unknown(reason, message string) Result {
	return Result{Status: Unknown, Reason: reason, Message: message}
}
