package kuttl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: "

func TestLoad(t *testing.T) {
	dir := write(t, map[string]string{
		"README.md":            "not a step",
		"notes.yaml":           "not: a step",
		"00-one.yaml":          configMap + "a\n---\n" + configMap + "b\n",
		"00-two-more.yaml":     configMap + "c\n",
		"00-assert.yaml":       "apiVersion: kuttl.dev/v1beta1\nkind: TestAssert\ntimeout: 7\n---\n" + configMap + "d\n",
		"02-errors.yaml":       configMap + "e\n",
		"10-last.gotmpl.yaml":  configMap + "{{ .Namespace }}-{{ .Vars.x }}\n",
		"01-gone.yaml":         "apiVersion: kuttl.dev/v1beta1\nkind: TestStep\nmetadata: {name: named}\ndelete:\n- {apiVersion: v1, kind: Pod, labels: {a: b}}\n",
		"01-assert-other.yaml": configMap + "f\n",
	})
	steps, err := load(dir, environment{Namespace: "ns", Vars: map[string]any{"x": 1}})
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) != 4 {
		t.Fatalf("%d steps", len(steps))
	}
	zero, one, two, ten := steps[0], steps[1], steps[2], steps[3]
	if zero.name != "one" || len(zero.applies) != 3 || len(zero.asserts) != 1 || zero.timeout != 7*time.Second {
		t.Errorf("step 0: %+v", zero)
	}
	if one.name != "named" || len(one.deletes) != 1 || one.deletes[0].Labels["a"] != "b" || len(one.asserts) != 1 || one.timeout != defaultTimeout {
		t.Errorf("step 1: %+v", one)
	}
	if len(two.absents) != 1 {
		t.Errorf("step 2: %+v", two)
	}
	if ten.index != 10 || ten.applies[0].GetName() != "ns-1" {
		t.Errorf("step 10: %+v", ten)
	}
}

func TestLoadRefusesWhatItDoesNotKnow(t *testing.T) {
	const test = "apiVersion: kuttl.dev/v1beta1\nkind: "
	for name, files := range map[string]map[string]string{
		"no steps":               {"README.md": ""},
		"commands":               {"00-step.yaml": test + "TestStep\ncommands:\n- command: true\n"},
		"expressions":            {"00-assert.yaml": test + "TestAssert\nassertAll: []\n"},
		"a TestFile":             {"00-step.yaml": test + "TestFile\n"},
		"a TestStep to assert":   {"00-assert.yaml": test + "TestStep\n"},
		"a TestAssert to apply":  {"00-step.yaml": test + "TestAssert\n"},
		"a delete without kind":  {"00-step.yaml": test + "TestStep\ndelete:\n- {name: a}\n"},
		"no YAML":                {"00-step.yaml": "a: ]"},
		"an object without kind": {"00-step.yaml": "a: b\n"},
		"a broken template":      {"00-step.gotmpl.yaml": "{{ .Nope }}"},
		"a template's syntax":    {"00-step.gotmpl.yaml": "{{"},
		"no extension":           {"00-step": ""},
		"a huge index":           {"99999999999999999999-step.yaml": ""},
	} {
		if steps, err := load(write(t, files), environment{}); err == nil {
			t.Errorf("%s: loaded %+v", name, steps)
		}
	}
	if _, err := load("no such folder", environment{}); err == nil {
		t.Error("loaded nothing")
	}
}

// TestCasesLoad reads every case of the repository, which test/e2e runs with the operator.
func TestCasesLoad(t *testing.T) {
	asserts, err := filepath.Glob("../testdata/kuttl/*/01-assert*.yaml")
	if err != nil || len(asserts) < 5 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range asserts {
		dir := filepath.Dir(file)
		steps, err := load(dir, environment{Namespace: "ns"})
		if err != nil {
			t.Error(err)
			continue
		}
		checks := 0
		for _, s := range steps {
			checks += len(s.asserts) + len(s.absents)
			for _, u := range append(append(s.applies, s.asserts...), s.absents...) {
				if u.GetName() == "" || strings.Contains(u.GetName(), "{{") {
					t.Errorf("%s, step %d: %s %q", dir, s.index, u.GetKind(), u.GetName())
				}
			}
		}
		if checks == 0 {
			t.Errorf("%s asserts nothing", dir)
		}
	}
}
