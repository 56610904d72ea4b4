package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Duration is a time.Duration that a plan file spells as text.
type Duration time.Duration

// MarshalText spells the duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads the duration.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// Point is a request of an operator that means the same in every run: parallel writes come in another order each time,
// but the n-th request with one verb for one object is the same.
type Point struct {
	Verb string `json:"verb"`
	// Resource is the plural name with group and subresource.
	Resource string `json:"resource"`
	// Name is the name without what differs from run to run; empty for any.
	Name string `json:"name,omitempty"`
	// Occurrence counts from 1, from the moment in which the faults are armed; 0 for any.
	Occurrence int `json:"occurrence,omitempty"`
}

// String prints the point as "APPLY deployments.apps name #2".
func (p Point) String() string {
	s := p.Verb + " " + p.Resource
	if p.Name != "" {
		s += " " + p.Name
	}
	if p.Occurrence > 0 {
		s += fmt.Sprintf(" #%d", p.Occurrence)
	}
	return s
}

// Action is what a fault does.
type Action string

// The actions.
const (
	// DieBefore ends the operator in the place of the request.
	DieBefore Action = "die-before"
	// DieAfter sends the request and ends the operator before it hears the answer.
	DieAfter Action = "die-after"
	// Lose sends the request and breaks the connection in the place of the answer. The operator lives and cannot know.
	Lose Action = "lose"
	// LoseDie is Lose, and the operator dies in the place of its next write.
	LoseDie Action = "lose-die"
	// Answer gives an error of the API server in the place of the request.
	Answer Action = "answer"
	// Timeout lets the request hang and then time out, unsent.
	Timeout Action = "timeout"
	// Reset breaks the connection in the place of the request.
	Reset Action = "reset"
	// Hold holds back the events of watches for a while.
	Hold Action = "hold"
	// Cut ends watches.
	Cut Action = "cut"
	// Expire drops the events of watches for a while, and then has them begin anew, so that what was overwritten in
	// between is never seen.
	Expire Action = "expire"
	// TwoLeaders runs a second operator through the whole workload.
	TwoLeaders Action = "two-leaders"
	// Race has somebody else change another field of the object just before the request reaches the API server.
	Race Action = "race"
	// Usurp has somebody else put an object of his own in the place of the one that the request is to delete.
	Usurp Action = "usurp"
)

// dies says that the operator ends by the action.
func (a Action) dies() bool { return a == DieBefore || a == DieAfter || a == LoseDie }

// streams says that the action is about watches and not about the request that sets it off.
func (a Action) streams() bool { return a == Hold || a == Cut || a == Expire }

// Fault is what goes wrong in a plan.
type Fault struct {
	// At is the request that meets the fault, or sets it off.
	At Point  `json:"at"`
	Do Action `json:"do"`
	// Status is the code of an Answer.
	Status int `json:"status,omitempty"`
	// Times is how many requests in a row meet the fault; the default is one.
	Times int `json:"times,omitempty"`
	// For is how long, from the first on, every request that matches meets the fault, or how long watches are held.
	For Duration `json:"for,omitempty"`
	// Target is the resource whose watches are held or which is stale after the restart, "*" for all.
	Target string `json:"target,omitempty"`
	// Back is by how many changes of the target the state that the next operator is shown at its start is too old; it
	// is shown for For.
	Back int `json:"back,omitempty"`
	// Restart has the operator begin anew when the faults are armed, so that they meet its start.
	Restart bool `json:"restart,omitempty"`
}

// Change is what somebody else does to a child.
type Change string

// The changes.
const (
	ChangeField  Change = "change"
	DeleteField  Change = "delete-field"
	AddField     Change = "add-field"
	DeleteChild  Change = "delete"
	OrphanChild  Change = "orphan"
	RelabelChild Change = "relabel"
	ReplaceChild Change = "replace"
	HoldChild    Change = "hold-by-finalizer"
)

// Drift is a change of a child by somebody else.
type Drift struct {
	// Resource and Name are those of the child, as in a Point.
	Resource string `json:"resource"`
	Name     string `json:"name"`
	Change   Change `json:"change"`
	// Path is the field, in the notation of the first diverging field of a report.
	Path string `json:"path,omitempty"`
}

// Cause is what keeps an operator from writing a child, or from learning what to write, for as long as it stands.
type Cause string

// The causes.
const (
	// Foreign is an object of somebody else under the name of the child.
	Foreign Cause = "foreign"
	// ForeignMarked is the same with MLKeeper's labels, and with another owner.
	ForeignMarked Cause = "foreign-marked"
	// Quota is a ResourceQuota that allows no object of the resource.
	Quota Cause = "quota"
	// Policy is a ValidatingAdmissionPolicy that denies the child.
	Policy Cause = "policy"
	// WebhookDown is a webhook that must answer for the child, and that has no server.
	WebhookDown Cause = "webhook-down"
	// Forbidden is a right that the operator does not have.
	Forbidden Cause = "forbidden"
	// Immutable and Invalid are writes that the API server's validation refuses.
	Immutable Cause = "immutable"
	Invalid   Cause = "invalid"
	// Terminating is a namespace that is being deleted, as the API server tells it of the child.
	Terminating Cause = "terminating"
	// Held is a deleted child that a finalizer of somebody else holds.
	Held Cause = "held"
	// Retaken is a field that another manager sets back a second after each correction, Reverted one that it sets back at once.
	Retaken  Cause = "retaken"
	Reverted Cause = "reverted"
	// Removed is a label that another client takes out after each correction, so that nobody holds it, and Unmarked the same of MLKeeper's own.
	Removed  Cause = "removed"
	Unmarked Cause = "unmarked"
	// Emptied is a Secret or ConfigMap whose data another client takes out, or makes empty, after each correction.
	Emptied Cause = "emptied"
	// Deleted is a child that somebody deletes after each creation.
	Deleted Cause = "deleted"
	// APIRemoved is a definition that is deleted, with the objects of its resource; from the beginning, one that is not there.
	APIRemoved Cause = "api-removed"
	// FieldRemoved, TypeChanged and FieldRequired are definitions with another schema: without a field that the child has, with
	// another type of it, and with a further field that is required.
	FieldRemoved  Cause = "field-removed"
	TypeChanged   Cause = "type-changed"
	FieldRequired Cause = "field-required"
	// ServerHangs is a server that does not answer, ServerLate one that answers after an operator has given up, ServerSlow one that
	// begins its answer and does not end it.
	ServerHangs Cause = "server-hangs"
	ServerLate  Cause = "server-late"
	ServerSlow  Cause = "server-slow"
	// ServerGarbage is a server with another content, ServerUntrusted one with a certificate of an unknown authority,
	// ServerRedirects one that redirects to itself.
	ServerGarbage   Cause = "server-garbage"
	ServerUntrusted Cause = "server-untrusted"
	ServerRedirects Cause = "server-redirects"
)

// Standing is a cause that stands on one child.
type Standing struct {
	// Resource and Name are those of the child, as in a Point; of a server, "servers" and how the status names it.
	Resource string `json:"resource"`
	Name     string `json:"name"`
	Cause    Cause  `json:"cause"`
	// Early says that it stands before the custom resource is created.
	Early bool `json:"early,omitempty"`
}

// Plan is one run: a workload and what goes wrong in it.
type Plan struct {
	Seed     int64  `json:"seed"`
	Kind     string `json:"kind"`
	Workload string `json:"workload"`
	Campaign string `json:"campaign"`
	Fault    *Fault `json:"fault,omitempty"`
	Drift    *Drift `json:"drift,omitempty"`
	// Standing is what stands while the operator is watched.
	Standing *Standing `json:"standing,omitempty"`
	// Operations are those of the campaign misoperation, whose workload is a base.
	Operations []Operation `json:"operations,omitempty"`
}

// String names the plan in one line.
func (p Plan) String() string {
	s := p.Campaign + " " + p.Kind + "/" + p.Workload
	if f := p.Fault; f != nil {
		s += ": " + string(f.Do)
		if f.Status > 0 {
			s += fmt.Sprintf(" %d", f.Status)
		}
		if f.At.Verb != "" {
			s += " at " + f.At.String()
		}
		if f.Times > 1 {
			s += fmt.Sprintf(" x%d", f.Times)
		}
		if f.For > 0 {
			s += " for " + time.Duration(f.For).String()
		}
		if f.Target != "" {
			s += " on " + f.Target
		}
		if f.Back > 0 {
			s += fmt.Sprintf(" %d back", f.Back)
		}
	}
	if d := p.Drift; d != nil {
		s += ": " + string(d.Change) + " " + d.Resource + " " + d.Name
		if d.Path != "" {
			s += " " + d.Path
		}
	}
	if t := p.Standing; t != nil {
		s += ": " + string(t.Cause) + " " + t.Resource + " " + t.Name
		if t.Early {
			s += " from the beginning"
		}
	}
	for i, op := range p.Operations {
		s += map[bool]string{true: ": ", false: " > "}[i == 0] + short(op.Name)
	}
	return s
}

// planFile is what a plan file holds: the plan, and what became of it when it was written.
type planFile struct {
	Plan
	Replay   string    `json:"replay"`
	Findings []Finding `json:"findings,omitempty"`
	Timeline []string  `json:"timeline,omitempty"`
}

// writePlan writes a plan file.
func writePlan(path string, r planFile) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the plan: %w", err)
	}
	return os.WriteFile(path, append(raw, '\n'), 0o644)
}

// readPlan reads a plan file.
func readPlan(path string) (Plan, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return Plan{}, err
	}
	var r planFile
	if err := json.Unmarshal(raw, &r); err != nil {
		return Plan{}, fmt.Errorf("%s is no plan file: %w", path, err)
	}
	return r.Plan, nil
}
