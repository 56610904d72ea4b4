package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestTreeOfOneHasItsStagesAndWhatIsNotMadeYet(t *testing.T) {
	c, dyn := fakeCluster(t, statusKinds, statusObjects()...)
	for _, name := range []string{"TrustyAIService/ready", "tas/ready", "trustyaiservices.trustyai.opendatahub.io/ready"} {
		stdout, stderr, err := run(t, NewTreeCommand(environment(fakeController{}, c)), "", name)
		if err != nil || stderr != "" {
			t.Fatalf("%v\n%s", err, stderr)
		}
		golden(t, "tree-one.golden.txt", stdout)
	}
	stdout, _, err := run(t, NewTreeCommand(environment(fakeController{}, c)), "", "tas/fresh")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "tree-fresh.golden.txt", stdout)
	for _, a := range dyn.Actions() {
		if a.GetVerb() != "list" && a.GetVerb() != "get" {
			t.Errorf("%s of %s: a tree is only looked at", a.GetVerb(), a.GetResource().Resource)
		}
	}
}

func TestTreeOfAllAndAsJSON(t *testing.T) {
	c, _ := fakeCluster(t, statusKinds, statusObjects()...)
	stdout, stderr, err := run(t, NewTreeCommand(environment(fakeController{}, c)), "", "-A")
	if err != nil || stderr != "" {
		t.Fatalf("%v\n%s", err, stderr)
	}
	golden(t, "tree-all.golden.txt", stdout)
	stdout, _, err = run(t, NewTreeCommand(environment(fakeController{}, c)), "", "tas/ready", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "tree.golden.json", stdout)
	var report TreeReport
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || len(report.Stacks) != 1 || report.Stacks[0].Stages[0].Name != "first" {
		t.Errorf("%v: %+v", err, report)
	}
}

func TestTreeInColour(t *testing.T) {
	c, _ := fakeCluster(t, statusKinds, statusObjects()...)
	plain, _, err := run(t, NewTreeCommand(environment(fakeController{}, c)), "", "tas/ready")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("NO_COLOR", "1")
	env := environment(fakeController{}, c)
	env.Terminal = &Terminal{colorAlways}
	coloured, _, err := run(t, NewTreeCommand(env), "", "tas/ready")
	if err != nil || !strings.Contains(coloured, "\x1b[31m✗ Missing\x1b[0m") {
		t.Errorf("%v\n%q", err, coloured)
	}
	for _, style := range []string{styleBold, styleDim, styleRed, styleGreen, styleYellow, styleCyan, "0"} {
		coloured = strings.ReplaceAll(coloured, "\x1b["+style+"m", "")
	}
	if coloured != plain {
		t.Errorf("colour changes the words, or a hostile value reaches the terminal:\n%q\n%q", coloured, plain)
	}
	for mode, on := range map[string]bool{"auto": false, "never": false, "always": true} {
		var given Terminal
		if err := given.color.Set(mode); err != nil || given.palette(&bytes.Buffer{}).on != on {
			t.Errorf("%s: %v, %v", mode, given, err)
		}
	}
	if err := new(Terminal).color.Set("sometimes"); err == nil {
		t.Error("a mode that there is not is accepted")
	}
}

func TestNamesThatLeadNowhereSayWhatToDo(t *testing.T) {
	stray := object(configGVK, "default", "stray", nil)
	c, _ := fakeCluster(t, statusKinds, append(statusObjects(), stray)...)
	for name, words := range map[string][]string{
		"ready":                      {"KIND/NAME"},
		"a/b/c":                      {"KIND/NAME"},
		"nonsense/x":                 {`no kind "nonsense"`, "TrustyAIService"},
		"tas/absent":                 {`no TrustyAIService "absent" in namespace "default"`, "mlkeeper status -A"},
		"configmap/stray":            {"ConfigMap default/stray", "neither manages nor created it"},
		"route.route.openshift.io/x": {"no kind"},
	} {
		_, _, err := run(t, NewTreeCommand(environment(fakeController{}, c)), "", name)
		for _, w := range words {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v, which does not say %q", name, err, w)
			}
		}
	}
	none, _ := fakeCluster(t, []schema.GroupVersionKind{configGVK})
	if _, _, err := run(t, NewTreeCommand(environment(fakeController{}, none)), "", "tas/x"); err == nil || !strings.Contains(err.Error(), "make install") {
		t.Errorf("without definitions: %v", err)
	}
}

func TestAChildStandsForItsCustomResource(t *testing.T) {
	c, _ := fakeCluster(t, statusKinds, statusObjects()...)
	stdout, stderr, err := run(t, NewTreeCommand(environment(fakeController{}, c)), "", "deployments/ready")
	if err != nil || !strings.HasPrefix(stdout, "TrustyAIService/ready") ||
		stderr != "Deployment default/ready belongs to TrustyAIService default/ready\n" {
		t.Errorf("%v\n%s%s", err, stderr, stdout)
	}
}

// TestAKindWithoutAController shows a custom resource of a newer release by its inventory alone.
func TestAKindWithoutAController(t *testing.T) {
	gvk := schema.GroupVersionKind{Group: "newer.io", Version: "v1", Kind: "Newer"}
	u := object(gvk, "default", "n", map[string]any{"status": map[string]any{
		"inventory":  map[string]any{"entries": []any{map[string]any{"version": "v1", "kind": "ConfigMap", "namespace": "default", "name": "c"}}},
		"conditions": []any{map[string]any{"type": "Ready", "status": "False", "reason": "Unheard", "message": "of something"}},
	}})
	c, _ := fakeCluster(t, append([]schema.GroupVersionKind{gvk}, statusKinds...), append(statusObjects(), u)...)
	stdout, stderr, err := run(t, NewTreeCommand(environment(fakeController{}, c)), "", "newer/n")
	if err != nil || stderr != "" || !strings.Contains(stdout, "ConfigMap/c") || !strings.Contains(stdout, "Missing") {
		t.Errorf("%v\n%s%s", err, stderr, stdout)
	}
	stdout, _, err = run(t, NewExplainCommand(environment(fakeController{}, c)), "", "newer/n")
	if err != nil || !strings.Contains(stdout, "(Unheard)") || !strings.Contains(stdout, "of something") || !strings.Contains(stdout, "ConfigMap c is missing") {
		t.Errorf("%v\n%s", err, stdout)
	}
	_, _, err = run(t, NewDiffCommand(environment(fakeController{}, c)), "", "newer/n")
	if err == nil || !strings.Contains(err.Error(), "no controller for the kind") {
		t.Errorf("diff: %v", err)
	}
}
