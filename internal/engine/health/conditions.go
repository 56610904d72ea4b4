package health

import (
	"regexp"
	"strings"
	"unicode"
)

// condition is one condition of a status, reduced to what rules read.
type condition struct {
	status, reason, message string
	// since is the time of the last transition.
	since string
	// generation is the generation that the condition speaks of, or 0 when it does not tell.
	generation int64
}

// isTrue, isFalse tell the status of the condition; the third one, Unknown, stands for every other value.
func (c condition) isTrue() bool  { return c.status == "True" }
func (c condition) isFalse() bool { return c.status == "False" }

// conditions returns the conditions of a status by type. The type is the key of the list in the API conventions; of
// duplicates the first counts.
func conditions(status object) map[string]condition {
	out := map[string]condition{}
	for _, c := range status.list("conditions") {
		name := c.text("type")
		if _, seen := out[name]; seen || name == "" {
			continue
		}
		out[name] = condition{
			status: c.text("status"), reason: c.text("reason"), message: c.text("message"),
			since: c.text("lastTransitionTime"), generation: c.count(0, "observedGeneration"),
		}
	}
	return out
}

// status returns the status of an object, which is empty when there is none.
func (o object) status() object {
	v, _ := o.value("status")
	m, _ := v.(map[string]any)
	return m
}

// conditions returns the conditions of an object by type.
func (o object) conditions() map[string]condition { return conditions(o.status()) }

var (
	reasonShape = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]{0,127}$`)
	// Times as Kubernetes, Go and Python print them, also without a zone.
	timeShape = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( ?(Z|UTC|[+-]\d\d:?\d\d))*( m=[+-][\d.]+)?`)
	// Durations as Go prints them: 1h2m3.5s, 10s, 250ms. Quantities like 5m stay: they have no seconds.
	durationShape = regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)?(ns|µs|us|ms|s)\b`)
	// The first name of an admission refusal is the generated name of an object that never existed.
	refusedShape = regexp.MustCompile(`^(\S+ )"[^"]*" (is forbidden|is invalid)`)
)

// maxMessage limits what is taken over of a message of others, in runes.
const maxMessage = 512

// reasonOr returns a reason of others if it is a stable word, else the given one.
func reasonOr(reason, otherwise string) string {
	if reasonShape.MatchString(reason) {
		return reason
	}
	return otherwise
}

// sentence returns a message of others on one line of bounded length, without the times, durations and generated names
// that would make each read of the same state look new; else the given one.
func sentence(message, otherwise string) string {
	// Cut first: the rest is linear in the length, and an object may hold a message of a megabyte.
	if len(message) > 8*maxMessage {
		message = message[:8*maxMessage]
	}
	message = strings.ToValidUTF8(message, "")
	message = strings.Join(strings.FieldsFunc(message, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	message = timeShape.ReplaceAllString(message, "…")
	message = durationShape.ReplaceAllString(message, "…")
	message = refusedShape.ReplaceAllString(message, "$1$2")
	if runes := []rune(message); len(runes) > maxMessage {
		message = string(runes[:maxMessage-1]) + "…"
	}
	if message == "" {
		return otherwise
	}
	return message
}

// finishes returns the rule of a kind that ends in the given condition, or in Failed or Denied.
func finishes(done string) func(object) Result {
	return func(o object) Result {
		conds := o.conditions()
		for _, bad := range []string{"Failed", "Denied"} {
			if c := conds[bad]; c.isTrue() {
				return failed(reasonOr(c.reason, bad), sentence(c.message, "The object reports "+bad+"."))
			}
		}
		if c := conds[done]; c.isTrue() {
			return current(reasonOr(c.reason, done), "The object reports "+done+".")
		}
		return inProgress(ReasonNotReady, "The object does not report "+done+" yet.")
	}
}
