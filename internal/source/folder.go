package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// lockName is the file whose lock says that a process uses a folder. ownPrefix begins the names of the folders of processes that came when
// another one had the lock.
const lockName, ownPrefix = "lock", "own-"

// occupy takes the folder of the store for this process alone. Where another process has it, as while a manager is replaced that keeps its
// folder on a volume, this one uses a folder of its own in it: neither removes what the other fetches.
func (s *Store) occupy() error {
	dir := s.options.Dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	held, err := lock(filepath.Join(dir, lockName))
	if err == nil {
		s.locked = held
		removeAbandoned(dir)
		return nil
	}
	if !errors.Is(err, errLocked) {
		// Some file systems have no locks. What follows from two processes there is noticed, and fetched again.
		s.options.Log.Info("The folder of the store cannot be locked; give it to one process alone", "reason", err.Error())
		return nil
	}
	own, err := os.MkdirTemp(dir, ownPrefix)
	if err != nil {
		return err
	}
	s.options.Log.Info("Another process has the folder of the store; this one uses a folder of its own in it", "folder", filepath.Base(own))
	s.options.Dir, s.own = own, true
	if s.locked, err = lock(filepath.Join(own, lockName)); err != nil {
		return fmt.Errorf("lock a folder of its own: %w", err)
	}
	return nil
}

// removeAbandoned removes the folders of processes that have ended.
func removeAbandoned(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ownPrefix) {
			continue
		}
		held, err := lock(filepath.Join(dir, e.Name(), lockName))
		if err != nil {
			continue
		}
		_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		_ = held.Close()
	}
}

// leave gives the folder back, and removes one of its own.
func (s *Store) leave() {
	if s.own {
		_ = os.RemoveAll(s.options.Dir)
	}
	if s.locked != nil {
		_ = s.locked.Close()
	}
}
