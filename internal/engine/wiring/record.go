package wiring

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/observe"
)

const (
	// maxRecord bounds the annotation that is decoded. Whoever may edit the object may write the annotation, so it is
	// hostile input, and the cache keeps no more of it.
	maxRecord = observe.MaxRecord
	// maxEntries bounds the entries of one object; MLKeeper itself writes one, rarely two.
	maxEntries = 256
)

// Record is what the wiring annotation of an object holds.
type Record struct {
	// Entries are MLKeeper's entries in the object, sorted by owner and value.
	Entries []Entry `json:"entries,omitempty"`
	// Created is set on an object that MLKeeper created: the digest of the content that it gave the object. It is
	// dropped when somebody else changed the object, which from then on is theirs.
	Created string `json:"created,omitempty"`
}

// Empty says that there is nothing to remember.
func (r Record) Empty() bool { return len(r.Entries) == 0 && r.Created == "" }

// Equal says that two records say the same, whatever the order of their entries.
func (r Record) Equal(o Record) bool {
	return r.Created == o.Created && slices.Equal(sorted(r.Entries), sorted(o.Entries))
}

// Recorded returns the record of an object. An error means that the annotation cannot be read; the record is empty then,
// so that nothing is ever taken out on the word of a damaged record.
func Recorded(u *unstructured.Unstructured) (Record, error) {
	if u == nil {
		return Record{}, nil
	}
	text, ok := u.GetAnnotations()[keeper.WiringAnnotation]
	if !ok || text == "" {
		return Record{}, nil
	}
	return Decode(text)
}

// Decode reads the value of a wiring annotation. It never panics and never returns entries together with an error.
func Decode(text string) (Record, error) {
	if len(text) > maxRecord {
		return Record{}, fmt.Errorf("it has more than %d bytes, which are not read", maxRecord)
	}
	var r Record
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return Record{}, fmt.Errorf("it is not the JSON that MLKeeper writes: %w", err)
	}
	if len(r.Entries) > maxEntries {
		return Record{}, fmt.Errorf("it has %d entries, at most %d are read", len(r.Entries), maxEntries)
	}
	for _, e := range r.Entries {
		if e.Owner == "" || e.Value == "" {
			return Record{}, errors.New("an entry lacks its owner or its value")
		}
	}
	r.Entries = sorted(r.Entries)
	return r, nil
}

// encode writes a record in the one form that equal records share, so that equal records give equal annotations.
func encode(r Record) (string, error) {
	r.Entries = sorted(r.Entries)
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return "", fmt.Errorf("encode the wiring record: %w", err)
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// setRecord writes the annotation, or removes it when there is nothing to remember.
func setRecord(u *unstructured.Unstructured, r Record) error {
	annotations := u.GetAnnotations()
	if r.Empty() {
		delete(annotations, keeper.WiringAnnotation)
		if len(annotations) == 0 {
			annotations = nil
		}
		u.SetAnnotations(annotations)
		return nil
	}
	text, err := encode(r)
	if err != nil {
		return err
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[keeper.WiringAnnotation] = text
	u.SetAnnotations(annotations)
	return nil
}

// recordOf is what the annotation is to hold after an edit with these outcomes.
func recordOf(outcomes []Outcome) []Entry {
	var entries []Entry
	for i := range outcomes {
		if outcomes[i].Record {
			entries = append(entries, outcomes[i].Entry)
		}
	}
	return sorted(entries)
}

// contentHash is the digest of everything that a user could have changed in an object that MLKeeper created: all of it
// but what the API server writes, status, and MLKeeper's own annotation.
func contentHash(u *unstructured.Unstructured) (string, error) {
	content := map[string]any{}
	for k, v := range u.Object {
		if k != "metadata" && k != "status" {
			content[k] = v
		}
	}
	annotations := map[string]string{}
	for k, v := range u.GetAnnotations() {
		if k != keeper.WiringAnnotation {
			annotations[k] = v
		}
	}
	content["metadata"] = map[string]any{
		"labels": u.GetLabels(), "annotations": annotations,
		"finalizers": u.GetFinalizers(), "ownerReferences": len(u.GetOwnerReferences()),
	}
	raw, err := json.Marshal(content)
	if err != nil {
		return "", fmt.Errorf("digest the content of %s: %w", u.GetName(), err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16]), nil
}

func sorted(entries []Entry) []Entry {
	out := slices.Clone(entries)
	sort.SliceStable(out, func(i, j int) bool {
		if out[i].Owner != out[j].Owner {
			return out[i].Owner < out[j].Owner
		}
		return out[i].Value < out[j].Value
	})
	return out
}
