package enclosure

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// removeLimit is how long the kernel may take to let go of ended processes.
const removeLimit = 10 * time.Second

// Group is the control group of all pods of the cluster in a folder. Control
// groups belong to the whole machine, so the name is the cluster's own.
func Group(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return "/devcluster-" + hex.EncodeToString(sum[:8])
}

// MakeGroup makes a control group in every hierarchy: a kubelet does not make the
// root of its own.
func MakeGroup(group string) error {
	roots, err := mounted()
	if err != nil {
		return err
	}
	for _, root := range roots {
		delegate(root)
		if err := os.MkdirAll(filepath.Join(root, group), 0o755); err != nil {
			return fmt.Errorf("make the control group of the pods: %w", err)
		}
	}
	return nil
}

// delegate lets the groups below the root of a version 2 hierarchy use its
// controllers. Most machines have this done at their start. What a machine does
// not allow shows when the kubelet looks for it.
func delegate(root string) {
	available, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return
	}
	for _, controller := range strings.Fields(string(available)) {
		_ = os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+"+controller), 0)
	}
}

// RemoveGroup removes a control group with all that is below it, in every
// hierarchy. No process may be left in it; one that is just ending is awaited.
func RemoveGroup(group string) error {
	roots, err := mounted()
	if err != nil {
		return err
	}
	var errs []error
	for _, root := range roots {
		errs = append(errs, removeTree(filepath.Join(root, group)))
	}
	return errors.Join(errs...)
}

// mounted lists where control groups are mounted on this machine.
func mounted() ([]string, error) {
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer func() { _ = mounts.Close() }()
	return hierarchies(mounts)
}

// hierarchies lists where control groups are mounted, from the text of mountinfo.
func hierarchies(mountinfo io.Reader) ([]string, error) {
	var out []string
	lines := bufio.NewScanner(mountinfo)
	for lines.Scan() {
		// The number of fields before the dash varies.
		before, after, found := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(before)
		if !found || len(fields) < 5 {
			continue
		}
		if kind, _, _ := strings.Cut(after, " "); kind == "cgroup" || kind == "cgroup2" {
			out = append(out, fields[4])
		}
	}
	return out, lines.Err()
}

// removeTree removes the folders of a control group, the deepest first; their
// files cannot be removed and go with them.
func removeTree(root string) error {
	var folders []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && entry.IsDir() {
			folders = append(folders, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	for i := len(folders) - 1; i >= 0; i-- {
		if err := removeFolder(folders[i]); err != nil {
			return err
		}
	}
	return nil
}

func removeFolder(path string) error {
	for deadline := time.Now().Add(removeLimit); ; time.Sleep(20 * time.Millisecond) {
		// Not os.Remove, whose error is that of a second attempt as a file.
		err := syscall.Rmdir(path)
		switch {
		case err == nil || errors.Is(err, syscall.ENOENT):
			return nil
		case !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline):
			return fmt.Errorf("remove the control group %s: %w", path, err)
		}
	}
}
