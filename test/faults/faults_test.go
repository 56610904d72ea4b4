package faults

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestPlanFilesReadBackWhatWasWritten(t *testing.T) {
	for _, p := range []Plan{
		{
			Seed: 7, Kind: "k", Workload: "w", Campaign: "C4",
			Fault: &Fault{
				At: Point{Verb: verbApply, Resource: "deployments.apps", Name: "n", Occurrence: 2}, Do: Answer, Status: 503,
				Times: 5, For: Duration(1500 * time.Millisecond), Target: "*", Back: 2, Restart: true,
			},
		},
		{Kind: "k", Workload: "w", Campaign: "standing", Standing: &Standing{Resource: "services", Name: "n", Cause: Quota, Early: true}},
		{Kind: "k", Workload: "w", Campaign: "C5", Drift: &Drift{Resource: "services", Name: "n", Change: ChangeField, Path: ".spec"}},
	} {
		path := filepath.Join(t.TempDir(), "plan.json")
		if err := writePlan(path, planFile{Plan: p, Replay: "x", Timeline: []string{"y"}}); err != nil {
			t.Fatal(err)
		}
		got, err := readPlan(path)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, p) {
			t.Errorf("%+v came back as %+v", p, got)
		}
	}
}

// meet sends requests of one point past a trap and returns what each met.
func meet(tr *trap, at time.Time, points ...Point) []Action {
	var out []Action
	for _, p := range points {
		out = append(out, tr.meets(tr.number(p), p.Verb != verbGet, at))
	}
	return out
}

func TestTrapMeetsTheRequestThatItIsKeyedBy(t *testing.T) {
	create := Point{Verb: verbCreate, Resource: "services", Name: "a"}
	other := Point{Verb: verbCreate, Resource: "services", Name: "b"}
	read := Point{Verb: verbGet, Resource: "services", Name: "a"}
	second := create
	second.Occurrence = 2
	start := time.Unix(0, 0)
	for _, c := range []struct {
		name  string
		fault Fault
		sent  []Point
		want  []Action
	}{
		{"the second of one object", Fault{At: second, Do: DieBefore}, []Point{create, other, create, create}, []Action{"", "", DieBefore, ""}},
		{"any of the resource", Fault{At: Point{Verb: verbCreate, Resource: "services"}, Do: Reset}, []Point{read, other, create}, []Action{"", Reset, ""}},
		{"some in a row", Fault{At: create, Do: Answer, Times: 2}, []Point{create, other, create, create}, []Action{Answer, "", Answer, ""}},
		{"lost, and dead at the next write", Fault{At: create, Do: LoseDie}, []Point{create, read, other, other}, []Action{Lose, "", DieBefore, ""}},
		{"a race", Fault{At: create, Do: Race}, []Point{other, create, create}, []Action{"", Race, ""}},
		{"a death comes once", Fault{At: create, Do: DieAfter, For: Duration(time.Hour)}, []Point{create, create}, []Action{DieAfter, ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := newTrap(&c.fault)
			if got := meet(tr, start, c.sent...); !reflect.DeepEqual(got, make([]Action, len(c.sent))) {
				t.Errorf("before it is armed: %v", got)
			}
			tr.armed = true
			if got := meet(tr, start, c.sent...); !reflect.DeepEqual(got, c.want) {
				t.Errorf("met %q, want %q", got, c.want)
			}
		})
	}
}

func TestTrapHoldsForItsTime(t *testing.T) {
	p := Point{Verb: verbApply, Resource: "services", Name: "a"}
	tr := newTrap(&Fault{At: p, Do: Answer, For: Duration(2 * time.Second)})
	tr.armed = true
	start := time.Unix(0, 0)
	for after, want := range []Action{Answer, Answer, ""} {
		if got := tr.meets(p, true, start.Add(time.Duration(after)*time.Second)); got != want {
			t.Errorf("after %d s: %q, want %q", after, got, want)
		}
	}
	if !tr.overAt().Equal(start.Add(2 * time.Second)) {
		t.Errorf("it is over at %v", tr.overAt())
	}
}

func TestRequestsAreToldApart(t *testing.T) {
	for _, c := range []struct {
		method, target, content, body string
		want                          request
	}{
		{"POST", "/api/v1/namespaces/n/services", "application/json", `{"metadata":{"name":"a"}}`, request{Verb: verbCreate, Resource: "services", Namespace: "n", Name: "a"}},
		{"PATCH", "/apis/apps/v1/namespaces/n/deployments/a", "application/apply-patch+yaml", "", request{Verb: verbApply, Resource: "deployments.apps", Namespace: "n", Name: "a"}},
		{"PATCH", "/apis/x.io/v1/namespaces/n/things/a/status", "application/merge-patch+json", "", request{Verb: verbPatch, Resource: "things.x.io/status", Namespace: "n", Name: "a"}},
		{"GET", "/api/v1/namespaces/n/services?watch=true", "", "", request{Verb: verbWatch, Resource: "services", Namespace: "n", Name: ""}},
		{"GET", "/api/v1/persistentvolumes/pv", "", "", request{Verb: verbGet, Resource: "persistentvolumes", Name: "pv"}},
		{"DELETE", "/apis/keeper.mlkeeper.dev/v1alpha1/inventories/i", "", "", request{Verb: verbDelete, Resource: inventories, Name: "i"}},
		{"GET", "/apis", "", "", request{Verb: verbGet, Resource: "", Name: ""}},
	} {
		r := httptest.NewRequest(c.method, c.target, strings.NewReader(c.body))
		r.Header.Set("Content-Type", c.content)
		got, err := parse(r)
		got.Body = nil
		if err != nil || got != c.want {
			t.Errorf("%s %s is %+v (%v), want %+v", c.method, c.target, got, err, c.want)
		}
		if rest, _ := io.ReadAll(r.Body); string(rest) != c.body {
			t.Errorf("%s %s lost its body: %q", c.method, c.target, rest)
		}
	}
}

func TestNamesLast(t *testing.T) {
	for name, want := range map[string]string{
		"kfdef-0123456789abcdef-89abcdef.a-b":   "kfdef-a-b",
		"kfdef-0123456789abcdef-89abcdef.a-b.1": "kfdef-a-b.1",
		// An end that the API server chose must not make another object of it.
		"kfdef-0123456789abcdef-89abcdef.a.g-x7k2p": "kfdef-a",
		"kfdef-0123456789abcdef-89abcdef.a.g-":      "kfdef-a",
		"pv-faults-abcdefgh":                        "pv-NS",
		"plain":                                     "plain",
	} {
		if got := lasting(name, "faults-abcdefgh"); got != want {
			t.Errorf("%s lasts as %s, want %s", name, got, want)
		}
	}
}

func TestMasksAreWhatDiffersWithoutFaults(t *testing.T) {
	runs := []snapshot{
		{"a": {"data.k": "v", "data.r": "1"}, "b": {"x": "1"}},
		{"a": {"data.k": "v", "data.r": "2"}},
		{"a": {"data.k": "v", "data.r": "1", "data.s": "1"}, "b": {"x": "1"}},
	}
	m := learn(runs)
	if got := compare(runs[0], runs[1], m); len(got) != 0 {
		t.Errorf("runs without faults differ: %v", got)
	}
	broken := snapshot{"a": {"data.k": "w", "data.r": "3"}, "c": {"x": "1"}}
	want := []Diff{{Object: "a", Path: "data.k", Want: "v", Have: "w"}, {Object: "c", Want: absent, Have: "there"}}
	if got := compare(runs[0], broken, m); !reflect.DeepEqual(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

func TestSnapshotsHoldNothingOfTheRun(t *testing.T) {
	object := func(namespace, uid, at string) map[string]*unstructured.Unstructured {
		return map[string]*unstructured.Unstructured{"things/a": {Object: map[string]any{
			"metadata": map[string]any{"name": "a", "namespace": namespace, "uid": uid, "resourceVersion": uid, "generation": int64(1)},
			"spec":     map[string]any{"url": "http://a." + namespace + ".svc", "me": uid, "list": []any{"x", int64(2)}},
			"status": map[string]any{
				"inventory":  map[string]any{"entries": []any{map[string]any{"name": "c", "ownedFieldsHash": uid}}},
				"conditions": []any{map[string]any{"type": "Ready", "lastTransitionTime": at}},
				"message":    "the service was interrupted for " + uid + "m" + uid + "s; done",
			},
		}}}
	}
	told := func(string) bool { return true }
	one := take(object("faults-aaaaaaaa", "1", "2026-01-01T00:00:00Z"), "faults-aaaaaaaa", told)
	two := take(object("faults-bbbbbbbb", "2", "2026-01-01T00:00:01Z"), "faults-bbbbbbbb", told)
	if diffs := compare(one, two, mask{}); len(diffs) != 0 {
		t.Errorf("they differ: %v", diffs)
	}
	if got := one["things/a"]["spec.list[1]"]; got != "2" {
		t.Errorf("the list holds %q", got)
	}
}

func TestBusiestIsTheMostWithinASecond(t *testing.T) {
	at := func(p string, ms int) entry {
		return entry{Point: Point{Verb: verbApply, Name: p, Occurrence: ms}, At: time.Unix(0, 0).Add(time.Duration(ms) * time.Millisecond)}
	}
	p, n := busiest([]entry{at("a", 0), at("b", 0), at("a", 600), at("b", 100), at("a", 1200), at("b", 900)})
	if p.Name != "b" || n != 3 {
		t.Errorf("%v, %d times", p, n)
	}
}

func TestHeldStreamsLoseNothing(t *testing.T) {
	s := newStream(io.NopCloser(bytes.NewReader([]byte("event"))), "things", func(*stream) {})
	began := time.Now()
	s.hold(began.Add(100 * time.Millisecond))
	got, err := io.ReadAll(s)
	if err != nil || string(got) != "event" {
		t.Errorf("%q, %v", got, err)
	}
	if time.Since(began) < 100*time.Millisecond {
		t.Error("it was not held")
	}
	s = newStream(io.NopCloser(bytes.NewReader([]byte("event"))), "things", func(*stream) {})
	s.hold(time.Now().Add(time.Hour))
	s.cut(io.ErrUnexpectedEOF)
	if got, _ := io.ReadAll(s); len(got) != 0 {
		t.Errorf("a cut stream gave %q", got)
	}
}

func TestStaleListsAreOfTheOlderVersion(t *testing.T) {
	s := &staleness{resource: "services", version: 41, until: time.Now().Add(time.Minute)}
	if s.concerns("configmaps") || !s.concerns("services") || (*staleness)(nil).concerns("services") {
		t.Error("it concerns what it should not")
	}
	list := httptest.NewRequest(http.MethodGet, "/api/v1/services?resourceVersion=0", nil)
	again, refuse := s.rewrite(list, request{Verb: verbList, Resource: "services"})
	if refuse || again.URL.Query().Get("resourceVersion") != "41" || again.URL.Query().Get("resourceVersionMatch") != "Exact" {
		t.Errorf("a list became %v", again)
	}
	watch := httptest.NewRequest(http.MethodGet, "/api/v1/services?watch=true&sendInitialEvents=true", nil)
	if _, refuse = s.rewrite(watch, request{Verb: verbWatch, Resource: "services"}); !refuse {
		t.Error("a streamed list was let through")
	}
}

func TestDriftsAreFoundByTheirPath(t *testing.T) {
	u := &unstructured.Unstructured{}
	err := u.UnmarshalJSON([]byte(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"a","managedFields":[
		{"manager":"mlkeeper","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":
			{"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{}}}}}},
		{"manager":"other","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:type":{}}}}]},
		"spec":{"type":"ClusterIP","ports":[{"name":"x","port":443,"protocol":"TCP"},{"name":"http","port":80,"protocol":"TCP"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	got := managed(u)
	if len(got) != 1 || got[0].pointer != "/spec/ports/1/name" || got[0].value != "http" {
		t.Errorf("%+v", got)
	}
	add, away, ok := addition(u, "/spec/ports/-")
	if !ok || add.Path != "/spec/ports/-" || away.Path != "/spec/ports/2" {
		t.Errorf("%+v, %+v, %t", add, away, ok)
	}
}

func TestWhatAnOperatorBeginsWithIsKnown(t *testing.T) {
	var j journal
	j.add(entry{request: request{Verb: verbWatch, Resource: "kinds"}})
	j.add(entry{request: request{Verb: verbCreate, Resource: "things"}})
	j.arm()
	if got := j.reads(); len(got) != 1 || !got[Point{Verb: verbWatch, Resource: "kinds"}] {
		t.Errorf("the reads of the run are %v", got)
	}
}

// TestAPlanThatMissesItsFaultIsReplaced: of six plans whose faults depend on timing, a few may miss theirs on any machine; the
// campaign has to say something all the same.
func TestAPlanThatMissesItsFaultIsReplaced(t *testing.T) {
	plan := func(workload string) Plan {
		return Plan{Seed: 7, Campaign: "C2", Workload: workload, Fault: &Fault{Do: DieAfter}}
	}
	all := []Plan{plan("a"), plan("b"), plan("c"), plan("d"), plan("e"), plan("f"), plan("g"), plan("h"), plan("i")}
	suite := func(misses ...string) *Report {
		s := &Suite{Config: Config{Seed: 7, Limit: 3}}
		chosen, spares := s.choose(campaign{name: "C2"}, slices.Clone(all))
		s.spares = map[string][]Plan{"C2": spares}
		order := append(slices.Clone(chosen), spares...)
		for _, p := range chosen {
			s.proven(p, func(p Plan) outcome {
				i := slices.IndexFunc(order, func(one Plan) bool { return one.Workload == p.Workload })
				return outcome{plan: p, missed: slices.Contains(misses, strconv.Itoa(i))}
			})
		}
		return s.report(time.Second)
	}
	for name, c := range map[string]struct {
		misses                  []string
		plans, missed, replaced int
		fails                   bool
	}{
		"none misses":                    {nil, 3, 0, 0, false},
		"two miss, two others do not":    {[]string{"0", "2"}, 5, 2, 2, false},
		"one misses, and so does a next": {[]string{"1", "3"}, 5, 2, 2, false},
		"all miss, and there is no more": {[]string{"0", "1", "2", "3", "4", "5"}, 6, 6, 3, true},
	} {
		r := suite(c.misses...)
		got := *r.Campaigns["C2"]
		if got.Plans != c.plans || got.Missed != c.missed || got.Replaced != c.replaced || (len(r.Failures) > 0) != c.fails {
			t.Errorf("%s: %+v and %d failures, want %+v", name, got, len(r.Failures), c)
		}
	}
}

func TestACampaignWhoseFaultsDidNotTakePlaceFails(t *testing.T) {
	campaign := func(missed, of int) *Suite {
		s := &Suite{Config: Config{Seed: 7}}
		for i := range of {
			s.tell(outcome{plan: Plan{Seed: 7, Campaign: "C1", Fault: &Fault{Do: DieAfter}}, missed: i < missed})
		}
		return s
	}
	for _, c := range []struct {
		missed, of int
		want       string
	}{
		{0, 10, ""},
		{1, 10, ""},
		{2, 10, "H: the faults of 2 plans of 10 did not take place, and 10 % may miss theirs"},
		{10, 10, "H: the faults of 10 plans of 10 did not take place, and 10 % may miss theirs"},
		{0, 0, "H: no plan was run"},
	} {
		got := ""
		for _, f := range campaign(c.missed, c.of).report(time.Second).Failures {
			got += f.Findings[0].String()
		}
		if got != c.want {
			t.Errorf("%d of %d missed: %q, want %q", c.missed, c.of, got, c.want)
		}
	}
	// Every campaign has a limit that not all of its plans may be above.
	for _, c := range campaigns {
		if c.missed >= 1 {
			t.Errorf("%s passes though all its plans missed their fault", c.name)
		}
	}
}

func TestPausesThatEndInAWindow(t *testing.T) {
	for _, c := range []struct {
		settle, window time.Duration
		want           int
	}{
		{6 * time.Second, 6 * time.Second, 2},
		{30 * time.Second, 30 * time.Second, 2},
		{30 * time.Second, time.Minute, 2},
		{time.Second, 30 * time.Second, 6},
	} {
		if got := pauses(c.settle, c.window); got != c.want {
			t.Errorf("%s after %s: %d, want %d", c.window, c.settle, got, c.want)
		}
	}
}

func TestEveryCauseIsFoundByItsName(t *testing.T) {
	for _, c := range causes {
		if got := causeOf(c.name); got == nil || got.name != c.name {
			t.Errorf("%s is %v", c.name, got)
		}
	}
	if causeOf("none") != nil {
		t.Error("a cause that there is not was found")
	}
}

func TestTheTableHasTheMostOfEachKindAndCause(t *testing.T) {
	s := &Suite{activities: []activity{
		{kind: "k", cause: Quota, reconciles: 1, attempts: 2, window: 30 * time.Second},
		{kind: "k", cause: Quota, reconciles: 3, reads: 1, window: 30 * time.Second},
		{kind: "k", cause: Policy, statuses: 1, changes: 1, window: 40 * time.Second},
	}}
	want := "| kind | cause | reconciles | attempted writes | changing writes | status writes | live reads |\n" +
		"|---|---|---|---|---|---|---|\n| k | policy | 0 | 0 | 1.5 | 1.5 | 0 |\n| k | quota | 6 | 4 | 0 | 0 | 2 |\n"
	if got := s.Table(); got != want {
		t.Errorf("%s", got)
	}
}

// TestTheOrderOfStagesIsCompared has numbers that depend on which Inventory was made first, and another order.
func TestTheOrderOfStagesIsCompared(t *testing.T) {
	of := func(first, second int64) snapshot {
		objects := map[string]*unstructured.Unstructured{}
		for name, stage := range map[string]int64{"kfdef-a-uid.a": first, "kfdef-a-uid.b": second} {
			objects[inventories+"/"+name] = &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"name": name}, "spec": map[string]any{"stage": stage, "owner": map[string]any{"uid": "one"}},
			}}
		}
		return take(objects, "ns", func(string) bool { return true })
	}
	if diffs := compare(of(0, 1000), of(499, 1000), mask{}); len(diffs) > 0 {
		t.Errorf("the same order differs: %v", diffs)
	}
	if diffs := compare(of(0, 1000), of(1000, 0), mask{}); len(diffs) == 0 {
		t.Error("another order is not seen")
	}
}
