package acm

import (
	"reflect"
	"strings"
	"testing"
)

// ahead is an order that was made for revisions of which the participant does not know.
func ahead(m Message) Message {
	m.RevisionComposition, m.RevisionInstance, m.PartitionKey = "r1", "i1", composition
	return m
}

// syncMessage tells the composition, with an instance in some states.
func syncMessage(seconds int, revision string, states States) Message {
	m := primeMessage(seconds, `{"a":1}`)
	m.MessageType, m.RevisionComposition, m.State = TypeSync, "r1", Primed
	m.Instances = []Instance{{
		InstanceID: instance, Revision: revision, DeployState: states.DeployState, LockState: states.LockState,
		Elements: []ElementUpdate{{ID: element, ParticipantID: participant, DeployState: states.DeployState, LockState: states.LockState}},
	}}
	return m
}

func TestPendingOrders(t *testing.T) {
	s := NewState()
	deploy := ahead(deployMessage(10, `{"b":2}`))
	told(t, s, deploy)
	if q := s.Questions(); len(s.Elements) != 0 || len(s.Held) != 1 || !reflect.DeepEqual(q, []Question{{composition, instance}}) {
		t.Fatalf("an order for an unknown revision leaves %+v, asked is %v", s, q)
	}
	sync := syncMessage(11, "", States{})
	sync.Instances = nil
	told(t, s, sync)
	if e := s.Elements[element]; e.Order.ID != deploy.MessageID || len(s.Held) != 0 || string(e.Content.Effective()["a"]) != "1" {
		t.Errorf("after the SYNC there is %+v, held %v", e, s.Held)
	}
	undeploy := ahead(changeMessage(20, "UNDEPLOY", "NONE"))
	undeploy.RevisionInstance = "i2"
	told(t, s, undeploy)
	if q := s.Questions(); !reflect.DeepEqual(q, []Question{{InstanceID: instance}}) {
		t.Errorf("for an unknown revision of the instance is asked %v", q)
	}
	told(t, s, syncMessage(19, "i2", States{Deployed, Locked}))
	if e := s.Elements[element]; e.Order.Type != OrderUndeploy || e.Revision != "i2" || len(s.Held)+len(s.Questions()) != 0 {
		t.Errorf("after the SYNC there is %+v", e)
	}
}

func TestSyncJudgesPendingOrders(t *testing.T) {
	undeploying := States{Undeploying, Unspecified}
	for name, c := range map[string]struct {
		sync    Message
		carried bool
		dropped string
		held    int
	}{
		"the revision of the order":               {sync: syncMessage(19, "i1", States{Deployed, Locked}), carried: true},
		"a newer one, and the order is awaited":   {sync: syncMessage(21, "i3", undeploying), carried: true},
		"a newer one, and the order is over":      {sync: syncMessage(21, "i3", States{Undeployed, Unspecified}), carried: true},
		"a newer one, and the order is reverted":  {sync: syncMessage(21, "i3", States{Deployed, Locked}), dropped: "DEPLOYED"},
		"a newer one, and another order is given": {sync: syncMessage(21, "i3", States{Deploying, Unspecified}), dropped: "DEPLOYING"},
		"an older one, which was on its way":      {sync: syncMessage(19, "i0", States{Deployed, Locked}), held: 1},
		"nothing of the instance":                 {sync: func() Message { m := syncMessage(21, "", States{}); m.Instances = nil; return m }(), held: 1},
		"the instance is deleted":                 {sync: func() Message { m := syncMessage(19, "i3", States{Deleted, Unspecified}); m.Delete = true; return m }(), dropped: "deleted"},
		"another replica is told": {sync: func() Message {
			m := syncMessage(19, "i1", undeploying)
			m.ExcludeReplicas = []string{replica}
			return m
		}(), held: 1},
		"a failure, which has ended the order":      {sync: func() Message { m := syncMessage(21, "i3", undeploying); m.Instances[0].Result = Failed; return m }(), dropped: "UNDEPLOYING"},
		"a timeout, after which success is welcome": {sync: func() Message { m := syncMessage(21, "i3", undeploying); m.Instances[0].Result = TimedOut; return m }(), carried: true},
	} {
		s := NewState()
		told(t, s, ahead(changeMessage(20, "UNDEPLOY", "NONE")))
		dropped := ""
		for _, e := range told(t, s, c.sync) {
			if released, ok := e.(ReleaseOrder); ok {
				dropped = released.Dropped
			}
		}
		if got := s.Elements[element].Order.Type == OrderUndeploy; got != c.carried || len(s.Held) != c.held ||
			!strings.Contains(dropped, c.dropped) || (dropped == "") != (c.dropped == "") {
			t.Errorf("%s: carried out %t, dropped %q, held %d", name, got, dropped, len(s.Held))
		}
	}
}

func TestNewerOrdersOvertakeHeldOnes(t *testing.T) {
	s := NewState()
	told(t, s, ahead(deployMessage(10, `{}`)))
	got := told(t, s, ahead(changeMessage(9, "UNDEPLOY", "NONE"))) // Its replica's clock is behind.
	if len(got) != 2 || got[0].(ReleaseOrder).MessageID != id(10) || !strings.Contains(got[0].(ReleaseOrder).Dropped, "Undeploy") || len(s.Held) != 1 {
		t.Errorf("a newer order gives %v, held are %v", got, s.Held)
	}
	if got := told(t, s, changeMessage(8, "DELETE", "NONE")); len(got) != 1 || len(s.Held) != 1 {
		t.Errorf("an older order of a runtime without keys gives %v", got)
	}
	got = told(t, s, Message{MessageType: TypePrime, MessageID: id(30), CompositionID: composition})
	if len(got) != 2 || got[0].(ReleaseOrder).Dropped == "" || len(s.Held) != 0 {
		t.Errorf("DEPRIME gives %v", got)
	}
}

func TestPendingOrdersHaveBounds(t *testing.T) {
	flood := func(n int, text string) Message {
		m := ahead(deployMessage(n, text))
		m.CompositionID, m.InstanceID = id(100+n), id(1000+n)
		return m
	}
	s := NewState()
	for n := range maxHeld {
		told(t, s, flood(n, `{}`))
	}
	got := told(t, s, flood(maxHeld, `{}`))
	if len(s.Held) != maxHeld || len(got) != 1 || got[0].(ElementAnswer).Outcome.Result() != Failed {
		t.Errorf("%d are held, one more gives %v", len(s.Held), got)
	}
	if got := told(t, s, flood(0, `{}`)); len(got) != 1 || len(s.Held) != maxHeld {
		t.Errorf("a repeated order gives %v", got)
	}
	if q := s.Questions(); len(q) != maxHeld {
		t.Errorf("%d questions are asked", len(q))
	}
	if got := s.Expired(noon.Add(HeldFor - 1)); len(got) != 0 {
		t.Errorf("too early go %v", got)
	}
	if got := s.Expired(noon.Add(HeldFor)); len(got) != maxHeld {
		t.Errorf("in the end go %d", len(got))
	}

	s = NewState()
	large := `{"x":"` + strings.Repeat("x", 1<<20-1000) + `"}`
	for n := range 9 {
		got = told(t, s, flood(n, large))
	}
	if len(s.Held) > 8 || got[0].(ElementAnswer).Outcome.Result() != Failed {
		t.Errorf("%d MiB are held", len(s.Held))
	}
	for n := range 5 {
		m := ahead(deployMessage(50+n, `{}`))
		m.InstanceID = id(2000 + n)
		told(t, s, m)
	}
	if q := s.Questions(); len(s.Held) != 7+5 || len(q) != 7+1 {
		t.Errorf("of %d orders are asked %v", len(s.Held), q)
	}
}

// TestMigrationWaitsForItsTarget: without the target's definition an element would lose its properties.
func TestMigrationWaitsForItsTarget(t *testing.T) {
	s := NewState()
	sync := syncMessage(0, "i1", States{Deployed, Locked})
	migrate := ahead(orderMessage(TypeMigration, 20, `{}`))
	migrate.CompositionTargetID, migrate.RevisionCompositionTarget = id(99), "t1"
	told(t, s, sync, migrate)
	if q := s.Questions(); !reflect.DeepEqual(q, []Question{{id(99), instance}}) {
		t.Fatalf("asked is %v", q)
	}
	sync = syncMessage(21, "i1", States{Migrating, Locked})
	sync.CompositionID, sync.RevisionComposition = id(99), "t1"
	told(t, s, sync)
	if e := s.Elements[element]; e.Order.Type != OrderMigrate || string(e.Content.Common["a"]) != "1" || len(s.Held) != 0 {
		t.Errorf("after the SYNC there is %+v", e)
	}
}

// TestMigrationToWhatIsUnknown: runtimes before Quebec send no revisions, and cannot be asked. What the element runs stays.
func TestMigrationToWhatIsUnknown(t *testing.T) {
	s := NewState()
	told(t, s, primeMessage(0, `{"a":1}`), deployMessage(10, `{"b":2}`))
	settle(s, element, "")
	migrate := orderMessage(TypeMigration, 20, `{"b":3}`)
	migrate.CompositionTargetID = id(99)
	got := told(t, s, migrate)
	if len(got) != 1 {
		t.Fatalf("MIGRATE gives %v", got)
	}
	answer := got[0].(ElementAnswer).Outcome
	if answer.Result() != Failed || answer.States != (States{Deployed, Locked}) || !strings.Contains(answer.Failure, id(99)+" is not known") {
		t.Errorf("it is answered with %+v", answer)
	}
	if e := s.Elements[element]; e.Order.Type != OrderDeploy || string(e.Content.Effective()["b"]) != "2" {
		t.Errorf("the element is %+v", e)
	}
	target := primeMessage(30, `{"a":9}`)
	target.CompositionID = id(99)
	migrate.MessageID, migrate.Timestamp = id(40), at(40)
	told(t, s, target, migrate)
	if e := s.Elements[element]; e.Order.Type != OrderMigrate || string(e.Content.Effective()["a"]) != "9" {
		t.Errorf("with the composition the element is %+v", e)
	}
}

// TestARevisionIsNotStored has an instance with many elements. Another revision comes with each acknowledgement, and is written to none of them.
func TestARevisionIsNotStored(t *testing.T) {
	s := NewState()
	const elements = 20
	of := func(seconds int, revision string) Message {
		m := syncMessage(seconds, revision, States{Deployed, Locked})
		for n := range elements - 1 {
			more := m.Instances[0].Elements[0]
			more.ID = id(500 + n)
			m.Instances[0].Elements = append(m.Instances[0].Elements, more)
		}
		return m
	}
	puts := func(effects []Effect) (n int) {
		for _, effect := range effects {
			if _, ok := effect.(PutElement); ok {
				n++
			}
		}
		return n
	}
	for i, c := range []struct {
		revision string
		want     int
	}{{"i1", elements}, {"i1", 0}, {"i2", 0}, {"", 0}, {"i3", 0}} {
		if got := puts(told(t, s, of(10+i, c.revision))); got != c.want {
			t.Errorf("synchronization %d with revision %q writes %d elements, not %d", i, c.revision, got, c.want)
		}
	}
	undeploy := ahead(changeMessage(30, "UNDEPLOY", "NONE"))
	undeploy.RevisionInstance = "i3"
	told(t, s, undeploy)
	if len(s.Held) != 0 {
		t.Errorf("an order of the revision that was told last is held: %v", s.Held)
	}
	forgotten := of(40, "i4")
	forgotten.Delete = true
	told(t, s, forgotten)
	if len(s.Elements)+len(s.Revisions) != 0 {
		t.Errorf("of an instance that is gone is kept: %v, %v", s.Elements, s.Revisions)
	}
}

// TestARevisionAfterARestart: the revision is asked for when an order needs it.
func TestARevisionAfterARestart(t *testing.T) {
	s := NewState()
	told(t, s, syncMessage(10, "i1", States{Deployed, Locked}))
	told(t, s, syncMessage(11, "i2", States{Deployed, Locked}))
	clear(s.Revisions)
	undeploy := ahead(changeMessage(30, "UNDEPLOY", "NONE"))
	undeploy.RevisionInstance = "i2"
	told(t, s, undeploy)
	if len(s.Held) != 1 || len(s.Questions()) != 1 {
		t.Fatalf("held are %v, asked is %v", s.Held, s.Questions())
	}
	told(t, s, syncMessage(31, "i2", States{Undeploying, Locked}))
	if e := s.Elements[element]; e.Order.Type != OrderUndeploy || len(s.Held) != 0 {
		t.Errorf("with the revision the element is %+v, held are %v", e, s.Held)
	}
}

// TestDeploymentAfterTheOrderThatPresumesIt: London's runtime takes the answer to its RESTART for the end of a deployment that is on its way,
// gives the next order, and the participant reads that first.
func TestDeploymentAfterTheOrderThatPresumesIt(t *testing.T) {
	for order, want := range map[string]struct{ present, known bool }{"UNLOCK": {true, true}, "NONE": {false, false}} {
		s := NewState()
		restart := syncMessage(1, "", States{Undeployed, Unspecified})
		restart.MessageType, restart.RevisionComposition = TypeRestart, ""
		told(t, s, restart)
		later := changeMessage(20, "UNDEPLOY", "NONE")
		if order != "NONE" {
			later = changeMessage(20, "NONE", order)
		}
		told(t, s, later)
		told(t, s, deployMessage(10, `{"b":2}`))
		e := s.Elements[element]
		if e.Present != want.present || e.Order.ID != id(20) || e.Order.has(id(10)) != want.known {
			t.Errorf("%s before its deployment leaves %+v", order, e)
		}
	}
}

// TestUndeploymentBeforeItsDeployment: runtimes before Quebec give records random keys, so that the removal may be read first. It counts when
// the deployment comes after all, and the runtime is not asked, which understands no question.
func TestUndeploymentBeforeItsDeployment(t *testing.T) {
	early := func(t *testing.T) *State {
		s := NewState()
		told(t, s, primeMessage(0, `{"a":1}`))
		got := told(t, s, changeMessage(300, "UNDEPLOY", "NONE"))
		if len(got) != 1 || got[0].(HoldOrder).Held.MessageID != id(300) || len(s.Questions()) != 0 {
			t.Fatalf("UNDEPLOY gives %v, asked is %v", got, s.Questions())
		}
		return s
	}
	t.Run("the deployment comes", func(t *testing.T) {
		s := early(t)
		told(t, s, deployMessage(10, `{"b":2}`))
		e := s.Elements[element]
		if e.Present || e.Order.Type != OrderUndeploy || !e.Order.has(id(10)) || string(e.Content.Effective()["b"]) != "2" || len(s.Held) != 0 {
			t.Errorf("the element is %+v, held are %v", e, s.Held)
		}
	})
	t.Run("a newer deployment comes", func(t *testing.T) {
		s := early(t)
		told(t, s, deployMessage(400, `{}`))
		if e := s.Elements[element]; !e.Present || e.Order.Type != OrderDeploy || len(s.Held) != 0 {
			t.Errorf("the element is %+v, held are %v", e, s.Held)
		}
	})
	t.Run("nothing comes, as it is another participant's", func(t *testing.T) {
		s := early(t)
		if got := s.Expired(noon.Add(earlyFor - 1)); len(got) != 0 {
			t.Errorf("too early go %v", got)
		}
		if got := s.Expired(noon.Add(earlyFor)); len(got) != 1 {
			t.Errorf("in the end go %v", got)
		}
	})
	t.Run("a synchronization tells more", func(t *testing.T) {
		s := early(t)
		sync := syncMessage(301, "", States{Deployed, Locked})
		sync.RevisionComposition = ""
		got := told(t, s, sync)
		if e := s.Elements[element]; !e.Present || len(s.Held) != 0 {
			t.Errorf("it gives %v, the element is %+v", got, e)
		}
	})
	t.Run("with keys the order of arrival counts", func(t *testing.T) {
		s := NewState()
		if got := told(t, s, keyed(changeMessage(300, "UNDEPLOY", "NONE"))); len(got) != 0 {
			t.Errorf("UNDEPLOY gives %v", got)
		}
	})
}

// TestWrongEnd: the runtime takes every acknowledgement for that of its last order. The late one of the deployment ends the removal there,
// which waits here and is carried out nevertheless. An update of which the runtime has other properties by now is not.
func TestWrongEnd(t *testing.T) {
	for name, c := range map[string]struct {
		order   Message
		states  States
		tells   string
		carried bool
	}{
		"a removal":                        {changeMessage(20, "UNDEPLOY", "NONE"), States{Undeployed, Unspecified}, `{"b":1}`, true},
		"a removal that was taken back":    {changeMessage(20, "UNDEPLOY", "NONE"), States{Deployed, Locked}, `{"b":1}`, false},
		"a lock":                           {changeMessage(20, "NONE", "UNLOCK"), States{Deployed, Unlocked}, `{"b":1}`, true},
		"a lock that was taken back":       {changeMessage(20, "NONE", "UNLOCK"), States{Deployed, Locked}, `{"b":1}`, false},
		"an update":                        {orderMessage(TypePropertiesUpdate, 20, `{"b":2,"c":{"d":1,"e":2}}`), States{Deployed, Locked}, `{"c":{"e":2,"d":1.0},"b":2}`, true},
		"an update that was taken back":    {orderMessage(TypePropertiesUpdate, 20, `{"b":2}`), States{Deployed, Locked}, `{"b":1}`, false},
		"a review, of which nothing stays": {Message{MessageType: TypePrepare, MessageID: id(20), Timestamp: at(20), CompositionID: composition, InstanceID: instance}, States{Deployed, Locked}, `{"b":1}`, true},
	} {
		s := NewState()
		told(t, s, primeMessage(0, `{}`), keyed(deployMessage(10, `{"b":1}`)))
		settle(s, element, "")
		s.Definitions[composition] = Definition{CompositionID: composition, Revision: "r1", Elements: s.Definitions[composition].Elements}
		told(t, s, ahead(c.order))
		if len(s.Held) != 1 {
			t.Fatalf("%s: held are %v", name, s.Held)
		}
		sync := syncMessage(21, "i9", c.states)
		sync.Instances[0].Result, sync.Instances[0].Elements[0].Properties = NoError, properties(c.tells)
		told(t, s, sync)
		if got := s.Elements[element].Order.ID == id(20); got != c.carried || len(s.Held) != 0 {
			t.Errorf("%s: carried out is %t, held are %v", name, got, s.Held)
		}
	}
}
