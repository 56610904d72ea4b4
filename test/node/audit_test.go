//go:build realnode

package node

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"mlkeeper.dev/test/cluster"
)

// audit counts the requests of the operator's ServiceAccount, and lists those that were denied.
func audit(t *testing.T, c *cluster.Cluster) (requests int, denied []string) {
	t.Helper()
	f, err := os.Open(c.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct {
			Verb, RequestURI string
			User             struct{ Username string }
			ResponseStatus   struct {
				Code    int
				Message string
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatalf("the audit log cannot be read: %v", err)
		}
		if event.User.Username != "system:serviceaccount:"+operatorNamespace+":"+operatorDeployment {
			continue
		}
		requests++
		if event.ResponseStatus.Code == http.StatusForbidden {
			path, _, _ := strings.Cut(event.RequestURI, "?")
			line := fmt.Sprintf("%s %s: %s", event.Verb, path, event.ResponseStatus.Message)
			if !slices.Contains(denied, line) {
				denied = append(denied, line)
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return requests, denied
}
