package pause

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

func TestProgramsAreExecutables(t *testing.T) {
	for arch, m := range machines {
		raw, err := Program(arch)
		if err != nil {
			t.Fatal(err)
		}
		f, err := elf.NewFile(bytes.NewReader(raw))
		if err != nil {
			t.Fatalf("%s: %v", arch, err)
		}
		if f.Type != elf.ET_EXEC || uint16(f.Machine) != m.id || len(f.Progs) != 1 || f.Progs[0].Filesz != uint64(len(raw)) {
			t.Errorf("%s: unexpected header %+v, %+v", arch, f.FileHeader, f.Progs)
		}
		if offset := f.Entry - f.Progs[0].Vaddr; !bytes.Equal(raw[offset:], m.code) {
			t.Errorf("%s: the entry is not the code", arch)
		}
	}
	if _, err := Program("pdp11"); err == nil {
		t.Error("an unknown architecture is accepted")
	}
}

// TestProgramWaits runs the program of this machine.
func TestProgramWaits(t *testing.T) {
	raw, err := Program(runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "pause")
	if err := os.WriteFile(path, raw, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		t.Fatalf("it ended by itself: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("it ended as if nobody had killed it")
	}
}
