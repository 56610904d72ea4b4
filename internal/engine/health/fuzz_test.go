package health

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// FuzzOf feeds objects of any shape: the health is always one of the five, the promises of Result hold, and Strip keeps it.
func FuzzOf(f *testing.F) {
	for _, c := range samples() {
		raw, err := json.Marshal(c.object(f).Object)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var content map[string]any
		if err := utiljson.Unmarshal(raw, &content); err != nil {
			return
		}
		u := &unstructured.Unstructured{Object: content}
		got := Of(u)
		switch got.Status {
		case Current, InProgress, Failed, Terminating, Unknown:
		default:
			t.Errorf("status %q", got.Status)
		}
		if !reasonShape.MatchString(got.Reason) {
			t.Errorf("reason %q", got.Reason)
		}
		if got.Message == "" || !utf8.ValidString(got.Message) || strings.ContainsAny(got.Message, "\n\r\x00") ||
			utf8.RuneCountInString(got.Message) > maxMessage {
			t.Errorf("message %q", got.Message)
		}
		if after := Of(Strip(u)); after != got {
			t.Errorf("%+v, stripped %+v", got, after)
		}
	})
}
