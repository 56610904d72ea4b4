package faults

import (
	"net/http"
	"strings"
	"time"
)

// mishap is what C4 has an API server or the network do.
type mishap struct {
	do     Action
	status int
}

var mishaps = []mishap{
	{Answer, http.StatusConflict},
	{Answer, http.StatusForbidden},
	{Answer, http.StatusUnprocessableEntity},
	{Answer, http.StatusTooManyRequests},
	{Answer, http.StatusInternalServerError},
	{Answer, http.StatusServiceUnavailable},
	{Answer, http.StatusGatewayTimeout},
	{Timeout, 0},
	{Reset, 0},
}

// refusals are C4: every verb and resource that the operators ask for, with every error, once, in a row, and for a while.
func (s *Suite) refusals() []Plan {
	var out []Plan
	s.eachReference(func(k *Kind, w *Workload, ref *reference) {
		for _, p := range ref.requests {
			if p.Resource == "" || strings.HasPrefix(p.Resource, "events") {
				continue
			}
			for _, m := range mishaps {
				f := Fault{At: p, Do: m.do, Status: m.status}
				// What is listed and watched is met by an operator that begins.
				f.Restart = p.Verb == verbWatch || p.Verb == verbList
				out = append(out, s.plan("C4", k, w, f))
				f.Times = 5
				if m.status == http.StatusForbidden || m.status == http.StatusUnprocessableEntity || f.Restart {
					// What cannot be watched is tried again after pauses that double from one second on.
					f.Times = 3
				}
				out = append(out, s.plan("C4", k, w, f))
				f.Times, f.For = 0, Duration(2*time.Second)
				out = append(out, s.plan("C4", k, w, f))
			}
		}
	})
	return out
}
