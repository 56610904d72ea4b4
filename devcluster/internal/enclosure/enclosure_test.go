package enclosure

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestHierarchies(t *testing.T) {
	const mountinfo = `22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:26 / /sys/fs/cgroup rw shared:9 - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw shared:10 master:2 - cgroup2 cgroup2 rw
32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct

damaged
`
	got, err := hierarchies(strings.NewReader(mountinfo))
	if want := []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup/cpu,cpuacct"}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestGroupsOfClustersDiffer(t *testing.T) {
	a, b := Group("/a"), Group("/b")
	if a == b || !strings.HasPrefix(a, "/devcluster-") || a != Group("/a") {
		t.Errorf("%s and %s", a, b)
	}
}

func TestTreeIsRemovedFromBelow(t *testing.T) {
	root := filepath.Join(t.TempDir(), "group")
	if err := os.MkdirAll(filepath.Join(root, "pods", "one"), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 { // What is gone already is no error.
		if err := removeTree(root); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(root); !os.IsNotExist(err) {
		t.Errorf("it is left: %v", err)
	}
}

func TestSearchPathHasTheFoldersOfAdministrators(t *testing.T) {
	t.Setenv("PATH", "/own:/usr/bin")
	if got := searchPath(); got != "/own:/usr/bin:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/bin" {
		t.Errorf("got %s", got)
	}
}

func TestMissingProgramsAreNamedWithTheirPackages(t *testing.T) {
	if err := Require(); os.Geteuid() != 0 {
		if err == nil || !strings.Contains(err.Error(), "root") {
			t.Errorf("without root: %v", err)
		}
		return
	}
	then := programs
	t.Cleanup(func() { programs = then })
	programs = append(programs[:len(programs):len(programs)], struct{ name, pkg string }{"no-such-program", "its-package"})
	if err := Require(); err == nil || !strings.Contains(err.Error(), "no-such-program") || !strings.Contains(err.Error(), "its-package") {
		t.Errorf("got %v", err)
	}
}
