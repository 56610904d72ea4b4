// Package docs checks that the pages agree with the code: links, tests and manifests that a page names exist, and flags, metrics,
// fields, conditions, reasons and events are the same on both sides.
package docs

import (
	"bufio"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	seldonv1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	tfservingv1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	trustyaiv1 "mlkeeper.dev/api/trustyai/v1"
	trustyaiv1alpha1 "mlkeeper.dev/api/trustyai/v1alpha1"
)

const root = ".."

// files lists the files of the repository with an ending, without folders of tools and build results.
func files(t *testing.T, ending string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "vendor") {
			return fs.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(path, ending) {
			out = append(out, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// fence is a code block with the first word behind its fence.
var fence = regexp.MustCompile("(?ms)^ *```([a-z]*)[^\n]*\n(.*?)^ *```$")

// inline is code within a line, such as a pattern, in which brackets are no link.
var inline = regexp.MustCompile("`[^`\n]+`")

// prose is a page without its code blocks.
func prose(text string) string { return fence.ReplaceAllString(text, "") }

// all returns what the first group of a pattern matches, sorted and once each.
func all(pattern, text string) []string {
	var out []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// anchors are those that a page's headings have.
func anchors(text string) []string {
	var out []string
	for _, heading := range all(`(?m)^#+ (.+)$`, prose(text)) {
		heading = regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(heading), "")
		out = append(out, strings.ReplaceAll(heading, " ", "-"))
	}
	return out
}

func TestLinksResolve(t *testing.T) {
	for _, page := range files(t, ".md") {
		for _, link := range all(`\]\(([^)\s]+)\)`, inline.ReplaceAllString(prose(read(t, page)), "")) {
			if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
				continue
			}
			path, anchor, _ := strings.Cut(link, "#")
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link %s leads nowhere", page, link)
			} else if anchor != "" && !slices.Contains(anchors(read(t, target)), anchor) {
				t.Errorf("%s: %s has no heading #%s", page, target, anchor)
			}
		}
	}
}

func TestFlagsOfTheManager(t *testing.T) {
	code := ""
	for _, file := range []string{"cmd/mlkeeper/manager.go", "cmd/mlkeeper/controllers.go", "cmd/mlkeeper/sources.go", "internal/cli/connection.go"} {
		code += read(t, filepath.Join(root, file))
	}
	same(t, "flags", all("--([a-z][a-z-]*)", prose(read(t, "operations.md"))), all(`flags\.\w+Var\(&[\w.]+, "([a-z-]+)"`, code))
}

func TestMetrics(t *testing.T) {
	pattern := `(mlkeeper_[a-z_]+)`
	same(t, "metrics", all(pattern, read(t, "operations.md")), all(`Name: "`+pattern+`"`, read(t, "../internal/engine/metrics.go")+read(t, "../internal/engine/activity.go")+
		read(t, "../internal/engine/watch/source/metric.go")+read(t, "../internal/requests/metric.go")+read(t, "../internal/rendering/memory.go")+read(t, "../internal/participant/metrics.go")))
}

func TestAnnotations(t *testing.T) {
	pattern := `(keeper\.mlkeeper\.dev/[a-z][a-z0-9-]*[a-z0-9])`
	known := all(pattern, read(t, "../api/keeper/v1alpha1/shared.go")+read(t, "../internal/cli/rbac_operator.go"))
	for _, page := range files(t, ".md") {
		for _, name := range all(pattern, read(t, page)) {
			if name != keeper.GroupVersion.String() && !slices.Contains(known, name) {
				t.Errorf("%s names %s, which nobody reads or writes", page, name)
			}
		}
	}
}

// same reports what only one of the two sides has.
func same(t *testing.T, what string, documented, implemented []string) {
	t.Helper()
	for _, name := range documented {
		if !slices.Contains(implemented, name) {
			t.Errorf("%s: operations.md names %s, which the code does not have", what, name)
		}
	}
	for _, name := range implemented {
		if !slices.Contains(documented, name) {
			t.Errorf("%s: operations.md does not name %s", what, name)
		}
	}
}

// fields are the paths of the fields of a type of ours, with those of the types of ours below.
func fields(prefix string, typ reflect.Type) []string {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		if typ.Kind() == reflect.Slice {
			prefix += "[]"
		}
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || !strings.HasPrefix(typ.PkgPath(), "mlkeeper.dev/api/") {
		return nil
	}
	var out []string
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		if typ.Field(i).Anonymous {
			out = append(out, fields(prefix, typ.Field(i).Type)...)
			continue
		}
		out = append(out, prefix+"."+name)
		out = append(out, fields(prefix+"."+name, typ.Field(i).Type)...)
	}
	return out
}

// sameComponent are the fields of the other components of a SeldonOperator.
var sameComponent = regexp.MustCompile(`^spec\.(enterprise|analytics|catalogue|payloadstore)\.(values|chart|crds|suspend|deletionPolicy|recreateStatefulSets|upgrade|driftDetection|healthCheckExprs|patches|commonMetadata)`)

func TestEveryFieldIsDocumented(t *testing.T) {
	for page, spec := range map[string]reflect.Type{
		"trustyai.md": reflect.TypeFor[trustyaiv1.TrustyAIServiceSpec](),
		"tfserv.md":   reflect.TypeFor[tfservingv1alpha1.TfservSpec](),
		"kfdef.md":    reflect.TypeFor[kubeflowv1.KfDefSpec](),
		"seldon.md":   reflect.TypeFor[seldonv1alpha1.SeldonOperatorSpec](),
	} {
		// The components of a SeldonOperator have the same fields, which are explained once.
		want := slices.DeleteFunc(fields("spec", spec), sameComponent.MatchString)
		got := all("(?m)^\\| `(spec\\.[A-Za-z0-9_.\\[\\]]+)` \\|", read(t, page))
		for _, field := range want {
			if !slices.Contains(got, field) {
				t.Errorf("%s does not explain %s", page, field)
			}
		}
		for _, field := range got {
			if !slices.Contains(want, field) {
				t.Errorf("%s explains %s, which the type does not have", page, field)
			}
		}
	}
}

// pageOf names the page that lists what a folder of internal/, or a file of internal/cli, reports to users.
var pageOf = map[string]string{
	"engine": "operations.md", "cli/advice.go": "operations.md",
	"trustyai": "trustyai.md", "cli/advice_trustyai.go": "trustyai.md",
	"tfserving": "tfserv.md", "cli/advice_tfserving.go": "tfserv.md",
	"kubeflow": "kfdef.md", "cli/advice_kubeflow.go": "kfdef.md", "source": "kfdef.md",
	"seldon": "seldon.md", "cli/advice_seldon.go": "seldon.md",
	"kserve": "kserve-participant.md", "cli/advice_kserve.go": "kserve-participant.md", "participant": "kserve-participant.md",
}

// reported is what users see in statuses and events, by the page that lists it.
type reported struct{ conditions, reasons, events map[string][]string }

func newReported() *reported {
	return &reported{conditions: map[string][]string{}, reasons: map[string][]string{}, events: map[string][]string{}}
}

// reportedByCode reads the code. A test of internal/cli compares the keys of its tables of advice with the reasons that the engine and
// the controllers give, so that the tables stand for these reasons here. What has no advice is found by the names of constants.
func reportedByCode(t *testing.T) *reported {
	t.Helper()
	out := newReported()
	set := token.NewFileSet()
	for _, path := range files(t, ".go") {
		name, inside := strings.CutPrefix(filepath.ToSlash(path), "../internal/")
		if !inside || strings.HasSuffix(name, "_test.go") {
			continue
		}
		folder, _, _ := strings.Cut(name, "/")
		page := pageOf[folder]
		if folder == "cli" {
			page = pageOf[name]
		}
		if page == "" {
			continue
		}
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			out.read(n, folder, page)
			return true
		})
	}
	return out
}

func (r *reported) read(n ast.Node, folder, page string) {
	switch n := n.(type) {
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if i < len(n.Values) {
				r.constant(name.Name, stringValue(n.Values[i]), folder, page)
			}
		}
	case *ast.AssignStmt:
		// A condition's reason that a controller assigns: c.Status, c.Reason = …, "External".
		for i, left := range n.Lhs {
			if to, ok := left.(*ast.SelectorExpr); ok && folder != "engine" && to.Sel.Name == "Reason" && i < len(n.Rhs) {
				add(r.reasons, page, stringValue(n.Rhs[i]))
			}
		}
	case *ast.CompositeLit:
		r.literal(n, page)
	case *ast.CallExpr:
		called, ok := n.Fun.(*ast.SelectorExpr)
		switch {
		case ok && called.Sel.Name == "Eventf" && len(n.Args) > 3:
			add(r.events, page, stringValue(n.Args[3]))
		case ok && called.Sel.Name == "event" && len(n.Args) == 3:
			add(r.events, page, stringValue(n.Args[1]))
		}
	}
}

func (r *reported) constant(name, value, folder, page string) {
	switch {
	case strings.HasPrefix(name, "Condition"):
		add(r.conditions, page, value)
	case strings.HasPrefix(name, "event"):
		add(r.events, page, value)
	case folder == "source" && strings.HasPrefix(name, "Reason"),
		// The phases of a SeldonOperator's components are the reasons of their conditions.
		folder == "seldon" && strings.HasPrefix(name, "phase"):
		add(r.reasons, page, value)
	}
}

func (r *reported) literal(n *ast.CompositeLit, page string) {
	table, isTable := n.Type.(*ast.MapType)
	for i, element := range n.Elts {
		pair, keyed := element.(*ast.KeyValueExpr)
		switch {
		case isTable && keyed:
			if value, ok := table.Value.(*ast.Ident); ok && value.Name == "advice" {
				add(r.reasons, page, stringValue(pair.Key))
			}
		// The conditions of a SeldonOperator's switches: {"RoutingReady", routing, …}.
		case !keyed && i == 0 && len(n.Elts) == 3 && strings.HasSuffix(stringValue(element), "Ready"):
			add(r.conditions, page, stringValue(element))
		}
	}
}

// camel is what conditions and reasons look like.
var camel = regexp.MustCompile(`^[A-Z][A-Za-z0-9]+$`)

func add(to map[string][]string, page, name string) {
	if camel.MatchString(name) && !slices.Contains(to[page], name) {
		to[page] = append(to[page], name)
	}
}

// stringValue is the value of a string literal, and nothing for any other expression.
func stringValue(e ast.Expr) string {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return ""
	}
	value, err := strconv.Unquote(l.Value)
	if err != nil {
		return ""
	}
	return value
}

// reportedByPages reads the tables of the pages. The first word of a table's header says what its rows list: a condition with the
// reasons that it has, reasons, or events.
func reportedByPages(t *testing.T) *reported {
	t.Helper()
	out := newReported()
	code := regexp.MustCompile("`([^`]+)`")
	for _, path := range files(t, ".md") {
		page, header := filepath.Base(path), ""
		for line := range strings.Lines(prose(read(t, path))) {
			if !strings.HasPrefix(line, "|") {
				header = ""
				continue
			}
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			if header == "" {
				header, _, _ = strings.Cut(strings.TrimSpace(strings.ToLower(cells[0])), " ")
				continue
			}
			if header == "condition" {
				for _, name := range all(`\b([A-Z][A-Za-z]+)\b`, cells[0]) {
					add(out.conditions, page, name)
				}
			}
			for i, cell := range cells {
				for _, match := range code.FindAllStringSubmatch(cell, -1) {
					switch {
					case header == "reason" && i == 0, header == "condition" && i > 0:
						add(out.reasons, page, match[1])
					case header == "event" && i == 0:
						add(out.events, page, match[1])
					}
				}
			}
		}
	}
	return out
}

func TestConditionsReasonsAndEvents(t *testing.T) {
	code, pages := reportedByCode(t), reportedByPages(t)
	for _, known := range []string{"VolumeNotFound", "ResourceConflict", "ConfigInvalid", "Unauthorized", "External", "OrderFailed"} {
		if !has(code.reasons, known) {
			t.Fatalf("the search does not find the reason %s, so that it would not find others", known)
		}
	}
	for what, sides := range map[string][2]map[string][]string{
		"condition": {code.conditions, pages.conditions}, "reason": {code.reasons, pages.reasons}, "event": {code.events, pages.events},
	} {
		for page, names := range sides[0] {
			for _, name := range names {
				if !slices.Contains(sides[1][page], name) {
					t.Errorf("no table of %s lists the %s %s", page, what, name)
				}
			}
		}
		for page, names := range sides[1] {
			for _, name := range names {
				if !has(sides[0], name) {
					t.Errorf("%s lists the %s %s, which the code does not have", page, what, name)
				}
			}
		}
	}
}

// has says whether any page has a name.
func has(pages map[string][]string, name string) bool {
	for _, names := range pages {
		if slices.Contains(names, name) {
			return true
		}
	}
	return false
}

func TestNamedTestsExist(t *testing.T) {
	var code strings.Builder
	for _, file := range files(t, "_test.go") {
		code.WriteString(read(t, file))
	}
	have := all(`(?m)^func (Test\w+)\(`, code.String())
	for _, page := range files(t, ".md") {
		for _, name := range all("`(Test[A-Z_0-9][A-Za-z_0-9]+)`", read(t, page)) {
			if !slices.Contains(have, name) {
				t.Errorf("%s names the test %s, which does not exist", page, name)
			}
		}
	}
	listed := all(`(?m)^\| (\d+)\. [^|]+ \|`, read(t, root+"/ARCHITECTURE.md"))
	for i := range len(listed) + 1 {
		number := i + 1
		tested := slices.ContainsFunc(have, func(name string) bool { return strings.HasPrefix(name, fmt.Sprintf("TestInvariant%02d", number)) })
		if known := slices.Contains(listed, strconv.Itoa(number)); known != tested || !known && number <= len(listed) {
			t.Errorf("invariant %d: ARCHITECTURE.md lists it: %t, a test is named after it: %t", number, known, tested)
		}
	}
}

// kinds are the types that manifests of the pages must fit.
var kinds = map[string]func() any{
	"trustyai.opendatahub.io/v1 TrustyAIService":       func() any { return &trustyaiv1.TrustyAIService{} },
	"trustyai.opendatahub.io/v1alpha1 TrustyAIService": func() any { return &trustyaiv1alpha1.TrustyAIService{} },
	"servapi.dev-state.com/v1alpha1 Tfserv":            func() any { return &tfservingv1alpha1.Tfserv{} },
	"kfdef.apps.kubeflow.org/v1 KfDef":                 func() any { return &kubeflowv1.KfDef{} },
	"operator.seldon.io/v1alpha1 SeldonOperator":       func() any { return &seldonv1alpha1.SeldonOperator{} },
	"keeper.mlkeeper.dev/v1alpha1 Inventory":           func() any { return &keeper.Inventory{} },
}

func TestManifestsFitTheirTypes(t *testing.T) {
	found := 0
	for _, page := range files(t, ".md") {
		for _, block := range fence.FindAllStringSubmatch(read(t, page), -1) {
			if block[1] != "yaml" {
				continue
			}
			documents := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(block[2])))
			for {
				raw, err := documents.Read()
				if errors.Is(err, io.EOF) {
					break
				}
				var head struct{ APIVersion, Kind string }
				if err == nil {
					err = sigsyaml.Unmarshal(raw, &head)
				}
				if err != nil {
					t.Errorf("%s: a YAML block does not parse: %v", page, err)
					break
				}
				if create, known := kinds[head.APIVersion+" "+head.Kind]; known {
					found++
					if err := sigsyaml.UnmarshalStrict(raw, create()); err != nil {
						t.Errorf("%s: a %s does not fit its type: %v", page, head.Kind, err)
					}
				}
			}
		}
	}
	if found == 0 {
		t.Error("no page has a manifest")
	}
}

func TestTheADRsManifestIsTheSeeds(t *testing.T) {
	seed := read(t, "../test/testdata/seeds/trustyai-service.yaml")
	if !strings.Contains(read(t, "trustyai.md"), strings.TrimSpace(seed)) {
		t.Error("trustyai.md does not show test/testdata/seeds/trustyai-service.yaml unchanged")
	}
}
