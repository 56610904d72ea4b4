package fieldownership

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Left returns those of the lost fields that JSON pointers name. MLKeeper's own marks are never left to others.
func Left(desired *unstructured.Unstructured, lost []Field, pointers []string) (ignored, rest []Field) {
	for _, f := range lost {
		switch at := pointerTo(desired.Object, f.Path); {
		case isMark(f.Path):
		case slices.ContainsFunc(pointers, func(pointer string) bool { return at == pointer || strings.HasPrefix(at, pointer+"/") }):
			ignored = append(ignored, f)
		default:
			rest = append(rest, f)
		}
	}
	return ignored, rest
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
