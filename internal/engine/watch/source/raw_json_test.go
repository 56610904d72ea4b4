package source

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// decodeEvent decodes a frame of a watch as client-go does.
func decodeEvent(t *testing.T, frame string) (runtime.Object, error) {
	t.Helper()
	info := rawJSONSerializer{}.SupportedMediaTypes()[0]
	event := &metav1.WatchEvent{}
	if _, _, err := info.StreamSerializer.Decode([]byte(frame), nil, event); err != nil {
		return nil, err
	}
	return runtime.Decode(rawJSONSerializer{}.DecoderToVersion(info.Serializer, nil), event.Object.Raw)
}

func TestWatchesAreDecodedAsClientGoDoes(t *testing.T) {
	for _, object := range []string{
		`{"apiVersion":"a.example.com/v1","kind":"A","metadata":{"name":"one","generation":3},"spec":{"whole":7,"part":0.5,"large":9007199254740993,"list":[1,{"a":null}]}}`,
		`{"apiVersion":"a.example.com/v1","kind":"A","metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}`,
	} {
		got, err := decodeEvent(t, `{"type":"ADDED","object":`+object+`}`)
		if err != nil {
			t.Fatal(err)
		}
		want, _, err := unstructured.UnstructuredJSONScheme.Decode([]byte(object), nil, nil)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v, not %v: %v", got, want, err)
		}
	}
	got, err := decodeEvent(t, `{"type":"ERROR","object":{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Expired","code":410}}`)
	if status, ok := got.(*metav1.Status); !ok || status.Code != 410 || status.Reason != metav1.StatusReasonExpired || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{``, `{"type":"ADDED","object":{"metadata":{"name":"no kind"}}}`, `{"type":"ADDED","object":[]}`, `{"type":"ADDED"`} {
		if got, err := decodeEvent(t, bad); err == nil {
			t.Errorf("%s: %v", bad, got)
		}
	}
}

// FuzzEvent checks that every frame is decoded or returns an error.
func FuzzEvent(f *testing.F) {
	f.Add(`{"type":"MODIFIED","object":{"apiVersion":"v1","kind":"A"}}`)
	f.Fuzz(func(t *testing.T, frame string) {
		if got, err := decodeEvent(t, frame); err == nil && got == nil {
			t.Errorf("neither an object nor an error")
		}
	})
}
