//go:build realnode

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"mlkeeper.dev/devcluster/internal/component"
	"mlkeeper.dev/devcluster/internal/enclosure"
)

// pausing is a pod of the only image that every real node has.
const pausing = `
apiVersion: v1
kind: Pod
metadata: {name: pausing}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: pause, image: "` + component.PauseImage + `", imagePullPolicy: Never}]
`

// TestRealNodeLeavesNothingBehind ends a cluster with a pod in every way that
// there is, and looks for what it left on the machine.
func TestRealNodeLeavesNothingBehind(t *testing.T) {
	for _, end := range []struct {
		how string
		do  func(t *testing.T, dir string, pid int)
	}{
		{"down", func(t *testing.T, dir string, _ int) { must(t, "", "down", "--dir", dir) }},
		{"SIGTERM", func(t *testing.T, _ string, pid int) { signalled(t, pid, syscall.SIGTERM) }},
		{"SIGKILL", func(t *testing.T, _ string, pid int) { signalled(t, pid, syscall.SIGKILL) }},
	} {
		t.Run(end.how, func(t *testing.T) {
			before := machine(t)
			dir, st := up(t, "--node=real")
			kubectl := func(stdin string, args ...string) string {
				return must(t, stdin, append([]string{"--dir", dir, "kubectl"}, args...)...)
			}
			kubectl(pausing, "apply", "-f", "-")
			kubectl("", "wait", "pod/pausing", "--for=condition=Ready", "--timeout=90s")
			if shims := processes(t, "containerd-shim", dir); len(shims) == 0 {
				t.Error("the pod has no shim, so there is nothing to leave behind")
			}
			end.do(t, dir, st.PID)
			eventually(t, "every process of the cluster ends", func() bool { return len(processes(t, "", dir)) == 0 })
			must(t, "", "down", "--dir", dir)
			if after := machine(t); !slices.Equal(before, after) {
				t.Errorf("before and after differ:\n%s\n\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
			}
			for _, group := range groups(t, dir) {
				t.Errorf("the control group %s is left", group)
			}
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("the folder is left: %v", err)
			}
		})
	}
}

// TestRealNodeIsKept boots a cluster again with the data that it had.
func TestRealNodeIsKept(t *testing.T) {
	dir, _ := up(t, "--node=real")
	must(t, pausing, "--dir", dir, "kubectl", "apply", "-f", "-")
	wait := []string{"--dir", dir, "kubectl", "wait", "pod/pausing", "--for=condition=Ready", "--timeout=90s"}
	must(t, "", wait...)
	must(t, "", "down", "--keep", "--dir", dir)
	must(t, "", "up", "--detach", "--node=real", "--dir", dir)
	eventually(t, "the pod runs again", func() bool {
		out, err := call(t, "", "--dir", dir, "kubectl", "get", "pod", "pausing", "-o", "jsonpath={.status.containerStatuses[0].restartCount}")
		return err == nil && out == "1"
	})
	must(t, "", wait...)
	// A kubelet that is started again finds its pods running.
	must(t, "", "--dir", dir, "stop", "kubelet")
	must(t, "", "--dir", dir, "start", "kubelet")
	must(t, "", wait...)
}

func signalled(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process outside ends", func() bool { return !alive(pid) })
}

// machine lists what belongs to the whole machine and could be left behind:
// mounts, network interfaces, and the folders of kubelet and CNI.
func machine(t *testing.T) []string {
	t.Helper()
	var out []string
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		out = append(out, "mount "+strings.Fields(line)[4])
	}
	for _, pattern := range []string{"/sys/class/net/*", "/var/lib/kubelet*", "/var/lib/cni*", "/var/log/pods*", "/var/log/containers*", "/run/containerd*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, found...)
	}
	slices.Sort(out)
	return out
}

// processes lists those of a cluster whose command line has a name in it: they
// live in another mount namespace, and either that has something of the cluster's
// folder mounted, as those of shims and containers have, or they were told of it.
func processes(t *testing.T, name, dir string) []string {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	ours, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range all {
		theirs, err := os.Readlink(filepath.Join(p, "ns", "mnt"))
		if err != nil || theirs == ours {
			continue
		}
		mounts, err := os.ReadFile(filepath.Join(p, "mountinfo"))
		if err != nil {
			continue
		}
		command, err := os.ReadFile(filepath.Join(p, "cmdline"))
		if err != nil || !strings.Contains(string(command), name) {
			continue
		}
		if strings.Contains(string(mounts), dir) || strings.Contains(string(command), dir) {
			out = append(out, fmt.Sprintf("%s %q", p, command))
		}
	}
	return out
}

// groups lists the control groups of a cluster.
func groups(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		found, err := filepath.Glob(filepath.Join(pattern, enclosure.Group(dir)))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, found...)
	}
	return out
}
