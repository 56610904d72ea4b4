package helm

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	schemakind "github.com/santhosh-tekuri/jsonschema/v6/kind"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
)

// noReferences refuses what a schema refers to outside of itself: a file, a server.
type noReferences struct{}

// Load implements jsonschema.URLLoader.
func (noReferences) Load(url string) (any, error) {
	return nil, fmt.Errorf("the schema refers to %s, which is not read: put it into the schema", url)
}

// validate says where values do not fit the schemas of a chart and of the charts within it.
func validate(c *chartv2.Chart, values map[string]any) []string {
	var out []string
	if len(c.Schema) > 0 {
		if err := validateOne(c.Schema, values); err != nil {
			sortCauses(err)
			out = append(out, c.Name()+": "+strings.Join(strings.Fields(err.Error()), " "))
		}
	}
	for _, sub := range c.Dependencies() {
		if subValues, ok := values[sub.Name()].(map[string]any); ok {
			out = append(out, validate(sub, subValues)...)
		}
	}
	slices.Sort(out)
	return out
}

func validateOne(raw []byte, values map[string]any) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("the schema cannot be used (%v): correct values.schema.json", cause)
		}
	}()
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return errors.New("values.schema.json is no JSON: correct it")
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noReferences{})
	const name = "schema:values"
	if err := compiler.AddResource(name, parsed); err != nil {
		return err
	}
	schema, err := compiler.Compile(name)
	if err != nil {
		return err
	}
	return schema.Validate(map[string]any(values))
}

// sortCauses has an error name what does not fit in one order: the library goes through values and schemas in the order of maps (jsonschema/v6,
// validator.go), so that the text, and a status with it, would be another one each time.
func sortCauses(err error) {
	var schema *jsonschema.SchemaValidationError
	if errors.As(err, &schema) {
		err = schema.Err
	}
	var e *jsonschema.ValidationError
	if !errors.As(err, &e) {
		return
	}
	if additional, is := e.ErrorKind.(*schemakind.AdditionalProperties); is {
		slices.Sort(additional.Properties)
	}
	for _, cause := range e.Causes {
		sortCauses(cause)
	}
	slices.SortFunc(e.Causes, func(a, b *jsonschema.ValidationError) int { return strings.Compare(a.Error(), b.Error()) })
}
