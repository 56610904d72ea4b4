package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mlkeeper.dev/internal/engine/health"
)

// notConditions are the constants that begin with Reason and are no reasons of a condition, with what they are.
var notConditions = map[string]string{
	"../engine/decide":     "words of metrics: why an object is written or not",
	"../engine/health":     "reasons of objects, which have a sentence of their own",
	"../engine/healthexpr": "the same, by expressions of the user",
	"../engine/finalize":   "reasons of Inventories, whose message kubectl get shows",
}

// reasons are the reasons in the code of the engine and the controllers, with the class of the problem where there is one.
type reasons struct {
	t *testing.T
	// constants are the string constants of all packages by their names.
	constants map[string]string
	class     map[string]string
	where     map[string]string
}

// readReasons finds every reason that can get into a condition: constants that begin with Reason, the field Reason of
// composite literals, and the arguments that the helpers of the engine and the controllers take as reasons.
func readReasons(t *testing.T) *reasons {
	t.Helper()
	out := &reasons{t: t, constants: map[string]string{}, class: map[string]string{}, where: map[string]string{}}
	var files []*ast.File
	var folders []string
	set := token.NewFileSet()
	for _, root := range []string{
		"../engine", "../trustyai", "../tfserving", "../kubeflow", "../seldon", "../kserve", "../origin", "../rendering", "../source",
	} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			files, folders = append(files, file), append(folders, filepath.Dir(path))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, file := range files {
		out.readConstants(file, folders[i])
	}
	for i, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			out.read(n, folders[i])
			return true
		})
	}
	return out
}

func (r *reasons) readConstants(file *ast.File, folder string) {
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			for i, name := range v.Names {
				if i >= len(v.Values) {
					continue
				}
				if text, ok := literal(v.Values[i]); ok && strings.HasPrefix(strings.ToLower(name.Name), "reason") {
					r.constants[name.Name] = text
					if notConditions[folder] == "" {
						r.add(text, "", folder)
					}
				}
			}
		}
	}
}

// word is what a reason looks like.
var word = regexp.MustCompile(`^[A-Z][A-Za-z0-9]+$`)

func (r *reasons) add(text, class, where string) {
	if !word.MatchString(text) {
		return
	}
	if class != "" || r.class[text] == "" {
		r.class[text] = class
	}
	r.where[text] = where
}

// value is a string, written out or as a constant.
func (r *reasons) value(e ast.Expr) string {
	if text, ok := literal(e); ok {
		return text
	}
	switch e := e.(type) {
	case *ast.Ident:
		return r.constants[e.Name]
	case *ast.SelectorExpr:
		return r.constants[e.Sel.Name]
	}
	return ""
}

func literal(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(l.Value)
	return text, err == nil
}

func (r *reasons) read(n ast.Node, folder string) {
	switch n := n.(type) {
	case *ast.CompositeLit:
		r.readLiteral(n, folder)
	case *ast.CallExpr:
		f, ok := n.Fun.(*ast.SelectorExpr)
		switch {
		case ok && f.Sel.Name == "problem" && len(n.Args) == 6:
			r.add(r.value(n.Args[1]), nameOf(n.Args[0]), folder)
		case ok && f.Sel.Name == "set" && len(n.Args) == 4:
			r.add(r.value(n.Args[2]), "", folder)
		}
		id, ok := n.Fun.(*ast.Ident)
		switch {
		case ok && id.Name == "mark" && len(n.Args) == 7:
			r.add(r.value(n.Args[3]), "", folder)
		case ok && id.Name == "terminal" && len(n.Args) >= 3: // An error of a source; rendering makes a problem of it.
			r.add(r.value(n.Args[0]), "Terminal", folder)
		}
	}
}

func (r *reasons) readLiteral(n *ast.CompositeLit, folder string) {
	kind := nameOf(n.Type)
	class, reason := "", ""
	for i, e := range n.Elts {
		pair, keyed := e.(*ast.KeyValueExpr)
		switch {
		case keyed && nameOf(pair.Key) == "Class":
			class = nameOf(pair.Value)
		case keyed && nameOf(pair.Key) == "Reason":
			reason = r.value(pair.Value)
		case !keyed && kind == "finding" && i == 1, !keyed && kind == "wireError" && i == 0:
			reason = r.value(e)
		}
	}
	if kind != "Action" && notConditions[folder] == "" {
		r.add(reason, class, folder)
	}
}

func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// TestEveryReasonHasAdvice keeps explain and wait complete when a reason is added.
func TestEveryReasonHasAdvice(t *testing.T) {
	r := readReasons(t)
	for _, known := range []string{"VolumeNotFound", "ResourceConflict", "InvalidSpec", "RouteNotAdmitted", "FieldOwnershipCeded", "UserConfigured", "DigestMismatch"} {
		if _, found := r.class[known]; !found {
			t.Fatalf("the search does not find %s, so that it would not find others", known)
		}
	}
	for _, reason := range sortedKeys(r.class) {
		a, found := adviceOn(reason)
		switch {
		case reason == "Immutable" || reason == "Terminating":
			// The first is why an object is deleted in a metric, the second the health of one that goes.
		case objectAdvice[reason] != "":
			// It is the health of an object.
		case !found:
			t.Errorf("%s gives the reason %s: add a sentence and a remedy to advice.go or advice_<controller>.go", r.where[reason], reason)
		case r.class[reason] == "Terminal" != a.stalled:
			t.Errorf("the reason %s is of class %q in the code, and stalled is %v in the advice", reason, r.class[reason], a.stalled)
		}
	}
	for _, table := range adviceTables {
		for _, reason := range sortedKeys(table) {
			a := table[reason]
			if _, used := r.class[reason]; !used && reason != "NotReconciled" {
				t.Errorf("there is advice on %s, which the code does not give", reason)
			}
			if !strings.HasSuffix(a.meaning, ".") || a.remedy != "" && !strings.HasSuffix(a.remedy, ".") || a.remedy == "" && !a.quiet {
				t.Errorf("the advice on %s lacks a sentence, or a remedy: %+v", reason, a)
			}
		}
	}
	if got := StalledReasons(); !slices.Contains(got, "DuplicateService") || slices.Contains(got, "VolumeNotFound") {
		t.Errorf("stalled are %v", got)
	}
}

func TestObjectAdviceIsOnReasonsThatExist(t *testing.T) {
	for _, reason := range []string{health.ReasonDeleting, health.ReasonNotObserved, health.ReasonMalformed, health.ReasonPaused} {
		if objectAdvice[reason] == "" {
			t.Errorf("there is no advice on objects whose health is %s", reason)
		}
	}
	for reason, remedy := range objectAdvice {
		if !strings.HasSuffix(remedy, ".") {
			t.Errorf("the remedy of %s is no sentence: %s", reason, remedy)
		}
	}
}
