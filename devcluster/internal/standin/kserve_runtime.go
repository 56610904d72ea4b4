package standin

import (
	"bytes"
	"cmp"
	"context"
	_ "embed" // the runtimes that come with KServe
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
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
	// several says that it is for several nodes, as no predictor is here.
	several bool
	// serverType is the kind of its server, where KServe tells that more than the runtime says.
	serverType string
	// protocols are those that it speaks; none means any.
	protocols []string
	formats   []modelFormat
	pod       runtimePod
}

// runtimePod is what of a runtime becomes the pods' (pkg/apis/serving/v1alpha1, ServingRuntimePodSpec).
type runtimePod struct {
	Containers       []corev1.Container            `json:"containers"`
	Volumes          []corev1.Volume               `json:"volumes"`
	NodeSelector     map[string]string             `json:"nodeSelector"`
	Affinity         *corev1.Affinity              `json:"affinity"`
	Tolerations      []corev1.Toleration           `json:"tolerations"`
	Labels           map[string]string             `json:"labels"`
	Annotations      map[string]string             `json:"annotations"`
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets"`
	SchedulerName    string                        `json:"schedulerName"`
}

// modelFormat is one that a runtime supports. Which runtime is taken for a format that several support goes by the priority.
type modelFormat struct {
	name, version string
	auto          bool
	priority      int64
}

//go:embed runtimes.yaml
var runtimesFile []byte

// builtin are the runtimes that come with KServe.
var builtin = shipped()

func shipped() []servingRuntime {
	var out []servingRuntime
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(runtimesFile), 4096)
	for {
		u := &unstructured.Unstructured{}
		err := decoder.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			panic("bug: runtimes.yaml: " + err.Error())
		}
		out = append(out, runtimeOf(u, true))
	}
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
	out := servingRuntime{name: u.GetName(), cluster: cluster, serverType: u.GetAnnotations()["serving.kserve.io/server-type"]}
	if out.serverType == "" && slices.Contains([]string{"kserve-mlserver", "kserve-torchserve", "kserve-tritonserver"}, out.name) {
		out.serverType = strings.TrimPrefix(out.name, "kserve-")
	}
	if err := decode(u.Object["spec"], &out.pod); err != nil {
		fmt.Fprintf(os.Stderr, "stand-in: runtime %s: %v\n", out.name, err)
	}
	_, out.several, _ = unstructured.NestedFieldNoCopy(u.Object, "spec", "workerSpec")
	out.disabled, _, _ = unstructured.NestedBool(u.Object, "spec", "disabled")
	out.protocols, _, _ = unstructured.NestedStringSlice(u.Object, "spec", "protocolVersions")
	list, _, _ := unstructured.NestedSlice(u.Object, "spec", "supportedModelFormats")
	for _, one := range list {
		if format, ok := one.(map[string]any); ok {
			f := modelFormat{}
			f.name, _ = format["name"].(string)
			f.version, _ = format["version"].(string)
			f.auto, _ = format["autoSelect"].(bool)
			f.priority = numberIn(format["priority"])
			out.formats = append(out.formats, f)
		}
	}
	return out
}

// numberIn is a whole number, of what a cluster answers with or of a file.
func numberIn(value any) int64 {
	switch n := value.(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	}
	return 0
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
	s.runtime = &chosen
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
		if !r.disabled && !r.several && r.supports(format, version, false) && r.speaks(cmp.Or(protocol, "v1")) {
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
