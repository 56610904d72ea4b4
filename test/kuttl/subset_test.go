package kuttl

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestSubset follows kuttl's own table (internal/utils/subset_test.go) and its source.
func TestSubset(t *testing.T) {
	for name, c := range map[string]struct{ expected, actual, err string }{
		"equal":                         {`{a: 1}`, `{a: 1}`, ``},
		"more in actual":                {`{a: {b: 1}}`, `{a: {b: 1, c: 2}, d: 3}`, ``},
		"nothing expected":              {`{}`, `{a: 1}`, ``},
		"missing key":                   {`{a: {b: 1}}`, `{a: {c: 1}}`, `.a.b: is missing`},
		"another value":                 {`{a: {b: 1}}`, `{a: {b: 2}}`, `.a.b: is 2 and not 1`},
		"another type":                  {`{a: "1"}`, `{a: 1}`, `.a: is`},
		"null is not missing":           {`{a: null}`, `{}`, `.a: is missing`},
		"null and null":                 {`{a: null}`, `{a: null}`, ``},
		"null and a value":              {`{a: null}`, `{a: 1}`, `.a: is`},
		"lists, item by item":           {`{a: [{b: 1}, {}]}`, `{a: [{b: 1, c: 2}, {d: 3}]}`, ``},
		"lists, another length":         {`{a: [1]}`, `{a: [1, 2]}`, `.a: has 2 items and not 1`},
		"lists, another order":          {`{a: [1, 2]}`, `{a: [2, 1]}`, `.a[0]: is`},
		"lists, a difference inside":    {`{a: [{b: 1}]}`, `{a: [{b: 2}]}`, `.a[0].b: is`},
		"an empty map is no empty list": {`{a: {}}`, `{a: []}`, `.a: is`},
		"an empty map in a full one":    {`{a: {}}`, `{a: {b: 1}}`, ``},
		"scalars":                       {`1`, `2`, `the object: is`},
	} {
		t.Run(name, func(t *testing.T) {
			var expected, actual any
			if yaml.Unmarshal([]byte(c.expected), &expected) != nil || yaml.Unmarshal([]byte(c.actual), &actual) != nil {
				t.Fatal("bad table")
			}
			err := Subset(expected, actual)
			if (err == nil) != (c.err == "") || (err != nil && !strings.HasPrefix(err.Error(), c.err)) {
				t.Errorf("got %v, want %q", err, c.err)
			}
		})
	}
}
