package tfserver

import (
	"path"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// tensorflow is the only platform (model_servers/model_platform_types.h).
const tensorflow = "tensorflow"

// servable is what the source of versions knows of a model.
type servable struct {
	name, base string
	policy     policy
}

// policy says which versions of a model are wanted.
type policy struct {
	latest   int
	all      bool
	specific []int64
	// listed says that specific versions are wanted, be it none.
	listed bool
}

// models are the messages of the models of a config.
func models(config proto.Message) []protoreflect.Message {
	m := config.ProtoReflect()
	if !has(m, "model_config_list") {
		return nil
	}
	return each(get(m, "model_config_list").Message(), "config")
}

func nameOf(m protoreflect.Message) string { return get(m, "name").String() }

// empty says that a config has neither a list of models nor one of its own kind.
func empty(config proto.Message) bool {
	m := config.ProtoReflect()
	return !has(m, "model_config_list") && !custom(config)
}

func custom(config proto.Message) bool { return has(config.ProtoReflect(), "custom_model_config") }

// platform is that of a model.
func platform(m protoreflect.Message) (string, error) {
	of, kind := get(m, "model_platform").String(), get(m, "model_type").Enum()
	switch {
	case kind != 0 && of != "":
		return "", invalid("Illegal setting both ModelServerConfig::model_type (deprecated) and ModelServerConfig::model_platform, model name "+
			"is %s", nameOf(m))
	case kind == 1:
		return tensorflow, nil
	case kind != 0:
		return "", invalid("ModelServerConfig::model_type choice %d not supported.", kind)
	case of == "":
		return "", invalid("Illegal setting neither ModelServerConfig::model_type (deprecated) nor ModelServerConfig::model_platform, model "+
			"name is %s", nameOf(m))
	}
	return of, nil
}

// validate finds a model that is listed twice and a path that is relative.
func validate(config proto.Message) error {
	seen := map[string]bool{}
	for _, m := range models(config) {
		if seen[nameOf(m)] {
			return invalid("Illegal to list model %s multiple times in config list", nameOf(m))
		}
		seen[nameOf(m)] = true
	}
	for _, m := range models(config) {
		if base := get(m, "base_path").String(); !path.IsAbs(base) && scheme(base) == "" {
			return invalid("Expected model %s to have an absolute path or URI; got base_path()=%s", nameOf(m), base)
		}
	}
	return nil
}

// samePlatforms refuses a model of another platform than before.
func samePlatforms(before, after proto.Message) error {
	was := map[string]string{}
	for _, m := range models(before) {
		of, err := platform(m)
		if err != nil {
			return err
		}
		was[nameOf(m)] = of
	}
	for _, m := range models(after) {
		old, known := was[nameOf(m)]
		if !known {
			continue
		}
		of, err := platform(m)
		if err != nil {
			return err
		}
		if of != old {
			return invalid("Illegal to change a model's platform. For model %s platform was %s and new platform requested is %s", nameOf(m), old, of)
		}
	}
	return nil
}

// routes refuses what no part of the server could load.
func routes(config proto.Message) error {
	for _, m := range models(config) {
		of, err := platform(m)
		if err != nil {
			return err
		}
		if of != tensorflow {
			return invalid("Model %s requests unsupported platform %s", nameOf(m), of)
		}
	}
	return nil
}

// logged says that a model wants its requests logged, for which the stock program has nothing.
func logged(config proto.Message) bool {
	for _, m := range models(config) {
		if has(m, "logging_config") {
			return true
		}
	}
	return false
}

// servables are the models as the source of versions knows them.
func servables(config proto.Message) []servable {
	var out []servable
	for _, m := range models(config) {
		s := servable{name: nameOf(m), base: strings.TrimRight(get(m, "base_path").String(), "/"), policy: policy{latest: 1}}
		p := get(m, "model_version_policy").Message()
		switch {
		case has(p, "all"):
			s.policy.all = true
		case has(p, "specific"):
			s.policy.listed = true
			list := get(get(p, "specific").Message(), "versions").List()
			for i := range list.Len() {
				s.policy.specific = append(s.policy.specific, list.Get(i).Int())
			}
		case has(p, "latest"):
			s.policy.latest = max(1, int(get(get(p, "latest").Message(), "num_versions").Uint()))
		}
		out = append(out, s)
	}
	return out
}

// labelsOf are the labels of a model.
func labelsOf(m protoreflect.Message) map[string]int64 {
	out := map[string]int64{}
	get(m, "version_labels").Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
		out[key.String()] = value.Int()
		return true
	})
	return out
}
