package faults

import (
	"reflect"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestEditsReachWhatIsAbsent(t *testing.T) {
	spec := map[string]any{"a": map[string]any{"b": int64(1)}, "l": []any{"x", "y"}}
	for _, c := range []struct {
		name string
		edit Edit
		want map[string]any
	}{
		{"a field", Edit{Path: "/a/b", Value: 2}, map[string]any{"a": map[string]any{"b": int64(2)}, "l": []any{"x", "y"}}},
		{"an absent object", Edit{Path: "/n/m", Value: "v"}, map[string]any{
			"a": map[string]any{"b": int64(1)}, "l": []any{"x", "y"}, "n": map[string]any{"m": "v"},
		}},
		{"an item", Edit{Path: "/l/1", Value: "z"}, map[string]any{"a": map[string]any{"b": int64(1)}, "l": []any{"x", "z"}}},
		{"one more", Edit{Path: "/l/-", Value: "z"}, map[string]any{"a": map[string]any{"b": int64(1)}, "l": []any{"x", "y", "z"}}},
		{"an item away", Edit{Path: "/l/0", Remove: true}, map[string]any{"a": map[string]any{"b": int64(1)}, "l": []any{"y"}}},
		{"a field away", Edit{Path: "/a/b", Remove: true}, map[string]any{"a": map[string]any{}, "l": []any{"x", "y"}}},
		{"nothing away", Edit{Path: "/n/m", Remove: true}, spec},
		{"beyond a list", Edit{Path: "/l/7", Value: "z"}, spec},
		{"below a text", Edit{Path: "/l/0/x", Value: "z"}, spec},
	} {
		got, err := edited(spec, []Edit{c.edit})
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v (%v), want %v", c.name, got, err, c.want)
		}
	}
	if _, err := edited(spec, []Edit{{Value: "text"}}); err == nil {
		t.Error("a spec that is no object was accepted")
	}
}

// TestEveryFieldIsChanged: each field of a schema is changed, also below objects that the base does not have, and with what these
// require.
func TestEveryFieldIsChanged(t *testing.T) {
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	schema := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"replicas": {Type: "integer"},
		"list":     {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &text}},
		"absent": {Type: "object", Required: []string{"needed"}, Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"needed": text, "image": text,
		}},
	}}
	spec := map[string]any{"replicas": int64(3), "list": []any{"x", "y"}}
	got := map[string]Edit{}
	for _, op := range fieldChanges(&Base{Values: map[string][]any{"absent.image": {"known"}}}, schema, spec) {
		got[op.Name] = op.Edits[0]
	}
	for name, want := range map[string]Edit{
		"replicas: absent":            {Path: "/replicas", Remove: true},
		"replicas: -1":                {Path: "/replicas", Value: int64(-1)},
		"list: reversed":              {Path: "/list", Value: []any{"y", "x"}},
		"list: first duplicated":      {Path: "/list", Value: []any{"x", "y", "x"}},
		"absent: minimal":             {Path: "/absent", Value: map[string]any{"needed": alien}},
		"absent.image: known value 0": {Path: "/absent", Value: map[string]any{"needed": alien, "image": "known"}},
	} {
		if !reflect.DeepEqual(got[name], want) {
			t.Errorf("%s is %+v, want %+v", name, got[name], want)
		}
	}
}

// TestWhatIsFoundInARepetitionCounts: a plan is missed only where its repetitions find nothing at all.
func TestWhatIsFoundInARepetitionCounts(t *testing.T) {
	plan := Plan{Seed: 7, Campaign: misoperation, Operations: []Operation{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "back"}}}
	for name, c := range map[string]struct {
		first string
		// again are the oracles of the repetitions, in turn; the rest finds nothing.
		again  []string
		recurs bool
		oracle string
	}{
		"nothing again":                        {"O4", nil, false, "O4"},
		"the same with the last operation":     {"O4", []string{"O4"}, true, "O4"},
		"another one":                          {"O4", []string{"", "O7"}, true, "O7"},
		"one of those that may come too early": {"O10", []string{"", "", "O3"}, true, "O3"},
		"only when it is repeated once more":   {"O3", []string{"", "", "", "O4"}, true, "O4"},
		"what counts at once":                  {"O9", nil, true, "O9"},
		"a test that cannot go on":             {"H", []string{"O4"}, true, "H"},
	} {
		runs := 0
		first := operated{findings: []Finding{{Oracle: c.first}}, at: 2}
		_, found, recurs := minimize(plan, first, func(Plan) (out operated) {
			if runs < len(c.again) && c.again[runs] != "" {
				out.findings = []Finding{{Oracle: c.again[runs]}}
			}
			runs++
			return out
		})
		if recurs != c.recurs || found.findings[0].Oracle != c.oracle {
			t.Errorf("%s: it recurs: %t, by %s", name, recurs, found.findings[0].Oracle)
		}
	}
}

// TestPlansThatFoundSomethingOnceAreTold: they are no failures, but the report has what was found, and a campaign with many of them fails.
func TestPlansThatFoundSomethingOnceAreTold(t *testing.T) {
	report := func(once, of int) *Report {
		s := &Suite{Config: Config{Seed: 7}, operations: map[string]int{"ready": 1}}
		for i := range of {
			o := outcome{plan: Plan{Seed: 7, Campaign: misoperation, Workload: "w", Operations: []Operation{{Name: "op"}}}, missed: i < once}
			if o.missed {
				o.findings = []Finding{{Oracle: "O4", Text: "it differs"}}
			}
			s.tell(o)
		}
		return s.report(0)
	}
	r := report(1, 90)
	if len(r.Failures) > 0 || len(r.Missed) != 1 || !strings.HasSuffix(r.Missed[0], ": O4: it differs") {
		t.Errorf("%+v, missed %v", r.Failures, r.Missed)
	}
	r = report(3, 90)
	want := "H: what was found in 3 plans of 90 was not found again, and that may be so in 2 %"
	if len(r.Failures) != 1 || r.Failures[0].Findings[0].String() != want {
		t.Errorf("%+v, want %s", r.Failures, want)
	}
}

// TestWhatExplainsAVerdict: a message names the field or the value of the write that it is about.
func TestWhatExplainsAVerdict(t *testing.T) {
	origin := map[string]any{"image": "example.com/good:v1", "storage": map[string]any{"size": "1Gi", "pvc": "data"}}
	base := &Base{Called: map[string][]string{"pendingContent": {"modelEntities"}}}
	pending := []Edit{{Path: "/pendingContent", Value: map[string]any{"version": "1"}}}
	replicas := []Edit{{Path: "/replicas", Value: int64(-1)}}
	name := []Edit{{Path: "/storage/secretName", Value: "no-such-thing"}}
	size := []Edit{{Path: "/storage/size", Value: "-1Gi"}}
	whole := []Edit{{Path: "/tls", Value: map[string]any{"name": "x", "issuer": map[string]any{"group": "none.example.com"}}}}
	for what, c := range map[string]struct {
		message       string
		edits, before []Edit
		told          bool
	}{
		"the path":                          {"spec.replicas: Invalid value: -1", replicas, nil, true},
		"an ordinary word":                  {"Deployment a: 0 of 1 replicas are ready", replicas, nil, false},
		"the name of the field":             {"Secret x, which secretName names, is missing", name, nil, true},
		"the value":                         {"Secret ns/no-such-thing is missing", name, nil, true},
		"a part of a word":                  {"Secret ns/no-such-things is missing", name, nil, false},
		"the object that the field is in":   {"spec.storage: give one of pvc and size", size, nil, true},
		"another field of the object":       {"spec.storage.pvc: Not found", size, nil, false},
		"a field of a child":                {`spec.resources.requests[storage.size]: Invalid value: "x"`, size, nil, true},
		"a field in the value":              {"spec.tls.issuer.group: unknown", whole, nil, true},
		"a text in the value":               {"there is no API none.example.com", whole, nil, true},
		"an ordinary field in the value":    {"the name is wrong", whole, nil, false},
		"the value that is replaced":        {"example.com/good:v1 cannot be pulled", []Edit{{Path: "/image", Value: "b"}}, nil, false},
		"what is put back":                  {"spec.storage.size: field is immutable", nil, size, true},
		"the value that is put back":        {"data is in use", nil, []Edit{{Path: "/storage/pvc", Value: "other"}}, true},
		"the value before it":               {"other is in use", nil, []Edit{{Path: "/storage/pvc", Value: "other"}}, false},
		"an edit before that the write has": {"no-such-thing is missing", []Edit{{Path: "/storage/secretName", Value: "good"}}, name, false},
		"the beginning of a long text":      {"Secret " + strings.Repeat("a", 40) + "… is missing", []Edit{{Path: "/name", Value: strings.Repeat("a", 300)}}, nil, true},
		"a text with a line break":          {`spec.x: "line\nbreak" is not allowed`, []Edit{{Path: "/y", Value: "line\nbreak"}}, nil, true},
		"a word of another API":             {"modelEntities: there is none", pending, nil, true},
		"such a word for a field below it":  {"modelEntities: there is none", []Edit{{Path: "/pendingContent/version", Value: "2"}}, nil, true},
		"such a word for another field":     {"modelEntities: there is none", size, nil, false},
		"no edit":                           {"anything", nil, nil, true},
	} {
		for state, v := range map[string]verdict{
			"refused": {Refused: true, Message: c.message},
			"stalled": {Ready: "False", Stalled: "True", Reason: "R", Message: c.message},
			"waiting": {Ready: "False", Stalled: "False", Reason: "R", Message: c.message},
		} {
			if got := explained(v, base, origin, c.edits, c.before); len(got) == 0 != c.told {
				t.Errorf("%s, %s: %v", what, state, got)
			}
		}
	}
	if got := explained(verdict{Ready: "False"}, base, origin, nil, nil); len(got) != 1 {
		t.Errorf("without a reason: %v", got)
	}
}

// TestAnswersAreCountedOnce: what puts the first spec back is counted apart, and a repetition of a plan is not.
func TestAnswersAreCountedOnce(t *testing.T) {
	got := map[string]int{}
	for _, m := range []*misrun{{count: func(answer string) { got[answer]++ }}, {}} {
		m.counted(Operation{Name: "back"}, verdict{Ready: "True"}, false)
		m.counted(Operation{Name: "back"}, verdict{Refused: true}, false)
		m.counted(Operation{Name: "op", Edits: []Edit{{Path: "/x"}}}, verdict{Ready: "True"}, false)
		m.counted(Operation{Name: "op", Edits: []Edit{{Path: "/x"}}}, verdict{}, true)
	}
	if want := map[string]int{"back": 1, "refused": 1, "ready": 1, "hasty": 1}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestChangesOfPlansAreCounted: a change of one field counts once, alone and in walks, and what puts the spec back does not count.
func TestChangesOfPlansAreCounted(t *testing.T) {
	op := func(workload, name string) Plan {
		return Plan{Workload: workload, Operations: []Operation{{Name: name, Edits: []Edit{{Path: "/x"}}}, {Name: "back"}}}
	}
	if got := changesIn([]Plan{op("w", "a"), op("w", "a; b"), op("v", "a")}); got != 3 {
		t.Errorf("%d", got)
	}
}
