package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/internal/requests"
)

// Verbs of requests, as the API server tells them apart. A list that is streamed is a Watch.
const (
	verbGet    = "GET"
	verbList   = "LIST"
	verbWatch  = "WATCH"
	verbCreate = "CREATE"
	verbUpdate = "UPDATE"
	verbPatch  = "PATCH"
	verbApply  = "APPLY"
	verbDelete = "DELETE"
)

// request is one request of an operator.
type request struct {
	Verb string
	// Resource is the plural name with group and subresource, such as "deployments.apps/status"; empty for requests that
	// concern no resource, such as discovery.
	Resource string
	// Namespace is that of the object; empty for what is in none, and for collections of all namespaces.
	Namespace string
	// Name is the true name of the object, also for one that is to be created; empty for collections.
	Name string
	// Body is what a POST sends, where it is JSON.
	Body *map[string]any
}

// write says that the request changes something.
func (r request) write() bool {
	return r.Verb != verbGet && r.Verb != verbList && r.Verb != verbWatch
}

// read says that the request reads live; what watches list is none.
func (r request) read() bool { return r.Resource != "" && (r.Verb == verbGet || r.Verb == verbList) }

// event says that the request records an Event, which is news and no state.
func (r request) event() bool { return strings.HasPrefix(r.Resource, "events") }

// counted says that the request is a write that the oracles count.
func (r request) counted() bool { return r.write() && !r.event() && r.Resource != "" }

// String prints the request as "APPLY deployments.apps name".
func (r request) String() string { return strings.TrimSpace(r.Verb + " " + r.Resource + " " + r.Name) }

// parse reads a request. The body of a write is read and put back, since the name of what a POST creates is nowhere
// else.
func parse(r *http.Request) (request, error) {
	of := requests.Of(r)
	out := request{Verb: of.Verb}
	if of.Path() {
		return out, nil
	}
	out.Resource = of.Resource
	if of.Group != "" {
		out.Resource += "." + of.Group
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if of.Subresource != "" {
		out.Resource += "/" + of.Subresource
		parts = parts[:len(parts)-len(strings.Split(of.Subresource, "/"))]
	}
	if i := slices.Index(parts, "namespaces"); i >= 0 && i+2 < len(parts) {
		out.Namespace = parts[i+1]
	}
	switch {
	case out.Verb == verbCreate && of.Subresource == "":
		body, err := bodyOf(r)
		u := unstructured.Unstructured{Object: body}
		if out.Name = u.GetName(); out.Name == "" {
			out.Name = u.GetGenerateName()
		}
		out.Body = &body
		return out, err
	case parts[len(parts)-1] != of.Resource:
		out.Name = parts[len(parts)-1]
	}
	return out, nil
}

// bodyOf reads the body of a request and puts it back. A body in another encoding, such as that of an Event, holds
// nothing that a plan could name.
func bodyOf(r *http.Request) (map[string]any, error) {
	if r.Body == nil {
		return nil, nil
	}
	raw, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	r.Body = io.NopCloser(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("read the body of a POST: %w", err)
	}
	var body map[string]any
	if json.Unmarshal(raw, &body) != nil {
		return nil, nil
	}
	return body, nil
}

// inventory matches the names of Inventories, which hold a hash of the namespace and the UID of the custom resource.
// An end that the API server generates would differ as well: that an Inventory is made twice shows in its count, and
// not in that no plan ever meets the same name again.
var inventory = regexp.MustCompile(`^([a-z0-9]+)-[0-9a-f]{16}-[0-9a-f]{8}\.([a-z0-9-]+(?:\.\d+)?)(\.g-[a-z0-9]{0,5})?$`)

// lasting is the name of an object without what differs from run to run, so that it means the same in every run.
func lasting(name, namespace string) string {
	if m := inventory.FindStringSubmatch(name); m != nil {
		return m[1] + "-" + m[2]
	}
	if namespace == "" {
		return name
	}
	return strings.ReplaceAll(name, namespace, "NS")
}
