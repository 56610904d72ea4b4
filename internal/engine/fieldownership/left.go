package fieldownership

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Left divides lost fields into those that JSON pointers name, with the pointers that do, and the rest. MLKeeper's own marks are never left
// to others.
func Left(desired *unstructured.Unstructured, lost []Field, pointers []string) (ignored, rest []Field, by []string) {
	for _, f := range lost {
		if isMark(f.Path) {
			continue
		}
		at := pointerTo(desired.Object, f.Path)
		i := slices.IndexFunc(pointers, func(pointer string) bool { return at == pointer || strings.HasPrefix(at, pointer+"/") })
		if i < 0 {
			rest = append(rest, f)
			continue
		}
		ignored = append(ignored, f)
		if !slices.Contains(by, pointers[i]) {
			by = append(by, pointers[i])
		}
	}
	return ignored, rest, by
}

// escapes are those of a JSON pointer (RFC 6901).
var escapes = strings.NewReplacer("~", "~0", "/", "~1")

// pointerTo is the JSON pointer of a path, in which the entries of lists are numbered as the content has them; empty where it has none.
func pointerTo(content any, path fieldpath.Path) string {
	var out strings.Builder
	for _, element := range path {
		out.WriteByte('/')
		if element.FieldName != nil {
			m, _ := content.(map[string]any)
			content = m[*element.FieldName]
			out.WriteString(escapes.Replace(*element.FieldName))
			continue
		}
		list, _ := content.([]any)
		i := indexOf(list, element)
		if i < 0 {
			return ""
		}
		content = list[i]
		out.WriteString(strconv.Itoa(i))
	}
	return out.String()
}
