package faults

import (
	"net/http"
	"strconv"
	"time"
)

// staleness shows an operator that starts an older state than there is, as an API server does that lags behind: lists
// are of the older version, and watches go on from it only after a while. Reads of single objects and writes go to the
// true state.
type staleness struct {
	resource string
	version  uint64
	until    time.Time
}

// concerns says that a list or watch of the resource is stale now.
func (s *staleness) concerns(resource string) bool {
	return s != nil && time.Now().Before(s.until) && (s.resource == "*" || s.resource == resource)
}

// rewrite turns a list into one of the older version. A list that is streamed cannot be of an older version: it is to be
// refused, as by an API server without the feature, and the client falls back to a plain list.
func (s *staleness) rewrite(r *http.Request, req request) (again *http.Request, refuse bool) {
	query := r.URL.Query()
	if req.Verb == verbWatch {
		return r, query.Get("sendInitialEvents") == "true"
	}
	query.Set("resourceVersion", strconv.FormatUint(s.version, 10))
	query.Set("resourceVersionMatch", "Exact")
	again = r.Clone(r.Context())
	again.URL.RawQuery = query.Encode()
	return again, false
}
