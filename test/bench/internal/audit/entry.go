// Package audit reads the audit log of an API server: who asked what, and when it was answered. It is how the bench
// counts requests, since it counts any operator alike and tells a WATCH from a GET.
package audit

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Entry is one request. A watch is one entry, made when it starts.
type Entry struct {
	// ID is the same at the start and at the end of a watch.
	ID                                              string
	Verb, User, Agent                               string
	Group, Version, Resource, Subresource, NS, Name string
	URI                                             string
	Code                                            int
	// Received is when the request came, Done when it was answered: for a write, when it was acknowledged.
	Received, Done time.Time
}

// Class says what a request is to the bench.
type Class string

// The classes. Leases and Reviews are what leader election and a secured metrics port cost; the bench leaves them out of
// every count, and Discovery is what an API server that comes back is asked.
const (
	Write     Class = "write"
	Get       Class = "get"
	List      Class = "list"
	Watch     Class = "watch"
	Event     Class = "event"
	Lease     Class = "lease"
	Review    Class = "review"
	Discovery Class = "discovery"
)

// Class returns the class of the request.
func (e Entry) Class() Class {
	switch {
	case e.Resource == "":
		return Discovery
	case e.Resource == "leases":
		return Lease
	case e.Resource == "events" && (e.Verb == "create" || e.Verb == "patch" || e.Verb == "update"):
		return Event
	case e.Group == "authentication.k8s.io", e.Group == "authorization.k8s.io":
		return Review
	case e.Verb == "get":
		return Get
	case e.Verb == "list":
		return List
	case e.Verb == "watch":
		return Watch
	}
	return Write
}

// OK says that the request succeeded.
func (e Entry) OK() bool { return e.Code >= 200 && e.Code < 300 }

// Kind names verb and resource, such as "patch deployments.apps/status".
func (e Entry) Kind() string {
	if e.Resource == "" {
		path, _, _ := strings.Cut(e.URI, "?")
		return e.Verb + " " + path
	}
	s := e.Verb + " " + e.Resource
	if e.Group != "" {
		s += "." + e.Group
	}
	if e.Subresource != "" {
		s += "/" + e.Subresource
	}
	return s
}

// Object is the object of a request, without its subresource.
type Object struct{ Group, Resource, NS, Name string }

// Object returns the object that the request is about.
func (e Entry) Object() Object { return Object{e.Group, e.Resource, e.NS, e.Name} }

// String prints the object.
func (o Object) String() string {
	s := o.Resource
	if o.Group != "" {
		s += "." + o.Group
	}
	if o.NS != "" {
		return s + " " + o.NS + "/" + o.Name
	}
	return s + " " + o.Name
}

// line is the part of an audit.k8s.io/v1 Event that is needed.
type line struct {
	AuditID    string `json:"auditID"`
	Stage      string `json:"stage"`
	RequestURI string `json:"requestURI"`
	Verb       string `json:"verb"`
	UserAgent  string `json:"userAgent"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef *struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		APIGroup    string `json:"apiGroup"`
		APIVersion  string `json:"apiVersion"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Received time.Time `json:"requestReceivedTimestamp"`
	Stamp    time.Time `json:"stageTimestamp"`
}

// Parse reads one line. It returns false for a line that is no request of its own: the end of a watch, which was counted
// when it started, and the start of anything else.
func Parse(text []byte) (Entry, bool, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return Entry{}, false, fmt.Errorf("a line of the audit log: %w", err)
	}
	watch := l.Verb == "watch"
	// A watch that is refused never starts.
	refused := watch && l.ResponseStatus.Code >= 400
	if started := l.Stage == "ResponseStarted"; started != watch && !refused {
		return Entry{}, false, nil
	}
	e := Entry{
		ID: l.AuditID, Verb: l.Verb, User: l.User.Username, Agent: l.UserAgent, URI: l.RequestURI, Code: l.ResponseStatus.Code,
		Received: l.Received, Done: l.Stamp,
	}
	if o := l.ObjectRef; o != nil {
		e.Group, e.Version, e.Resource, e.Subresource = o.APIGroup, o.APIVersion, o.Resource, o.Subresource
		e.NS, e.Name = o.Namespace, o.Name
		if o.Resource == "namespaces" {
			// The API server names the namespace of a Namespace, which has none.
			e.NS = ""
		}
	}
	return e, true, nil
}

// parseEnd reads the end of a watch, and when it was; the ID is empty for any other line.
func parseEnd(text []byte) (id string, at time.Time, err error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return "", time.Time{}, fmt.Errorf("a line of the audit log: %w", err)
	}
	if l.Verb != "watch" || l.Stage != "ResponseComplete" {
		return "", time.Time{}, nil
	}
	return l.AuditID, l.Stamp, nil
}
