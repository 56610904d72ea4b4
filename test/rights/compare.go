package rights

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Reason says why a right is in a role, or is missing, although no test shows that it is needed.
type Reason struct {
	// Role is empty for a reason that applies to all roles.
	Role string `json:"role,omitempty"`
	// Right is as Right.String prints it; Verb stands for all unused rights with that verb.
	Right string `json:"right,omitempty"`
	Verb  string `json:"verb,omitempty"`
	Why   string `json:"why"`
}

func (r Reason) covers(row *Row) bool {
	of := r.Role == "" || r.Role == row.Role
	return of && (r.Right == row.String() || r.Right == "" && r.Verb == row.Verb && row.State == StateUnused)
}

// State is what the tests say of a right.
type State string

// The states.
const (
	StateUsed    State = "used"
	StateUnused  State = "unused"
	StateMissing State = "missing"
)

// Row is one right of one role.
type Row struct {
	Role string
	Right
	State    State
	Requests int
	// Why is the reason of one that is unused or missing; without it, that is a finding. Example is the path of a request.
	Why, Example string
}

// Finding says that the row needs a change of the role, or a reason.
func (r Row) Finding() bool { return r.State != StateUsed && r.Why == "" }

// Compare says what each right of the roles was used for. A request counts for the roles of controllers that grant it, and for the engine's
// only where none does; one about the operator's own namespace, for the roles in this namespace. The rights of a role that no operator had are left out, and the role is named.
func Compare(roles map[string][]rbacv1.PolicyRule, used []Used, reasons []Reason) (rows []Row, unexercised []string) {
	requests := map[string]map[Right]int{}
	missing := map[Right]*Row{}
	for _, u := range used {
		for _, role := range u.Roles {
			if requests[role] == nil {
				requests[role] = map[Right]int{}
			}
		}
		for _, need := range u.Needed {
			for _, role := range granting(roles, u.Roles, need) {
				requests[role][need.Right] += need.Requests
			}
		}
		for _, need := range u.Missing {
			if missing[need.Right] == nil {
				missing[need.Right] = &Row{Role: fmt.Sprint(u.Roles), Right: need.Right, State: StateMissing, Example: need.Example}
			}
			missing[need.Right].Requests += need.Requests
		}
	}
	for _, role := range slices.Sorted(maps.Keys(roles)) {
		if requests[role] == nil {
			unexercised = append(unexercised, role)
			continue
		}
		for _, right := range rightsOf(roles[role]) {
			row := Row{Role: role, Right: right, State: StateUnused, Requests: requests[role][right]}
			if row.Requests > 0 {
				row.State = StateUsed
			}
			rows = append(rows, row)
		}
	}
	for _, right := range slices.SortedFunc(maps.Keys(missing), Right.Compare) {
		rows = append(rows, *missing[right])
	}
	for i := range rows {
		row := &rows[i]
		at := slices.IndexFunc(reasons, func(r Reason) bool { return r.covers(row) })
		if at >= 0 && row.State != StateUsed {
			row.Why = reasons[at].Why
		}
	}
	return rows, unexercised
}

// engine is the role of every operator, and inOwnNamespace are its roles in its own namespace.
const engine = "mlkeeper-engine"

var inOwnNamespace = []string{"mlkeeper-leader-election", "mlkeeper-digest-key", "mlkeeper-kserve-payloads"}

// granting are the roles that a right counts for.
func granting(roles map[string][]rbacv1.PolicyRule, of []string, need *Need) []string {
	var own, controllers, others []string
	for _, role := range of {
		switch {
		case !slices.Contains(rightsOf(roles[role]), need.Right):
		case slices.Contains(inOwnNamespace, role):
			own = append(own, role)
		case role == engine:
			others = append(others, role)
		default:
			controllers = append(controllers, role)
		}
	}
	switch {
	case need.Own && len(own) > 0:
		return own
	case len(controllers) > 0:
		return controllers
	}
	return others
}

// rightsOf are the rights that rules grant, each once.
func rightsOf(rules []rbacv1.PolicyRule) []Right {
	var out []Right
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					out = append(out, Right{group, resource, verb})
				}
			}
		}
	}
	slices.SortFunc(out, Right.Compare)
	return slices.Compact(out)
}

// Print writes the rows as a table in Markdown.
func Print(to io.Writer, rows []Row) error {
	if _, err := fmt.Fprint(to, "| role | right | state | why, or a request |\n|---|---|---|---|\n"); err != nil {
		return err
	}
	for _, row := range rows {
		note := row.Why
		if row.Finding() {
			note = strings.TrimSpace("**no reason** " + row.Example)
		}
		if _, err := fmt.Fprintf(to, "| `%s` | %s | %s | %s |\n", row.Role, row.Right, row.State, note); err != nil {
			return err
		}
	}
	return nil
}

// Findings counts the rows that are unused and those that are missing, each without a reason.
func Findings(rows []Row) (unused, missing int) {
	for _, row := range rows {
		switch {
		case !row.Finding():
		case row.State == StateMissing:
			missing++
		default:
			unused++
		}
	}
	return unused, missing
}
