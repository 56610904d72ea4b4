package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// exampleOf is one command of docs/cli.md with the first lines that it prints there.
type exampleOf struct {
	command string
	output  []string
}

// consoleBlock is a block of the page with commands.
var consoleBlock = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")

func examplesOf(t *testing.T, page string) []exampleOf {
	t.Helper()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var out []exampleOf
	for _, block := range consoleBlock.FindAllStringSubmatch(string(raw), -1) {
		for line := range strings.Lines(block[1]) {
			if command, found := strings.CutPrefix(line, "$ "); found {
				out = append(out, exampleOf{command: strings.TrimSpace(command)})
			} else if len(out) > 0 {
				out[len(out)-1].output = append(out[len(out)-1].output, strings.TrimSpace(line))
			}
		}
	}
	return out
}

// doc runs the examples of a page in a folder, as a shell does.
type doc struct {
	t        *testing.T
	dir, env string
	kube     string
	// cache is where kubectl keeps what it discovers; by default it does so for the user, by a host and port that may have been another cluster's.
	cache    string
	examples []exampleOf
	ran      map[string]bool
}

// prints runs every example that begins with a text, and wants an exit status and the lines that the page shows, as far as they are whole.
func (d *doc) prints(begin string, status int) { d.t.Helper(); d.run(begin, status, true) }

// exits is prints for what another cluster shows differently.
func (d *doc) exits(begin string, status int) { d.t.Helper(); d.run(begin, status, false) }

func (d *doc) run(begin string, status int, same bool) {
	d.t.Helper()
	ran := 0
	for _, e := range d.examples {
		if !strings.HasPrefix(e.command, begin) || d.ran[e.command] {
			continue
		}
		ran++
		d.ran[e.command] = true
		cmd := exec.CommandContext(d.t.Context(), "bash", "-c", "set -o pipefail; "+e.command)
		cmd.Dir, cmd.Env = d.dir, append(os.Environ(), "KUBECONFIG="+d.kube, "KUBECACHEDIR="+d.cache, "PATH="+d.env+":"+os.Getenv("PATH"))
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != status {
			d.t.Errorf("$ %s\nthe exit status is %d, want %d:\n%s", e.command, got, status, out)
		}
		text := squeeze(string(out))
		if !same {
			continue
		}
		for _, line := range e.output {
			whole, _, _ := strings.Cut(line, "...")
			if want := squeeze(whole); !strings.Contains(text, want) {
				d.t.Errorf("$ %s\ndoes not print %q:\n%s", e.command, want, out)
			}
		}
	}
	if ran == 0 {
		d.t.Errorf("no example begins with %q", begin)
	}
}

var (
	seconds = regexp.MustCompile(`\b[0-9]+m?s\b`)
	frame   = regexp.MustCompile(`[│├└─]+`)
)

// squeeze makes lines comparable that differ in widths and times.
func squeeze(text string) string {
	return strings.Join(strings.Fields(seconds.ReplaceAllString(frame.ReplaceAllString(text, " "), "TIME")), " ")
}

// TestEveryExampleOfTheCommandLineRuns runs the commands of docs/cli.md in their order of need, not of the page: what they are about has to
// be there, the manager has to run for some and must not for one.
func TestEveryExampleOfTheCommandLineRuns(t *testing.T) {
	// What the examples apply would be in the way of other tests.
	c := cluster.Start(t, cluster.WithCRDs("gateway", "route", "servicemonitor", "inferenceservice"))
	d := newDoc(t, c)
	const ns = "models"
	// The last one is created by the KfDef, and has a Role of what the example grants.
	for _, name := range []string{ns, "team-a", "small-kubeflow-jobs"} {
		c.Kubectl(t, "create", "namespace", name)
	}
	d.exits("mlkeeper check --pre", 0)
	operator := start(t, c, harness.Options{})
	d.prints("mlkeeper version", 0)
	d.prints("mlkeeper render", 0)
	c.Apply(t, samples+"trustyai-service.yaml", ns)
	says(t, c, ns, example, "Ready", metav1.ConditionFalse, "VolumeNotFound")
	for _, verb := range []string{"status", "tree", "explain"} {
		d.prints("mlkeeper "+verb, 0)
	}
	// The volume is there when somebody waits for it, after the first lines on a slow machine, too.
	made := time.AfterFunc(5*time.Second, func() { volume(t, c, "mypv") })
	defer made.Stop()
	d.prints("mlkeeper wait", 0)
	// The simulated kubelets have no logs.
	d.exits("mlkeeper logs", 1)
	d.prints("mlkeeper diff -f service.yaml", 1)
	d.exits("mlkeeper rbac", 0)
	d.exits("mlkeeper unwire", 0)
	operator.Stop()
	d.exits("mlkeeper hand-back", 0)
	// What was handed back is the original operator's only once that has its finalizer on it.
	d.exits("mlkeeper diff --adopt", 0)
	d.exits("mlkeeper install", 0)
	d.prints("mlkeeper convert", 0)
	for _, e := range d.examples {
		if !d.ran[e.command] {
			t.Errorf("the test has no place for: %s", e.command)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// newDoc has a folder with the files that the examples name, and programs on the PATH.
func newDoc(t *testing.T, c *cluster.Cluster) *doc {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir, programs := t.TempDir(), t.TempDir()
	if err := os.Symlink(filepath.Join(root, "config"), filepath.Join(dir, "config")); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"service.yaml": strings.Replace(adr("mypv"), "spec:", "spec:\n  replicas: 0", 1),
		"inferenceservice.yaml": `
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: ranker, namespace: models}
spec:
  predictor:
    timeout: 60
    model: {modelFormat: {name: tensorflow}, storageUri: "gs://models/ranker"}
`,
		"kfdef.yaml": read(t, filepath.Join(root, "hack/demo/kubeflow/kfdef.yaml")),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	archive := filepath.Join(dir, "manifests.tar.gz")
	if out, err := exec.CommandContext(t.Context(), "tar", "-C", filepath.Join(root, "hack/demo/kubeflow/manifests"), "-czf", archive, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c.Kubectl(t, "create", "configmap", "small-kubeflow", "--from-file=manifests.tar.gz="+archive)
	scripts := map[string]string{
		"mlkeeper": `exec "` + filepath.Join(root, "bin", "mlkeeper") + `" "$@"`,
		"kubectl":  `exec "` + filepath.Join(root, "bin", "devcluster") + `" kubectl --kubeconfig "$KUBECONFIG" "$@"`,
	}
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(programs, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	examples := examplesOf(t, filepath.Join(root, "docs", "cli.md"))
	if len(examples) < 10 || !slices.ContainsFunc(examples, func(e exampleOf) bool { return len(e.output) > 1 }) {
		t.Fatalf("the page has the examples %v", examples)
	}
	return &doc{t: t, dir: dir, env: programs, kube: c.Kubeconfig, cache: t.TempDir(), examples: examples, ran: map[string]bool{}}
}
