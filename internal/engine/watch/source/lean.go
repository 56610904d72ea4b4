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

// NewDynamic returns a dynamic client for watches. That of client-go goes over each event five times: it looks for the kind of
// the event, decodes it, looks for the kind of the object in it, looks whether that is a list, and decodes it. What a watch
// sends is known, so that two are enough, which is a third of what decoding costs.
func NewDynamic(cfg *rest.Config) (dynamic.Interface, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.GroupVersion = &schema.GroupVersion{}
	cfg.NegotiatedSerializer = lean{}
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	c, err := rest.RESTClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("make the client of the watches: %w", err)
	}
	return dynamic.New(c), nil
}

// lean implements runtime.NegotiatedSerializer for unstructured objects.
type lean struct{}

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (lean) SupportedMediaTypes() []runtime.SerializerInfo {
	return []runtime.SerializerInfo{{
		MediaType: runtime.ContentTypeJSON, MediaTypeType: "application", MediaTypeSubType: "json", EncodesAsText: true,
		Serializer: objects{unstructured.UnstructuredJSONScheme},
		StreamSerializer: &runtime.StreamSerializerInfo{
			EncodesAsText: true, Serializer: events{unstructured.UnstructuredJSONScheme}, Framer: jsonserializer.Framer,
		},
	}}
}

// EncoderForVersion implements runtime.NegotiatedSerializer.
func (lean) EncoderForVersion(e runtime.Encoder, _ runtime.GroupVersioner) runtime.Encoder { return e }

// DecoderToVersion implements runtime.NegotiatedSerializer.
func (lean) DecoderToVersion(d runtime.Decoder, _ runtime.GroupVersioner) runtime.Decoder { return d }

// events decodes the frames of a watch.
type events struct{ runtime.Encoder }

// Decode implements runtime.Decoder.
func (events) Decode(data []byte, _ *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	event, ok := into.(*metav1.WatchEvent)
	if !ok {
		return nil, nil, fmt.Errorf("bug: a watch is decoded into %T", into)
	}
	gvk := metav1.SchemeGroupVersion.WithKind("WatchEvent")
	return event, &gvk, json.Unmarshal(data, event)
}

// objects decodes what is in the frames: an object, or why the watch ended.
type objects struct{ runtime.Codec }

// Decode implements runtime.Decoder.
func (o objects) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
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
