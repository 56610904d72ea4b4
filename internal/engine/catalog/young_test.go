package catalog

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestYoung(t *testing.T) {
	established := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(since time.Time) *definition {
		return &definition{ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"}, kind: widget, established: true, since: since}
	}
	for name, c := range map[string]struct {
		note func(young)
		want time.Time
	}{
		"nothing is known":    {func(young) {}, time.Time{}},
		"only just":           {func(y young) { y.put(at(established), established.Add(time.Second), true) }, established.Add(youth)},
		"long ago":            {func(y young) { y.put(at(established), established.Add(time.Hour), true) }, established.Add(youth)},
		"by a clock far off":  {func(y young) { y.put(at(established.Add(time.Hour)), established, true) }, established.Add(youth)},
		"without a condition": {func(y young) { y.put(at(time.Time{}), established, true) }, time.Time{}.Add(youth)},
		"another event, by a clock far off": {func(y young) {
			y.put(at(established.Add(time.Hour)), established, true)
			y.put(at(established.Add(time.Hour)), established.Add(time.Minute), true)
		}, established.Add(youth)},
		"gone": {func(y young) {
			y.put(at(established), established, true)
			y.put(at(established), established, false)
		}, time.Time{}},
		"gone, and there again": {func(y young) {
			y.put(at(established), established, true)
			y.put(at(established), established, false)
			y.put(at(established.Add(time.Minute)), established.Add(time.Minute), true)
		}, established.Add(time.Minute + youth)},
	} {
		t.Run(name, func(t *testing.T) {
			y := young{}
			c.note(y)
			if got := y[widget].until; !got.Equal(c.want) {
				t.Errorf("until %s, want %s", got, c.want)
			}
		})
	}
}

func TestReduceKeepsSinceWhenItIsEstablished(t *testing.T) {
	condition := map[string]any{"type": "Established", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}
	reduce := func() *definition {
		out, err := reduceDefinition(&unstructured.Unstructured{Object: map[string]any{
			"status": map[string]any{"conditions": []any{map[string]any{"type": "NamesAccepted", "status": "True"}, condition}},
		}})
		d, ok := out.(*definition)
		if err != nil || !ok {
			t.Fatalf("%T, %v", out, err)
		}
		return d
	}
	if d := reduce(); !d.since.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
		t.Errorf("since %s", d.since)
	}
	condition["status"] = "False"
	if d := reduce(); !d.since.IsZero() || d.established {
		t.Errorf("%+v", d)
	}
}
