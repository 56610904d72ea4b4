package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// Defect 13: without the InferenceService API upstream ended, without those of Route and ServiceMonitor it looped.
func Test_Defect13_AbsentAPIsAreSkippedAndUsedOnceTheyAppear(t *testing.T) {
	c := cluster.Start(t)
	start(t, c, harness.Options{})
	ns := c.Namespace(t)
	volume(t, c, pvName(ns))
	c.Apply(t, adr(pvName(ns)), ns)
	condition(t, c, ns, example, "Ready", metav1.ConditionTrue)
	skipped := strings.Join(get(t, c, ns, example).Status.Skipped, "\n")
	for _, want := range []string{"Route " + ns + "/trustyai", "route.openshift.io/v1", "ServiceMonitor " + ns + "/trustyai-metrics", "monitoring.coreos.com/v1"} {
		if !strings.Contains(skipped, want) {
			t.Errorf("status.skipped does not name %s:\n%s", want, skipped)
		}
	}
	if got := condition(t, c, ns, example, "RouteAvailable", metav1.ConditionFalse); got.Reason != "RouteAPINotServed" {
		t.Errorf("RouteAvailable says %s: %s", got.Reason, got.Message)
	}
	c.InstallDefinitions(t, "route", "servicemonitor", "inferenceservice")
	cluster.Eventually(t, 60*time.Second, func() error {
		for _, u := range []struct{ apiVersion, kind, name string }{
			{"route.openshift.io/v1", "Route", "trustyai"}, {"monitoring.coreos.com/v1", "ServiceMonitor", "trustyai-metrics"},
		} {
			if _, err := c.TryKubectl("-n", ns, "get", strings.ToLower(u.kind), u.name); err != nil {
				return err
			}
		}
		if now := get(t, c, ns, example).Status.Skipped; len(now) > 0 {
			return fmt.Errorf("status.skipped is %v", now)
		}
		return nil
	})
	condition(t, c, ns, example, "RouteAvailable", metav1.ConditionTrue)
	condition(t, c, ns, example, "Ready", metav1.ConditionTrue)
	c.Apply(t, inferenceService("late", raw, ""), ns)
	loggerIs(t, c, ns, "late", "http://trustyai-service."+ns+".svc.cluster.local")
}
