package enclosure

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// programs are what a real node takes from the machine, with Debian's packages.
var programs = []struct{ name, pkg string }{
	{"containerd", "containerd"},
	{"containerd-shim-runc-v2", "containerd"},
	{"ctr", "containerd"},
	{"runc", "runc"},
	{"iptables", "iptables"},
	{"iptables-save", "iptables"},
	{"iptables-restore", "iptables"},
	{"mount", "mount"},
	{"umount", "mount"},
}

// plugins are the CNI plugins of the pods' network, and pluginFolders where
// distributions put them.
var (
	plugins       = []string{"bridge", "host-local", "loopback"}
	pluginFolders = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}
)

const pluginPackage = "containernetworking-plugins"

// searchPath is the PATH of all programs of a node. It has the folders of
// administrators too, which a login of another kind leaves out.
func searchPath() string {
	folders := filepath.SplitList(os.Getenv("PATH"))
	for _, f := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/bin", "/bin"} {
		if !slices.Contains(folders, f) {
			folders = append(folders, f)
		}
	}
	return strings.Join(folders, string(filepath.ListSeparator))
}

// Find returns the path of a program that a node takes from the machine.
func Find(name string) (string, error) {
	for _, folder := range filepath.SplitList(searchPath()) {
		path := filepath.Join(folder, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not in %s", name, searchPath())
}

// Plugins returns the folder with the CNI plugins.
func Plugins() (string, error) {
	for _, folder := range pluginFolders {
		complete := true
		for _, p := range plugins {
			if _, err := os.Stat(filepath.Join(folder, p)); err != nil {
				complete = false
			}
		}
		if complete {
			return folder, nil
		}
	}
	return "", fmt.Errorf("the CNI plugins %s are in none of %s", strings.Join(plugins, ", "), strings.Join(pluginFolders, ", "))
}

// Require says what is missing for a real node on this machine, and how to get
// it.
func Require() error {
	if os.Geteuid() != 0 {
		return errors.New("a real node makes namespaces and mounts, which only root may: run this as root, or leave out --node=real")
	}
	var missing, packages []string
	need := func(what, pkg string) {
		missing = append(missing, what)
		if !slices.Contains(packages, pkg) {
			packages = append(packages, pkg)
		}
	}
	for _, p := range programs {
		if _, err := Find(p.name); err != nil {
			need(p.name, p.pkg)
		}
	}
	if _, err := Plugins(); err != nil {
		need("the CNI plugins "+strings.Join(plugins, ", "), pluginPackage)
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("a real node needs programs of the machine, and these are missing: %s; on Debian or Ubuntu, as root: "+
		"apt-get install -y --no-install-recommends %s", strings.Join(missing, ", "), strings.Join(packages, " "))
}
