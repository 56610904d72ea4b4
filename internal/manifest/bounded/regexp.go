package bounded

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// foldedCase finds the flag with which a regular expression ignores case.
var foldedCase = regexp.MustCompile(`\(\?[msU]*i`)

// errFolded refuses ranges through which the parser goes rune by rune (regexp/syntax, parse.go, appendFoldRange), for a second and more in 4 KiB.
var errFolded = errors.New("the regular expression ignores the case of other characters than those of ASCII, which takes too long: leave out the flag i")

// Expression is how many instructions a regular expression becomes once it is compiled, about. It is asked before a regular expression of a
// user is compiled: a repetition is that many copies, so that 4 KiB become 500 MiB (Go, regexp/syntax, simplify.go and parse.go, maxSize).
// It is no fewer than the bytes of the text, since parsing takes time for each. More than a bound is an error, as is a text that is no regular
// expression.
func Expression(text string, most int) (int, error) {
	if len(text) > most {
		return 0, tooMany(most)
	}
	if strings.Contains(text, `\x{`) || strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) {
		if foldedCase.MatchString(text) {
			return 0, errFolded
		}
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0, err //nolint:wrapcheck // It says "error parsing regexp" itself.
	}
	size := max(instructions(parsed), len(text))
	if size > most {
		return 0, tooMany(most)
	}
	return size, nil
}

func tooMany(most int) error {
	return fmt.Errorf("the regular expression becomes more than %d instructions, with each repetition counted", most)
}

// instructions adds up what the parts of a regular expression become. The parser refuses a depth above 1000, and repetitions within one
// another of more than 1000 in all, so that no sum overflows.
func instructions(of *syntax.Regexp) int {
	count := 1
	for _, inner := range of.Sub {
		count += instructions(inner)
	}
	switch of.Op {
	case syntax.OpLiteral:
		count += len(of.Rune)
	case syntax.OpRepeat:
		// x{2,} is xx+, and x{0,2} is (x(x)?)?.
		count *= max(of.Min, of.Max, 1)
	}
	return count
}
