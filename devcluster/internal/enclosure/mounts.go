package enclosure

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// furnishMounts gives the enclosure its own /proc and /run, and its own versions
// of the folders whose paths kubelet and containerd have built in. Files
// elsewhere are the machine's, so that volumes and logs are where they seem.
func furnishMounts() error {
	// Nothing that is mounted here may show outside.
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	if err := mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return err
	}
	if err := errors.Join(
		replace("/var/lib", "kubelet", "cni"),
		replace("/var/log", "containers", "pods"),
	); err != nil {
		return err
	}
	// Within, what is mounted must show everywhere, as on any node. Before now it
	// would have shown in the replaced folders as well.
	return mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")
}

// replace gives the enclosure its own, empty version of some entries of a
// folder. The folder itself becomes a new one, into which every other entry is
// mounted: so nothing has to be made outside, where it would have to be removed
// again while another cluster may need it.
func replace(folder string, fresh ...string) error {
	old := filepath.Join("/run/replaced", folder)
	if err := os.MkdirAll(old, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	if err := mount(folder, old, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	if err := mount("tmpfs", folder, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return err
	}
	for _, e := range entries {
		if slices.Contains(fresh, e.Name()) {
			continue
		}
		if err := carryOver(filepath.Join(old, e.Name()), filepath.Join(folder, e.Name()), e.Type()); err != nil {
			return err
		}
	}
	for _, name := range fresh {
		if err := os.Mkdir(filepath.Join(folder, name), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// carryOver makes an entry of the old folder one of the new.
func carryOver(from, to string, kind os.FileMode) error {
	switch {
	case kind&os.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case kind.IsDir():
		if err := os.Mkdir(to, 0o755); err != nil {
			return err
		}
	case kind.IsRegular():
		if err := os.WriteFile(to, nil, 0o600); err != nil {
			return err
		}
	default:
		// Nobody in the enclosure speaks through a socket or a pipe of the machine.
		return nil
	}
	return mount(from, to, "", unix.MS_BIND|unix.MS_REC, "")
}

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mount %s: %w", target, err)
	}
	return nil
}
