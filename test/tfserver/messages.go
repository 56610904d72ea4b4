package tfserver

import (
	"fmt"
	"os"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"mlkeeper.dev/internal/tfserving/protos"
)

// message is a message of TensorFlow Serving, empty.
func message(name string) *dynamicpb.Message { return dynamicpb.NewMessage(protos.Message(name)) }

func enumNumber(code codes.Code) protoreflect.EnumNumber {
	return protoreflect.EnumNumber(code) //nolint:gosec // There are 17.
}

// get reads a field by its name.
func get(m protoreflect.Message, name protoreflect.Name) protoreflect.Value {
	return m.Get(m.Descriptor().Fields().ByName(name))
}

// put sets a field by its name.
func put(m protoreflect.Message, name protoreflect.Name, v any) {
	m.Set(m.Descriptor().Fields().ByName(name), protoreflect.ValueOf(v))
}

// has says that a field is set.
func has(m protoreflect.Message, name protoreflect.Name) bool {
	return m.Has(m.Descriptor().Fields().ByName(name))
}

// inside is the message in a field, made where it is not set.
func inside(m protoreflect.Message, name protoreflect.Name) protoreflect.Message {
	return m.Mutable(m.Descriptor().Fields().ByName(name)).Message()
}

// each returns the messages of a repeated field.
func each(m protoreflect.Message, name protoreflect.Name) []protoreflect.Message {
	var out []protoreflect.Message
	list := get(m, name).List()
	for i := range list.Len() {
		out = append(out, list.Get(i).Message())
	}
	return out
}

// readText reads a file with a message as text proto (util/proto_util.h). A file without content cannot be mapped into memory.
func readText(path string, into proto.Message) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return notFound("%s; No such file or directory", path)
	}
	if len(raw) == 0 {
		return invalid("%s; Invalid argument", path)
	}
	if err := prototext.Unmarshal(raw, into); err != nil {
		return invalid("Invalid protobuf file: '%s'", path)
	}
	return nil
}

// further are messages whose files are no part of the package that protos is made of, written down after
// tensorflow_serving/config/monitoring_config.proto and servables/tensorflow/session_bundle_config.proto.
var further = func() protoreflect.FileDescriptor {
	field := func(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type, of string) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{
			Name: proto.String(name), Number: proto.Int32(number), Type: kind.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
		if of != "" {
			f.TypeName = proto.String(of)
		}
		return f
	}
	wrapped := func(name string, number int32, of string) *descriptorpb.FieldDescriptorProto {
		return field(name, number, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, ".google.protobuf."+of+"Value")
	}
	sizes := field("allowed_batch_sizes", 6, descriptorpb.FieldDescriptorProto_TYPE_INT64, "")
	sizes.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("tfserver/further.proto"), Package: proto.String("tensorflow.serving"), Syntax: proto.String("proto3"),
		Dependency: []string{"google/protobuf/wrappers.proto"},
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: proto.String("PrometheusConfig"), Field: []*descriptorpb.FieldDescriptorProto{
				field("enable", 1, descriptorpb.FieldDescriptorProto_TYPE_BOOL, ""),
				field("path", 2, descriptorpb.FieldDescriptorProto_TYPE_STRING, ""),
			}},
			{Name: proto.String("MonitoringConfig"), Field: []*descriptorpb.FieldDescriptorProto{
				field("prometheus_config", 1, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, ".tensorflow.serving.PrometheusConfig"),
			}},
			{Name: proto.String("BatchingParameters"), Field: []*descriptorpb.FieldDescriptorProto{
				wrapped("max_batch_size", 1, "Int64"), wrapped("batch_timeout_micros", 2, "Int64"), wrapped("max_enqueued_batches", 3, "Int64"),
				wrapped("num_batch_threads", 4, "Int64"), wrapped("thread_pool_name", 5, "String"), sizes,
				field("pad_variable_length_inputs", 7, descriptorpb.FieldDescriptorProto_TYPE_BOOL, ""),
				wrapped("enable_large_batch_splitting", 8, "Bool"), wrapped("max_execution_batch_size", 9, "Int64"),
			}},
		},
	}, protoregistry.GlobalFiles)
	if err != nil {
		panic(fmt.Sprintf("bug: %v", err))
	}
	return file
}()

func furtherMessage(name protoreflect.Name) *dynamicpb.Message {
	return dynamicpb.NewMessage(further.Messages().ByName(name))
}
