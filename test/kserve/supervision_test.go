package kserve

import (
	"strings"
	"testing"
	"time"

	"mlkeeper.dev/test/acmruntime"
)

// TestPhases: an element of a later phase is known from the first message on, and is deployed when its phase is ordered; it goes before
// those of earlier phases.
func TestPhases(t *testing.T) {
	s := onKafka(t, acmruntime.V910)
	s.start()
	c := s.primed(map[string]any{"startPhase": 0}, map[string]any{"startPhase": 2})
	i := s.instance(c, alone(s.model("first", sklearn(1))), s.model("second", sklearn(1)))
	s.must(s.runtime.Deploy(within(t), i))
	s.c.Eventually(t, patience, func() error { return s.c.There(t, services, s.ns, "first") })
	// Both elements come in one message, and what it orders is stored together.
	if e := s.element(i.Elements[1].ID); e == nil || e.Spec.Order != nil && e.Spec.Order.Type != "" || s.service("second") != nil {
		t.Errorf("in the first phase the second element is %+v, its service %v", e, s.service("second"))
	}
	s.status("first", 1, "Ready=True")
	s.serve("first")
	s.must(s.runtime.AwaitInstance(within(t), i, "DEPLOYED", "NO_ERROR"))
	s.must(s.runtime.Undeploy(within(t), i))
	s.must(s.runtime.AwaitInstance(within(t), i, "UNDEPLOYED", "NO_ERROR"))
	if s.service("first") != nil || s.service("second") != nil {
		t.Error("a service is left")
	}
}

// TestRuntimeThatHadGivenUp: a participant that the runtime has called OFF_LINE is told all that it should know when it is heard of
// again. Nothing is deployed anew for that, and nothing acknowledged.
func TestRuntimeThatHadGivenUp(t *testing.T) {
	s := onKafka(t, acmruntime.V910)
	s.yaml = strings.Replace(s.yaml, "reportingTimeIntervalMs: 120000", "reportingTimeIntervalMs: 1000", 1)
	s.start()
	c := s.primed(map[string]any{})
	i := s.deployed(c, s.model("sklearn-iris", sklearn(1)))
	before, acks := s.service("sklearn-iris"), s.runtime.Element(i.Elements[0].ID).Acks
	s.runtime.Pass(within(t), 151*time.Second)
	s.must(s.runtime.Await(within(t), "the participant is ON_LINE again", s.runtime.Online))
	s.deployed(c, s.model("another", sklearn(1)))
	if now := s.service("sklearn-iris"); now.GetUID() != before.GetUID() || now.GetGeneration() != before.GetGeneration() {
		t.Errorf("the service was %v, and is %v", before, now)
	}
	if got := s.runtime.Element(i.Elements[0].ID); got.Acks != acks || got.DeployState != "DEPLOYED" {
		t.Errorf("the element is %+v", got)
	}
}
