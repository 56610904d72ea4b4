package audit

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	created = `{"kind":"Event","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/a/services?fieldManager=m","verb":"create","user":{"username":"op"},"objectRef":{"resource":"services","namespace":"a","name":"s","apiVersion":"v1"},"responseStatus":{"code":201},"requestReceivedTimestamp":"2026-01-01T00:00:00.000000Z","stageTimestamp":"2026-01-01T00:00:00.250000Z"}`
	status  = `{"stage":"ResponseComplete","requestURI":"/x","verb":"patch","user":{"username":"op"},"objectRef":{"resource":"deployments","namespace":"a","name":"d","apiGroup":"apps","apiVersion":"v1","subresource":"status"},"responseStatus":{"code":409},"requestReceivedTimestamp":"2026-01-01T00:00:00Z","stageTimestamp":"2026-01-01T00:00:01Z"}`
	opened  = `{"stage":"ResponseStarted","requestURI":"/api/v1/pods?watch=1","verb":"watch","user":{"username":"op"},"objectRef":{"resource":"pods","apiVersion":"v1"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-01-01T00:00:00Z","stageTimestamp":"2026-01-01T00:00:00Z"}`
	ended   = `{"stage":"ResponseComplete","requestURI":"/api/v1/pods?watch=1","verb":"watch","user":{"username":"op"},"objectRef":{"resource":"pods","apiVersion":"v1"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-01-01T00:00:00Z","stageTimestamp":"2026-01-01T00:09:00Z"}`
	refused = `{"stage":"ResponseComplete","requestURI":"/api/v1/pods?watch=1","verb":"watch","user":{"username":"op"},"objectRef":{"resource":"pods","apiVersion":"v1"},"responseStatus":{"code":403},"requestReceivedTimestamp":"2026-01-01T00:00:00Z","stageTimestamp":"2026-01-01T00:00:00Z"}`
	other   = `{"stage":"ResponseComplete","requestURI":"/apis","verb":"get","user":{"username":"other"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-01-01T00:00:00Z","stageTimestamp":"2026-01-01T00:00:00Z"}`
	lease   = `{"stage":"ResponseComplete","requestURI":"/x","verb":"update","user":{"username":"op"},"objectRef":{"resource":"leases","namespace":"n","name":"l","apiGroup":"coordination.k8s.io"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-01-01T00:00:00Z","stageTimestamp":"2026-01-01T00:00:00Z"}`
)

func write(t *testing.T, lines ...string) *Log {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return Open(path)
}

func TestAWatchCountsOnceWhenItStarts(t *testing.T) {
	entries, err := write(t, created, opened, ended, other, "").Entries(0, "op")
	if err != nil || len(entries) != 2 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	if entries[0].Class() != Write || entries[1].Class() != Watch {
		t.Fatalf("classes %s and %s", entries[0].Class(), entries[1].Class())
	}
	if took := entries[0].Done.Sub(entries[0].Received).Milliseconds(); took != 250 {
		t.Errorf("the write took %d ms", took)
	}
}

func TestWatchesThatWereOpen(t *testing.T) {
	watch := func(id, stage, namespace, at string) string {
		return strings.NewReplacer("<id>", id, "<stage>", stage, "<ns>", namespace, "<at>", at).Replace(
			`{"auditID":"<id>","stage":"<stage>","requestURI":"/x?watch=1","verb":"watch","user":{"username":"op"},` +
				`"objectRef":{"resource":"secrets","namespace":"<ns>","apiVersion":"v1"},"responseStatus":{"code":200},` +
				`"requestReceivedTimestamp":"2026-01-01T00:00:00Z","stageTimestamp":"2026-01-01T00:<at>:00Z"}`)
	}
	log := write(t,
		watch("1", "ResponseStarted", "a", "00"), watch("2", "ResponseStarted", "b", "00"), watch("3", "ResponseStarted", "c", "00"),
		watch("2", "ResponseComplete", "b", "05"), watch("3", "ResponseComplete", "c", "15"), "")
	open, err := log.Watching("op", time.Date(2026, 1, 1, 0, 10, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	var namespaces []string
	for _, e := range open {
		namespaces = append(namespaces, e.NS)
	}
	if slices.Sort(namespaces); strings.Join(namespaces, " ") != "a c" {
		t.Errorf("open in %v", namespaces)
	}
}

func TestARefusedWatchCounts(t *testing.T) {
	entries, err := write(t, refused, "").Entries(0, "op")
	if err != nil || len(entries) != 1 || entries[0].OK() {
		t.Fatalf("%+v, %v", entries, err)
	}
}

func TestAnIncompleteLineIsLeftForLater(t *testing.T) {
	log := write(t, created, status[:40])
	var seen []Entry
	mark, err := log.Since(0, "op", func(e Entry) { seen = append(seen, e) })
	if err != nil || len(seen) != 1 || mark != Mark(len(created)+1) {
		t.Fatalf("%d entries up to %d: %v", len(seen), mark, err)
	}
}

func TestOfAllUsers(t *testing.T) {
	entries, err := write(t, created, other, "").Entries(0, "")
	if err != nil || len(entries) != 2 || entries[1].Class() != Discovery || entries[1].Kind() != "get /apis" {
		t.Fatalf("%+v, %v", entries, err)
	}
}

func TestTallyLeavesLeasesOut(t *testing.T) {
	entries, err := write(t, created, status, lease, "").Entries(0, "op")
	if err != nil {
		t.Fatal(err)
	}
	tally := Count(entries)
	if tally.Class[Write] != 2 || tally.Class[Lease] != 1 || len(Writes(entries)) != 2 {
		t.Errorf("%+v", tally)
	}
	if got := tally.String(); got != "1 create services, 1 patch deployments.apps/status; of these failed: 1 patch deployments.apps/status: 409" {
		t.Errorf("printed %q", got)
	}
	if tally.Failed["patch deployments.apps/status: 409"] != 1 {
		t.Errorf("failures %v", tally.Failed)
	}
}

func TestALogThatIsNotThereIsEmpty(t *testing.T) {
	log := Open(filepath.Join(t.TempDir(), "none"))
	if entries, err := log.Entries(log.Mark(), ""); err != nil || len(entries) != 0 {
		t.Fatalf("%v, %v", entries, err)
	}
}
