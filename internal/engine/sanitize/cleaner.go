package sanitize

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

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

// keys are fields by which keyed lists of Kubernetes' API tell their items apart. The protocol of a port belongs to its key, too.
var keys = []string{"name", "port", "containerPort", "mountPath", "devicePath", "ip", "topologyKey"}

// Suspicious says that two items of some list have the same name or port, or are empty, so that both have the default of their key, which no
// create refuses but a later apply does. Whether it is a mistake, only the schema tells.
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
			for _, key := range keys {
				if v, ok := m[key]; ok || len(m) == 0 {
					if v == nil {
						v = ""
					}
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

// Cleaner cleans objects by the schemas that the API server publishes. It keeps the document of a group version, and asks
// whether there is another one before anything of an object is changed by it: a field that a document does not declare may have
// been added since. It may be used from several goroutines.
type Cleaner struct {
	client openapi.ClientWithContext
	mu     sync.Mutex
	// documents is bounded; order holds its keys, the oldest first.
	documents map[gvkschema.GroupVersion]*document
	order     []gvkschema.GroupVersion
}

// document holds the schemas of one group version.
type document struct {
	// begun is the number of the last request for the document.
	begun atomic.Int64
	// turn has a value while somebody reads or replaces the fields below. Unlike a lock, it is waited for no longer than a context
	// allows: the one who has it may be waiting for the API server.
	turn chan struct{}
	// url is where the document came from; the API server puts its hash into it.
	url   string
	types *schema.Schema
	kinds map[gvkschema.GroupVersionKind]string
	// confirmed is the number of the last request that answered that this is the document.
	confirmed int64
}

// NewCleaner returns a Cleaner that reads from a discovery client's OpenAPIV3.
func NewCleaner(client openapi.Client) *Cleaner {
	return &Cleaner{client: openapi.ToClientWithContext(client), documents: map[gvkschema.GroupVersion]*document{}}
}

// Clean returns a copy of desired that server-side apply accepts as far as undeclared fields and duplicate list keys
// are concerned, with one warning per change. It returns ErrNoSchema where the kind has no published schema.
func (c *Cleaner) Clean(ctx context.Context, desired *unstructured.Unstructured) (*unstructured.Unstructured, []string, error) {
	d := c.documentOf(desired.GroupVersionKind().GroupVersion())
	now := d.begun.Load() + 1
	out, warnings, asked, err := d.clean(ctx, c.client, desired, 1)
	if asked < now && (len(warnings) > 0 || errors.Is(err, ErrNoSchema)) {
		out, warnings, _, err = d.clean(ctx, c.client, desired, now)
	}
	return out, warnings, err
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
	d = &document{turn: make(chan struct{}, 1)}
	c.documents[gv] = d
	c.order = append(c.order, gv)
	return d
}

// clean cleans an object by the document as a request answered it that is no older than the one of a number. It returns the
// number of the request too.
func (d *document) clean(ctx context.Context, client openapi.ClientWithContext, desired *unstructured.Unstructured, oldest int64) (
	out *unstructured.Unstructured, warnings []string, asked int64, err error,
) {
	t, asked, err := d.typeOf(ctx, client, desired.GroupVersionKind(), oldest)
	if err != nil {
		return nil, nil, asked, err
	}
	out, warnings = Clean(desired, t)
	return out, warnings, asked, nil
}

func (d *document) typeOf(
	ctx context.Context, client openapi.ClientWithContext, gvk gvkschema.GroupVersionKind, oldest int64,
) (Type, int64, error) {
	// Of several objects of a group version, one fetches and the others wait for it.
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return Type{}, 0, ctx.Err()
	}
	if d.confirmed < oldest {
		request := d.begun.Add(1)
		if err := d.fetch(ctx, client, gvk.GroupVersion()); err != nil {
			return Type{}, request, fmt.Errorf("read the schema of %s: %w", gvk.GroupVersion(), err)
		}
		d.confirmed = request
	}
	name, ok := d.kinds[gvk]
	if !ok {
		return Type{}, d.confirmed, fmt.Errorf("%s: %w", gvk, ErrNoSchema)
	}
	return Type{Schema: d.types, Ref: schema.TypeRef{NamedType: &name}}, d.confirmed, nil
}

// fetch reads the document, unless the one at hand has the hash that the API server names now.
func (d *document) fetch(ctx context.Context, client openapi.ClientWithContext, gv gvkschema.GroupVersion) error {
	paths, err := client.PathsWithContext(ctx)
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
		return nil
	}
	raw, err := at.SchemaWithContext(ctx, runtime.ContentTypeJSON)
	if err != nil {
		return err
	}
	types, kinds, err := parse(raw)
	if err != nil {
		return err
	}
	d.types, d.kinds, d.url = types, kinds, url
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
