package acm

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

const (
	participant = "101c62b3-8918-41b9-a747-d21eb79c6c04"
	replica     = "82fd8ef9-1d1e-4343-9b28-7f9564ee3de6"
	composition = "20725d63-2ec9-4f14-9ad1-8b7b3dd3d4e1"
	instance    = "dfd8ef9a-0000-4000-8000-000000000001"
	element     = "709c62b3-8918-41b9-a747-d21eb79c6c26"
	message     = "11111111-2222-4333-8444-555555555555"
	kserveType  = "org.onap.policy.clamp.acm.KserveAutomationCompositionElement"
)

var kserveElement = Identifier{Name: "onap.policy.clamp.ac.element.KserveAutomationCompositionElement", Version: "1.2.3"}

func me() Identity {
	return Identity{
		ParticipantID: participant, ReplicaID: replica, Version: "9.1.1-SNAPSHOT",
		Supported: []ElementType{{ID: "7c1c3e1c-0c8e-4a5a-9f0e-000000000001", TypeName: kserveType, TypeVersion: "1.0.1"}},
	}
}

// samples reads messages that the runtimes' own code has printed: sections of a title and a JSON object.
func samples(t testing.TB, release string) map[string]json.RawMessage {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", release+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	out, title, text := map[string]json.RawMessage{}, "", &bytes.Buffer{}
	keep := func() {
		if title != "" {
			out[title] = json.RawMessage(bytes.Clone(text.Bytes()))
		}
		text.Reset()
	}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if next, ok := strings.CutPrefix(lines.Text(), "### "); ok {
			keep()
			title = next
			continue
		}
		text.WriteString(lines.Text() + "\n")
	}
	keep()
	return out
}

func TestSamplesDecode(t *testing.T) {
	for _, release := range []string{"london", "master"} {
		all := samples(t, release)
		if len(all) < 11 {
			t.Fatalf("%s has %d samples", release, len(all))
		}
		for title, record := range all {
			m, err := Decode(record)
			if err != nil {
				t.Errorf("%s %s: %v", release, title, err)
				continue
			}
			lacksTime := release == "london" && strings.HasSuffix(title, "_ACK")
			if !lacksTime && m.Timestamp.IsZero() {
				t.Errorf("%s %s has no time", release, title)
			}
		}
	}
}

func TestSampleOrders(t *testing.T) {
	entities := `"sklearn-iris"`
	for _, release := range []string{"london", "master"} {
		all := samples(t, release)
		prime, _ := Decode(all["PRIME"])
		s := NewState()
		for _, e := range Handle(me(), s, prime, time.Time{}) {
			s.Apply(e)
		}
		if d := s.Definitions[composition]; len(d.Elements) != 1 || string(d.Elements[kserveElement]["startPhase"]) != "0" {
			t.Errorf("%s: PRIME gives %+v", release, d)
		}
		deploy, _ := Decode(all["DEPLOY"])
		for _, e := range Handle(me(), s, deploy, time.Time{}) {
			s.Apply(e)
		}
		got := s.Elements[element]
		if got.Order.Type != OrderDeploy || got.Order.ID != message || !got.Present || got.InstanceID != instance ||
			got.Content.Definition != kserveElement || got.Content.CompositionID != composition || got.Order.Time.IsZero() {
			t.Errorf("%s: DEPLOY gives %+v", release, got)
		}
		raw, ok := got.Content.Effective()["kserveInferenceEntities"]
		if !ok || release == "master" && !strings.Contains(string(raw), entities) {
			t.Errorf("%s: DEPLOY gives the entities %s", release, raw)
		}
	}
}

// TestEmitted compares what is sent with the samples: every field of a sample is there with its value. Fields of other releases
// are there too, which every release ignores.
func TestEmitted(t *testing.T) {
	now := time.Date(2026, 8, 21, 12, 0, 0, 123456000, time.UTC)
	rest := Outcome{OrderID: message, Type: OrderDeploy, States: States{Deployed, Locked}}
	info := func(c Condition) []InstanceInfo {
		return []InstanceInfo{{
			InstanceID: instance, DeployState: Deployed, LockState: Locked,
			Elements: []ElementInfo{{ElementID: element, DeployState: Deployed, LockState: Locked, Condition: c}},
		}}
	}
	primed := PrimeAnswer{ResponseTo: message, CompositionID: composition, State: Primed, Message: "Primed"}
	fares := Condition{OperationalState: "ENABLED", UseState: "IN_USE", OutProperties: map[string]string{"url": "http://x"}}
	cases := map[string]Outgoing{
		"REGISTER":                           me().Register(message, now),
		"STATUS":                             me().Status(message, now, "", nil),
		"STATUS+outProperties":               me().Status(message, now, composition, info(fares)),
		"STATUS (heartbeat, with info list)": me().Status(message, now, "", info(Condition{OutProperties: map[string]string{}})),
		"DEREGISTER":                         me().Deregister(message, now),
		"PRIME_ACK":                          me().PrimeAck(now, primed),
		"STATECHANGE_ACK":                    me().ElementAck(now, ElementAnswer{InstanceID: instance, ElementID: element, Outcome: rest}),
		"REQ_SYNC":                           me().ReqSync(message, now, composition, instance),
	}
	compared := 0
	for _, release := range []string{"london", "master"} {
		for title, sample := range samples(t, release) {
			sent, ours := cases[title]
			if !ours {
				continue
			}
			compared++
			want, got := fields(t, sample), fields(t, sent.Body)
			for key, value := range want {
				if key == "timestamp" && release == "london" {
					value = "2026-08-21T12:00:00.123456Z"
				}
				if !reflect.DeepEqual(got[key], value) {
					t.Errorf("%s %s: %s is %v, not %v", release, title, key, got[key], value)
				}
			}
			if key, ok := want["partitionKey"]; ok && key != sent.Key {
				t.Errorf("%s %s: the record's key is %q, not %q", release, title, sent.Key, key)
			}
		}
	}
	if compared != 12 {
		t.Errorf("%d samples were compared", compared)
	}
}

func fields(t *testing.T, raw []byte) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestEmittedWithoutNull: a null list makes the runtimes since 9.0.2 fail.
func TestEmittedWithoutNull(t *testing.T) {
	now := time.Now()
	for _, sent := range []Outgoing{
		me().Register(message, now), me().Deregister(message, now), me().Status(message, now, "", nil), me().ReqSync(message, now, "", ""),
		me().PrimeAck(now, PrimeAnswer{}), me().ElementAck(now, ElementAnswer{}), me().ElementAck(now, ElementAnswer{ElementID: element}),
	} {
		if bytes.Contains(sent.Body, []byte("null")) {
			t.Errorf("%s", sent.Body)
		}
	}
}

func TestFailureIsTold(t *testing.T) {
	outcome := Order{Type: OrderDeploy, ID: message}.Conclude("admission webhook denied the request: " + strings.Repeat("ä", 300))
	sent := fields(t, me().ElementAck(time.Now(), ElementAnswer{InstanceID: instance, ElementID: element, Outcome: outcome}).Body)
	text, _ := sent["message"].(string)
	if !strings.HasPrefix(text, "Deploy Failed: admission webhook denied") || len([]rune(text)) != 255 {
		t.Errorf("the message is %q", text)
	}
	if sent["stateChangeResult"] != "FAILED" || sent["result"] != false {
		t.Errorf("sent %v", sent)
	}
}
