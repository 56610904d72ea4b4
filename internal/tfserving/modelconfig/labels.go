package modelconfig

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// HeldLabel is a label that stays at the version At, as long as the version To is not available.
type HeldLabel struct {
	Model, Label string
	At, To       int64
}

// HoldLabels returns the config that servers which run with before can read in place of c. TensorFlow Serving refuses a whole config in
// which a label moves to a version that is not available, also where the base path of the model changes with it. Such a label stays
// where it is in before, its version is served on, and the version that it moves to is served too, so that it becomes available.
func (c Config) HoldLabels(before Config, available func(model string, version int64) bool) (Config, []HeldLabel) {
	running := map[string]protoreflect.Message{}
	for _, m := range before.each() {
		running[textOf(m, "name")] = m
	}
	var held []HeldLabel
	out := proto.Clone(c.message.Interface()).ProtoReflect()
	for _, m := range (Config{message: out}).each() {
		name := textOf(m, "name")
		if was := running[name]; was != nil {
			held = append(held, holdLabels(m, labelsOf(was), func(v int64) bool { return available(name, v) })...)
		}
	}
	return Config{message: out}, held
}

// holdLabels changes the labels of one model back, and its policy so that both versions of each are served.
func holdLabels(m protoreflect.Message, before map[string]int64, available func(int64) bool) (held []HeldLabel) {
	serve := map[int64]bool{}
	for label, to := range labelsOf(m) {
		serve[to] = true
		if at, had := before[label]; had && at != to && !available(to) {
			held = append(held, HeldLabel{Model: textOf(m, "name"), Label: label, At: at, To: to})
		}
	}
	if len(held) == 0 {
		return nil
	}
	slices.SortFunc(held, func(a, b HeldLabel) int { return strings.Compare(a.Label, b.Label) })
	labels := m.Mutable(modelFields.ByName("version_labels")).Map()
	for _, h := range held {
		labels.Set(protoreflect.ValueOfString(h.Label).MapKey(), protoreflect.ValueOfInt64(h.At))
		serve[h.At] = true
	}
	serveToo(m, serve)
	return held
}

// labelsOf are the labels of a model with their versions.
func labelsOf(m protoreflect.Message) map[string]int64 {
	out := map[string]int64{}
	m.Get(modelFields.ByName("version_labels")).Map().Range(func(key protoreflect.MapKey, v protoreflect.Value) bool {
		out[key.String()] = v.Int()
		return true
	})
	return out
}

// serveToo extends a policy that may leave out one of the versions: a list of versions by them, and the latest ones by the one before them, which
// the version that is published makes unload otherwise. Requests without a label go on to get the latest, whatever is published meanwhile.
func serveToo(m protoreflect.Message, versions map[int64]bool) {
	policy := m.Mutable(modelFields.ByName("model_version_policy")).Message()
	choices := policy.Descriptor().Fields()
	all, latest, specific := choices.ByName("all"), choices.ByName("latest"), choices.ByName("specific")
	if policy.Has(all) {
		return
	}
	if !policy.Has(specific) {
		some := policy.Mutable(latest).Message()
		number := some.Descriptor().Fields().ByName("num_versions")
		served := policyOf(m).Latest
		some.Set(number, protoreflect.ValueOfUint32(max(served, served+1))) // The highest number has none above it.
		return
	}
	list := policy.Mutable(specific).Message()
	declared := list.Mutable(list.Descriptor().Fields().ByName("versions")).List()
	for i := range declared.Len() {
		delete(versions, declared.Get(i).Int())
	}
	for _, v := range slices.Sorted(maps.Keys(versions)) {
		declared.Append(protoreflect.ValueOfInt64(v))
	}
}

// Specific are the versions that a config lists for each model, by the name of the model.
func (c Config) Specific() map[string][]int64 {
	out := map[string][]int64{}
	for _, m := range c.each() {
		if listed := policyOf(m).Specific; len(listed) > 0 {
			out[textOf(m, "name")] = listed
		}
	}
	return out
}

// Policies are those of the models by their names, that of a model without one included.
func (c Config) Policies() map[string]Policy {
	out := map[string]Policy{}
	for _, m := range c.each() {
		out[textOf(m, "name")] = policyOf(m)
	}
	return out
}

// policyOf is what TensorFlow Serving takes the policy of a model for.
func policyOf(m protoreflect.Message) Policy {
	policy := m.Get(modelFields.ByName("model_version_policy")).Message()
	choices := policy.Descriptor().Fields()
	field := func(choice, name protoreflect.Name) protoreflect.Value {
		some := policy.Get(choices.ByName(choice)).Message()
		return some.Get(some.Descriptor().Fields().ByName(name))
	}
	switch {
	case policy.Has(choices.ByName("all")):
		return Policy{All: true}
	case policy.Has(choices.ByName("specific")):
		var out Policy
		versions := field("specific", "versions").List()
		for i := range versions.Len() {
			out.Specific = append(out.Specific, versions.Get(i).Int())
		}
		return out
	}
	return Policy{Latest: max(uint32(field("latest", "num_versions").Uint()), 1)} //nolint:gosec // The field has 32 bits.
}

// Label is a label of a version.
type Label struct {
	Model, Name string
	Version     int64
}

// Labels are all labels, in the order of the models and of their names.
func (c Config) Labels() []Label {
	var out []Label
	for _, m := range c.each() {
		labels := labelsOf(m)
		for _, name := range slices.Sorted(maps.Keys(labels)) {
			out = append(out, Label{Model: textOf(m, "name"), Name: name, Version: labels[name]})
		}
	}
	return out
}
