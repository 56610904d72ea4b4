package standin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

var (
	servingRuntimes        = schema.GroupVersionResource{Group: "serving.kserve.io", Version: "v1alpha1", Resource: "servingruntimes"}
	clusterServingRuntimes = schema.GroupVersionResource{Group: "serving.kserve.io", Version: "v1alpha1", Resource: "clusterservingruntimes"}
)

// servingRuntime is what a predictor may run on.
type servingRuntime struct {
	name     string
	cluster  bool
	disabled bool
	// protocols are those that it speaks; none means any.
	protocols []string
	formats   []modelFormat
}

// modelFormat is one that a runtime supports. Which runtime is taken for a format that several support goes by the priority.
type modelFormat struct {
	name, version string
	auto          bool
	priority      int64
}

// builtin are the runtimes that come with KServe (v0.17.0, config/runtimes).
var builtin = []servingRuntime{
	shipped("kserve-huggingfaceserver", "v2 v1", modelFormat{"huggingface", "1", true, 1}),
	shipped("kserve-lgbserver", "v1 v2", modelFormat{"lightgbm", "4", true, 1}),
	shipped("kserve-mlserver", "v2", modelFormat{"sklearn", "0", true, 2}, modelFormat{"sklearn", "1", true, 2},
		modelFormat{"xgboost", "1", true, 2}, modelFormat{"xgboost", "2", true, 2}, modelFormat{"lightgbm", "3", true, 2},
		modelFormat{"lightgbm", "4", true, 2}, modelFormat{"mlflow", "1", true, 1}, modelFormat{"mlflow", "2", true, 1}),
	shipped("kserve-paddleserver", "v1 v2", modelFormat{"paddle", "2", true, 1}),
	shipped("kserve-pmmlserver", "v1 v2", modelFormat{"pmml", "3", true, 1}, modelFormat{"pmml", "4", true, 1}),
	shipped("kserve-predictiveserver", "v1 v2", modelFormat{"sklearn", "1", false, 3}, modelFormat{"xgboost", "2", false, 3},
		modelFormat{"lightgbm", "4", false, 3}),
	shipped("kserve-sklearnserver", "v1 v2", modelFormat{"sklearn", "1", true, 1}),
	shipped("kserve-tensorflow-serving", "v1 grpc-v1", modelFormat{"tensorflow", "1", true, 2}, modelFormat{"tensorflow", "2", true, 2}),
	shipped("kserve-torchserve", "v1 v2 grpc-v2", modelFormat{"pytorch", "1", true, 2}),
	shipped("kserve-tritonserver", "v2 grpc-v2", modelFormat{"tensorrt", "8", true, 1}, modelFormat{"tensorflow", "1", true, 1},
		modelFormat{"tensorflow", "2", true, 1}, modelFormat{"onnx", "1", true, 1}, modelFormat{"pytorch", "1", false, 0},
		modelFormat{"triton", "2", true, 1}),
	shipped("kserve-xgbserver", "v1 v2", modelFormat{"xgboost", "2", true, 1}),
}

func shipped(name, protocols string, formats ...modelFormat) servingRuntime {
	return servingRuntime{name: name, cluster: true, protocols: strings.Fields(protocols), formats: formats}
}

// runtimesFor are those that a namespace may use, in the order in which they are looked at: its own, then those of the cluster.
func runtimesFor(ctx context.Context, client dynamic.Interface, namespace string) ([]servingRuntime, error) {
	var out []servingRuntime
	for _, from := range []struct {
		client  dynamic.ResourceInterface
		cluster bool
	}{{client.Resource(servingRuntimes).Namespace(namespace), false}, {client.Resource(clusterServingRuntimes), true}} {
		list, err := from.client.List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			continue // The kind is not served.
		}
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			out = append(out, runtimeOf(&list.Items[i], from.cluster))
		}
	}
	return append(out, builtin...), nil
}

func runtimeOf(u *unstructured.Unstructured, cluster bool) servingRuntime {
	out := servingRuntime{name: u.GetName(), cluster: cluster}
	out.disabled, _, _ = unstructured.NestedBool(u.Object, "spec", "disabled")
	out.protocols, _, _ = unstructured.NestedStringSlice(u.Object, "spec", "protocolVersions")
	list, _, _ := unstructured.NestedSlice(u.Object, "spec", "supportedModelFormats")
	for _, one := range list {
		if format, ok := one.(map[string]any); ok {
			f := modelFormat{}
			f.name, _ = format["name"].(string)
			f.version, _ = format["version"].(string)
			f.auto, _ = format["autoSelect"].(bool)
			f.priority, _ = format["priority"].(int64)
			out.formats = append(out.formats, f)
		}
	}
	return out
}

// supports is RuntimeSupportsModel: the name of a format, and its version where the model gives one. Without a runtime that is
// named only those formats count that are selected by themselves.
func (r servingRuntime) supports(name, version string, named bool) bool {
	return slices.ContainsFunc(r.formats, func(f modelFormat) bool {
		return f.name == name && (version == "" || f.version == version) && (named || f.auto)
	})
}

func (r servingRuntime) speaks(protocol string) bool {
	return len(r.protocols) == 0 || slices.Contains(r.protocols, protocol)
}

func (r servingRuntime) priority(format string) int64 {
	for _, f := range r.formats {
		if f.name == format {
			return f.priority
		}
	}
	return 0
}

// chooseRuntime is reconcileModel of predictor.go. The error of a spec that no runtime can be found for ends the reconcile.
func (s *serviceStatus) chooseRuntime(ctx context.Context, client dynamic.Interface) error {
	all, err := runtimesFor(ctx, client, s.service.GetNamespace())
	if err != nil {
		return err
	}
	return s.runOn(all)
}

// runOn tells which of some runtimes serves the model, or that none does.
func (s *serviceStatus) runOn(all []servingRuntime) error {
	model, found, _ := unstructured.NestedMap(s.service.Object, "spec", "predictor", "model")
	if !found {
		return nil // A container of the user's own.
	}
	name, _, _ := unstructured.NestedString(model, "modelFormat", "name")
	version, _, _ := unstructured.NestedString(model, "modelFormat", "version")
	protocol, _ := model["protocolVersion"].(string)
	chosen, reason, message := choose(all, model["runtime"], name, version, protocol)
	if reason != "" {
		s.invalid(reason, message)
		return fmt.Errorf("InferenceService %s/%s: %s", s.service.GetNamespace(), s.service.GetName(), message)
	}
	delete(s.fields, "servingRuntimeName")
	delete(s.fields, "clusterServingRuntimeName")
	field := "servingRuntimeName"
	if chosen.cluster {
		field = "clusterServingRuntimeName"
	}
	s.fields[field] = chosen.name
	return nil
}

// choose finds the runtime of a model, or says with KServe's words why there is none.
func choose(all []servingRuntime, named any, format, version, protocol string) (chosen servingRuntime, reason, message string) {
	if name, ok := named.(string); ok {
		at := slices.IndexFunc(all, func(r servingRuntime) bool { return r.name == name })
		switch {
		case at < 0:
			return chosen, "RuntimeNotRecognized", "Waiting for runtime to become available"
		case all[at].disabled:
			return chosen, "RuntimeDisabled", "Specified runtime is disabled"
		case protocol != "" && !all[at].speaks(protocol):
			return chosen, "NoSupportingRuntime", "Specified runtime does not support specified protocol version"
		case !all[at].supports(format, version, true):
			return chosen, "NoSupportingRuntime", "Specified runtime does not support specified framework/version"
		}
		return all[at], "", ""
	}
	var able []servingRuntime
	for _, r := range all {
		if !r.disabled && r.supports(format, version, false) && r.speaks(cmp.Or(protocol, "v1")) {
			able = append(able, r)
		}
	}
	if len(able) == 0 {
		return chosen, "NoSupportingRuntime", "No runtime found to support specified framework/version"
	}
	slices.SortStableFunc(able, func(a, b servingRuntime) int {
		if a.cluster != b.cluster {
			return map[bool]int{false: -1, true: 1}[a.cluster]
		}
		return cmp.Compare(b.priority(format), a.priority(format))
	})
	return able[0], "", ""
}
