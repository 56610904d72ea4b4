package healthexpr

import (
	"errors"
	"regexp"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/env"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"mlkeeper.dev/internal/manifest/bounded"
)

// maxPattern is how many instructions a regular expression may have once it is compiled, and perByte what parsing one takes for each byte, in
// the units of maxCost. A step of as many instructions as stepped takes one unit.
const (
	maxPattern       = 10_000
	perByte, stepped = 4, 100
)

// errLongMatch is the error of a match that would take more than a whole evaluation may.
var errLongMatch = errors.New("matches: the text is too long for the regular expression")

// standard is CEL's standard library with a matches of its own. That of the library compiles its pattern at each call, and its cost knows the
// length of the pattern alone, of which a repetition makes a thousandfold (cel-go, interpreter/runtimecost.go, costCall).
func standard() []cel.EnvOption {
	arguments := []*cel.Type{cel.StringType, cel.StringType}
	return []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(&env.LibrarySubset{ExcludeFunctions: []*env.Function{env.NewFunction(overloads.Matches)}})),
		cel.Function(overloads.Matches, cel.SingletonBinaryBinding(matches),
			cel.Overload(overloads.Matches, arguments, cel.BoolType), cel.MemberOverload(overloads.MatchesString, arguments, cel.BoolType)),
	}
}

// matches is matches of CEL, for patterns and texts that take no more than an evaluation may.
func matches(text, pattern ref.Val) ref.Val {
	in, isText := text.Value().(string)
	of, isPattern := pattern.Value().(string)
	if !isText || !isPattern {
		return types.MaybeNoSuchOverloadErr(text)
	}
	size, err := bounded.Expression(of, maxPattern)
	if err != nil {
		return types.WrapErr(err)
	}
	if costOf(in, of, size) > maxCost {
		return types.WrapErr(errLongMatch)
	}
	compiled, err := regexp.Compile(of)
	if err != nil {
		return types.WrapErr(err)
	}
	return types.Bool(compiled.MatchString(in))
}

// costOf is what a match takes: to parse and compile its pattern, and a step of all its instructions for each character.
func costOf(text, pattern string, size int) uint64 {
	return uint64(perByte*len(pattern) + size + size*len(text)/stepped) //nolint:gosec // The texts are in memory, and the size is bounded.
}

// costs tells what matches takes; the rest has the costs of CEL.
type costs struct{}

// CallCost implements interpreter.ActualCostEstimator.
func (costs) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	if function != overloads.Matches || len(args) != 2 {
		return nil
	}
	text, isText := args[0].Value().(string)
	pattern, isPattern := args[1].Value().(string)
	if !isText || !isPattern {
		return nil
	}
	size, err := bounded.Expression(pattern, maxPattern)
	if err != nil {
		text = "" // Nothing was matched.
	}
	cost := costOf(text, pattern, size)
	return &cost
}

// checkPatterns finds a constant pattern that matches would refuse.
func checkPatterns(of *cel.Ast) error {
	calls := celast.MatchDescendants(celast.NavigateAST(of.NativeRep()), celast.FunctionMatcher(overloads.Matches))
	for _, call := range calls {
		args := call.AsCall().Args()
		last := args[len(args)-1]
		if last.Kind() != celast.LiteralKind {
			continue
		}
		if pattern, ok := last.AsLiteral().Value().(string); ok {
			if _, err := bounded.Expression(pattern, maxPattern); err != nil {
				return err
			}
		}
	}
	return nil
}
