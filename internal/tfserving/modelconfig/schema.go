package modelconfig

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	_ "google.golang.org/protobuf/types/known/anypb" // A message of the schema.
)

// The schema is written down here, since TensorFlow Serving publishes no Go package of it. Names and numbers are those of
// its proto files, with which make test-modelconfig compares them.
var serverConfig = describe().Messages().ByName("ModelServerConfig")

type (
	kind  = descriptorpb.FieldDescriptorProto_Type
	field = descriptorpb.FieldDescriptorProto
)

const (
	text    = descriptorpb.FieldDescriptorProto_TYPE_STRING
	number  = descriptorpb.FieldDescriptorProto_TYPE_INT64
	small   = descriptorpb.FieldDescriptorProto_TYPE_INT32
	count   = descriptorpb.FieldDescriptorProto_TYPE_UINT32
	decimal = descriptorpb.FieldDescriptorProto_TYPE_DOUBLE
)

const prefix = ".tensorflow.serving."

// scalar is a field of a plain type.
func scalar(name string, n int32, k kind) *field {
	return &field{
		Name: proto.String(name), Number: proto.Int32(n), Type: k.Enum(),
		Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
	}
}

// message is a field that holds a message of this package, or of another by a name that begins with a dot.
func message(name string, n int32, of string) *field {
	f := scalar(name, n, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE)
	if of[0] != '.' {
		of = prefix + of
	}
	f.TypeName = proto.String(of)
	return f
}

func repeated(f *field) *field {
	f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	return f
}

// oneOf puts a field into the first oneof of its message.
func oneOf(f *field) *field {
	f.OneofIndex = proto.Int32(0)
	return f
}

func define(name string, fields ...*field) *descriptorpb.DescriptorProto {
	return &descriptorpb.DescriptorProto{Name: proto.String(name), Field: fields}
}

// choice is a message whose fields may be members of a oneof.
func choice(name, oneof string, fields ...*field) *descriptorpb.DescriptorProto {
	m := define(name, fields...)
	m.OneofDecl = []*descriptorpb.OneofDescriptorProto{{Name: proto.String(oneof)}}
	return m
}

func describe() protoreflect.FileDescriptor {
	modelType := scalar("model_type", 3, descriptorpb.FieldDescriptorProto_TYPE_ENUM)
	modelType.TypeName = proto.String(prefix + "ModelType")
	model := define(
		"ModelConfig",
		scalar("name", 1, text), scalar("base_path", 2, text), modelType, scalar("model_platform", 4, text),
		message("model_version_policy", 7, "FileSystemStoragePathSourceConfig.ServableVersionPolicy"),
		repeated(message("version_labels", 8, "ModelConfig.VersionLabelsEntry")),
		message("logging_config", 6, "LoggingConfig"),
	)
	labels := define("VersionLabelsEntry", scalar("key", 1, text), scalar("value", 2, number))
	labels.Options = &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)}
	model.NestedType = append(model.NestedType, labels)

	policy := choice(
		"ServableVersionPolicy", "policy_choice",
		oneOf(message("latest", 100, "FileSystemStoragePathSourceConfig.ServableVersionPolicy.Latest")),
		oneOf(message("all", 101, "FileSystemStoragePathSourceConfig.ServableVersionPolicy.All")),
		oneOf(message("specific", 102, "FileSystemStoragePathSourceConfig.ServableVersionPolicy.Specific")),
	)
	policy.NestedType = []*descriptorpb.DescriptorProto{
		define("Latest", scalar("num_versions", 1, count)), define("All"),
		define("Specific", repeated(scalar("versions", 1, number))),
	}
	source := define("FileSystemStoragePathSourceConfig")
	source.NestedType = append(source.NestedType, policy)

	index := oneOf(scalar("task_index", 2, small))
	index.Proto3Optional = proto.Bool(true)

	value := func(name string, n int32) *descriptorpb.EnumValueDescriptorProto {
		return &descriptorpb.EnumValueDescriptorProto{Name: proto.String(name), Number: proto.Int32(n)}
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("tensorflow_serving/config/model_server_config.proto"), Package: proto.String("tensorflow.serving"),
		Syntax: proto.String("proto3"), Dependency: []string{"google/protobuf/any.proto"},
		MessageType: []*descriptorpb.DescriptorProto{
			choice(
				"ModelServerConfig", "config",
				oneOf(message("model_config_list", 1, "ModelConfigList")),
				oneOf(message("custom_model_config", 2, ".google.protobuf.Any")),
			),
			define("ModelConfigList", repeated(message("config", 1, "ModelConfig"))),
			model, source,
			define("LoggingConfig", message("log_collector_config", 1, "LogCollectorConfig"), message("sampling_config", 2, "SamplingConfig"),
				message("custom_logging_config", 3, ".google.protobuf.Any")),
			define("LogCollectorConfig", scalar("type", 1, text), scalar("filename_prefix", 2, text)),
			define("SamplingConfig", scalar("sampling_rate", 1, decimal), scalar("attributes", 2, small),
				repeated(message("per_task_sampling_configs", 3, "PerTaskSamplingConfig"))),
			choice("PerTaskSamplingConfig", "_task_index", scalar("dc", 1, text), index, scalar("sampling_rate", 3, decimal)),
		},
		EnumType: []*descriptorpb.EnumDescriptorProto{{
			Name:  proto.String("ModelType"),
			Value: []*descriptorpb.EnumValueDescriptorProto{value("MODEL_TYPE_UNSPECIFIED", 0), value("TENSORFLOW", 1), value("OTHER", 2)},
		}},
	}, protoregistry.GlobalFiles)
	if err != nil {
		panic("bug: the schema of the model config: " + err.Error())
	}
	return file
}
