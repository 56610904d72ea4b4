package standin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// kserveAdmission are KServe's webhooks of InferenceServices.
var kserveAdmission = &admission{
	webhook: "inferenceservice.kserve-webhook-server", defaults: defaultInferenceService,
	validate: func(_ context.Context, _ dynamic.Interface, obj, old *unstructured.Unstructured) error {
		return validateInferenceService(obj, old)
	},
}

// kserveContainer is the container that serves the model.
const kserveContainer = "kserve-container"

// frameworks are the fields of a predictor that are no model, and the protocol that the defaulter gives them (v0.17.0
// inference_service_defaults.go, setPredictorModelDefaults).
var frameworks = map[string]string{
	"sklearn": "", "tensorflow": "", "xgboost": "", "pytorch": "", "triton": "v2", "onnx": "v2", "huggingface": "v2", "pmml": "",
	"lightgbm": "", "paddle": "",
}

// defaultInferenceService is DefaultInferenceService, as a Standard-only installation has it (defaultDeploymentMode: Standard).
func defaultInferenceService(obj *unstructured.Unstructured) {
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	if declared := annotations[modeAnnotation]; declared == "" || declared == "RawDeployment" || declared == "Serverless" {
		annotations[modeAnnotation] = modeOf(obj)
	}
	spec, _ := obj.Object["spec"].(map[string]any)
	if predictor, ok := spec["predictor"].(map[string]any); ok && annotations[modeAnnotation] != modelMesh {
		defaultModel(predictor, annotations)
	}
	obj.SetAnnotations(annotations)
	for _, name := range componentsOf(obj) {
		component, _ := spec[name].(map[string]any)
		containers, _ := component["containers"].([]any)
		if len(implementations(name, component)) != 1 || len(containers) == 0 || component["model"] != nil {
			continue
		}
		if first, ok := containers[0].(map[string]any); ok {
			declared, _ := first["name"].(string)
			if name != "predictor" || len(containers) == 1 || declared == "" {
				first["name"] = kserveContainer
			}
			defaultResources(first)
		}
	}
}

// defaultModel turns a framework into the model of its format. What else the framework has is the model's, and what Go cannot omit
// of a container, its name and resources, is there from then on.
func defaultModel(predictor map[string]any, annotations map[string]string) {
	for _, framework := range slices.Sorted(maps.Keys(frameworks)) {
		model, ok := predictor[framework].(map[string]any)
		if !ok {
			continue
		}
		model["modelFormat"] = map[string]any{"name": framework}
		if protocol := frameworks[framework]; protocol != "" && model["protocolVersion"] == nil {
			model["protocolVersion"] = protocol
		}
		delete(predictor, framework)
		predictor["model"] = model
		break
	}
	model, ok := predictor["model"].(map[string]any)
	if !ok {
		return
	}
	for field, empty := range map[string]any{"name": "", "resources": map[string]any{}} {
		if model[field] == nil {
			model[field] = empty
		}
	}
	format, _, _ := unstructured.NestedString(model, "modelFormat", "name")
	if format == "triton" && model["protocolVersion"] == nil {
		model["protocolVersion"] = "v2"
	}
	if format != "" && annotations["modelFormat"] == "" {
		annotations["modelFormat"] = format
	}
}

// defaultResources is setResourceRequirementDefaults with the values of inferenceservice-config.
func defaultResources(container map[string]any) {
	resources, ok := container["resources"].(map[string]any)
	if !ok {
		resources = map[string]any{}
		container["resources"] = resources
	}
	for _, bound := range []string{"requests", "limits"} {
		values, ok := resources[bound].(map[string]any)
		if !ok {
			values = map[string]any{}
			resources[bound] = values
		}
		for name, value := range map[string]string{"cpu": "1", "memory": "2Gi"} {
			if values[name] == nil {
				values[name] = value
			}
		}
	}
}

// implementations are what a component says that it runs (predictor.go, transformer.go and explainer.go, GetImplementations).
func implementations(name string, component map[string]any) []string {
	var out []string
	containers, _ := component["containers"].([]any)
	switch name {
	case "predictor":
		for _, field := range append(slices.Sorted(maps.Keys(frameworks)), "model") {
			if component[field] != nil {
				out = append(out, field)
			}
		}
		for _, one := range containers {
			if container, ok := one.(map[string]any); ok && container["name"] == kserveContainer {
				out = append(out, "containers")
			}
		}
		if len(out) > 0 {
			return out
		}
	case "explainer":
		if component["art"] != nil {
			out = append(out, "art")
		}
	}
	if len(containers) > 0 {
		out = append(out, "containers")
	}
	return out
}

// exactlyOne are the words of ExactlyOneErrorFor, which lists the fields of the Go type but the last.
var exactlyOne = map[string]string{
	"predictor": "exactly one of [SKLearn, XGBoost, Tensorflow, PyTorch, Triton, ONNX, HuggingFace, PMML, LightGBM, Paddle, Model, " +
		"StorageUris, WorkerSpec, PodSpec] must be specified in PredictorSpec",
	"transformer": "exactly one of [PodSpec, ComponentExtensionSpec] must be specified in TransformerSpec",
	"explainer":   "exactly one of [ART, PodSpec, ComponentExtensionSpec] must be specified in ExplainerSpec",
}

// serviceName is IsvcNameFmt.
const serviceName = "[a-z]([-a-z0-9]*[a-z0-9])?"

var serviceNames = regexp.MustCompile("^" + serviceName + "$")

// validateInferenceService is ValidateCreate and ValidateUpdate of inference_service_validation.go, but for what is said of several
// nodes, of metrics of KEDA, and of lists of storage URIs.
func validateInferenceService(obj, old *unstructured.Unstructured) error {
	annotations := obj.GetAnnotations()
	if old != nil && obj.GetDeletionTimestamp() == nil {
		told, _, _ := unstructured.NestedString(old.Object, "status", "deploymentMode")
		if declared, ok := annotations[modeAnnotation]; ok && told != "" && declared != told {
			return fmt.Errorf("update rejected: deploymentMode cannot be changed from '%s' to '%s'", told, declared)
		}
	}
	if !serviceNames.MatchString(obj.GetName()) {
		return fmt.Errorf("the InferenceService \"%s\" is invalid: a InferenceService name must consist of lower case alphanumeric "+
			"characters or '-', and must start with alphabetical character. (e.g. \"my-name\" or \"abc-123\", regex used for validation "+
			"is '%s')", obj.GetName(), serviceName)
	}
	const class = "serving.kserve.io/autoscalerClass"
	if declared, ok := annotations[class]; ok && !slices.Contains([]string{"hpa", "external", "keda", "none"}, declared) {
		return fmt.Errorf("[%s] is not a supported autoscaler class type", declared)
	}
	spec, _ := obj.Object["spec"].(map[string]any)
	predictor, _ := spec["predictor"].(map[string]any)
	for _, field := range append(slices.Sorted(maps.Keys(frameworks)), "model") {
		if name, _, _ := unstructured.NestedString(predictor, field, "name"); name != "" {
			return errors.New("the 'name' field is not allowed in standard predictor")
		}
	}
	for _, name := range componentsOf(obj) {
		component, _ := spec[name].(map[string]any)
		if len(implementations(name, component)) != 1 {
			return errors.New(exactlyOne[name])
		}
		if err := validateComponent(component, annotations[modeAnnotation], annotations[class]); err != nil {
			return err
		}
	}
	return nil
}

// validateComponent is Validate of component.go, and validateAutoScalingCompExtension.
func validateComponent(component map[string]any, mode, class string) error {
	number := func(field string, otherwise int64) int64 {
		if value, found, _ := unstructured.NestedInt64(component, field); found {
			return value
		}
		return otherwise
	}
	least, most := number("minReplicas", 1), number("maxReplicas", 0)
	switch {
	case number("containerConcurrency", 0) < 0:
		return errors.New("parallelism cannot be less than 0")
	case least < 0:
		return errors.New("'MinReplicas' cannot be less than 0")
	case most < 0:
		return errors.New("'MaxReplicas' cannot be less than 0")
	case most != 0 && least > most:
		return errors.New("'MinReplicas' cannot be greater than MaxReplicas")
	}
	if err := validateLogger(component["logger"]); err != nil {
		return err
	}
	metric, declared := component["scaleMetric"].(string)
	switch {
	case mode == standard && class == "hpa":
		return supported(metric, declared, "cpu", "memory")
	case mode == standard:
		return nil
	case component["deploymentStrategy"] != nil:
		return errors.New("customizing deploymentStrategy is only supported for raw deployment mode")
	}
	return supported(metric, declared, "concurrency", "rps")
}

// validateLogger is that of component.go. Go decodes a mode that is absent as an empty one.
func validateLogger(declared any) error {
	logger, ok := declared.(map[string]any)
	if !ok {
		return nil
	}
	mode, _ := logger["mode"].(string)
	if !slices.Contains([]string{"all", "request", "response"}, mode) {
		return errors.New("invalid logger type")
	}
	storage, ok := logger["storage"].(map[string]any)
	if ok && (storage["path"] == nil || storage["parameters"] == nil || storage["key"] == nil) {
		return errors.New("invalid logger storage configuration")
	}
	return nil
}

func supported(metric string, declared bool, known ...string) error {
	if declared && !slices.Contains(known, metric) {
		return fmt.Errorf("[%s] is not a supported metric", metric)
	}
	return nil
}
