// Package healthexpr tells the health of custom resources by expressions of the user, as Flux's healthCheckExprs does. It is pure: an
// object in, its health out.
package healthexpr

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/manifest/bounded"
)

// maxCost bounds one evaluation, in the units in which Kubernetes bounds the rules of a definition; maxDepth and maxSize are the nesting and
// the characters of an expression. maxMessage bounds in bytes what is told of an error, which may quote the object.
const (
	maxCost    = 100_000
	maxDepth   = 32
	maxSize    = 2048
	maxMessage = 512
)

// The reasons of an object whose health is that of an expression.
const (
	reasonInProgress = "InProgressByExpression"
	reasonFailed     = "FailedByExpression"
	reasonError      = "ExpressionFailed"
)

// variables are the fields of an object that expressions see: those that are kept of it.
var variables = []string{"apiVersion", "kind", "metadata", "status"}

// Rules are the compiled expressions of an application.
type Rules struct {
	rules []rule
	id    string
}

// ID tells rules apart: those with one ID tell the same of the same object.
func (r *Rules) ID() string { return r.id }

type rule struct {
	apiVersion, kind            string
	current, inProgress, failed cel.Program
}

// Error says which expression is wrong.
type Error struct {
	// Field is the path of the expression below healthCheckExprs, such as [0].current.
	Field   string
	Message string
}

// Error implements error.
func (e *Error) Error() string { return "healthCheckExprs" + e.Field + ": " + e.Message }

// Compile compiles expressions.
func Compile(expressions []keeper.HealthCheckExpr) (*Rules, *Error) {
	if len(expressions) == 0 {
		return nil, nil
	}
	options := append(standard(), cel.ParserRecursionLimit(maxDepth), cel.ParserExpressionSizeLimit(maxSize))
	for _, name := range variables {
		options = append(options, cel.Variable(name, cel.DynType))
	}
	env, err := cel.NewCustomEnv(options...)
	if err != nil {
		return nil, &Error{Message: err.Error()}
	}
	text, err := json.Marshal(expressions)
	if err != nil {
		return nil, &Error{Message: err.Error()}
	}
	out := &Rules{id: fmt.Sprintf("%x", sha256.Sum256(text))}
	for i, e := range expressions {
		r := rule{apiVersion: e.APIVersion, kind: e.Kind}
		for _, one := range []struct {
			name, text string
			into       *cel.Program
		}{{"current", e.Current, &r.current}, {"inProgress", e.InProgress, &r.inProgress}, {"failed", e.Failed, &r.failed}} {
			if one.text == "" {
				continue
			}
			if *one.into, err = compile(env, one.text); err != nil {
				return nil, &Error{Field: fmt.Sprintf("[%d].%s", i, one.name), Message: err.Error()}
			}
		}
		out.rules = append(out.rules, r)
	}
	return out, nil
}

func compile(env *cel.Env, text string) (cel.Program, error) {
	ast, issues := env.Compile(text)
	if err := issues.Err(); err != nil {
		return nil, fmt.Errorf("%s", strings.Join(strings.Fields(err.Error()), " "))
	}
	if t := ast.OutputType(); t != cel.BoolType && t != cel.DynType {
		return nil, fmt.Errorf("gives %s, and no true or false", t)
	}
	if err := checkPatterns(ast); err != nil {
		return nil, err
	}
	return env.Program(ast, cel.CostTracking(costs{}), cel.CostLimit(maxCost))
}

// For says that there is a rule for a kind.
func (r *Rules) For(apiVersion, kind string) bool {
	return slices.ContainsFunc(r.rules, func(one rule) bool { return one.apiVersion == apiVersion && one.kind == kind })
}

// Of returns the health of an object by the first rule for its kind, and what its expressions took in the units of maxCost; false where there
// is none, or for an object that is being deleted.
func (r *Rules) Of(u *unstructured.Unstructured) (told health.Result, cost uint64, found bool) {
	if u == nil || u.GetDeletionTimestamp() != nil {
		return health.Result{}, 0, false
	}
	for _, one := range r.rules {
		if one.apiVersion == u.GetAPIVersion() && one.kind == u.GetKind() {
			told, cost = one.of(u)
			return told, cost, true
		}
	}
	return health.Result{}, 0, false
}

// of asks inProgress, failed and current, in this order, as Flux does. Without an expression for it, an object is in progress whose
// controller has not observed its generation.
func (r rule) of(u *unstructured.Unstructured) (told health.Result, cost uint64) {
	values := map[string]any{}
	for _, name := range variables {
		if value, found := u.Object[name]; found {
			values[name] = value
		}
	}
	seen, reported, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	if r.inProgress == nil && reported && seen != u.GetGeneration() {
		return health.Result{Status: health.InProgress, Reason: health.ReasonNotObserved, Message: "its controller has not seen its latest change"}, 0
	}
	for _, one := range []struct {
		program cel.Program
		name    string
		result  health.Result
	}{
		{r.inProgress, "inProgress", health.Result{Status: health.InProgress, Reason: reasonInProgress, Message: "its expression inProgress is true"}},
		{r.failed, "failed", health.Result{Status: health.Failed, Reason: reasonFailed, Message: "its expression failed is true"}},
		{r.current, "current", health.Result{Status: health.Current, Reason: health.ReasonReady, Message: "its expression current is true"}},
	} {
		if one.program == nil {
			continue
		}
		is, took, err := evaluate(one.program, values)
		cost += took
		switch {
		case err != nil:
			return health.Result{
				Status: health.InProgress, Reason: reasonError,
				Message: bounded.Text(fmt.Sprintf("its expression %s cannot be evaluated: %v", one.name, err), maxMessage),
			}, cost
		case is:
			return one.result, cost
		}
	}
	return health.Result{Status: health.InProgress, Reason: reasonInProgress, Message: "its expression current is false"}, cost
}

func evaluate(program cel.Program, values map[string]any) (is bool, cost uint64, err error) {
	out, details, err := program.Eval(values)
	cost = maxCost // CEL does not tell the cost of what it ended for its cost.
	if told := details.ActualCost(); told != nil {
		cost = *told
	}
	if err != nil {
		return false, cost, err
	}
	is, ok := out.Value().(bool)
	if !ok {
		return false, cost, fmt.Errorf("it gives %s, and no true or false", out.Type().TypeName())
	}
	return is, cost, nil
}
