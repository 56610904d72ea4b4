package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// TestWhatLeadsToPodsThatStayStaysWithThem has a Plain service become Secured with a Secret that does not exist yet. Its pods stay, and so do the
// ports of its Service and the logger that sends to them, and nothing closes the port without TLS. All of it follows once the Secret is there.
func TestWhatLeadsToPodsThatStayStaysWithThem(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	ns := c.Namespace(t)
	c.Apply(t, databaseSecret("db"), ns)
	c.Apply(t, withDatabase("tas"), ns)
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
	c.Apply(t, inferenceService("model", raw, ""), ns)
	host := "://tas." + ns + ".svc.cluster.local"
	loggerIs(t, c, ns, "model", "http"+host)
	wiringIs(t, c, ns, "tas", "model", metav1.ConditionTrue)
	shape := func() string {
		spec := c.Get(t, gvkOf("v1", "Service"), ns, "tas").Object["spec"].(map[string]any)
		pods := c.Get(t, gvkOf("apps/v1", "Deployment"), ns, "tas").GetGeneration()
		policy := c.Get(t, gvkOf("networking.k8s.io/v1", "NetworkPolicy"), ns, "tas-secured") != nil
		return fmt.Sprint(spec["ports"], pods, policy, logger(t, c, ns, "model"), get(t, c, ns, "tas").Status.URL)
	}
	before := shape()

	c.Apply(t, strings.Replace(withDatabase("tas"), "exposure: Plain", "exposure: Secured\n  tls: {secretName: mine}", 1), ns)
	if told := condition(t, c, ns, "tas", "Ready", metav1.ConditionFalse); told.Reason != "TLSSecretNotFound" {
		t.Errorf("Ready says %+v", told)
	}
	cluster.Consistently(t, 3*time.Second, func() error {
		if now := shape(); now != before {
			return fmt.Errorf("it was %s and is %s", before, now)
		}
		return nil
	})

	c.Apply(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: mine}\ntype: kubernetes.io/tls\nstringData: {tls.crt: a, tls.key: b}", ns)
	loggerIs(t, c, ns, "model", "https"+host)
	cluster.Eventually(t, 30*time.Second, func() error {
		if now := shape(); !strings.Contains(now, "true") || !strings.Contains(now, "443") {
			return errors.New("it is " + now)
		}
		return nil
	})
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
}
