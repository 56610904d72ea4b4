package source

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// NewDynamic returns a dynamic client for watches. The client of client-go parses each event five times: it detects the kind of
// the event, decodes the event, detects the kind of the object, detects whether the object is a list, and decodes the object. A
// watch only sends events with single objects, so two passes are enough. They take a third of the time.
func NewDynamic(cfg *rest.Config) (dynamic.Interface, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.GroupVersion = &schema.GroupVersion{}
	cfg.NegotiatedSerializer = rawJSONSerializer{}
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	c, err := rest.RESTClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("make the client for watches: %w", err)
	}
	return dynamic.New(c), nil
}

// rawJSONSerializer implements runtime.NegotiatedSerializer for unstructured objects.
type rawJSONSerializer struct{}

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (rawJSONSerializer) SupportedMediaTypes() []runtime.SerializerInfo {
	return []runtime.SerializerInfo{{
		MediaType: runtime.ContentTypeJSON, MediaTypeType: "application", MediaTypeSubType: "json", EncodesAsText: true,
		Serializer: objectDecoder{unstructured.UnstructuredJSONScheme},
		StreamSerializer: &runtime.StreamSerializerInfo{
			EncodesAsText: true, Serializer: eventDecoder{unstructured.UnstructuredJSONScheme}, Framer: jsonserializer.Framer,
		},
	}}
}

// EncoderForVersion implements runtime.NegotiatedSerializer.
func (rawJSONSerializer) EncoderForVersion(e runtime.Encoder, _ runtime.GroupVersioner) runtime.Encoder {
	return e
}

// DecoderToVersion implements runtime.NegotiatedSerializer.
func (rawJSONSerializer) DecoderToVersion(d runtime.Decoder, _ runtime.GroupVersioner) runtime.Decoder {
	return d
}

// eventDecoder decodes the frames of a watch.
type eventDecoder struct{ runtime.Encoder }

// Decode implements runtime.Decoder.
func (eventDecoder) Decode(data []byte, _ *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	event, ok := into.(*metav1.WatchEvent)
	if !ok {
		return nil, nil, fmt.Errorf("bug: watch event decoded into %T", into)
	}
	gvk := metav1.SchemeGroupVersion.WithKind("WatchEvent")
	return event, &gvk, json.Unmarshal(data, event)
}

// objectDecoder decodes the content of a frame: an object, or the Status of a watch that failed.
type objectDecoder struct{ runtime.Codec }

// Decode implements runtime.Decoder.
func (o objectDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if into != nil {
		return o.Codec.Decode(data, defaults, into)
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(data, &u.Object); err != nil {
		return nil, nil, err
	}
	gvk := u.GroupVersionKind()
	switch gvk {
	case schema.GroupVersionKind{Version: "v1", Kind: "Status"}:
		status := &metav1.Status{}
		return status, &gvk, json.Unmarshal(data, status)
	case schema.GroupVersionKind{Group: gvk.Group, Version: gvk.Version}:
		return nil, nil, runtime.NewMissingKindErr(string(data))
	}
	return u, &gvk, nil
}
