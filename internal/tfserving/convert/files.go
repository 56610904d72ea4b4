package convert

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/tfserving/protos"
)

// tls converts the TLS of the gRPC API. Without it the port would be open to everybody.
func (c *conversion) tls(s *server, at []string) {
	if s.tls == "" {
		return
	}
	v, mount := c.mounted(s.tls, at)
	if v == nil || v.Secret == nil || v.Secret.SecretName == "" {
		c.fail(join(append(slices.Clone(at), "args")), "--ssl_config_file=%s is in no volume that names a Secret: put it into one", s.tls)
		return
	}
	key, _ := mountedKey(s.tls, mount, v.Secret.Items)
	c.out.Spec.Server = cmp.Or(c.out.Spec.Server, &v1alpha1.ServerSpec{})
	c.out.Spec.Server.TLS = &v1alpha1.ServerTLSSpec{SecretName: v.Secret.SecretName, Key: key}
}

// perModelBatching takes the switch back where there is no batching, without which it means nothing, and which a Tfserv asks for.
func (c *conversion) perModelBatching(field string) {
	if s := c.out.Spec.Server; s != nil && s.PerModelBatching && c.out.Spec.Batching == nil {
		s.PerModelBatching = false
		c.warn(field, "--enable_per_model_batching_parameters has no effect without --enable_batching, and is not converted: set spec.batching with "+
			"spec.server.perModelBatching")
	}
}

// parameters reads a file of parameters, which is a text proto in a ConfigMap among the objects; nil where it cannot be read.
func (c *conversion) parameters(flag, file, message, into string, at []string) protoreflect.Message {
	field := join(append(slices.Clone(at), "args"))
	lost := func(why string) protoreflect.Message {
		c.warn(field, "what the file of --%s says is not converted, since %s: set it in %s", flag, why, into)
		return nil
	}
	v, mount := c.mounted(file, at)
	if v == nil || v.ConfigMap == nil || v.ConfigMap.Name == "" {
		return lost(file + " is in no volume that names a ConfigMap")
	}
	config := c.other("ConfigMap", v.ConfigMap.Name)
	if config == nil {
		return lost("the ConfigMap " + v.ConfigMap.Name + " is not among the objects")
	}
	c.used[config] = true
	key, _ := mountedKey(file, mount, v.ConfigMap.Items)
	text, found, _ := unstructured.NestedString(config.Object, "data", key)
	if !found {
		return lost("the ConfigMap " + v.ConfigMap.Name + " has no key " + key)
	}
	m := dynamicpb.NewMessage(protos.Message(message))
	err := prototext.Unmarshal([]byte(text), m)
	if err == nil {
		return m
	}
	why := strings.TrimSpace(strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto:"))
	proto.Reset(m)
	if (prototext.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(text), m) != nil {
		return lost("TensorFlow Serving would refuse the key " + key + " of the ConfigMap " + v.ConfigMap.Name + ": " + why)
	}
	c.warn(field, "a field in the file of --%s is not converted: %s", flag, why)
	return m
}

var metricsPath = regexp.MustCompile(`^/[-._~/a-zA-Z0-9]{0,255}$`)

// monitoringFile converts the file with where the metrics are.
func (c *conversion) monitoringFile(file string, at []string) {
	if file == "" {
		return
	}
	m := c.parameters("monitoring_config_file", file, "MonitoringConfig", "spec.monitoring", at)
	if m == nil {
		c.out.Spec.Monitoring = &v1alpha1.MonitoringSpec{}
		return
	}
	prometheus := m.Get(m.Descriptor().Fields().ByName("prometheus_config")).Message()
	fields := prometheus.Descriptor().Fields()
	if !prometheus.Get(fields.ByName("enable")).Bool() {
		return
	}
	c.out.Spec.Monitoring = &v1alpha1.MonitoringSpec{}
	switch where := prometheus.Get(fields.ByName("path")).String(); {
	case where == "" || metricsPath.MatchString(where):
		c.out.Spec.Monitoring.Path = where
	default:
		c.warn(join(append(slices.Clone(at), "args")), "the path %q in the file of --monitoring_config_file is not converted: set spec.monitoring.path", where)
	}
}

// batchingFile converts the file with the parameters of batching.
func (c *conversion) batchingFile(file string, at []string) {
	if file == "" {
		return
	}
	m := c.parameters("batching_parameters_file", file, "BatchingParameters", "spec.batching", at)
	if m == nil {
		return
	}
	b := &v1alpha1.BatchingSpec{}
	c.out.Spec.Batching = b
	fields := m.Descriptor().Fields()
	lost := func(name string) {
		c.warn(join(append(slices.Clone(at), "args")), "%s in the file of --batching_parameters_file is not converted: spec.batching has no such "+
			"field, or not this value", name)
	}
	for _, f := range []struct {
		name        string
		least, most int64
		to          **int64
	}{
		{"max_batch_size", 1, 0, &b.MaxBatchSize},
		{"batch_timeout_micros", 0, 0, &b.BatchTimeoutMicros},
		{"max_enqueued_batches", 1, 0, &b.MaxEnqueuedBatches},
		{"num_batch_threads", 1, 1024, &b.NumBatchThreads},
	} {
		wrapped := m.Get(fields.ByName(protoreflect.Name(f.name))).Message()
		n := wrapped.Get(wrapped.Descriptor().Fields().ByName("value")).Int()
		switch {
		case !wrapped.IsValid():
		case n < f.least || f.most > 0 && n > f.most:
			lost(f.name)
		default:
			*f.to = ptr.To(n)
		}
	}
	if m.Has(fields.ByName("thread_pool_name")) {
		lost("thread_pool_name")
	}
	if !batchSizes(b, m.Get(fields.ByName("allowed_batch_sizes")).List()) {
		lost("allowed_batch_sizes")
	}
	b.PadVariableLengthInputs = m.Get(fields.ByName("pad_variable_length_inputs")).Bool()
}

// batchSizes converts the sizes that batches are padded to, and says whether TensorFlow Serving would take them: the last is that of the largest
// batch, which is 1000 by default.
func batchSizes(b *v1alpha1.BatchingSpec, sizes protoreflect.List) bool {
	const most, defaultSize = 32, 1000
	for i := range sizes.Len() {
		n := sizes.Get(i).Int()
		if n < 1 || i > 0 && n <= b.AllowedBatchSizes[i-1] || i == most {
			b.AllowedBatchSizes = nil
			return false
		}
		b.AllowedBatchSizes = append(b.AllowedBatchSizes, n)
	}
	if largest := ptr.Deref(b.MaxBatchSize, defaultSize); len(b.AllowedBatchSizes) > 0 {
		if b.AllowedBatchSizes[len(b.AllowedBatchSizes)-1] != largest {
			b.AllowedBatchSizes = nil
			return false
		}
		b.MaxBatchSize = ptr.To(largest)
	}
	return true
}
