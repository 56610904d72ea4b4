package modelconfig

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// maxSize bounds a model config; a ConfigMap cannot hold more.
const maxSize = 1 << 20

// Config is a model config that TensorFlow Serving accepts.
type Config struct{ message protoreflect.Message }

// Model is what is read of one model.
type Model struct{ Name, BasePath string }

// Policy says which versions of a model are served; the zero value leaves it to TensorFlow Serving, which serves the
// latest one.
type Policy struct {
	// Latest is how many of the highest versions are served.
	Latest uint32
	All    bool
	// Specific are the versions that are served.
	Specific []int64
}

// Declared is one model as MLKeeper writes it.
type Declared struct {
	Model
	Policy Policy
	Labels map[string]int64
}

var (
	configList   = serverConfig.Fields().ByName("model_config_list")
	customConfig = serverConfig.Fields().ByName("custom_model_config")
	configs      = configList.Message().Fields().ByName("config")
	modelFields  = configs.Message().Fields()
)

// Parse reads a model config and refuses what TensorFlow Serving would refuse at its start. The error says what is wrong
// and where; it quotes nothing but names and paths of models.
func Parse(text string) (Config, error) { return parse(text, prototext.UnmarshalOptions{}) }

// ParseNewer reads the model config of a server that may be newer than this package. unknown says which field is the first that is not
// known here; empty for none. A config with one lacks it, and must not be printed; it has a model, without which it is something else.
func ParseNewer(text string) (c Config, unknown string, err error) {
	strict, err := Parse(text)
	if err == nil {
		return strict, "", nil
	}
	c, wrong := parse(text, prototext.UnmarshalOptions{DiscardUnknown: true})
	switch {
	case wrong == nil && len(c.each()) > 0:
		return c, err.Error(), nil
	case wrong != nil && wrong.Error() != err.Error():
		// The field may be one that is mistyped.
		return Config{}, "", fmt.Errorf("%w; %w", wrong, err)
	}
	return Config{}, "", err
}

func parse(text string, as prototext.UnmarshalOptions) (Config, error) {
	if len(text) > maxSize {
		return Config{}, fmt.Errorf("is larger than %d bytes", maxSize)
	}
	if err := checkSize(text); err != nil {
		return Config{}, err
	}
	m := dynamicpb.NewMessage(serverConfig)
	if err := as.Unmarshal([]byte(text), m); err != nil {
		return Config{}, errors.New(plain(err))
	}
	c := Config{message: m}
	return c, c.check()
}

// plain takes the package's name and the spaces that it varies on purpose out of an error of prototext.
func plain(err error) string {
	s := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	return strings.TrimSpace(strings.TrimPrefix(s, "proto:"))
}

// uri is the form of a base path that is no path, of which TensorFlow takes fewer schemes than others (core/platform/path.cc).
var uri = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9.]*://`)

// check does what TensorFlow Serving's ServerCore does with a config before it loads anything.
func (c Config) check() error {
	if c.message.Has(customConfig) {
		return errors.New("custom_model_config needs a model server of one's own: use model_config_list")
	}
	seen := map[string]bool{}
	for i, m := range c.each() {
		name, path := textOf(m, "name"), textOf(m, "base_path")
		where := fmt.Sprintf("model %q", name)
		switch {
		case name == "":
			return fmt.Errorf("model %d has no name", i+1)
		case seen[name]:
			return fmt.Errorf("%s is listed twice", where)
		case path == "":
			return fmt.Errorf("%s has no base_path", where)
		case !strings.HasPrefix(path, "/") && !uri.MatchString(path):
			return fmt.Errorf("%s: base_path %q is neither an absolute path nor a URI", where, path)
		}
		seen[name] = true
		if err := checkPlatform(m); err != nil {
			return fmt.Errorf("%s %w", where, err)
		}
		if err := checkPolicy(m); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
	}
	return nil
}

// checkPlatform asks for exactly one of the platform and the type that it replaces.
func checkPlatform(m protoreflect.Message) error {
	platform := textOf(m, "model_platform")
	kind := m.Get(modelFields.ByName("model_type")).Enum()
	const tensorflow = 1
	switch {
	case platform == "" && kind == 0:
		return errors.New(`has no model_platform: add model_platform: "tensorflow"`)
	case platform != "" && kind != 0:
		return errors.New("has both model_platform and model_type: remove model_type")
	case platform != "" && platform != "tensorflow", platform == "" && kind != tensorflow:
		return errors.New(`has a model_platform other than "tensorflow", the only one that the server has`)
	}
	return nil
}

// checkPolicy finds versions that cannot be.
func checkPolicy(m protoreflect.Message) error {
	policy := m.Get(modelFields.ByName("model_version_policy")).Message()
	specific := policy.Descriptor().Fields().ByName("specific")
	if !policy.Has(specific) {
		return nil
	}
	list := policy.Get(specific).Message()
	versions := list.Get(list.Descriptor().Fields().ByName("versions")).List()
	if versions.Len() == 0 {
		return errors.New("model_version_policy specific lists no versions")
	}
	for i := range versions.Len() {
		if versions.Get(i).Int() < 0 {
			return fmt.Errorf("version %d is negative", versions.Get(i).Int())
		}
	}
	return nil
}

func textOf(m protoreflect.Message, name protoreflect.Name) string {
	return m.Get(m.Descriptor().Fields().ByName(name)).String()
}

// each returns the messages of the models.
func (c Config) each() []protoreflect.Message {
	var out []protoreflect.Message
	if c.message == nil || !c.message.Has(configList) {
		return nil
	}
	list := c.message.Get(configList).Message().Get(configs).List()
	for i := range list.Len() {
		out = append(out, list.Get(i).Message())
	}
	return out
}

// Lists says that there is a list of models, be it an empty one. A server that starts with a config without one, such as an empty text, has no
// model; one that has a list refuses to go over to such a config (ServerCore::ReloadConfig in model_servers/server_core.cc).
func (c Config) Lists() bool { return c.message != nil && c.message.Has(configList) }

// Valid says that the config could be read, be it one without a model.
func (c Config) Valid() bool { return c.message != nil }

// Logged is the first model whose requests are to be logged; empty for none.
func (c Config) Logged() string {
	for _, m := range c.each() {
		if m.Has(modelFields.ByName("logging_config")) {
			return textOf(m, "name")
		}
	}
	return ""
}

// Models returns the models in the order of the config.
func (c Config) Models() []Model {
	var out []Model
	for _, m := range c.each() {
		out = append(out, Model{Name: textOf(m, "name"), BasePath: textOf(m, "base_path")})
	}
	return out
}

// Labelled says that a version has a label.
func (c Config) Labelled() bool {
	return slices.ContainsFunc(c.each(), func(m protoreflect.Message) bool { return m.Has(modelFields.ByName("version_labels")) })
}

// Moved is the config with the base paths that moved returns in place of those there are.
func (c Config) Moved(moved func(Model) string) Config {
	out := dynamicpb.NewMessage(serverConfig)
	list := out.Mutable(configList).Message().Mutable(configs).List()
	for _, m := range c.each() {
		model := Model{Name: textOf(m, "name"), BasePath: textOf(m, "base_path")}
		other := dynamicpb.NewMessage(configs.Message())
		m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			other.Set(f, v)
			return true
		})
		other.Set(modelFields.ByName("base_path"), protoreflect.ValueOfString(moved(model)))
		list.Append(protoreflect.ValueOfMessage(other))
	}
	return Config{message: out}
}

// New makes the config of declared models, in their order, and refuses what TensorFlow Serving would refuse.
func New(models []Declared) (Config, error) {
	out := dynamicpb.NewMessage(serverConfig)
	list := out.Mutable(configList).Message().Mutable(configs).List()
	for _, d := range models {
		m := dynamicpb.NewMessage(configs.Message())
		m.Set(modelFields.ByName("name"), protoreflect.ValueOfString(d.Name))
		m.Set(modelFields.ByName("base_path"), protoreflect.ValueOfString(d.BasePath))
		m.Set(modelFields.ByName("model_platform"), protoreflect.ValueOfString("tensorflow"))
		setPolicy(m, d.Policy)
		for label, version := range d.Labels {
			m.Mutable(modelFields.ByName("version_labels")).Map().
				Set(protoreflect.ValueOfString(label).MapKey(), protoreflect.ValueOfInt64(version))
		}
		list.Append(protoreflect.ValueOfMessage(m))
	}
	c := Config{message: out}
	return c, c.check()
}

func setPolicy(m protoreflect.Message, p Policy) {
	if p.Latest == 0 && !p.All && len(p.Specific) == 0 {
		return
	}
	policy := m.Mutable(modelFields.ByName("model_version_policy")).Message()
	choices := policy.Descriptor().Fields()
	switch {
	case p.All:
		policy.Mutable(choices.ByName("all"))
	case len(p.Specific) > 0:
		specific := policy.Mutable(choices.ByName("specific")).Message()
		versions := specific.Mutable(specific.Descriptor().Fields().ByName("versions")).List()
		for _, v := range p.Specific {
			versions.Append(protoreflect.ValueOfInt64(v))
		}
	default:
		latest := policy.Mutable(choices.ByName("latest")).Message()
		latest.Set(latest.Descriptor().Fields().ByName("num_versions"), protoreflect.ValueOfUint32(p.Latest))
	}
}
