package controllertest

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"mlkeeper.dev/internal/engine/plan"
)

var update = flag.Bool("update", false, "write the golden files")

// Find returns the object of a plan, or nil.
func Find(p plan.Plan, kind, name string) *unstructured.Unstructured {
	for _, stage := range p.Stages {
		for _, o := range stage.Objects {
			if o.Desired.GetKind() == kind && o.Desired.GetName() == name {
				return o.Desired
			}
		}
	}
	return nil
}

// MustFind returns the object of a plan, or fails.
func MustFind(t testing.TB, p plan.Plan, kind, name string) *unstructured.Unstructured {
	t.Helper()
	u := Find(p, kind, name)
	if u == nil {
		t.Fatalf("the plan has no %s %s; problems: %v", kind, name, p.Problems)
	}
	return u
}

// Reasons lists class and reason of the problems, with commas between them.
func Reasons(p plan.Plan) string {
	var out []string
	for _, problem := range p.Problems {
		out = append(out, string(problem.Class)+" "+problem.Reason)
	}
	return strings.Join(out, ",")
}

// Print prints a plan for a golden file.
func Print(t testing.TB, p plan.Plan) []byte {
	t.Helper()
	var out bytes.Buffer
	for _, stage := range p.Stages {
		for _, o := range stage.Objects {
			raw, err := yaml.Marshal(o.Desired.Object)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "---\n# retain=%t optional=%t informational=%t\n%s", o.Retain, o.Optional, o.IgnoreHealth, raw)
		}
	}
	for _, problem := range p.Problems {
		fmt.Fprintf(&out, "# problem %s %s %s\n", problem.Class, problem.Reason, problem.Error())
	}
	for _, w := range p.Warnings {
		fmt.Fprintf(&out, "# warning %s\n", w)
	}
	return out.Bytes()
}

// Golden compares a plan with testdata/golden/<name>.yaml, which -update writes.
func Golden(t *testing.T, name string, p plan.Plan) {
	t.Helper()
	got := Print(t, p)
	path := filepath.Join("testdata", "golden", name+".yaml")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; run the test with -update and look at the change:\n%s", path, got)
	}
}

// Parse reads one object.
func Parse(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}
