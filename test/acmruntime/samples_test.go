package acmruntime

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// samples are messages that the code of a release has printed: sections of a title and a JSON object.
func samples(t *testing.T, release Release) map[string]object {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "internal", "acm", "testdata", string(release)+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]object{}
	for section := range strings.SplitSeq(string(text), "### ") {
		title, body, _ := strings.Cut(section, "\n")
		if title == "" {
			continue
		}
		one := object{}
		if err := json.Unmarshal([]byte(body), &one); err != nil {
			t.Fatalf("%s: %v", title, err)
		}
		out[title] = one
	}
	return out
}

// TestFieldsOfOtherReleases: London's messages, of which there are no recordings, and master's have the fields that their own code has
// printed, and no others.
func TestFieldsOfOtherReleases(t *testing.T) {
	for release, titles := range map[Release][]string{
		London: {"REGISTER_ACK", "PRIME", "DEPRIME", "DEPLOY", "STATE_CHANGE", "RESTART"},
		Master: {"REGISTER_ACK", "PRIME", "DEPRIME", "DEPLOY", "STATE_CHANGE undeploy", "SYNC"},
	} {
		tape, all := &tape{}, samples(t, release)
		r, ctx := New(release, recordedParticipant, tape), t.Context()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		registers := func() {
			r.Hear(ctx, Record{Value: encode(samples(t, Master)["REGISTER"])})
			must(r.Faults())
		}
		says := map[string]object{}
		last := func(title string) { says[title] = tape.sent[len(tape.sent)-1].Message }
		registers()
		last("REGISTER_ACK")
		c := r.Commission(map[string]any{"startPhase": 0})
		must(r.Prime(ctx, c))
		last("PRIME")
		c.State = primed
		i, err := r.Instantiate(c, map[string]any{})
		must(err)
		must(r.Deploy(ctx, i))
		last("DEPLOY")
		r.cascade(i, deployed, locked, none)
		must(r.Undeploy(ctx, i))
		last("STATE_CHANGE")
		last("STATE_CHANGE undeploy")
		clear(r.replicas)
		registers()
		for _, l := range tape.sent {
			if kind := l.text("messageType"); kind == restart || kind == syncMsg {
				says["RESTART"], says["SYNC"] = l.Message, l.Message
			}
		}
		i.gone = true
		must(r.Deprime(ctx, c))
		last("DEPRIME")
		for _, title := range titles {
			want, got := fields("", all[title]), fields("", says[title])
			if !maps.Equal(want, got) {
				t.Errorf("%s, %s: the fields are\n%s, not\n%s", release, title, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
			}
		}
	}
}

// fields are the names in JSON. What a user gives is not looked into, and metadata and description are his, too.
func fields(path string, value any) map[string]bool {
	out := map[string]bool{}
	switch v := value.(type) {
	case object:
		for key, one := range v {
			if key == "metadata" || key == "description" {
				continue
			}
			out[path+"."+key] = true
			if !strings.HasSuffix(strings.ToLower(key), "properties") && !strings.HasSuffix(key, "PropertiesMap") {
				maps.Copy(out, fields(path+"."+key, one))
			}
		}
	case []any:
		for _, one := range v {
			maps.Copy(out, fields(fmt.Sprint(path, "[]"), one))
		}
	}
	return out
}
