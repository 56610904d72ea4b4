package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// binaryEnv names another devcluster binary than bin/devcluster of the repository.
const binaryEnv = "MLKEEPER_DEVCLUSTER"

// Root returns the root folder of the repository, found upwards from the working directory of the test.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(data, []byte("module mlkeeper.dev\n")) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod of mlkeeper.dev above the working directory: run the test inside the repository")
		}
		dir = parent
	}
}

// Binary returns the path of devcluster and builds it where it is missing. The test packages run in parallel; a lock
// file makes one of them build and the others wait.
func Binary() (string, error) {
	if path := os.Getenv(binaryEnv); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%s: %w: unset it to use bin/devcluster", binaryEnv, err)
		}
		return filepath.Abs(path)
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, "bin", "devcluster")
	if executable(path) {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(root, "bin", ".devcluster.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if executable(path) {
		return path, nil
	}
	return path, build(root, path)
}

// build compiles devcluster with the flags of the Makefile, so that both share Go's build cache, and puts it in place
// in one step.
func build(root, path string) error {
	ldflags, err := os.ReadFile(filepath.Join(root, "devcluster", "ldflags.txt"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	temp := path + ".new"
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", strings.TrimSpace(string(ldflags)), "-o", temp, ".")
	cmd.Dir = filepath.Join(root, "devcluster")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	fmt.Fprintln(os.Stderr, "cluster: bin/devcluster is missing and is being built, which takes minutes the first time")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build devcluster: %w\n%s", err, out)
	}
	return os.Rename(temp, path)
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}
