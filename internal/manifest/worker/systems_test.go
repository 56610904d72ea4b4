package worker

import (
	"os"
	"os/exec"
	"testing"
)

// TestItBuildsForOtherSystems: the command line, which renders as well, is released for systems that bound no process as Linux does.
func TestItBuildsForOtherSystems(t *testing.T) {
	for _, system := range []string{"darwin", "windows"} {
		build := exec.CommandContext(t.Context(), "go", "build", ".")
		build.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", system, err, out)
		}
	}
}
