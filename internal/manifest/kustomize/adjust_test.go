package kustomize

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/types"
)

// TestAdjustments compares an application that its KfDef changes with what kustomize gives for the kustomization in around, which has
// the same fields.
func TestAdjustments(t *testing.T) {
	in := inTree("adjusted", "app")
	in.Applications[0].Adjustments = Adjustments{
		TargetNamespace: "team", NamePrefix: "a-", NameSuffix: "-z",
		Patches: []Patch{
			{Patch: "- {op: replace, path: /spec/replicas, value: 3}", Target: &Selector{Group: "apps", Version: "v1", Kind: "Deployment", Name: "w.*"}},
			{Patch: "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: system}, spec: {type: NodePort}}"},
			{
				Patch:  "{apiVersion: v1, kind: Secret, metadata: {name: login}, stringData: {user: somebody}}",
				Target: &Selector{Kind: "Secret", Name: "login"},
			},
			{
				Patch:  "{apiVersion: v1, kind: Any, metadata: {name: any}, spec: {sessionAffinity: ClientIP}}",
				Target: &Selector{LabelSelector: "app=web", Kind: "Service"},
			},
		},
	}
	r := rendered(t, in)
	if r.Err != nil || len(r.Warnings.Texts) > 0 {
		t.Fatalf("error %v, warnings %q", r.Err, r.Warnings.Texts)
	}
	got := map[string]*unstructured.Unstructured{}
	for _, u := range r.Objects {
		got[keyOf(u)] = u
	}
	want := kustomizeBuild(t, filepath.Join(trees, "adjusted", "around"), types.LoadRestrictionsRootOnly)
	if diff := cmp.Diff(want, got); diff != "" || len(got) != 4 {
		t.Errorf("%d objects (-kustomize +ours):\n%s", len(got), diff)
	}
	if u := find(t, r, "Deployment", "a-web-z"); u.GetNamespace() != "team" || fmt.Sprint(u.Object["spec"].(map[string]any)["replicas"]) != "3" {
		t.Errorf("the Deployment is %v", u.Object)
	}
}

// TestAdjustmentsOfKfctl holds that nothing of what kfctl did not know is dropped without a word, and that it is a sign of kustomize.
func TestAdjustmentsOfKfctl(t *testing.T) {
	for field, change := range map[string]Adjustments{
		"kustomizeConfig.components": {Components: []string{"c"}}, "patches": {Patches: []Patch{{Patch: "x"}}}, "targetNamespace": {TargetNamespace: "n"},
		"namePrefix": {NamePrefix: "a-"}, "nameSuffix": {NameSuffix: "-z"}, "commonMetadata": {Labels: map[string]string{"a": "b"}},
		"postBuild": {Substitute: map[string]string{}},
	} {
		in := inTree("adjusted", "app")
		in.Applications[0].Adjustments = change
		if found, why, err := Detect(t.Context(), in); err != nil || found != Kustomize || !strings.Contains(why, "has "+strings.TrimPrefix(field, "kustomizeConfig.")) {
			t.Errorf("%s: detected is %s, since %s (%v)", field, found, why, err)
		}
		in.Rendering = Kfctl
		if r := rendered(t, in); r.Err == nil || !strings.Contains(r.Err.Error(), field+" need the rendering Kustomize") {
			t.Errorf("%s: %v", field, r.Err)
		}
	}
}

// TestPatchesThatAreWrong holds that the error names the field, which is in no file.
func TestPatchesThatAreWrong(t *testing.T) {
	for name, patch := range map[string]Patch{
		"no such object":     {Patch: "{apiVersion: v1, kind: Service, metadata: {name: none}}"},
		"no patch":           {Patch: "text", Target: &Selector{Kind: "Service"}},
		"no such field":      {Patch: "- {op: remove, path: /spec/none}", Target: &Selector{Kind: "Service"}},
		"no expression":      {Patch: "- {op: remove, path: /spec}", Target: &Selector{Name: "("}},
		"no selector":        {Patch: "- {op: remove, path: /spec}", Target: &Selector{LabelSelector: "=="}},
		"operations for all": {Patch: "- {op: remove, path: /spec}"},
	} {
		in := inTree("adjusted", "app")
		in.Applications[0].Patches = []Patch{patch}
		if r := rendered(t, in); r.Err == nil || !strings.HasSuffix(r.Err.Error(), "or correct the patches of the application") {
			t.Errorf("%s: %v", name, r.Err)
		}
	}
}

func TestCommonMetadata(t *testing.T) {
	in := inTree("adjusted", "app")
	in.Applications[0].Adjustments = Adjustments{
		Labels: map[string]string{"app": "mine", "team": "a"}, Annotations: map[string]string{"Example.com/by": "me"},
	}
	r := rendered(t, in)
	for _, u := range r.Objects {
		if u.GetLabels()["app"] != "mine" || u.GetLabels()["team"] != "a" || u.GetAnnotations()["Example.com/by"] != "me" {
			t.Errorf("%s has %v, %v", u.GetKind(), u.GetLabels(), u.GetAnnotations())
		}
	}
	selector, _, _ := unstructured.NestedString(find(t, r, "Deployment", "web").Object, "spec", "selector", "matchLabels", "app")
	if selector != "web" || len(r.Objects) != 4 {
		t.Errorf("the selector is %q, of %d objects", selector, len(r.Objects))
	}
	for _, wrong := range []Adjustments{
		{Labels: map[string]string{"a b": "c"}}, {Labels: map[string]string{"a": "not a value"}}, {Annotations: map[string]string{"a/b/c": "d"}},
	} {
		in.Applications[0].Adjustments = wrong
		if r := rendered(t, in); r.Err == nil || !strings.Contains(r.Err.Error(), "commonMetadata has the") {
			t.Errorf("%+v: %v", wrong, r.Err)
		}
	}
}

// variablesFile has variables in each place.
const variablesFile = `-- app/kustomization.yaml --
resources: [a.yaml, b.yaml]
-- app/a.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: a, labels: {"${KEY:=key}": "${VALUE}"}}
data: {text: "x ${VALUE} $${VALUE} $VALUE ${EMPTY:=}${OTHER:-fallback}", number: "${NUMBER}"}
spec: {replicas: "${NUMBER}", paused: "${TRUE}", large: "${LARGE}", share: "${SHARE}", hash: "${HASH}", list: ["${NUMBER}", "${NUMBER}x"]}
-- app/b.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: b, annotations: {kustomize.toolkit.fluxcd.io/substitute: disabled}}
data: {script: "echo ${LIST[@]}"}
`

// TestSubstitution holds the syntax of Flux: a number may come of a text, as there.
func TestSubstitution(t *testing.T) {
	in := input(variablesFile, func(a *Application) {
		a.Substitute = map[string]string{"VALUE": "v", "NUMBER": "3", "UNUSED": "${VALUE}", "TRUE": "true", "LARGE": "9007199254740993", "SHARE": "1.5", "HASH": "$2y$12$a: b"}
	})
	in.Rendering = Kustomize
	r := rendered(t, in)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	a := find(t, r, "ConfigMap", "a")
	want := map[string]any{"text": "x v ${VALUE} $VALUE fallback", "number": "3"}
	if diff := cmp.Diff(want, a.Object["data"]); diff != "" || a.GetLabels()["key"] != "v" {
		t.Errorf("%v, labels %v", diff, a.GetLabels())
	}
	spec := map[string]any{"replicas": int64(3), "paused": true, "large": int64(9007199254740993), "share": 1.5, "hash": "$2y$12$a: b", "list": []any{int64(3), "3x"}}
	if diff := cmp.Diff(spec, a.Object["spec"]); diff != "" {
		t.Error(diff)
	}
	if text, _, _ := unstructured.NestedString(find(t, r, "ConfigMap", "b").Object, "data", "script"); text != "echo ${LIST[@]}" {
		t.Errorf("what is disabled has become %q", text)
	}
	in.Applications[0].Substitute = nil
	if text, _, _ := unstructured.NestedString(find(t, rendered(t, in), "ConfigMap", "a").Object, "data", "number"); text != "${NUMBER}" {
		t.Errorf("without postBuild it has become %q", text)
	}
}

// TestDefaultsAreThoseOfFlux holds the defaults of fluxcd/pkg (envsubst/eval_test.go, TestExpand and TestExpandStrict): a variable that is
// empty has the default, too, and a default may have variables.
func TestDefaultsAreThoseOfFlux(t *testing.T) {
	variables := map[string]string{"SET": "abc", "EMPTY": "", "OTHER": "foo", "NUMBER": "3", "BRACES": "${SET}"}
	for text, want := range map[string]string{
		"${SET=xyz}":                                  "abc",
		"${SET:=xyz}":                                 "abc",
		"${UNSET=xyz}":                                "xyz",
		"${UNSET:=xyz}":                               "xyz",
		"${UNSET:-xyz}":                               "xyz",
		"${UNSET:=}":                                  "",
		"${EMPTY=xyz}":                                "xyz",
		"${EMPTY:=xyz}":                               "xyz",
		"${EMPTY:-xyz}":                               "xyz",
		"${EMPTY}":                                    "",
		"something ${UNSET=${OTHER}}":                 "something foo",
		"${UNSET:=${OTHER}}":                          "foo",
		"${SET:=${OTHER}}":                            "abc",
		"${EMPTY:-${UNSET:=${OTHER}}}x":               "foox",
		"a: ${UNSET=${OTHER}-suffix}":                 "a: foo-suffix",
		"a: ${UNSET:=prefix${OTHER}-${SET}}":          "a: prefixfoo-abc",
		"something $${UNSET=${OTHER}}":                "something ${UNSET=foo}",
		"a ${SET}$${UNSET$${SET}$SET${SET}":           "a abc${UNSET${SET}$SETabc",
		"$$${SET} $$$${SET} $$SET $2y$12$":            "$abc $${SET} $$SET $2y$12$",
		"${UNSET:=a$b$$c}":                            "a$b$$c",
		"${UNSET:=${BRACES}}":                         "${SET}",
		"${UNSET:=key: {a: b} c}":                     "key: {a: b c}",
		strings.Repeat("${UNSET:=", 9) + "x}}}}}}}}}": "x",
	} {
		if got, _, err := (&substitution{variables: variables}).text(text); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]any{
		"${NUMBER}": int64(3), "${UNSET:=${NUMBER}}": int64(3), "${UNSET:=4}": int64(4), "${NUMBER}${EMPTY}": "3", "$${NUMBER}": "${NUMBER}",
	} {
		if got, err := (&substitution{variables: variables}).value(text, false); err != nil || got != want {
			t.Errorf("%s is %v, %v; want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"${UNSET:=${GONE}}":                   `the variable "GONE" has no value`,
		"${SET:=${GONE}}":                     `the variable "GONE" has no value`,
		"${SET:=${A[@]}}":                     `"${A[@]}" is no variable`,
		"${SET:=${OTHER}":                     `"${SET:=${OTHER}" has no closing brace`,
		"x ${SET":                             `"${SET" has no closing brace`,
		"${SET-xyz}":                          `"${SET-xyz}" is no variable`,
		"${SET:?xyz}":                         `"${SET:?xyz}" is no variable`,
		strings.Repeat("${UNSET:=", 10) + "x": "more than 8 deep",
	} {
		if got, _, err := (&substitution{variables: variables}).text(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is %q, %v; want %s", text, got, err, want)
		}
	}
}

func TestSubstitutionRefuses(t *testing.T) {
	twice := input("-- app/kustomization.yaml --\nresources: [a.yaml]\n-- app/a.yaml --\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: x, '${A}': y}}",
		func(a *Application) { a.Substitute = map[string]string{"A": "a"} })
	twice.Rendering = Kustomize
	if r := rendered(t, twice); r.Err == nil || !strings.Contains(r.Err.Error(), "gives two fields the name of one") {
		t.Errorf("%v", r.Err)
	}
	for text, c := range map[string]struct {
		variables map[string]string
		err       string
	}{
		"${GONE}":      {nil, `ConfigMap a: the variable "GONE" has no value: set it in postBuild, write $${GONE} to keep the text`},
		"${A[@]}":      {nil, `"${A[@]}" is no variable`},
		"${A^^}":       {map[string]string{"A": "a"}, `"${A^^}" is no variable`},
		"x":            {map[string]string{"a-b": ""}, `the variable "a-b" has no valid name`},
		"${A}${A}${A}": {map[string]string{"A": strings.Repeat("s3cret", maxSubstituted/12)}, "once its variables are replaced: split it"},
	} {
		if c.variables == nil {
			c.variables = map[string]string{}
		}
		in := input("-- app/kustomization.yaml --\nresources: [a.yaml]\n-- app/a.yaml --\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: '"+text+"'}}",
			func(a *Application) { a.Substitute = c.variables })
		in.Rendering = Kustomize
		if r := rendered(t, in); r.Err == nil || !strings.Contains(r.Err.Error(), c.err) || strings.Contains(r.Err.Error(), "s3cret") {
			t.Errorf("%s: %v", text, r.Err)
		}
	}
}

// TestErrorsOfVariablesQuoteNoValue: it may be of a Secret.
func TestErrorsOfVariablesQuoteNoValue(t *testing.T) {
	const secret = "12345678"
	for content, want := range map[string]string{
		`metadata: {name: "${SECRET}"}`:                                   "metadata.name is missing, no text",
		`metadata: {name: a, namespace: "${SECRET}"}`:                     "metadata.namespace is missing, no text",
		"metadata: {name: a}\ndata: {\"${SECRET}\": x, '12345678': y}":    "gives two fields the name of one",
		"metadata: {name: a}\ndata: {x: \"${SECRET}\", y: \"${ABSENT}\"}": `the variable "ABSENT" has no value`,
		"metadata: {name: a}\ndata: {x: \"${SECRET} ${a b}\"}":            "is no variable",
	} {
		in := input("-- app/kustomization.yaml --\nresources: [a.yaml]\n-- app/a.yaml --\napiVersion: v1\nkind: ConfigMap\n"+content+"\n",
			func(a *Application) { a.Substitute = map[string]string{"SECRET": secret} })
		in.Rendering = Kustomize
		for range 10 { // The fields of a map come in any order.
			if r := rendered(t, in); r.Err == nil || !strings.Contains(r.Err.Error(), want) || strings.Contains(r.Err.Error(), secret) {
				t.Fatalf("%s: %v; want %q", content, r.Err, want)
			}
		}
	}
}
