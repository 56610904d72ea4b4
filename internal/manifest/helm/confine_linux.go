package helm

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// limitMemory bounds what this process may take beyond what it has. Go reserves addresses for more than it uses, so that those that
// it has do not count.
func limitMemory(bytes uint64) error {
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return fmt.Errorf("bound the memory: %w", err)
	}
	size, _, _ := strings.Cut(string(raw), " ")
	pages, err := strconv.ParseUint(size, 10, 64)
	if err != nil {
		return fmt.Errorf("bound the memory: %w", err)
	}
	most := pages*uint64(os.Getpagesize()) + bytes //nolint:gosec // a page has a size
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
		return fmt.Errorf("bound the memory: %w", err)
	}
	return nil
}
