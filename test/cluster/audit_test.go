package cluster

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestWhatATestExpectsEndsWithIt: on a shared cluster the refusals of later tests count, and those count as expected that an
// operator meets after the body of the test and before it is stopped.
func TestWhatATestExpectsEndsWithIt(t *testing.T) {
	c := &Cluster{Dir: t.TempDir()}
	refused := func(path string) {
		t.Helper()
		f, err := os.OpenFile(c.auditLog(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		_, err = fmt.Fprintf(f, `{"verb":"get","requestURI":%q,"requestReceivedTimestamp":%q,"responseStatus":{"code":403,"message":"no"}}`+"\n",
			path, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("expects", func(t *testing.T) {
		c.expectUntilTheEnd(t)                           // As Shared does.
		t.Cleanup(func() { refused("/while/it/stops") }) // As an operator that started before.
		c.ExpectRefusals(t, "the test says so", "^get /while/")
		refused("/while/it/runs")
		t.Run("in a part", func(*testing.T) { refused("/while/a/part/runs") })
	})
	if err := c.Granted(); err != nil {
		t.Errorf("what the test expected fails the package: %v", err)
	}
	t.Run("expects nothing", func(t *testing.T) {
		c.expectUntilTheEnd(t)
		refused("/while/another/runs")
	})
	if err := c.Granted(); err == nil || strings.Count(err.Error(), "get /") != 1 || !strings.Contains(err.Error(), "get /while/another/runs: no") {
		t.Errorf("what a later test is refused: %v", err)
	}
}
