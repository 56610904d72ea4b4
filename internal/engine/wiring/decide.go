package wiring

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// ReasonNotEditable is the reason of the outcomes when Edit failed altogether.
const ReasonNotEditable = "NotEditable"

// decision is what an object needs so that it holds exactly the wanted entries. It is computed twice: from the cached
// object, which costs nothing, and, only where that one asks for a write, from the live object, which is written.
type decision struct {
	recorded Record
	entries  []Entry
	edited   *unstructured.Unstructured
	outcomes []Outcome
}

// decide is pure.
func decide(wire *Wire, target *unstructured.Unstructured, alive []client.Object) decision {
	var wanted []Entry
	if len(alive) > 0 {
		wanted = wire.Wanted(target, alive)
	}
	recorded, unreadable := wire.Recorded(target, alive)
	d := decision{recorded: recorded}
	if len(wanted) == 0 && len(recorded.Entries) == 0 {
		return d
	}
	edited, outcomes, err := wire.Edit(target, recorded.Entries, wanted)
	if err != nil {
		edited, outcomes = nil, kept(recorded.Entries, wanted, err)
	}
	if unreadable != nil {
		outcomes = warned(outcomes, unreadable)
	}
	d.edited, d.outcomes, d.entries = edited, outcomes, recordOf(outcomes)
	return d
}

// needed says that the object must be written or, when MLKeeper created it and nothing is wanted any more, deleted.
func (d *decision) needed() bool {
	return d.edited != nil || !slices.Equal(d.entries, d.recorded.Entries) ||
		len(d.entries) == 0 && d.recorded.Created != ""
}

// seal turns a decision on the live object into what is to be written; remove says that the object is to be deleted,
// since MLKeeper created it, nobody changed it since, and nothing is wanted in it any more.
func (d *decision) seal(wire *Wire, live *unstructured.Unstructured) (out *unstructured.Unstructured, remove bool, err error) {
	ours, err := unchanged(live, d.recorded)
	if err != nil {
		return nil, false, err
	}
	if ours && len(d.entries) == 0 {
		return nil, true, nil
	}
	if out = d.edited; out == nil {
		out = live.DeepCopy()
	}
	record := Record{Entries: d.entries}
	if ours {
		if record.Created, err = contentHash(out); err != nil {
			return nil, false, err
		}
	}
	return out, false, wire.record(out, record, d.edited != nil)
}

// unchanged says that MLKeeper created the object and that nobody changed its content since.
func unchanged(live *unstructured.Unstructured, r Record) (bool, error) {
	if r.Created == "" {
		return false, nil
	}
	hash, err := contentHash(live)
	return hash == r.Created, err
}

// kept is the outcome when Edit failed: nothing is written, so what is recorded stays recorded.
func kept(recorded, wanted []Entry, err error) []Outcome {
	message := fmt.Sprintf("%v; correct the object by hand", err)
	var out []Outcome
	for _, e := range recorded {
		out = append(out, Outcome{Entry: e, Record: true, Reason: ReasonNotEditable, Message: message})
	}
	for _, e := range wanted {
		if !slices.ContainsFunc(recorded, func(r Entry) bool { return r.Owner == e.Owner && r.Value == e.Value }) {
			out = append(out, Outcome{Entry: e, Reason: ReasonNotEditable, Message: message})
		}
	}
	return out
}

// warned adds to every outcome that the annotation could not be read.
func warned(outcomes []Outcome, err error) []Outcome {
	out := slices.Clone(outcomes)
	for i := range out {
		if out[i].Message != "" {
			out[i].Message += "; "
		}
		out[i].Message += fmt.Sprintf("the annotation %s cannot be read (%v): remove it, and what MLKeeper added "+
			"before that is no longer wanted", keeper.WiringAnnotation, err)
	}
	return out
}
