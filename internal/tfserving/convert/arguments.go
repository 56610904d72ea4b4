package convert

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/ptr"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
)

// arguments converts the flags of the server in a list: handle has what becomes of one by its value, and says whether it was converted.
func (c *conversion) arguments(path []string, handle map[string]func(string) bool) {
	for i := range c.left.length(path...) {
		at := append(slices.Clone(path), strconv.Itoa(i))
		if _, found := c.left.peek(at...); !found {
			continue
		}
		arg := c.text(at...)
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		switch convert := handle[name]; {
		case !strings.HasPrefix(arg, "--"):
			c.warn(join(at), "%q is no flag, and TensorFlow Serving ignores it", arg)
		case convert == nil && counterparts[name] != "":
			c.warn(join(at), "%q is not converted: see %s", arg, counterparts[name])
		case convert == nil:
			c.warn(join(at), "%q is not converted: a Tfserv has no field for this flag; see spec.server.extraArgs", arg)
		case !convert(value):
			c.warn(join(at), "%q is not converted", arg)
		}
	}
	if v, found := c.left.peek(path...); found {
		if _, isList := v.([]any); !isList {
			c.fail(join(path), "is no list")
		}
	}
}

// counterparts are the fields of the flags that spec.server.extraArgs refuses, where one is not converted.
var counterparts = map[string]string{
	"model_name": "spec.models", "model_base_path": "spec.models", "model_config_file": "spec.models and spec.configMap",
	"batching_parameters_file": "spec.batching", "monitoring_config_file": "spec.monitoring", "ssl_config_file": "spec.server.tls",
	"grpc_socket_path": "spec.grpcPort, since the servers of a Tfserv have no other socket",
}

// port converts a flag with a port.
func (c *conversion) port(to **int32) func(string) bool {
	return func(value string) bool {
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil || n < 1 || n > 65535 {
			return false
		}
		*to = ptr.To(int32(n))
		return true
	}
}

// common are the flags that mean the same everywhere.
func (c *conversion) common() map[string]func(string) bool {
	byMLKeeper := func(string) bool { return true }
	out := map[string]func(string) bool{
		"port": c.port(&c.out.Spec.GrpcPort), "rest_api_port": c.port(&c.out.Spec.RestPort),
		"allow_version_labels_for_unavailable_models": byMLKeeper, "enable_grpc_healthcheck_service": byMLKeeper,
		"enable_batching": func(value string) bool {
			if value != "false" && c.out.Spec.Batching == nil {
				c.out.Spec.Batching = &v1alpha1.BatchingSpec{}
			}
			return true
		},
	}
	maps.Copy(out, c.settings())
	return out
}
