package standin

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// The conditions of an InferenceService are kept by Knative's library (knative.dev/pkg apis/condition_set.go), in a living set
// whose summary is Ready, and of which PredictorReady and IngressReady alone are terminal (kserve v0.17.0, pkg/apis/serving/v1beta1/
// inference_service_status.go, conditionSet). What is set of these changes Ready; what is not set stays as it was.

const (
	readyCondition, predictorCondition, ingressCondition = "Ready", "PredictorReady", "IngressReady"

	isTrue, isFalse, isUnknown = "True", "False", "Unknown"
)

var terminal = []string{predictorCondition, ingressCondition}

// condition is a status with its reason and message.
type condition struct{ status, reason, message string }

// conditions are those of one object, by their types.
type conditions struct {
	all map[string]map[string]any
	now string
}

// conditionsOf reads those of a status.
func conditionsOf(status map[string]any, now string) *conditions {
	out := &conditions{all: map[string]map[string]any{}, now: now}
	list, _ := status["conditions"].([]any)
	for _, one := range list {
		if c, ok := one.(map[string]any); ok {
			kind, _ := c["type"].(string)
			out.all[kind] = c
		}
	}
	return out
}

// list has the conditions in the order of their types (SetCondition sorts them).
func (s *conditions) list() []any {
	var out []any
	for _, kind := range slices.Sorted(maps.Keys(s.all)) {
		out = append(out, s.all[kind])
	}
	return out
}

// get is a condition; the empty one where there is none.
func (s *conditions) get(kind string) condition {
	text := func(field string) string {
		value, _ := s.all[kind][field].(string)
		return value
	}
	return condition{text("status"), text("reason"), text("message")}
}

// put is SetCondition: an equal condition keeps its time.
func (s *conditions) put(kind string, c condition) {
	if s.get(kind) == c {
		return
	}
	one := map[string]any{"type": kind, "status": c.status, "lastTransitionTime": s.now}
	for field, value := range map[string]string{"reason": c.reason, "message": c.message, "severity": severity(kind)} {
		if value != "" {
			one[field] = value
		}
	}
	s.all[kind] = one
}

// severity is empty, which is Error, for those that Ready depends on.
func severity(kind string) string {
	if kind == readyCondition || slices.Contains(terminal, kind) {
		return ""
	}
	return "Info"
}

// initialize is InitializeConditions, for a status that has no Ready yet.
func (s *conditions) initialize() {
	for _, kind := range append([]string{readyCondition}, terminal...) {
		if s.get(kind).status == "" {
			s.put(kind, condition{status: isUnknown})
		}
	}
}

// set is SetCondition of InferenceServiceStatus, which marks by the status and leaves a condition that is not told.
func (s *conditions) set(kind string, c condition) {
	if c.status == "" {
		return
	}
	s.put(kind, c)
	switch c.status {
	case isTrue:
		s.put(readyCondition, s.unhappy())
	case isFalse:
		if slices.Contains(terminal, kind) {
			s.put(readyCondition, c)
		}
	case isUnknown:
		s.unknown(kind, c)
	}
}

// unknown is the rest of MarkUnknown: a terminal condition that is False outweighs it.
func (s *conditions) unknown(kind string, c condition) {
	for _, one := range terminal {
		if s.get(one).status == isFalse {
			if s.get(readyCondition).status != isFalse {
				s.put(readyCondition, condition{isFalse, c.reason, c.message})
			}
			return
		}
	}
	if slices.Contains(terminal, kind) {
		s.put(readyCondition, c)
	}
}

// unhappy is recomputeHappiness: what the terminal conditions come to, the latest that is not True before the others.
func (s *conditions) unhappy() condition {
	latest := slices.SortedStableFunc(slices.Values(terminal), func(a, b string) int {
		time := func(kind string) string {
			at, _ := s.all[kind]["lastTransitionTime"].(string)
			return at
		}
		return cmp.Or(-strings.Compare(time(a), time(b)), strings.Compare(a, b))
	})
	for _, status := range []string{isFalse, isUnknown, ""} {
		for _, kind := range latest {
			if c := s.get(kind); c.status == status {
				return condition{cmp.Or(status, isUnknown), c.reason, c.message}
			}
		}
	}
	return condition{status: isTrue}
}
