// Package requests tells the requests of a client apart by verb and resource as the API server does, and counts those of
// the manager for its metrics. client-go's rest_client_requests_total does not tell a WATCH from a GET, so that nobody
// could see with it whether an operator polls. It never holds a request back, and never looks at a body.
package requests

import (
	"net/http"
	"strings"
)

// Request is what requests are told apart by.
type Request struct {
	// Verb is GET, LIST, WATCH, CREATE, UPDATE, PATCH, APPLY, DELETE or DELETECOLLECTION. A streamed list is a WATCH.
	Verb string
	// Group is the API group; empty for the core group and for requests that concern no resource.
	Group string
	// Resource is the plural name of the resource; for requests that concern none, such as discovery, the path.
	Resource string
	// Subresource is empty for the object itself.
	Subresource string
}

// String prints the request as "APPLY deployments.apps/status".
func (r Request) String() string {
	s := r.Verb + " " + r.Resource
	if r.Group != "" {
		s += "." + r.Group
	}
	if r.Subresource != "" {
		s += "/" + r.Subresource
	}
	return s
}

// Path says that the request concerns no resource, such as discovery.
func (r Request) Path() bool { return strings.HasPrefix(r.Resource, "/") }

// Write says that the request changes something.
func (r Request) Write() bool { return !r.Read() && r.Verb != "WATCH" }

// Read says that the request is a live read: a GET or a LIST, discovery included, and no WATCH.
func (r Request) Read() bool { return r.Verb == "GET" || r.Verb == "LIST" }

// Of reads verb and resource from a request as the API server does.
func Of(r *http.Request) Request {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var out Request
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		out.Group = parts[1]
		parts = parts[3:]
	default:
		return Request{Verb: verb(r, true), Resource: r.URL.Path}
	}
	watched := parts[0] == "watch" && len(parts) > 1
	if watched {
		parts = parts[1:]
	}
	// "namespaces/x" and its own subresources are about the namespace; anything longer is about what is inside.
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "finalize" && parts[2] != "status" {
		parts = parts[2:]
	}
	out.Resource = parts[0]
	if len(parts) > 2 {
		out.Subresource = strings.Join(parts[2:], "/")
	}
	out.Verb = verb(r, len(parts) > 1)
	if watched {
		out.Verb = "WATCH"
	}
	return out
}

func verb(r *http.Request, named bool) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		if watch := r.URL.Query().Get("watch"); watch == "true" || watch == "1" {
			return "WATCH"
		}
		if named {
			return "GET"
		}
		return "LIST"
	case http.MethodPost:
		return "CREATE"
	case http.MethodPut:
		return "UPDATE"
	case http.MethodPatch:
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch") {
			return "APPLY"
		}
		return "PATCH"
	case http.MethodDelete:
		if named {
			return "DELETE"
		}
		return "DELETECOLLECTION"
	default:
		return r.Method
	}
}
