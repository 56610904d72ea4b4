package status

import (
	"encoding/json"
	"hash/fnv"
	"reflect"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Preconditions are the metadata of a status patch: the UID, so that a recreated custom resource does not get the status of the
// deleted one, and the version, since the patch has the differences to that alone. A manager whose cache is behind would make a mixture of its
// own status and that of another: the verdict of one generation under the observedGeneration of the next, or a step that nobody has taken.
func Preconditions(before metav1.Object) map[string]any {
	return map[string]any{"uid": before.GetUID(), "resourceVersion": before.GetResourceVersion()}
}

// Patch is a merge patch of the status alone, guarded by preconditions.
func Patch(before, after runtime.Object, guard map[string]any) ([]byte, error) {
	a, err := statusOnly(before)
	if err != nil {
		return nil, err
	}
	b, err := statusOnly(after)
	if err != nil {
		return nil, err
	}
	raw, err := jsonpatch.CreateMergePatch(a, b)
	if err != nil {
		return nil, err
	}
	patch := map[string]any{}
	if err := json.Unmarshal(raw, &patch); err != nil {
		return nil, err
	}
	patch["metadata"] = guard
	return json.Marshal(patch)
}

// statusOnly encodes the status alone, since specs may be large. Every kind has it in a field of that name.
func statusOnly(o runtime.Object) ([]byte, error) {
	return json.Marshal(map[string]any{"status": reflect.ValueOf(o).Elem().FieldByName("Status").Interface()})
}

// Sum tells apart what statuses say, whenever they came to say it: times do not count.
func Sum(o runtime.Object) (uint64, error) {
	raw, err := statusOnly(o)
	if err != nil {
		return 0, err
	}
	var content any
	if err := json.Unmarshal(raw, &content); err != nil {
		return 0, err
	}
	if raw, err = json.Marshal(withoutTimes(content)); err != nil {
		return 0, err
	}
	h := fnv.New64a()
	_, _ = h.Write(raw)
	return h.Sum64(), nil
}

// withoutTimes takes out every value that is a time.
func withoutTimes(v any) any {
	switch v := v.(type) {
	case string:
		if _, err := time.Parse(time.RFC3339, v); err == nil {
			return nil
		}
	case map[string]any:
		for key, item := range v {
			v[key] = withoutTimes(item)
		}
	case []any:
		for i, item := range v {
			v[i] = withoutTimes(item)
		}
	}
	return v
}
