package kserve

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/test/acmruntime"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// TestDelivery plays what brokers do to records. Every order is acknowledged, and none has an effect twice.
func TestDelivery(t *testing.T) {
	s := onKafka(t, acmruntime.London)
	s.start()
	c := s.primed(map[string]any{})

	t.Run("a duplicate", func(t *testing.T) {
		i := s.deployed(c, s.model("duplicate", sklearn(1)))
		s.quiet(func() {
			// The runtime takes every acknowledgement for that of its last order: a second one might be of another by then.
			acks := s.runtime.Element(i.Elements[0].ID).Acks
			s.must(s.runtime.Again(within(t)))
			s.primed(map[string]any{}) // What comes after it is dealt with.
			if got := s.runtime.Element(i.Elements[0].ID).Acks; got != acks {
				t.Errorf("it is acknowledged %d times", 1+got-acks)
			}
		})
	})
	t.Run("a late order", func(t *testing.T) {
		i := s.deployed(c, s.model("late", sklearn(1)))
		s.must(s.runtime.Undeploy(within(t), i))
		s.must(s.runtime.AwaitInstance(within(t), i, "UNDEPLOYED", "NO_ERROR"))
		s.quiet(func() {
			acks := s.runtime.Element(i.Elements[0].ID).Acks
			old := s.runtime.DeployMessage(i)
			old["timestamp"] = time.Now().Add(-time.Hour).UTC().Format(time.RFC3339Nano)
			s.must(s.runtime.Send(within(t), old))
			s.primed(map[string]any{}) // What comes after it is dealt with.
			// It has lain on the broker, and the runtime would take its failure for that of the last order.
			if got := s.runtime.Element(i.Elements[0].ID); got.Acks != acks || s.service("late") != nil {
				t.Errorf("a late order leaves %+v, %v", got, s.service("late"))
			}
		})
		s.must(s.runtime.AwaitInstance(within(t), i, "UNDEPLOYED", "NO_ERROR"))
	})
	t.Run("an oversized record", func(t *testing.T) {
		i := s.instance(c, merge(s.model("large", sklearn(1)), "padding", strings.Repeat("x", acm.MaxRecord)))
		// The broker of the test takes it; that of a site may not.
		s.must(s.runtime.Deploy(within(t), i))
		s.must(s.runtime.AwaitInstance(within(t), i, "UNDEPLOYED", "FAILED"))
		if got := s.runtime.Element(i.Elements[0].ID).Message; !strings.Contains(got, "bytes") {
			t.Errorf("said was %q", got)
		}
	})
	t.Run("a poisoned record", func(t *testing.T) {
		i := s.instance(c, s.model("poisoned", sklearn(1)))
		bad := s.runtime.DeployMessage(i)
		bad["startPhase"] = "zero"
		s.must(s.runtime.Send(within(t), bad))
		s.must(s.runtime.AwaitInstance(within(t), i, "UNDEPLOYED", "FAILED"))
		for _, record := range []string{"", "{", "[]", "\x00\xff", `{"messageType":"PARTICIPANT_PRIME"`} {
			s.must(s.runtime.SendRaw(within(t), []byte(record)))
		}
		s.deployed(c, s.model("after", sklearn(1)))
	})
}

// TestOrderForAnotherRevision: an order of a revision that the participant does not know is held until that is told on the other topic.
func TestOrderForAnotherRevision(t *testing.T) {
	s := onKafka(t, acmruntime.V910)
	s.start()
	s.runtime.Withhold(within(t), true)
	i := s.instance(s.primed(map[string]any{}), s.model("held", sklearn(1)))
	s.must(s.runtime.Deploy(within(t), i))
	s.must(s.runtime.Await(within(t), "it is asked for", func() bool { return s.runtime.Seen("PARTICIPANT_REQ_SYNC_MSG") > 0 }))
	s.must(s.unacknowledged(i))
	s.runtime.Withhold(within(t), false)
	s.must(s.runtime.AwaitInstance(within(t), i, "DEPLOYED", "NO_ERROR"))
}

// quiet checks that something has no write of an InferenceService or of an order for an effect.
func (s *site) quiet(do func()) {
	s.t.Helper()
	// What follows from an acknowledgement may still be written.
	s.operator.Settle(s.t, patience)
	before := s.operator.Requests.Snapshot()
	do()
	done := s.operator.Requests.Since(before)
	effect := func(r cluster.Request) bool {
		return r.Write() && r.Subresource == "" && (r.Resource == "inferenceservices" || r.Resource == "compositionelements")
	}
	if cluster.Sum(done, effect) > 0 {
		s.t.Errorf("it wrote:\n%s", cluster.Describe(done))
	}
}

// TestDrift: what others change of a service is changed back, also where the namespace takes no orders any more, and a deleted service is made
// anew.
func TestDrift(t *testing.T) {
	s := onKafka(t, acmruntime.London)
	s.start()
	i := s.deployed(s.primed(map[string]any{}), s.model("sklearn-iris", sklearn(1)))
	s.c.Kubectl(t, "patch", "inferenceservice", "sklearn-iris", "-n", s.ns, "--type=merge", "-p", `{"spec":{"predictor":{"minReplicas":7}}}`)
	s.c.Eventually(t, patience, func() error { return wantReplicas(s.service("sklearn-iris"), 1) })
	s.c.Kubectl(t, "delete", "inferenceservice", "sklearn-iris", "-n", s.ns)
	s.c.Eventually(t, patience, func() error { return wantReplicas(s.service("sklearn-iris"), 1) })
	if got := s.runtime.Element(i.Elements[0].ID); got.DeployState != "DEPLOYED" {
		t.Errorf("the runtime was told %+v", got)
	}
	s.operator.Settle(t, patience)
	harness.NoTimer(t, s.c, keeper.GroupVersion.WithKind("CompositionElement"), "", i.Elements[0].ID)

	// Where the namespace takes no orders any more, what runs exactly as ordered is the element's nevertheless.
	s.c.Kubectl(t, "label", "namespace", s.ns, keeper.CompositionsLabel+"-")
	s.operator.Settle(t, patience)
	s.c.Kubectl(t, "patch", "inferenceservice", "sklearn-iris", "-n", s.ns, "--type=merge", "-p", `{"spec":{"predictor":{"minReplicas":7}}}`)
	s.c.Eventually(t, patience, func() error { return wantReplicas(s.service("sklearn-iris"), 1) })
}

// TestConditionFollows: while it is deployed, the runtime hears how the service fares.
func TestConditionFollows(t *testing.T) {
	s := onKafka(t, acmruntime.V910)
	s.start()
	i := s.deployed(s.primed(map[string]any{}), s.model("sklearn-iris", sklearn(1)))
	e := i.Elements[0]
	s.c.Kubectl(t, "annotate", "inferenceservice", "sklearn-iris", "-n", s.ns, "devcluster.mlkeeper.dev/stand-in=off")
	broken, _ := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
		"type": "Ready", "status": "False", "reason": "RevisionFailed", "message": "the container crashes",
	}}}})
	s.c.Kubectl(t, "patch", "inferenceservice", "sklearn-iris", "-n", s.ns, "--subresource=status", "--type=merge", "-p", string(broken))
	s.must(s.runtime.Await(within(t), "it is disabled", func() bool { return e.Reported.OperationalState == "DISABLED" }))
	s.c.Kubectl(t, "annotate", "inferenceservice", "sklearn-iris", "-n", s.ns, "devcluster.mlkeeper.dev/stand-in-")
	s.must(s.runtime.Await(within(t), "it is enabled", func() bool { return e.Reported.OperationalState == "ENABLED" }))
}

// killed is the way to the broker of a participant that ends without a word: a runtime that has heard DEREGISTER gives no orders.
type killed struct{ acm.Transport }

func (k killed) Publish(ctx context.Context, messages ...acm.Outgoing) error {
	if messages[0].Type == acm.TypeDeregister {
		return errCrash
	}
	return k.Transport.Publish(ctx, messages...)
}

// TestRestart: everything is rebuilt from the cluster alone, and orders that were sent meanwhile are carried out. The runtime of London
// asks who registers again to go on, that of 9.1.0 tells him what it knows.
func TestRestart(t *testing.T) {
	for _, release := range []acmruntime.Release{acmruntime.London, acmruntime.V910} {
		t.Run(string(release), func(t *testing.T) { restart(t, release) })
	}
}

func restart(t *testing.T, release acmruntime.Release) {
	t.Helper()
	s := onKafka(t, release)
	s.transport = func(next acm.Transport) acm.Transport { return killed{next} }
	s.start()
	c := s.primed(map[string]any{})
	i := s.deployed(c, s.model("before", sklearn(1)))
	s.operator.Stop()
	s.must(s.runtime.Undeploy(context.Background(), i))
	next := s.instance(c, s.model("after", sklearn(1)))
	s.must(s.runtime.Deploy(context.Background(), next))
	s.start()
	s.must(s.runtime.AwaitInstance(within(t), i, "UNDEPLOYED", "NO_ERROR"))
	s.must(s.runtime.AwaitInstance(within(t), next, "DEPLOYED", "NO_ERROR"))
	// Who stops in good order says so, and is given no orders until it is back.
	s.transport = nil
	s.operator.Stop()
	s.start()
	s.operator.Stop()
	s.must(s.runtime.Await(within(t), "the participant is gone", func() bool { return !s.runtime.Online() }))
	if err := s.runtime.Undeploy(within(t), next); err == nil {
		t.Error("an order is given to nobody")
	}
}
