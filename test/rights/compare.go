package rights

import (
	"fmt"
	"io"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Reason says why a right is in a role, or is missing, although no test shows that it is needed.
type Reason struct {
	Role string `json:"role"`
	// Right is printed as Right.String prints it.
	Right string `json:"right"`
	Why   string `json:"why"`
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

// Compare says what each right of the roles was used for. A request counts for the roles of controllers that grant it, and for the others
// of its operator only where none does. The rights of a role that no operator had are left out, and the role is named.
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
			for _, role := range granting(roles, u.Roles, need.Right) {
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
		at := slices.IndexFunc(reasons, func(r Reason) bool { return r.Role == row.Role && r.Right == row.Right.String() })
		if at >= 0 && row.State != StateUsed {
			row.Why = reasons[at].Why
		}
	}
	return rows, unexercised
}

// common are the roles of every operator.
var common = []string{"mlkeeper-engine", "mlkeeper-leader-election", "mlkeeper-digest-key"}

// granting are the roles that a right counts for.
func granting(roles map[string][]rbacv1.PolicyRule, of []string, right Right) []string {
	var controllers, others []string
	for _, role := range of {
		switch {
		case !slices.Contains(rightsOf(roles[role]), right):
		case slices.Contains(common, role):
			others = append(others, role)
		default:
			controllers = append(controllers, role)
		}
	}
	if len(controllers) > 0 {
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

// Print writes the rows as a table in Markdown, and returns how many findings there are.
func Print(to io.Writer, rows []Row) (findings int, err error) {
	if _, err := fmt.Fprint(to, "| role | right | state | why, or a request |\n|---|---|---|---|\n"); err != nil {
		return 0, err
	}
	for _, row := range rows {
		note := row.Why
		if row.Finding() {
			findings++
			note = "**no reason** " + row.Example
		}
		if _, err := fmt.Fprintf(to, "| `%s` | %s | %s | %s |\n", row.Role, row.Right, row.State, note); err != nil {
			return 0, err
		}
	}
	return findings, nil
}
