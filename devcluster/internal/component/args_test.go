package component

import (
	"slices"
	"strings"
	"testing"
)

func testSpec() Spec {
	return Spec{Dir: "/c", Ports: Ports{
		Etcd: 1, EtcdPeer: 2, APIServer: 3, ControllerManager: 4, Scheduler: 5, SimulatedKubelet: 6, StandIn: 7,
		Containerd: 8, Kubelet: 9, KubeletHealth: 10, KubeProxy: 11, ClusterDNS: 12,
	}}
}

func render(t *testing.T, name string, s Spec) []string {
	t.Helper()
	args, err := Args(name, s)
	if err != nil {
		t.Fatal(err)
	}
	return args
}

func TestSwitchesReachTheCommandLines(t *testing.T) {
	for _, tc := range []struct {
		what      string
		component string
		change    func(*Spec)
		flag      string
		byDefault bool
	}{
		{"fast etcd", Etcd, func(s *Spec) { s.Fsync = true }, "--unsafe-no-fsync=true", true},
		{"audit log", APIServer, func(s *Spec) { s.AuditLog = "/a" }, "--audit-log-path=/a", false},
	} {
		t.Run(tc.what, func(t *testing.T) {
			s := testSpec()
			if got := slices.Contains(render(t, tc.component, s), tc.flag); got != tc.byDefault {
				t.Errorf("by default %s is present: %t", tc.flag, got)
			}
			tc.change(&s)
			if got := slices.Contains(render(t, tc.component, s), tc.flag); got == tc.byDefault {
				t.Errorf("switched, %s is present: %t", tc.flag, got)
			}
		})
	}
}

func TestEverythingListensOnLoopback(t *testing.T) {
	listening := map[string][]string{
		Etcd:              {"--listen-client-urls=http://127.0.0.1:1", "--listen-peer-urls=http://127.0.0.1:2"},
		APIServer:         {"--bind-address=127.0.0.1", "--secure-port=3"},
		ControllerManager: {"--bind-address=127.0.0.1", "--secure-port=4"},
		Scheduler:         {"--bind-address=127.0.0.1", "--secure-port=5"},
		SimulatedKubelet:  {"--listen=127.0.0.1:6"},
		StandIn:           {"--listen=127.0.0.1:7"},
	}
	for _, name := range testSpec().Enabled() {
		args := render(t, name, testSpec())
		for _, want := range listening[name] {
			if !slices.Contains(args, want) {
				t.Errorf("%s lacks %s: %v", name, want, args)
			}
		}
		if strings.Contains(strings.Join(args, " "), "0.0.0.0") {
			t.Errorf("%s listens on every interface: %v", name, args)
		}
	}
}

func TestNoFlagIsGivenTwice(t *testing.T) {
	s := testSpec()
	s.Fsync, s.AuditLog = true, "/a"
	for _, name := range Names {
		seen := map[string]bool{}
		for _, arg := range render(t, name, s) {
			flag, _, _ := strings.Cut(arg, "=")
			if seen[flag] {
				t.Errorf("%s has %s twice", name, flag)
			}
			seen[flag] = true
		}
	}
}

func TestEveryComponentHasAPortAndAHealthURL(t *testing.T) {
	s := testSpec()
	seen := map[int]string{}
	for _, name := range Names {
		port := s.Ports.Of(name)
		if other, taken := seen[port]; taken || port == 0 {
			t.Errorf("%s has port %d, as has %q", name, port, other)
		}
		seen[port] = name
		if url := s.HealthURL(name); !strings.Contains(url, "://127.0.0.1:") {
			t.Errorf("%s is asked at %s", name, url)
		}
	}
}

func TestEnabledLeavesOut(t *testing.T) {
	s := testSpec()
	simulated := []string{Etcd, APIServer, ControllerManager, Scheduler, SimulatedKubelet, StandIn}
	if got := s.Enabled(); !slices.Equal(got, simulated) {
		t.Errorf("by default %v", got)
	}
	s.NoStandIn = true
	if got := s.Enabled(); slices.Contains(got, StandIn) || len(got) != 5 {
		t.Errorf("without the stand-in %v", got)
	}
}

func TestUnknownComponent(t *testing.T) {
	if _, err := Args("kube-router", testSpec()); err == nil || !strings.Contains(err.Error(), "choose one of") {
		t.Errorf("got %v", err)
	}
	if Known("kube-router") || !Known(Etcd) {
		t.Error("Known is wrong")
	}
}
