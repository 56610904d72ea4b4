package worker

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// ownNiceness has the scheduler prefer the manager, and firstToEnd has the kernel end a worker first where memory runs out.
	ownNiceness = 10
	firstToEnd  = "1000"
	// streams are the descriptors that a worker has, and all that it may have.
	streams = 3
)

// confine bounds what this process may do from now on. Of memory it is what it takes beyond what it has: Go reserves addresses for more
// than it uses, so that those that it has do not count.
func confine(l limits) error {
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return fmt.Errorf("bound the memory: %w", err)
	}
	size, _, _ := strings.Cut(string(raw), " ")
	pages, err := strconv.ParseUint(size, 10, 64)
	if err != nil {
		return fmt.Errorf("bound the memory: %w", err)
	}
	// Neither bounds anything; where one is forbidden, the rest holds.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte(firstToEnd), 0o600)
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, ownNiceness)
	for _, one := range []struct {
		resource int
		most     uint64
	}{
		{syscall.RLIMIT_AS, pages*uint64(os.Getpagesize()) + l.Memory}, //nolint:gosec // a page has a size
		{syscall.RLIMIT_CPU, l.Total + 1},                              // later than the signal
		{syscall.RLIMIT_CORE, 0},
		{syscall.RLIMIT_FSIZE, 0},
		{syscall.RLIMIT_NOFILE, streams},
	} {
		if err := syscall.Setrlimit(one.resource, &syscall.Rlimit{Cur: one.most, Max: one.most}); err != nil {
			return fmt.Errorf("bound the process: %w", err)
		}
	}
	return nil
}

// confinePiece has the kernel send a signal when this process has taken so many seconds of processor time, as far as it may.
func confinePiece(seconds, total uint64) error {
	return syscall.Setrlimit(syscall.RLIMIT_CPU, &syscall.Rlimit{Cur: min(seconds, total), Max: total + 1})
}

// keepDescriptors has no child of this process inherit what it has open, nor what it inherited itself. Go sees to the former alone.
func keepDescriptors() {
	// A kernel before 5.11 has no such call, and what is inherited there cannot be found without a race.
	_ = unix.CloseRange(streams, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
}
