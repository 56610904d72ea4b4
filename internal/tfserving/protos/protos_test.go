package protos

import (
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// The numbers are those of the published files, as https://github.com/tensorflow/serving has them: on the wire nothing else counts.
func TestDescriptorsAreThePublishedOnes(t *testing.T) {
	for _, c := range []struct {
		message, field string
		number         protoreflect.FieldNumber
	}{
		{"ModelServerConfig", "model_config_list", 1},
		{"ModelConfig", "model_version_policy", 7},
		{"ModelConfig", "version_labels", 8},
		{"ModelConfig", "logging_config", 6},
		{"FileSystemStoragePathSourceConfig.ServableVersionPolicy", "specific", 102},
		{"ModelSpec", "version_label", 4},
		{"ModelVersionStatus", "status", 3},
		{"StatusProto", "error_message", 2},
		{"ReloadConfigRequest", "config", 1},
		{"BatchingParameters", "num_batch_threads", 4},
		{"BatchingParameters", "allowed_batch_sizes", 6},
		{"MonitoringConfig", "prometheus_config", 1},
		{"PrometheusConfig", "path", 2},
		{"SSLConfig", "server_key", 1},
		{"SSLConfig", "server_cert", 2},
		{"SSLConfig", "custom_ca", 3},
		{"SSLConfig", "client_verify", 4},
	} {
		f := Message(c.message).Fields().ByName(protoreflect.Name(c.field))
		if f == nil || f.Number() != c.number {
			t.Errorf("%s.%s is %v, not number %d", c.message, c.field, f, c.number)
		}
	}
	states := Message("ModelVersionStatus").Enums().ByName("State").Values()
	for name, number := range map[protoreflect.Name]protoreflect.EnumNumber{
		"UNKNOWN": 0, "START": 10, "LOADING": 20, "AVAILABLE": 30, "UNLOADING": 40, "END": 50,
	} {
		if v := states.ByName(name); v == nil || v.Number() != number {
			t.Errorf("state %s is %v, not %d", name, v, number)
		}
	}
	codes := Message("StatusProto").Fields().ByName("error_code").Enum().Values()
	for name, number := range map[protoreflect.Name]protoreflect.EnumNumber{"OK": 0, "NOT_FOUND": 5, "FAILED_PRECONDITION": 9, "UNAUTHENTICATED": 16} {
		if v := codes.ByName(name); v == nil || v.Number() != number {
			t.Errorf("code %s is %v, not %d", name, v, number)
		}
	}
	methods := Service("ModelService").Methods()
	if methods.Len() != 2 || methods.ByName("HandleReloadConfigRequest").Input().Name() != "ReloadConfigRequest" {
		t.Errorf("the service has %d methods", methods.Len())
	}
}
