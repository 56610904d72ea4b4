package kuttl

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Subset says why expected is not a subset of actual, by kuttl's rules: every key of an expected map must be in the
// actual one, with a value that is a subset; lists must have the same length, and each item must be a subset of the
// item at the same place; everything else must be equal, type included. An expected null is not a missing key.
func Subset(expected, actual any) error { return subset(expected, actual, "") }

func subset(expected, actual any, path string) error {
	if want, got := reflect.TypeOf(expected), reflect.TypeOf(actual); want != got {
		return fmt.Errorf("%s: is %v and not %v", at(path), got, want)
	}
	switch want := expected.(type) {
	case map[string]any:
		got, _ := actual.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(want)) {
			value, ok := got[key]
			if !ok {
				return fmt.Errorf("%s: is missing", at(path+"."+key))
			}
			if err := subset(want[key], value, path+"."+key); err != nil {
				return err
			}
		}
	case []any:
		got, _ := actual.([]any)
		if len(want) != len(got) {
			return fmt.Errorf("%s: has %d items and not %d", at(path), len(got), len(want))
		}
		for i := range want {
			if err := subset(want[i], got[i], fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	default:
		if !reflect.DeepEqual(expected, actual) {
			return fmt.Errorf("%s: is %#v and not %#v", at(path), actual, expected)
		}
	}
	return nil
}

func at(path string) string {
	if path == "" {
		return "the object"
	}
	return path
}
