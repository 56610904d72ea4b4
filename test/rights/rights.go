// Package rights compares the roles of config/ with what the operator asked of an API server: `make rbac-minimal` runs the tests that
// need a cluster, and tells of each right in a role whether a request needed it, and of each request whether a role was missing.
package rights

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// Right is a verb on a resource, with its group and subresource as RBAC has them.
type Right struct {
	Group    string `json:"group,omitempty"`
	Resource string `json:"resource"`
	Verb     string `json:"verb"`
}

// String prints a right such as "patch deployments.apps/status".
func (r Right) String() string {
	resource, subresource, nested := strings.Cut(r.Resource, "/")
	out := r.Verb + " " + resource
	if r.Group != "" {
		out += "." + r.Group
	}
	if nested {
		out += "/" + subresource
	}
	return out
}

// Compare orders rights by group, resource and verb.
func (r Right) Compare(other Right) int {
	return slices.Compare([]string{r.Group, r.Resource, r.Verb}, []string{other.Group, other.Resource, other.Verb})
}

// Used are the rights that one operator needed, and those that it was refused.
type Used struct {
	// Roles are the roles of the operator that are shipped, such as mlkeeper-engine.
	Roles []string `json:"roles"`
	// Needed has how many requests needed a right, Missing the first answer that refused it.
	Needed  map[string]*Need `json:"needed,omitempty"`
	Missing map[string]*Need `json:"missing,omitempty"`
}

// Need is a right that was needed.
type Need struct {
	Right
	Requests int `json:"requests"`
	// Own says that the requests were about the operator's own namespace.
	Own bool `json:"own,omitempty"`
	// Example is the path of one of the requests.
	Example string `json:"example"`
}

// event is the part of an event of audit.k8s.io that is looked at.
type event struct {
	Verb, RequestURI string
	User             struct{ Username string }
	ImpersonatedUser *struct{ Username string }
	ObjectRef        *struct{ Resource, Subresource, APIGroup, Namespace string }
	ResponseStatus   struct{ Code int }
}

// implied are the rights that the API server asks for on top of that to write an object, without a request of their own.
var implied = map[Right]Right{
	{"rbac.authorization.k8s.io", "clusterrolebindings", "create"}: {"rbac.authorization.k8s.io", "clusterroles", "bind"},
	{"route.openshift.io", "routes", "create"}:                     {"route.openshift.io", "routes/custom-host", "create"},
}

// Read adds what the users of an audit log needed. refused says of the line of a request with status 403 whether the user lacked a right:
// admission refuses with the same status, and a test may expect a refusal.
func Read(log io.Reader, users map[string]*Used, refused func(line []byte) bool) error {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("read the audit log: %w", err)
		}
		used := users[e.User.Username]
		switch {
		case used == nil || e.ObjectRef == nil || e.ObjectRef.Resource == "":
		case e.ImpersonatedUser != nil:
			// What follows is a matter of that user's rights.
			add(&used.Needed, Right{"", "serviceaccounts", "impersonate"}, e)
		case e.ResponseStatus.Code == http.StatusForbidden && refused(lines.Bytes()):
			add(&used.Missing, e.right(), e)
		default:
			add(&used.Needed, e.right(), e)
			if more, found := implied[e.right()]; found {
				add(&used.Needed, more, e)
			}
		}
	}
	return lines.Err()
}

func (e event) right() Right {
	resource := e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		resource += "/" + e.ObjectRef.Subresource
	}
	return Right{e.ObjectRef.APIGroup, resource, e.Verb}
}

// own says that the request is about the namespace of the operator's ServiceAccount.
func (e event) own() bool {
	return e.ObjectRef.Namespace != "" && strings.HasPrefix(e.User.Username, "system:serviceaccount:"+e.ObjectRef.Namespace+":")
}

func add(to *map[string]*Need, right Right, e event) {
	if *to == nil {
		*to = map[string]*Need{}
	}
	own, key := e.own(), right.String()
	if own {
		key = "own " + key
	}
	need := (*to)[key]
	if need == nil {
		path, _, _ := strings.Cut(e.RequestURI, "?")
		need = &Need{Right: right, Own: own, Example: path}
		(*to)[key] = need
	}
	need.Requests++
}
