package faults

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// telling is how a status tells of a cause. The expressions for reason and remedy match nothing that stands in a name of a child.
type telling struct {
	// words matches what the message says of the cause.
	words *regexp.Regexp
	// reason matches the whole reason of the condition, which programs can match; warnings have none.
	reason *regexp.Regexp
	// remedy matches what the message says to do. It is nil where a user can do nothing but wait.
	remedy *regexp.Regexp
}

// told makes a telling of expressions; remedy is empty where a user can do nothing but wait.
func told(words, reason, remedy string) telling {
	out := telling{words: regexp.MustCompile(words), reason: regexp.MustCompile(`^(` + reason + `)$`)}
	if remedy != "" {
		out.remedy = regexp.MustCompile(remedy)
	}
	return out
}

// skipped is where objects are named that are left out, about which nothing is to be done.
const skipped = "skipped"

// statement is one thing that a status says: with a condition, or in a list of texts.
type statement struct{ place, reason, message string }

// String prints the statement.
func (s statement) String() string { return fmt.Sprintf("%s %s: %q", s.place, s.reason, s.message) }

// says says why a custom resource does not report the cause: with a reason, the name of the child, a word for the cause and a remedy.
func (r *run) says(c *cause) error {
	for _, cr := range r.history.all(r.kind.Resource) {
		var faults []string
		for _, s := range r.statements(c, cr) {
			fault := r.fault(c, s)
			if fault == "" {
				return nil
			}
			faults = append(faults, s.String()+" "+fault)
		}
		return fmt.Errorf("the status does not report %s of %s: [%s]", c.name, r.plan.Standing.Name, strings.Join(faults, "; "))
	}
	return fmt.Errorf("there is no %s", r.kind.GVK.Kind)
}

// statements are what a status says of a cause. What concerns one child is told by one condition. What may let the custom resource be
// Ready is told by a warning, an object that is left out, or a condition of its own, too.
func (r *run) statements(c *cause, cr *unstructured.Unstructured) (out []statement) {
	t := r.plan.Standing
	add := func(condition, status string) {
		if said := conditionOf(cr, condition); said != nil && said["status"] == status {
			out = append(out, statement{condition, fmt.Sprint(said["reason"]), fmt.Sprint(said["message"])})
		}
	}
	if c.condition != "" {
		add(c.condition, "True")
		return out
	}
	add("Ready", "False")
	if c.on == onChild && (c.name != Foreign && c.name != ForeignMarked || !r.kind.yields(t.Resource, t.Name)) {
		return out
	}
	add("ModelsAvailable", "False")
	add("ModelsAvailable", "Unknown")
	for _, field := range []string{skipped, "warnings"} {
		texts, _, _ := unstructured.NestedStringSlice(cr.Object, "status", field)
		for _, text := range texts {
			out = append(out, statement{place: field, message: text})
		}
	}
	return out
}

// fault is what a statement lacks to report the cause; empty where it reports it.
func (r *run) fault(c *cause, s statement) string {
	switch {
	case !c.says.words.MatchString(s.message):
		return fmt.Sprintf("does not say %s", c.says.words)
	case !r.names(s, c):
		return "does not name the child"
	case s.reason != "" && !c.says.reason.MatchString(s.reason):
		return fmt.Sprintf("has another reason than %s", c.says.reason)
	case s.place != skipped && c.says.remedy != nil && !c.says.remedy.MatchString(s.message):
		return fmt.Sprintf("has no remedy such as %s", c.says.remedy)
	}
	return ""
}

func (k *Kind) yields(resource, name string) bool {
	return k.Yields != nil && k.Yields.MatchString(resource+"/"+name)
}

// names says that a statement names the child. Of several children of one resource that a quota or an API concerns, one is reported.
func (r *run) names(s statement, c *cause) bool {
	t := r.plan.Standing
	switch {
	case r.workload.Plain:
		return s.place == "ModelsAvailable" // A Tfserv has but its own servers.
	case c.name == ServerSlow && s.reason == "Fetching":
		return true // What is being fetched is not known to fail.
	case c.name == APIRemoved:
		_, group, _ := strings.Cut(t.Resource, ".")
		return strings.Contains(s.message, r.world.Namespace+"/") && strings.Contains(s.message, group+"/")
	case c.name == Quota:
		return strings.Contains(s.message, "count/"+t.Resource+"=") ||
			t.Resource == "secrets" && strings.Contains(s.message, "Secret "+r.world.Namespace+"/")
	}
	return wholeName(strings.ReplaceAll(t.Name, "NS", r.world.Namespace)).MatchString(s.message)
}

// wholeName matches a name that is no part of another one.
func wholeName(name string) *regexp.Regexp {
	return regexp.MustCompile(`(^|[^a-z0-9.-])` + regexp.QuoteMeta(name) + `($|[^a-z0-9-])`)
}
