package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"mlkeeper.dev/devcluster/internal/component"
)

// contextName names the cluster, the user and the context in every kubeconfig.
const contextName = "devcluster"

// auditPolicy records who did what to which object, and no bodies: of everybody, or of the users of a group.
func auditPolicy(group string) string {
	policy := `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: ["RequestReceived"]
rules:
- level: Metadata
`
	if group != "" {
		policy += fmt.Sprintf("  userGroups: [%q]\n", group)
	}
	return policy
}

// egressSelector has the API server reach Services through a proxy (KEP-1281); what it calls by URL it reaches itself.
const egressSelector = `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport: {uds: {udsName: %q}}
`

// layout lists what a cluster puts into its directory. Down removes these and
// nothing else, so that a directory named by mistake keeps its files.
var layout = []string{
	"data", "pki", "conf", "logs", cache, "kubeconfig", "state.json", "control.sock", "lock",
}

const cache = "cache"

// CacheDir is where kubectl keeps what it found out about the cluster in a directory.
func CacheDir(dir string) string { return filepath.Join(dir, cache) }

// users gives each component the identity it has in a real cluster.
var users = map[string][]string{
	component.ControllerManager: {"system:kube-controller-manager"},
	component.Scheduler:         {"system:kube-scheduler"},
	component.SimulatedKubelet:  {"simulated-kubelet", "system:masters"},
	component.Kubelet:           {"system:node:" + component.RealNodeName, "system:nodes"},
	component.KubeProxy:         {"system:kube-proxy"},
	component.ClusterDNS:        {"cluster-dns", "system:masters"},
	component.StandIn:           {"stand-in", "system:masters"},
}

// writeFiles prepares the directory for a boot. It may run again on a kept one.
func writeFiles(s component.Spec, kubeconfig string) error {
	for _, d := range []string{"data", "pki", "conf", "logs"} {
		if err := os.MkdirAll(s.Path(d), 0o700); err != nil {
			return err
		}
	}
	ca, err := loadOrCreateAuthority(s)
	if err != nil {
		return fmt.Errorf("preparing the certificates: %w", err)
	}
	if err := writePKI(s, ca); err != nil {
		return fmt.Errorf("preparing the certificates: %w", err)
	}
	for _, name := range s.Enabled() {
		user, calls := users[name]
		if !calls {
			continue
		}
		if err := writeKubeconfig(s, ca, s.KubeconfigOf(name), user); err != nil {
			return err
		}
	}
	if err := writeKubeconfig(s, ca, kubeconfig, []string{"admin", "system:masters"}); err != nil {
		return err
	}
	if s.RealNode {
		if err := writeNodeFiles(s); err != nil {
			return err
		}
	}
	if err := os.WriteFile(s.EgressSelectorFile(), fmt.Appendf(nil, egressSelector, s.EgressSocket()), 0o600); err != nil {
		return err
	}
	return os.WriteFile(s.AuditPolicyFile(), []byte(auditPolicy(s.AuditGroup)), 0o600)
}

// writeKubeconfig writes a self-contained kubeconfig for a user (its name, then
// its groups).
func writeKubeconfig(s component.Spec, ca *authority, path string, user []string) error {
	pair, err := ca.client(user[0], user[1:]...)
	if err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[contextName] = &clientcmdapi.Cluster{
		Server: s.Server(), CertificateAuthorityData: ca.pem,
	}
	config.AuthInfos[contextName] = &clientcmdapi.AuthInfo{
		ClientCertificateData: pair.cert, ClientKeyData: pair.key,
	}
	config.Contexts[contextName] = &clientcmdapi.Context{
		Cluster: contextName, AuthInfo: contextName, Namespace: "default",
	}
	config.CurrentContext = contextName
	return clientcmd.WriteToFile(*config, path)
}

// checkKubeconfig refuses to replace a kubeconfig that is not a devcluster's:
// somebody's access to a real cluster may be in it.
func checkKubeconfig(path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return fmt.Errorf("%s exists and is not readable as a kubeconfig: %w; name another file with --kubeconfig", path, err)
	}
	if len(config.Clusters) == 1 && config.Clusters[contextName] != nil {
		return nil
	}
	return fmt.Errorf("%s exists and was not written by devcluster; name another file with --kubeconfig, or move it away", path)
}

// removeFiles deletes what the layout lists, and the directory if that leaves
// it empty. A kubeconfig elsewhere goes too, if it still points to this cluster.
func removeFiles(st State) error {
	var errs []error
	if !strings.HasPrefix(st.Kubeconfig, st.Dir+string(filepath.Separator)) && st.Kubeconfig != "" {
		config, err := clientcmd.LoadFromFile(st.Kubeconfig)
		if err == nil && len(config.Clusters) == 1 && config.Clusters[contextName] != nil &&
			config.Clusters[contextName].Server == st.Server {
			errs = append(errs, os.Remove(st.Kubeconfig))
		}
	}
	if st.Socket != "" {
		_ = os.Remove(st.Socket)
	}
	for _, name := range layout {
		errs = append(errs, os.RemoveAll(filepath.Join(st.Dir, name)))
	}
	// A directory with other people's files in it is meant to stay.
	_ = os.Remove(st.Dir)
	return errors.Join(errs...)
}

// Tail returns the last lines of a file, for error messages.
func Tail(path string, lines int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "(no log: " + err.Error() + ")"
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return strings.Join(all, "\n")
}
