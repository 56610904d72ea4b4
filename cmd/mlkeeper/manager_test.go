package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"mlkeeper.dev/internal/cli"
)

// TestControllersAddUp: the components of config/components each add their controller to none.
func TestControllersAddUp(t *testing.T) {
	for _, test := range []struct {
		args       []string
		want, fail string
	}{
		{nil, strings.Join(controllerNames(), ","), ""},
		{[]string{"--controllers="}, "", "--controllers names none"},
		{[]string{"--controllers=", "--controllers=trustyai"}, "trustyai", ""},
		{[]string{"--controllers=", "--controllers=trustyai", "--controllers=seldon"}, "trustyai,seldon", ""},
		{[]string{"--controllers=trustyai,tfserving"}, "trustyai,tfserving", ""},
		{[]string{"--controllers=trustyay"}, "trustyay", `no controller "trustyay"`},
	} {
		cmd := newManagerCommand(connection{Connection: &cli.Connection{}})
		if err := cmd.ParseFlags(test.args); err != nil {
			t.Fatal(err)
		}
		got, err := cmd.Flags().GetStringSlice("controllers")
		if err != nil || strings.Join(got, ",") != test.want {
			t.Errorf("%v: %v, %v", test.args, got, err)
		}
		if err := checkControllers(got); (err == nil) != (test.fail == "") || err != nil && !strings.Contains(err.Error(), test.fail) {
			t.Errorf("%v: %v", test.args, err)
		}
	}
}

// TestTheProfilerIsServedToThisMachineAlone: a heap holds Secrets, and the profiler asks nobody who they are.
func TestTheProfilerIsServedToThisMachineAlone(t *testing.T) {
	for address, allowed := range map[string]bool{
		"": true, "0": true, "127.0.0.1:6060": true, "localhost:6060": true, "[::1]:6060": true,
		":6060": false, "0.0.0.0:6060": false, "[::]:6060": false, "10.0.0.1:6060": false, "6060": false, "example.com:6060": false,
	} {
		if err := checkProfiler(address); (err == nil) != allowed {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// TestOneNamespaceIsTheOperators: what keeps the digests' key, and what refuses ServiceAccounts of the operator, mean the same namespace,
// in a pod and outside.
func TestOneNamespaceIsTheOperators(t *testing.T) {
	for _, c := range []struct {
		pod, want string
		flags     []string
	}{
		{"of-the-pod", "of-the-pod", nil},
		{"", "named", []string{"--leader-election-namespace=named"}},
		{"of-the-pod", "named", []string{"--leader-election-namespace=named"}},
		{"", "", nil},
	} {
		t.Setenv("POD_NAMESPACE", c.pod)
		var f managerFlags
		var s settings
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		bindManager(flags, &f, &s)
		if err := flags.Parse(c.flags); err != nil {
			t.Fatal(err)
		}
		forSeldon, err := s.forSeldon()
		if err != nil {
			t.Fatal(err)
		}
		for name, got := range map[string]string{
			"engine": s.operatorNamespace, "kubeflow": s.forKubeflow().OperatorNamespace, "seldon": forSeldon.OperatorNamespace,
			"trustyai": s.forTrustyAI().OperatorNamespace,
		} {
			if got != c.want {
				t.Errorf("in the pod of %q with %v, %s has %q, want %q", c.pod, c.flags, name, got, c.want)
			}
		}
	}
}

// TestTheManagerFetchesNothingFromItsCluster: many of what listens there trusts whoever is in the operator's namespace. Commands fetch from
// the machine of whoever calls them.
func TestTheManagerFetchesNothingFromItsCluster(t *testing.T) {
	for _, manager := range []bool{true, false} {
		var f managerFlags
		var s settings
		bindManager(pflag.NewFlagSet("", pflag.ContinueOnError), &f, &s)
		s.operatorNamespace, f.metricsAddress, f.probeAddress = "nowhere", "0", "0"
		if manager {
			if _, err := buildManager(&rest.Config{Host: "http://127.0.0.1:1"}, f, s); err != nil {
				t.Fatal(err)
			}
		} else {
			controllers(s)
		}
		if made := *s.sources.made; made == nil || (made.options.Cluster != nil) != manager {
			t.Errorf("in a manager: %t; the store of sources: %+v", manager, made)
		}
		s.sources.close()
	}
}
