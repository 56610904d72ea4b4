package worker

import (
	"fmt"
	"math"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// niceness has the scheduler prefer the manager, and oomScoreAdj has the kernel end a worker first where memory runs out.
	niceness    = 10
	oomScoreAdj = "1000"
	// streams are the descriptors that a worker has, and all that it may have.
	streams = 3
	// reserved are addresses that Go takes and does not use: it reserves 64 MiB at a time, aligned, at addresses that are random. In bytes.
	reserved = 512 << 20
)

// The fields of /proc/self/statm in pages (proc(5)): all addresses, and those that hold data of this process alone.
const statmSize, statmData, statmFields = 0, 5, 7

// setLimits bounds what this process may do from now on. Of memory it is what it takes beyond what it has. What counts is data (RLIMIT_DATA,
// which Linux has counted mappings to since 4.7) and not addresses, which Go reserves more of than it uses. Addresses are bounded
// more widely, for kernels that count no mappings.
func setLimits(l limits) error {
	exitWhenExceeded()
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return fmt.Errorf("bound the memory: %w", err)
	}
	fields := strings.Fields(string(raw))
	if len(fields) < statmFields {
		return fmt.Errorf("bound the memory: /proc/self/statm is %q", raw)
	}
	size, err := bytesOf(fields[statmSize])
	if err != nil {
		return err
	}
	data, err := bytesOf(fields[statmData])
	if err != nil {
		return err
	}
	// Neither bounds anything; where one is forbidden, the rest holds.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte(oomScoreAdj), 0o600)
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, niceness)
	for _, one := range []struct {
		resource int
		most     uint64
	}{
		{syscall.RLIMIT_DATA, data + l.Memory},
		{syscall.RLIMIT_AS, size + l.Memory + reserved},
		{syscall.RLIMIT_CPU, l.TotalTime + 1}, // later than the signal
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

// exitWhenExceeded ends this process at the signal that comes where the soft limit of a step is reached; the kernel ends it at the hard one,
// whatever it does.
func exitWhenExceeded() {
	exceeded := make(chan os.Signal, 1)
	signal.Notify(exceeded, syscall.SIGXCPU)
	go func() {
		<-exceeded
		os.Exit(exitCPUTime)
	}()
}

// cpuTime is the processor time that this process has taken.
func cpuTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// bytesOf is a number of pages in bytes.
func bytesOf(pages string) (uint64, error) {
	n, err := strconv.ParseUint(pages, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("bound the memory: %w", err)
	}
	return n * uint64(os.Getpagesize()), nil //nolint:gosec // a page has a size
}

// limitCPU has the kernel send a signal when this process has taken so many seconds of processor time, as far as it may.
func limitCPU(seconds, total uint64) error {
	return syscall.Setrlimit(syscall.RLIMIT_CPU, &syscall.Rlimit{Cur: min(seconds, total), Max: total + 1})
}

// keepDescriptors has no child of this process inherit what it has open, nor what it inherited itself. Go sees to the former alone.
func keepDescriptors() {
	// A kernel before 5.11 has no such call, and what is inherited there cannot be found without a race.
	_ = unix.CloseRange(streams, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
}
