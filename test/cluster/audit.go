package cluster

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// apiServer is the component that refuses.
const apiServer = "kube-apiserver"

// refusals are what operators are refused on purpose.
type refusals struct {
	sync.Mutex
	expected []expected
}

// expected are refusals that a test brings about. Until the test is over, until is zero.
type expected struct {
	test        string
	from, until time.Time
	what        *regexp.Regexp
}

// ExpectRefusals names refusals that a test brings about from now on until it is over, as a regular expression of
// "verb path: message", and why; all others fail the package.
func (c *Cluster) ExpectRefusals(t testing.TB, why, what string) {
	t.Helper()
	t.Logf("the operator may be refused %q until the end of the test: %s", what, why)
	c.refusals.Lock()
	c.refusals.expected = append(c.refusals.expected, expected{test: t.Name(), from: time.Now(), what: regexp.MustCompile(what)})
	c.refusals.Unlock()
	c.expectUntilTheEnd(t)
}

// expectUntilTheEnd has what a test expects end with the test. Cleanups run last in, first out, and operators that started
// before ExpectRefusals was called are refused until they stop: so it is called when the test asks for the cluster, too, and the
// cleanup that runs last decides.
func (c *Cluster) expectUntilTheEnd(t testing.TB) {
	t.Helper()
	t.Cleanup(func() {
		c.refusals.Lock()
		defer c.refusals.Unlock()
		for i := range c.refusals.expected {
			if e := &c.refusals.expected[i]; e.test == t.Name() {
				e.until = time.Now()
			}
		}
	})
}

// expectRefusalsSince allows every refusal from a time until now.
func (c *Cluster) expectRefusalsSince(from time.Time) {
	c.refusals.Lock()
	defer c.refusals.Unlock()
	c.refusals.expected = append(c.refusals.expected, expected{from: from, until: time.Now(), what: regexp.MustCompile("")})
}

// auditEvent is the part of an event of audit.k8s.io that is looked at.
type auditEvent struct {
	Verb, RequestURI         string
	RequestReceivedTimestamp metav1.MicroTime
	User                     struct{ Username string }
	ImpersonatedUser         *struct{ Username string }
	ResponseStatus           metav1.Status
}

// auditLog is the path of the audit log, which has the requests of the ServiceAccounts of the operator's namespace.
func (c *Cluster) auditLog() string { return filepath.Join(c.Dir, "audit.log") }

// Granted says what the operators were refused for lack of a right, but for what a test expects, each once. It is an error, too,
// if none of the requests of such an operator is logged, or of a ServiceAccount that is named.
func (c *Cluster) Granted(accounts ...string) error {
	f, err := os.Open(c.auditLog())
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	c.operators.Lock()
	silent := map[string]bool{}
	for account := range c.operators.configs {
		silent[userOf(account)] = true
	}
	c.operators.Unlock()
	for _, account := range accounts {
		silent[userOf(account)] = true
	}
	var denied []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		// Few lines are decoded, since there are many of them.
		if len(silent) == 0 && !bytes.Contains(lines.Bytes(), []byte(`"code":403`)) {
			continue
		}
		var event auditEvent
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return fmt.Errorf("read the audit log: %w", err)
		}
		delete(silent, event.User.Username)
		if line := event.refused(); line != "" && !c.expects(event.RequestReceivedTimestamp.Time, line) && !slices.Contains(denied, line) {
			denied = append(denied, line)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the audit log: %w", err)
	}
	for user := range silent {
		return fmt.Errorf("the audit log has no request of %s", user)
	}
	if len(denied) > 0 {
		return errors.New("the roles or the policies of config/ allow too little:\n" + strings.Join(denied, "\n"))
	}
	return nil
}

// Requested are the requests of an operator since a time, as "verb path", by its ServiceAccount.
func (c *Cluster) Requested(account string, since time.Time) ([]string, error) {
	f, err := os.Open(c.auditLog())
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var out []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event auditEvent
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		if event.User.Username == userOf(account) && event.RequestReceivedTimestamp.After(since) {
			path, _, _ := strings.Cut(event.RequestURI, "?")
			out = append(out, event.Verb+" "+path)
		}
	}
	return out, lines.Err()
}

// expects says that a test expects the refusal.
func (c *Cluster) expects(at time.Time, line string) bool {
	c.refusals.Lock()
	defer c.refusals.Unlock()
	return slices.ContainsFunc(c.refusals.expected, func(e expected) bool {
		return !at.Before(e.from) && (e.until.IsZero() || !at.After(e.until)) && e.what.MatchString(line)
	})
}

// admission are the refusals of code 403 that no right would have prevented, by their messages: of the plugins ResourceQuota,
// PodSecurity, PersistentVolumeClaimResize and ValidatingAdmissionPolicy, of webhooks, and of definitions that are being deleted.
var admission = []string{
	"exceeded quota: ", "violates PodSecurity ", "ValidatingAdmissionPolicy ", "admission webhook ",
	"only dynamically provisioned pvc can be resized",
	"create not allowed while custom resource definition is terminating",
}

// ownPolicies begins the message of a refusal by a policy of config/admission.
const ownPolicies = "ValidatingAdmissionPolicy 'mlkeeper-"

// refused describes the request if it was refused for lack of a right of the operator's own, or by a policy that is shipped with it.
func (e auditEvent) refused() string {
	status := e.ResponseStatus
	if status.Code != http.StatusForbidden {
		return ""
	}
	// What the ServiceAccount of a tenant may not do is no matter of the operator's roles. A refusal to act as that
	// ServiceAccount has no impersonated user in the log.
	if e.ImpersonatedUser != nil {
		return ""
	}
	if !strings.Contains(status.Message, ownPolicies) &&
		slices.ContainsFunc(admission, func(text string) bool { return strings.Contains(status.Message, text) }) {
		return ""
	}
	if d := status.Details; d != nil && slices.ContainsFunc(d.Causes, func(c metav1.StatusCause) bool {
		return c.Type == corev1.NamespaceTerminatingCause
	}) {
		return ""
	}
	path, _, _ := strings.Cut(e.RequestURI, "?")
	return fmt.Sprintf("%s %s: %s", e.Verb, path, status.Message)
}
