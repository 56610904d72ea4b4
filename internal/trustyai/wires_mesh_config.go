package trustyai

import (
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/internal/engine/wiring"
)

const (
	meshConfigName = "model-serving-config"
	meshConfigFile = "config.yaml"
	// ReasonConfigImmutable is the reason while the ConfigMap itself is immutable.
	ReasonConfigImmutable = "ConfigImmutable"
)

// meshConfigWire puts the service into payloadProcessors of ModelMesh's configuration (TrustyAI ADR 3).
func meshConfigWire(clusterDomain string) wiring.Wire {
	return wiring.Wire{
		Name:          WireMeshConfig,
		GVK:           schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
		FieldSelector: "metadata.name=" + meshConfigName,
		CreateName:    meshConfigName,
		Strip: func(u *unstructured.Unstructured) *unstructured.Unstructured {
			return stripTo(u, func(out *unstructured.Unstructured) {
				copyField(u, out, "immutable")
				if text, found, err := unstructured.NestedString(u.Object, "data", meshConfigFile); found && err == nil {
					// Of a text that is too long enough is kept that it counts as such.
					_ = unstructured.SetNestedField(out.Object, text[:min(len(text), maxMeshConfig+1)], "data", meshConfigFile)
				}
			})
		},
		Wanted: func(target *unstructured.Unstructured, alive []client.Object) []wiring.Entry {
			cr := wirer(services(alive, ADRShape), recordedIn(target))
			if cr == nil {
				return nil
			}
			return []wiring.Entry{{Owner: ownerID(cr), Value: ConsumerURLIn(cr, clusterDomain)}}
		},
		Edit: editMeshConfig,
	}
}

// editMeshConfig takes the recorded URLs that are no longer wanted out of payloadProcessors and adds the wanted ones.
func editMeshConfig(live *unstructured.Unstructured, recorded, wanted []wiring.Entry) (*unstructured.Unstructured, []wiring.Outcome, error) {
	file, exists, err := unstructured.NestedString(live.Object, "data", meshConfigFile)
	if err != nil {
		return nil, nil, err
	}
	_, hasData := live.Object["data"]
	edit := meshEdit{text: file, recorded: recorded, wanted: wanted}
	if !exists {
		edit.made = meshMade{File: true, Data: !hasData}
	}
	outcomes, err := edit.run()
	if err == nil && edit.text != file && immutable(live) {
		err = &wireError{ReasonConfigImmutable, "ConfigMap model-serving-config is immutable: replace it by one that is not"}
	}
	if err != nil {
		return nil, meshRefused(recorded, wanted, err), nil
	}
	if edit.text == file {
		return nil, outcomes, nil
	}
	out := live.DeepCopy()
	if strings.TrimSpace(edit.text) == "" && edit.made.File {
		unstructured.RemoveNestedField(out.Object, "data", meshConfigFile)
		if data, ok := out.Object["data"].(map[string]any); ok && len(data) == 0 && edit.made.Data {
			delete(out.Object, "data")
		}
		return out, outcomes, nil
	}
	return out, outcomes, unstructured.SetNestedField(out.Object, edit.text, "data", meshConfigFile)
}

func immutable(u *unstructured.Unstructured) bool {
	v, _, err := unstructured.NestedBool(u.Object, "immutable")
	return v && err == nil
}

// meshEdit is one edit of config.yaml.
type meshEdit struct {
	text             string
	made             meshMade
	recorded, wanted []wiring.Entry
}

func (e *meshEdit) run() ([]wiring.Outcome, error) {
	// What was made around one URL stands as long as any URL of ours does, so it is handed on from entry to entry.
	made := meshMade{}
	for _, r := range e.recorded {
		made = made.or(meshMadeOf(r.Detail))
	}
	for _, r := range e.recorded {
		if hasValue(e.wanted, r.Value) {
			continue
		}
		config, err := parseMeshConfig(e.text)
		if err != nil {
			return nil, err
		}
		if e.text, made, err = config.removeURL(r.Value, made); err != nil {
			return nil, err
		}
	}
	outcomes, made, err := e.add(made)
	if err != nil {
		return nil, err
	}
	for i := range outcomes {
		if outcomes[i].Record {
			outcomes[i].Entry.Detail = made.detail()
		}
	}
	e.made = made
	return outcomes, nil
}

func (e *meshEdit) add(made meshMade) ([]wiring.Outcome, meshMade, error) {
	var outcomes []wiring.Outcome
	for _, w := range e.wanted {
		config, err := parseMeshConfig(e.text)
		if err != nil {
			return nil, made, err
		}
		out := wiring.Outcome{Entry: w, Wired: true, Record: true, Reason: ReasonWired}
		switch present := slices.Contains(config.urls(), w.Value); {
		case !present:
			text, more, err := config.addURL(w.Value)
			if err != nil {
				return nil, made, err
			}
			e.text, made = text, made.or(more).or(e.made)
		case !hasValue(e.recorded, w.Value):
			// The user had it there before, and it stays the user's.
			out.Record, out.Reason = false, ReasonPreExisting
			out.Message = "payloadProcessors held the URL before; it stays when the service goes"
		}
		outcomes = append(outcomes, out)
	}
	return outcomes, made, nil
}

func hasValue(entries []wiring.Entry, value string) bool {
	return slices.ContainsFunc(entries, func(e wiring.Entry) bool { return e.Value == value })
}

// meshRefused is the outcome when the text cannot be edited: what is recorded stays so, to be taken out later.
func meshRefused(recorded, wanted []wiring.Entry, err error) []wiring.Outcome {
	var refusal *wireError
	if !errors.As(err, &refusal) {
		refusal = &wireError{ReasonConfigNotEditable, err.Error()}
	}
	var out []wiring.Outcome
	for _, r := range recorded {
		out = append(out, wiring.Outcome{Entry: r, Record: true, Reason: refusal.reason, Message: refusal.message})
	}
	for _, w := range wanted {
		if !slices.ContainsFunc(recorded, func(r wiring.Entry) bool { return r.Owner == w.Owner && r.Value == w.Value }) {
			out = append(out, wiring.Outcome{Entry: w, Reason: refusal.reason, Message: refusal.message})
		}
	}
	return out
}
