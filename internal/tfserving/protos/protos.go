// Package protos has the messages and the service of TensorFlow Serving that MLKeeper and its tests speak of. TensorFlow Serving publishes
// no Go package of them, so that their descriptors, as protoc compiled the published .proto files, are part of this one.
package protos

import (
	_ "embed" // The descriptors.
	"errors"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	_ "google.golang.org/protobuf/types/known/anypb"      // A message of the descriptors.
	_ "google.golang.org/protobuf/types/known/wrapperspb" // Messages of the descriptors.
)

//go:embed serving.textproto
var text []byte

//go:embed parameters.textproto
var parameters []byte

const (
	namespace = "tensorflow.serving."
	// codesFile is the file that apis/status.proto imports from TensorFlow, whose package is no part of TensorFlow Serving's.
	codesFile = "tensorflow/core/protobuf/error_codes.proto"
)

// codeNames are those of the canonical error codes (google.rpc.Code) in the order of their numbers, which TensorFlow's are, too.
var codeNames = []string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
	"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
	"UNAUTHENTICATED",
}

var files = load()

// load makes the descriptors, which a test reads, too: what goes wrong is a bug.
func load() *protoregistry.Files {
	all := []*descriptorpb.FileDescriptorProto{errorCodes()}
	for _, source := range [][]byte{text, parameters} {
		set := &descriptorpb.FileDescriptorSet{}
		if err := prototext.Unmarshal(source, set); err != nil {
			panic("bug: the descriptors of TensorFlow Serving: " + err.Error())
		}
		all = append(all, set.File...)
	}
	out := &protoregistry.Files{}
	for _, file := range all {
		made, err := protodesc.NewFile(file, resolver{out})
		if err == nil {
			err = out.RegisterFile(made)
		}
		if err != nil {
			panic("bug: the descriptor of " + file.GetName() + ": " + err.Error())
		}
	}
	return out
}

func errorCodes() *descriptorpb.FileDescriptorProto {
	code := &descriptorpb.EnumDescriptorProto{Name: proto.String("Code")}
	for number, name := range codeNames {
		code.Value = append(code.Value, &descriptorpb.EnumValueDescriptorProto{
			Name: proto.String(name), Number: proto.Int32(int32(number)), //nolint:gosec // There are 17.
		})
	}
	return &descriptorpb.FileDescriptorProto{
		Name: proto.String(codesFile), Package: proto.String("tensorflow.error"), Syntax: proto.String("proto3"),
		EnumType: []*descriptorpb.EnumDescriptorProto{code},
	}
}

// resolver finds what a file imports, of TensorFlow Serving's own files and of protobuf's.
type resolver struct{ own *protoregistry.Files }

func (r resolver) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	found, err := r.own.FindFileByPath(path)
	if errors.Is(err, protoregistry.NotFound) {
		return protoregistry.GlobalFiles.FindFileByPath(path)
	}
	return found, err
}

func (r resolver) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	found, err := r.own.FindDescriptorByName(name)
	if errors.Is(err, protoregistry.NotFound) {
		return protoregistry.GlobalFiles.FindDescriptorByName(name)
	}
	return found, err
}

func find(name string) protoreflect.Descriptor {
	found, err := files.FindDescriptorByName(protoreflect.FullName(namespace + name))
	if err != nil {
		panic("bug: TensorFlow Serving has no " + name)
	}
	return found
}

// Message is the descriptor of a message of the package tensorflow.serving, such as ModelServerConfig.
func Message(name string) protoreflect.MessageDescriptor {
	return find(name).(protoreflect.MessageDescriptor)
}

// Service is the descriptor of a service of the package tensorflow.serving, such as ModelService.
func Service(name string) protoreflect.ServiceDescriptor {
	return find(name).(protoreflect.ServiceDescriptor)
}
