package enclosure

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Init is the first process of an enclosure. It furnishes the namespaces, starts
// the supervisor, and stays because a first process inherits every orphan, the
// containers' shims among them: somebody has to collect their exit codes, and
// that cannot be the supervisor, who waits for its own children.
func Init(args []string) int {
	if err := furnish(); err != nil {
		fmt.Fprintln(os.Stderr, "devcluster: preparing the namespaces of the node:", err)
		return 1
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	supervisor, err := os.StartProcess("/proc/self/exe", append([]string{"devcluster"}, args...), &os.ProcAttr{
		Env:   append(os.Environ(), "PATH="+searchPath()),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, os.NewFile(ListenerFile, "listener")},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "devcluster: starting the supervisor:", err)
		return 1
	}
	go func() {
		for s := range signals {
			// One that has just ended needs no signal.
			_ = supervisor.Signal(s)
		}
	}()
	return collect(supervisor.Pid)
}

// collect waits for every child there is until the wanted one ends, and returns
// its exit code. Whatever is left is killed with this process.
func collect(wanted int) int {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			fmt.Fprintln(os.Stderr, "devcluster: waiting for the supervisor:", err)
			return 1
		case pid == wanted && status.Signaled():
			return 128 + int(status.Signal())
		case pid == wanted:
			return status.ExitStatus()
		}
	}
}

// furnish makes the namespaces a machine that a kubelet can use.
func furnish() error {
	if err := furnishMounts(); err != nil {
		return err
	}
	return furnishNetwork()
}
