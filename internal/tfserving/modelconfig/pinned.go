package modelconfig

import (
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Pinned is the config with one version of a model in place of those that its policy serves, and says whether there is the model. All
// labels of the model name that version, since TensorFlow Serving refuses a request by a label that it does not know. The model comes
// first, since readiness asks for the first one.
func (c Config) Pinned(model string, version int64) (Config, bool) {
	models := slices.Clone(c.each())
	at := slices.IndexFunc(models, func(m protoreflect.Message) bool { return textOf(m, "name") == model })
	if at < 0 {
		return Config{}, false
	}
	pinned := proto.Clone(models[at].Interface()).ProtoReflect()
	pinned.Clear(modelFields.ByName("model_version_policy"))
	setPolicy(pinned, Policy{Specific: []int64{version}})
	for label := range labelsOf(pinned) {
		pinned.Mutable(modelFields.ByName("version_labels")).Map().
			Set(protoreflect.ValueOfString(label).MapKey(), protoreflect.ValueOfInt64(version))
	}
	out := dynamicpb.NewMessage(serverConfig)
	list := out.Mutable(configList).Message().Mutable(configs).List()
	for _, m := range slices.Insert(slices.Delete(models, at, at+1), 0, pinned) {
		list.Append(protoreflect.ValueOfMessage(m))
	}
	return Config{message: out}, true
}

// Excludes says that the policy of a model lists the versions that are served, without the given one.
func (c Config) Excludes(model string, version int64) bool {
	listed := c.Specific()[model]
	return len(listed) > 0 && !slices.Contains(listed, version)
}
