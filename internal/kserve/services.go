package kserve

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/bounded"
	"mlkeeper.dev/internal/objectmeta"
)

// gvkService is the kind that payloads hold.
var gvkService = schema.GroupVersionKind{Group: "serving.kserve.io", Version: "v1beta1", Kind: "InferenceService"}

// gvkSecret is the kind that has what an element is made of.
var gvkSecret = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}

// Missing says what the cluster lacks for an element to be deployed; nil if nothing. serves says whether a kind is served.
func Missing(serves func(schema.GroupVersionKind) bool) error {
	if serves(gvkService) {
		return nil
	}
	return fmt.Errorf("the API %s is not served: install KServe; orders to deploy wait for it until their timeout", gvkService.GroupVersion())
}

// maxServices is how many services one element may have, and maxMemory what they may take in memory together, in bytes: an order is short
// (acm.MaxRecord), and aliases in its payloads make more of it.
const maxServices, maxMemory = 100, 16 << 20

// reasonInvalidProperties is the reason of properties that no service can be made of.
const reasonInvalidProperties = "InvalidProperties"

// reasonPayloadNotFound is the reason while the Secret with what was ordered is not there, or cannot be used.
const reasonPayloadNotFound = "PayloadNotFound"

// entity is one service as properties declare it.
type entity struct {
	ID acm.Identifier `json:"kserveInferenceEntityId"`
	// Name and Namespace are those of the service; where one is missing it is taken from the payload.
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// Payload is a string that holds the InferenceService as JSON or YAML. An object is taken too.
	Payload json.RawMessage `json:"payload"`
}

// services reads the InferenceServices of properties, in their order: the list kserveInferenceEntities of the participant's
// code, or one service of the flat properties that its documentation describes.
func services(properties acm.Properties) ([]*unstructured.Unstructured, error) {
	entities, at, err := entitiesOf(properties)
	if err != nil {
		return nil, err
	}
	if len(entities) > maxServices {
		return nil, invalid(at, fmt.Sprint(len(entities)), fmt.Sprintf("there are more than %d services", maxServices), "split the element")
	}
	var out []*unstructured.Unstructured
	seen, size := map[string]string{}, int64(0)
	for i, one := range entities {
		field := at
		if at != "" {
			field = fmt.Sprintf("%s[%d].", at, i)
		}
		service, err := one.service(field)
		if err != nil {
			return nil, err
		}
		if size += bounded.InMemory(service.Object); size > maxMemory {
			return nil, invalid(field+"payload", "", fmt.Sprintf("with it, the services take more than %d MiB of memory", maxMemory>>20),
				"split the element")
		}
		id := service.GetNamespace() + "/" + service.GetName()
		if other, twice := seen[id]; twice {
			return nil, invalid(field+"name", id, "the service is declared by "+other+" too", "name each service once")
		}
		seen[id] = strings.TrimSuffix(field, ".")
		out = append(out, service)
	}
	return out, nil
}

// entitiesOf finds the declarations, and the property that they are in; empty for the flat form.
func entitiesOf(properties acm.Properties) ([]entity, string, error) {
	const list = "kserveInferenceEntities"
	if raw, listed := properties[list]; listed {
		if bounded.JSONInMemory(raw) > maxMemory {
			return nil, list, invalid(list, "", fmt.Sprintf("it takes more than %d MiB of memory", maxMemory>>20), "split the element")
		}
		var out []entity
		err := json.Unmarshal(raw, &out)
		if err == nil && out == nil {
			// As an empty list it would delete what runs.
			err = errors.New("it is null")
		}
		if err != nil {
			return nil, list, invalid(list, "", "it cannot be read: "+err.Error(), "give a list of objects with name, namespace and payload")
		}
		return out, list, nil
	}
	if _, flat := properties["payload"]; !flat {
		known := strings.Join(slices.Sorted(maps.Keys(properties)), ", ")
		return nil, "", invalid(list, "", "there is none, nor a payload; the properties are: "+controller.Cut(known, 200),
			"give kserveInferenceEntities, or name, namespace and payload")
	}
	text, err := json.Marshal(properties)
	if err != nil {
		return nil, "", err
	}
	one := entity{}
	if err := json.Unmarshal(text, &one); err != nil {
		return nil, "", invalid("payload", "", "the properties cannot be read: "+err.Error(), "give name, namespace and payload as strings")
	}
	return []entity{one}, "", nil
}

// service makes the InferenceService of one declaration; field is the path of the declaration, with a dot at its end.
func (e entity) service(field string) (*unstructured.Unstructured, error) {
	object, err := e.payload(field)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: object}
	if gvk := u.GroupVersionKind(); gvk != gvkService {
		return nil, invalid(field+"payload", gvk.GroupVersion().String()+" "+gvk.Kind, "it is no InferenceService of "+
			gvkService.GroupVersion().String(), "give an InferenceService; nothing else is made from a payload")
	}
	name, err := agreed(field+"name", e.Name, u.GetName())
	if err != nil {
		return nil, err
	}
	// KServe's webhook takes no dot and no leading digit (kserve v0.17.0, inference_service_validation.go, IsvcNameFmt), and labels
	// hold the name.
	if problems := validation.IsDNS1035Label(name); len(problems) > 0 {
		return nil, invalid(field+"name", name, problems[0], "choose a name that KServe takes")
	}
	namespace, err := agreed(field+"namespace", e.Namespace, u.GetNamespace())
	if err != nil {
		return nil, err
	}
	if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
		return nil, invalid(field+"namespace", namespace, problems[0], "choose a namespace that Kubernetes takes")
	}
	if err := objectmeta.Check(object); err != nil {
		return nil, invalid(field+"payload", "", "its "+err.Error(), "correct the payload")
	}
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetGroupVersionKind(gvkService)
	out.SetName(name)
	out.SetNamespace(namespace)
	out.SetLabels(unmarked(u.GetLabels()))
	out.SetAnnotations(unmarked(u.GetAnnotations()))
	if spec, ok := object["spec"]; ok {
		out.Object["spec"] = spec
	}
	return out, nil
}

// unmarked leaves out the labels and annotations that MLKeeper sets itself, which a payload has that was copied from a cluster: with
// keeper.mlkeeper.dev/adopted, say, the service would run on when the element is undeployed.
func unmarked(of map[string]string) map[string]string {
	maps.DeleteFunc(of, func(key, _ string) bool {
		return strings.HasPrefix(key, keeper.GroupVersion.Group+"/") && key != keeper.WireAnnotation
	})
	if len(of) == 0 {
		return nil
	}
	return of
}

// largest is what a payload may become once it is decoded: as many bytes as etcd stores of an object by default, 1.5 MiB.
var largest = bounded.Size{Values: 1 << 16, Bytes: 3 << 19}

// payload decodes the payload.
func (e entity) payload(field string) (map[string]any, error) {
	text := []byte(e.Payload)
	var inner string
	if json.Unmarshal(e.Payload, &inner) == nil {
		text = []byte(inner)
	}
	object := map[string]any{}
	if bounded.JSONInMemory(text) <= maxMemory && utiljson.Unmarshal(text, &object) == nil {
		return object, nil
	}
	err := bounded.YAML(text, largest)
	if errors.As(err, new(*bounded.LargeError)) {
		return nil, invalid(field+"payload", "", "it is too large: "+err.Error(), "give an InferenceService that etcd can store")
	}
	if err == nil {
		text, err = yaml.YAMLToJSON(text)
	}
	if err == nil {
		err = utiljson.Unmarshal(text, &object)
	}
	if err != nil {
		return nil, invalid(field+"payload", "", "it is neither JSON nor YAML: "+err.Error(), "give the InferenceService as JSON or YAML")
	}
	return object, nil
}

// agreed is the name that a declaration and its payload give, of which either may be silent.
func agreed(field, declared, payload string) (string, error) {
	switch {
	case declared == "":
		declared = payload
	case payload != "" && payload != declared:
		return "", invalid(field, declared, "the payload says "+controller.Cut(payload, 100), "give both the same")
	}
	if declared == "" {
		return "", invalid(field, "", "there is none, neither here nor in the payload", "give one")
	}
	return declared, nil
}

func invalid(field, value, message, remedy string) error {
	return plan.Problem{
		Class: plan.Terminal, Reason: reasonInvalidProperties, Field: strings.TrimSuffix(field, "."), Value: controller.Cut(value, 200),
		Message: controller.Cut(message, 400), Remedy: remedy,
	}
}
