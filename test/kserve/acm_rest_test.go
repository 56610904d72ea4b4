//go:build realacm

package kserve

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/test/acmruntime"
	"mlkeeper.dev/test/cluster"
)

// realSite is a cluster with the participant as it is shipped, and the real runtime.
type realSite struct {
	*site
	acm *realACM
}

// realInstance is an automation composition. Its element is of the first definition, another of the second, where the composition has two.
type realInstance struct {
	composition, name, id, element string
	another                        string
	properties                     map[string]any
}

// instanceState is what the runtime says of an instance.
type instanceState struct {
	DeployState, LockState, SubState, StateChangeResult string
	CompositionID                                       string `json:"compositionId"`
	Elements                                            map[string]struct {
		DeployState, Message string
		OutProperties        map[string]any
	}
}

// site runs a participant with config/components/participant's application.yaml, in which the broker's address is a variable. transport
// changes its way to the broker; nil for none.
func (r *realACM) site(t *testing.T, transport func(acm.Transport) acm.Transport) *realSite {
	t.Helper()
	text, err := os.ReadFile("../../config/components/participant/application.yaml")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("topicServer", r.kafka.plain)
	inClear(t)
	s := &realSite{newCluster(t, string(text)), r}
	s.transport = transport
	s.run()
	s.timed("register", done, s.online)
	return s
}

// online says whether the runtime gives the participant orders.
func (s *realSite) online() error {
	var all []struct {
		Participant struct {
			Replicas map[string]struct{ ParticipantState string }
		}
	}
	if err := s.acm.ask(http.MethodGet, "/participants", nil, &all); err != nil {
		return err
	}
	for _, one := range all {
		for _, replica := range one.Participant.Replicas {
			if replica.ParticipantState == "ON_LINE" {
				return nil
			}
		}
	}
	return fmt.Errorf("%w: no participant is ON_LINE: %+v", errNotYet, all)
}

// timed gives an order and prints how long it takes until something holds.
func (s *realSite) timed(order string, give, until func() error) {
	s.t.Helper()
	start := time.Now()
	if err := give(); err != nil {
		s.t.Fatalf("%s: %v", order, err)
	}
	cluster.Eventually(s.t, patience, until)
	s.t.Logf("%-32s %6.2f s", order, time.Since(start).Seconds())
}

// commissioned makes a definition with some element definitions, and primes it.
func (s *realSite) commissioned(provider string, elements int) (id string) {
	s.t.Helper()
	type object = map[string]any
	const composition, element = "org.onap.policy.clamp.acm.AutomationComposition", "org.onap.policy.clamp.acm.AutomationCompositionElement"
	types := object{}
	for name, from := range map[string]string{composition: "tosca.nodetypes.Root", element: "tosca.nodetypes.Root", acmruntime.Type: element} {
		types[name] = object{"version": "1.0.1", "derived_from": from}
	}
	templates, identifiers := object{}, []object{}
	for n := range elements {
		name := definitions[n]
		identifiers = append(identifiers, object{"name": name, "version": "1.2.3"})
		templates[name] = object{
			"version": "1.2.3", "type": acmruntime.Type, "type_version": acmruntime.TypeVersion, "description": acmruntime.Description,
			"properties": object{"provider": provider, "startPhase": 0},
		}
	}
	templates["onap.policy.clamp.ac.element.AutomationCompositionDefinition"] = object{
		"version": "1.2.3", "type": composition, "type_version": "1.0.1", "properties": object{"provider": provider, "elements": identifiers},
	}
	template := object{
		"tosca_definitions_version": "tosca_simple_yaml_1_3", "node_types": types, "topology_template": object{"node_templates": templates},
	}
	var answer struct{ CompositionID string }
	s.timed("commission", func() error { return s.acm.ask(http.MethodPost, "/compositions", template, &answer) }, done)
	s.prime(answer.CompositionID, "PRIME", "PRIMED")
	return answer.CompositionID
}

// definitions are those of the elements of a composition, as the stand-in has them.
var definitions = []string{
	"onap.policy.clamp.ac.element.KserveAutomationCompositionElement", "onap.policy.clamp.ac.element.KserveAutomationCompositionElement1",
}

// done is for orders that are done when they are answered.
func done() error { return nil }

// prime primes a composition, or deprimes it.
func (s *realSite) prime(composition, order, state string) {
	s.t.Helper()
	s.timed(order, func() error {
		return s.acm.ask(http.MethodPut, "/compositions/"+composition, map[string]any{"primeOrder": order}, nil)
	}, func() error {
		var is struct{ State, StateChangeResult string }
		if err := s.acm.ask(http.MethodGet, "/compositions/"+composition, nil, &is); err != nil {
			return err
		}
		if is.State != state || is.StateChangeResult != "NO_ERROR" {
			return fmt.Errorf("%w: the composition is %+v", errNotYet, is)
		}
		return nil
	})
}

// instantiated makes an instance with one element.
func (s *realSite) instantiated(composition string, properties map[string]any) *realInstance {
	s.t.Helper()
	return s.instantiate(&realInstance{composition: composition, element: uuid.NewString()}, properties)
}

func (s *realSite) instantiate(i *realInstance, properties map[string]any) *realInstance {
	s.t.Helper()
	i.name = "instance-" + uuid.NewString()
	var answer struct{ InstanceID string }
	s.timed("instantiate", func() error { return s.change(i, properties, nil, &answer) }, done)
	i.id = answer.InstanceID
	return i
}

// change makes or changes an instance. More are the fields of a migration.
func (s *realSite) change(i *realInstance, properties, more map[string]any, answer any) error {
	elements := map[string]any{}
	add := func(id string, n int, properties map[string]any) {
		elements[id] = map[string]any{
			"id": id, "definition": map[string]any{"name": definitions[n], "version": "1.2.3"}, "properties": properties,
		}
	}
	add(i.element, 0, properties)
	if i.another != "" {
		add(i.another, 1, i.properties)
	}
	body := map[string]any{"name": i.name, "version": "1.0.1", "compositionId": i.composition, "elements": elements}
	if i.id != "" {
		body["instanceId"] = i.id
	}
	for key, value := range more {
		body[key] = value
	}
	return s.acm.ask(http.MethodPost, "/compositions/"+i.composition+"/instances", body, answer)
}

func (i *realInstance) path() string { return "/compositions/" + i.composition + "/instances/" + i.id }

// ordering makes the function that gives an order, such as DEPLOY.
func (s *realSite) ordering(i *realInstance, order string) func() error {
	kind := "subOrder"
	switch {
	case strings.HasSuffix(order, "DEPLOY"):
		kind = "deployOrder"
	case strings.HasSuffix(order, "LOCK"):
		kind = "lockOrder"
	}
	return func() error { return s.acm.ask(http.MethodPut, i.path(), map[string]any{kind: order}, nil) }
}

// is makes the function that says whether an instance is in a state with a result, as in "DEPLOYED NO_ERROR".
func (s *realSite) is(i *realInstance, state string) func() error {
	return func() error {
		got, err := s.state(i)
		if err == nil && (got.DeployState+" "+got.StateChangeResult != state || got.SubState != "NONE" || strings.HasSuffix(got.LockState, "ING")) {
			err = fmt.Errorf("%w: the instance is not %s but %+v", errNotYet, state, got)
		}
		return err
	}
}

// locked asks for an instance that is deployed and in a state of its lock.
func (s *realSite) locked(i *realInstance, lock acm.LockState) func() error {
	return func() error {
		got, err := s.state(i)
		if err == nil && got.LockState != string(lock) {
			return fmt.Errorf("%w: the instance is not %s but %+v", errNotYet, lock, got)
		}
		return s.is(i, "DEPLOYED NO_ERROR")()
	}
}

func (s *realSite) state(i *realInstance) (instanceState, error) {
	got := instanceState{}
	err := s.acm.ask(http.MethodGet, i.path(), nil, &got)
	return got, err
}

// deployed makes an instance that is deployed.
func (s *realSite) deployed(composition string, properties map[string]any) *realInstance {
	s.t.Helper()
	i := s.instantiated(composition, properties)
	s.timed("DEPLOY", s.ordering(i, "DEPLOY"), s.is(i, "DEPLOYED NO_ERROR"))
	return i
}

// deleted deletes an instance, which the runtime does not know any more then.
func (s *realSite) deleted(i *realInstance) {
	s.t.Helper()
	s.timed("DELETE", func() error { return s.acm.ask(http.MethodDelete, i.path(), nil, nil) }, func() error {
		got, err := s.state(i)
		switch {
		case err == nil:
			return fmt.Errorf("%w: the instance is %+v", errNotYet, got)
		case errors.Is(err, errRefused):
			return nil
		}
		return err
	})
}
