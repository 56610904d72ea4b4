//go:build unix

package source

import (
	"errors"
	"os"
	"syscall"
)

// errLocked says that another process has a folder.
var errLocked = errors.New("another process has it")

// lock has no other process take a folder until its file is closed, or this process has ended.
func lock(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) //nolint:gosec // a descriptor is small
	if err == nil {
		return file, nil
	}
	_ = file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errLocked
	}
	return nil, err
}
