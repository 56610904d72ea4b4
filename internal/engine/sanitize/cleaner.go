package sanitize

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	gvkschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/openapi"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/spec3"
	validation "k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// maxDocuments bounds the group versions whose schemas are kept; one of them takes up to a few megabytes.
const maxDocuments = 32

// ErrNoSchema says that the API server publishes no schema for a kind.
var ErrNoSchema = errors.New("the API server publishes no schema for this kind")

// Refused says that server-side apply refused an object for what Clean can mend.
func Refused(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "field not declared in schema") || strings.Contains(text, "duplicate entries for key")
}

// RefusedStrictly says that a create with strict field validation refused an object for undeclared fields.
func RefusedStrictly(err error) bool {
	return apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "strict decoding error")
}

// Suspicious says that two items of some list have the same name or port, which no create refuses but a later apply
// does. Whether it is a mistake, only the schema tells.
func Suspicious(u *unstructured.Unstructured) bool { return suspicious(u.Object) }

func suspicious(content any) bool {
	switch c := content.(type) {
	case map[string]any:
		for _, v := range c {
			if suspicious(v) {
				return true
			}
		}
	case []any:
		seen := map[string]bool{}
		for _, item := range c {
			if suspicious(item) {
				return true
			}
			m, isMap := item.(map[string]any)
			if !isMap {
				continue
			}
			for _, key := range []string{"name", "port", "containerPort", "mountPath"} {
				if v, ok := m[key]; ok {
					text := fmt.Sprint(key, v, m["protocol"])
					if seen[text] {
						return true
					}
					seen[text] = true
				}
			}
		}
	}
	return false
}

// Cleaner cleans objects by the schemas that the API server publishes. It fetches the document of a group version when
// an object of it is first cleaned, and again after Invalidate, if its hash then is another. It may be used from
// several goroutines.
type Cleaner struct {
	client openapi.Client
	mu     sync.Mutex
	// documents is bounded; order holds its keys, the oldest first.
	documents map[gvkschema.GroupVersion]*document
	order     []gvkschema.GroupVersion
}

// document holds the schemas of one group version.
type document struct {
	mu sync.Mutex
	// url is where the document came from; the API server puts its hash into it.
	url   string
	stale bool
	types *schema.Schema
	kinds map[gvkschema.GroupVersionKind]string
}

// NewCleaner returns a Cleaner that reads from a discovery client's OpenAPIV3.
func NewCleaner(client openapi.Client) *Cleaner {
	return &Cleaner{client: client, documents: map[gvkschema.GroupVersion]*document{}}
}

// Clean returns a copy of desired that server-side apply accepts as far as undeclared fields and duplicate list keys
// are concerned, with one warning per change. It returns ErrNoSchema where the kind has no published schema.
func (c *Cleaner) Clean(ctx context.Context, desired *unstructured.Unstructured) (*unstructured.Unstructured, []string, error) {
	t, err := c.typeOf(ctx, desired.GroupVersionKind())
	if err != nil {
		return nil, nil, err
	}
	out, warnings := Clean(desired, t)
	return out, warnings, nil
}

// Invalidate makes the next Clean of the group version look whether its document changed, such as after a change of
// one of its CustomResourceDefinitions, or after a refusal in spite of Clean.
func (c *Cleaner) Invalidate(gv gvkschema.GroupVersion) {
	c.mu.Lock()
	d := c.documents[gv]
	c.mu.Unlock()
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stale = true
}

func (c *Cleaner) typeOf(ctx context.Context, gvk gvkschema.GroupVersionKind) (Type, error) {
	d := c.documentOf(gvk.GroupVersion())
	// Of several objects of a group version, one fetches and the others wait for it.
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return Type{}, err
	}
	if d.types == nil || d.stale {
		if err := d.fetch(c.client, gvk.GroupVersion()); err != nil {
			return Type{}, fmt.Errorf("read the schema of %s: %w", gvk.GroupVersion(), err)
		}
	}
	name, ok := d.kinds[gvk]
	if !ok {
		// The document may be older than the kind.
		d.stale = true
		return Type{}, fmt.Errorf("%s: %w", gvk, ErrNoSchema)
	}
	return Type{Schema: d.types, Ref: schema.TypeRef{NamedType: &name}}, nil
}

func (c *Cleaner) documentOf(gv gvkschema.GroupVersion) *document {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.documents[gv]
	if d != nil {
		return d
	}
	if len(c.order) >= maxDocuments {
		delete(c.documents, c.order[0])
		c.order = c.order[1:]
	}
	d = &document{}
	c.documents[gv] = d
	c.order = append(c.order, gv)
	return d
}

// fetch reads the document, unless the one at hand has the hash that the API server names now.
func (d *document) fetch(client openapi.Client, gv gvkschema.GroupVersion) error {
	paths, err := client.Paths()
	if err != nil {
		return err
	}
	path := "apis/" + gv.Group + "/" + gv.Version
	if gv.Group == "" {
		path = "api/" + gv.Version
	}
	at, ok := paths[path]
	if !ok {
		return ErrNoSchema
	}
	url := at.ServerRelativeURL()
	if d.types != nil && d.url == url {
		d.stale = false
		return nil
	}
	raw, err := at.Schema(runtime.ContentTypeJSON)
	if err != nil {
		return err
	}
	types, kinds, err := parse(raw)
	if err != nil {
		return err
	}
	d.types, d.kinds, d.url, d.stale = types, kinds, url, false
	return nil
}

// parse turns an OpenAPI v3 document into the schema that server-side apply itself uses.
func parse(raw []byte) (*schema.Schema, map[gvkschema.GroupVersionKind]string, error) {
	var spec spec3.OpenAPI
	if err := json.Unmarshal(raw, &spec); err != nil {
		return nil, nil, fmt.Errorf("decode the document: %w", err)
	}
	if spec.Components == nil {
		return nil, nil, ErrNoSchema
	}
	// The converter does not expect a null schema, which an aggregated API may well publish.
	maps.DeleteFunc(spec.Components.Schemas, func(_ string, model *validation.Schema) bool { return model == nil })
	types, err := schemaconv.ToSchemaFromOpenAPI(spec.Components.Schemas, false)
	if err != nil {
		return nil, nil, fmt.Errorf("convert the document: %w", err)
	}
	kinds := map[gvkschema.GroupVersionKind]string{}
	for name, model := range spec.Components.Schemas {
		for _, gvk := range kindsOf(model.Extensions) {
			kinds[gvk] = name
		}
	}
	return types, kinds, nil
}

// kindsOf reads the extension by which a schema says whose it is.
func kindsOf(extensions map[string]any) []gvkschema.GroupVersionKind {
	list, _ := extensions["x-kubernetes-group-version-kind"].([]any)
	out := make([]gvkschema.GroupVersionKind, 0, len(list))
	for _, item := range list {
		m, ok := item.(map[string]any)
		if !ok {
			continue
		}
		group, _ := m["group"].(string)
		version, _ := m["version"].(string)
		kind, _ := m["kind"].(string)
		if kind != "" {
			out = append(out, gvkschema.GroupVersionKind{Group: group, Version: version, Kind: kind})
		}
	}
	return out
}
