package kustomize

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestWhichErrorIsTold holds that of several errors in one file the same one is told each time: a status that tells another one after each
// rendering is written each time.
func TestWhichErrorIsTold(t *testing.T) {
	fields := func(format string) string {
		var out []string
		for c := 'z'; c >= 'a'; c-- {
			out = append(out, fmt.Sprintf(format, string(c)))
		}
		return "{" + strings.Join(out, ", ") + "}"
	}
	data := map[string]any{}
	for c := 'a'; c <= 'z'; c++ {
		data[string(c)] = "${" + string(c) + "}"
	}
	for name, c := range map[string]struct {
		err  func() error
		want string
	}{
		"variables without a value": {func() error {
			o := &unstructured.Unstructured{Object: map[string]any{"kind": "ConfigMap", "data": data}}
			_, err := substitute([]*unstructured.Unstructured{o}, map[string]string{})
			return err
		}, `the variable "a" has no value`},
		"addresses": {func() error {
			return scanPlugin([]byte("files: " + fields("%s: 'https://example.test/%[1]s'")))
		}, `names "https://example.test/a"`},
		"addresses by keys that are no texts": {func() error {
			return scanPlugin([]byte("files: {x: " + strings.NewReplacer("a:", "1:", "b:", "2:", "c:", "true:").Replace(fields("%s: 'https://example.test/%[1]s'")) + "}"))
		}, `names "https://example.test/c"`},
	} {
		for range 20 {
			if err := c.err(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", name, err)
				break
			}
		}
	}
}
