package component

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/scheme"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/util/codec"
)

func nodeSpec() Spec {
	s := testSpec()
	s.RealNode, s.CNIPlugins = true, "/plugins"
	return s
}

func TestRealNodeReplacesTheSimulatedOne(t *testing.T) {
	want := []string{
		Etcd, APIServer, ControllerManager, Scheduler, Containerd, Kubelet, KubeProxy, ClusterDNS, StandIn,
	}
	if got := nodeSpec().Enabled(); !slices.Equal(got, want) {
		t.Errorf("enabled: %v", got)
	}
	if p := (&Ports{}).Needed(false); len(p) != 7 {
		t.Errorf("a simulated node needs %d ports", len(p))
	}
	if p := (&Ports{}).Needed(true); len(p) != 12 {
		t.Errorf("a real node needs %d ports", len(p))
	}
}

// TestPodsReachTheAPIServer shows that the API server of a real node listens for
// pods, and says so in the kubernetes Service; and that no other one does.
func TestPodsReachTheAPIServer(t *testing.T) {
	only := []string{"--bind-address=0.0.0.0", "--advertise-address=" + Gateway, "--authorization-mode=Node,RBAC"}
	simulated, node := render(t, APIServer, testSpec()), render(t, APIServer, nodeSpec())
	for _, flag := range only {
		if slices.Contains(simulated, flag) || !slices.Contains(node, flag) {
			t.Errorf("%s: simulated %t, real %t", flag, slices.Contains(simulated, flag), slices.Contains(node, flag))
		}
	}
	if none := "--endpoint-reconciler-type=none"; !slices.Contains(simulated, none) || slices.Contains(node, none) {
		t.Errorf("%s is for simulated nodes", none)
	}
}

// TestKubeletReadsItsConfiguration decodes it as the kubelet does, which refuses
// a field that it does not know.
func TestKubeletReadsItsConfiguration(t *testing.T) {
	_, codecs, err := scheme.NewSchemeAndCodecs(serializer.EnableStrict)
	if err != nil {
		t.Fatal(err)
	}
	s := nodeSpec()
	config, err := codec.DecodeKubeletConfiguration(t.Context(), codecs, []byte(KubeletConfig(s, "/group")))
	if err != nil {
		t.Fatal(err)
	}
	if config.Port != 9 || config.HealthzPort != 10 || config.CgroupRoot != "/group" || config.ClusterDNS[0] != Gateway {
		t.Errorf("unexpected: %+v", config)
	}
	if config.Authentication.Anonymous.Enabled || config.Authorization.Mode != "Webhook" {
		t.Error("it lets anybody in")
	}
}

func TestContainerdConfigNamesItsFolders(t *testing.T) {
	text := ContainerdConfig(nodeSpec())
	for _, want := range []string{
		`root = "/c/data/containerd"`, `address = "127.0.0.1:8"`, `bin_dir = "/plugins"`, `conf_dir = "/c/conf/cni"`,
		`sandbox_image = "` + PauseImage + `"`, `address = "` + ContainerdSocket + `"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %s:\n%s", want, text)
		}
	}
}

func TestCNIConfigIsJSON(t *testing.T) {
	var config struct {
		Name    string
		Plugins []struct {
			Type string
			IPAM struct {
				Ranges [][]struct{ Subnet, Gateway string }
			}
		}
	}
	if err := json.Unmarshal([]byte(CNIConfig()), &config); err != nil {
		t.Fatal(err)
	}
	if len(config.Plugins) != 1 || config.Plugins[0].Type != "bridge" {
		t.Fatalf("plugins: %+v", config.Plugins)
	}
	if r := config.Plugins[0].IPAM.Ranges[0][0]; r.Subnet != PodCIDR || r.Gateway != Gateway {
		t.Errorf("range: %+v", r)
	}
}
