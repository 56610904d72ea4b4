package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestValuesOfFlags: a flag with a value that cannot be used is an error that names the flag, the value and what to use, before anything starts.
func TestValuesOfFlags(t *testing.T) {
	manager, render := []string{"manager", "--kubeconfig=/nowhere"}, []string{"render", "-f", "nothing.yaml"}
	for _, row := range []struct {
		command []string
		flag    string
		values  []string
	}{
		{manager, "log-format", []string{"xml", ""}},
		{manager, "concurrency", []string{"-3", "0"}},
		{manager, "namespaces", []string{"Bad_Name", "a.b"}},
		{manager, "leader-election-namespace", []string{"Bad_Name"}},
		{manager, "v", []string{"-3"}},
		{manager, "metrics-bind-address", []string{"8080", ":http", ":70000"}},
		{manager, "health-probe-bind-address", []string{"8081", "localhost"}},
		{manager, "leader-elect-lease-duration", []string{"0s", "-1s", "999ms"}},
		{manager, "leader-elect-renew-deadline", []string{"0s", "-1s"}},
		{manager, "leader-elect-retry-period", []string{"0s", "-1s"}},
		{manager, "default-service-account", []string{"BAD/NAME", "ns/name"}},
		{manager, "request-timeout", []string{"-5s", "soon"}},
		{manager, "tfserving-models-every", []string{"0s", "-5m0s"}},
		{render, "cluster-domain", []string{"Bad..Domain", ""}},
		{render, "source-timeout", []string{"-1s", "0s"}},
		{render, "work-memory", []string{"-1", "0"}},
		{render, "result-memory", []string{"-1", "0"}},
		{render, "source-bytes", []string{"-1", "0"}},
		{render, "source-max-archive", []string{"-1", "0"}},
		{render, "source-max-unpacked", []string{"-1", "0"}},
		{render, "source-max-file", []string{"-1", "0"}},
		{render, "source-max-index", []string{"-1", "0"}},
		{render, "source-max-entries", []string{"-1", "0"}},
		{render, "source-max-ratio", []string{"-1", "0"}},
		{render, "source-max-redirects", []string{"0"}},
		{render, "trustyai-image", []string{"a b"}},
		{render, "trustyai-proxy-image", []string{"-a"}},
		{render, "tfserving-image", []string{"a,b"}},
		{render, "tfserving-gpu-image", []string{"a b"}},
		{render, "namespace", []string{"Bad_Name"}},
		{[]string{"convert", "-f", "nothing.yaml"}, "downloader-image", []string{"a b"}},
		{[]string{"convert", "-f", "nothing.yaml"}, "suffix", []string{"_A", "-"}},
		{[]string{"rbac", "-f", "nothing.yaml"}, "service-account", []string{"ns/name", ""}},
	} {
		for _, value := range row.values {
			_, _, err := execute(t, append(slices.Clone(row.command), "--"+row.flag+"="+value)...)
			want := "--" + row.flag + ` "` + value + `": `
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), flagRules[row.flag].use) {
				t.Errorf("%s: %v does not say %q", row.command[0], err, want)
			}
		}
	}
	// With the status of an error of the command's.
	if _, _, err := execute(t, "diff", "-f", "nothing.yaml", "--work-memory=-1"); report(new(strings.Builder), err) != 2 {
		t.Errorf("diff ends with another status than 2: %v", err)
	}
}

// TestValuesOfFlagsThatCanBeUsed are at the edges of those that cannot.
func TestValuesOfFlagsThatCanBeUsed(t *testing.T) {
	for _, text := range []string{
		"namespace=", "default-service-account=a.b", "cluster-domain=cluster.local", "source-max-redirects=-1", "concurrency=1", "v=0", "v=4",
		"metrics-bind-address=0", "metrics-bind-address=:0", "metrics-bind-address=[::1]:8080", "leader-elect-lease-duration=1s",
		"request-timeout=0", "request-timeout=5", "request-timeout=5s", "request-timeout=", "trustyai-proxy-image=", "suffix=", "suffix=-tfs",
		"trustyai-image=localhost:5000/a/B_c@sha256:0123", "log-format=text",
	} {
		name, value, _ := strings.Cut(text, "=")
		if rule := flagRules[name]; !rule.ok(value) {
			t.Errorf("--%s is refused: %s", text, rule.use)
		}
	}
}

// TestEveryNumberHasARule: a flag that is added has a rule, or is here with what checks it. The defaults can be used.
func TestEveryNumberHasARule(t *testing.T) {
	elsewhere := map[string]string{
		"shards": "newShards", "port": "mlkeeper console", "tail": "mlkeeper logs", "since": "mlkeeper logs", "timeout": "mlkeeper wait",
		"graceful-shutdown-timeout": "controller-runtime, for which a negative one has no limit",
	}
	known := map[string]bool{}
	for _, cmd := range newRootCommand().Commands() {
		if err := checkFlags(cmd.Flags()); err != nil {
			t.Errorf("the defaults of %s: %v", cmd.Name(), err)
		}
		cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			known[f.Name] = true
			number := strings.HasPrefix(f.Value.Type(), "int") || strings.HasPrefix(f.Value.Type(), "uint") || f.Value.Type() == "duration"
			if _, found := flagRules[f.Name]; number && !found && elsewhere[f.Name] == "" {
				t.Errorf("mlkeeper %s --%s has no rule", cmd.Name(), f.Name)
			}
		})
	}
	for name := range flagRules {
		if !known[name] {
			t.Errorf("there is a rule for --%s, which no command has", name)
		}
	}
}

// TestDurationsOfLeases: client-go refuses the same without the names of the flags (leaderelection.go, NewLeaderElector).
func TestDurationsOfLeases(t *testing.T) {
	for _, row := range []struct{ args, want string }{
		{"--leader-elect --leader-elect-lease-duration=10s", "--leader-elect-lease-duration 10s: use more than --leader-elect-renew-deadline, which is 10s"},
		{"--leader-elect --leader-elect-retry-period=9s", "--leader-elect-renew-deadline 10s: use more than 1.2 times --leader-elect-retry-period, which is 9s"},
		{"--leader-elect-lease-duration=10s", "no cluster is configured"},
	} {
		_, _, err := execute(t, append([]string{"manager", "--kubeconfig=/nowhere"}, strings.Fields(row.args)...)...)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v", row.args, err)
		}
	}
}

// TestFlagsOfRBACThatDoNothing: a flag that has no effect would be taken for one that has.
func TestFlagsOfRBACThatDoNothing(t *testing.T) {
	for _, row := range []struct{ args, want string }{
		{"--operator bad", "--operator is for --filename and --namespace"},
		{"--operator a/b --engine", "--operator is for --filename and --namespace"},
		{"--service-account s", "--service-account is for --filename and --namespace"},
		{"--kinds --engine", "--kinds prints one role alone"},
		{"--kinds --controller trustyai", "--kinds prints one role alone"},
		{"-n team-a --operator Bad/name", `--operator "Bad/name": use NAMESPACE/NAME`},
		{"-n team-a --operator a/b_c", `--operator "a/b_c": use NAMESPACE/NAME`},
	} {
		stdout, _, err := execute(t, append([]string{"rbac"}, strings.Fields(row.args)...)...)
		if err == nil || !strings.Contains(err.Error(), row.want) || stdout != "" {
			t.Errorf("%s: %v does not say %q", row.args, err, row.want)
		}
	}
}
