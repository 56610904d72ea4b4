package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
)

// Audited reads the audit log of a cluster that has one: how many requests a ServiceAccount sent, and which of them were
// refused for lack of a right, each once.
func (c *Cluster) Audited(namespace, serviceAccount string) (requests int, denied []string, err error) {
	f, err := os.Open(c.AuditLog)
	if err != nil {
		return 0, nil, err
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
			return 0, nil, fmt.Errorf("read the audit log: %w", err)
		}
		if event.User.Username != "system:serviceaccount:"+namespace+":"+serviceAccount {
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
	if lines.Err() == nil && requests == 0 {
		return 0, nil, errors.New("the audit log has no request of the ServiceAccount " + namespace + "/" + serviceAccount)
	}
	return requests, denied, lines.Err()
}
