package catalog

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestCRDSettleDelay(t *testing.T) {
	established := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(since time.Time) *crdInfo {
		return &crdInfo{ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"}, kind: widget, established: true, establishedAt: since}
	}
	for name, c := range map[string]struct {
		note func(settleTimes)
		want time.Time
	}{
		"unknown kind":             {func(settleTimes) {}, time.Time{}},
		"established just now":     {func(e settleTimes) { e.update(at(established), established.Add(time.Second), true) }, established.Add(crdSettleDelay)},
		"established long ago":     {func(e settleTimes) { e.update(at(established), established.Add(time.Hour), true) }, established.Add(crdSettleDelay)},
		"by a clock that is ahead": {func(e settleTimes) { e.update(at(established.Add(time.Hour)), established, true) }, established.Add(crdSettleDelay)},
		"without a condition":      {func(e settleTimes) { e.update(at(time.Time{}), established, true) }, time.Time{}.Add(crdSettleDelay)},
		"another event, by a clock that is ahead": {func(e settleTimes) {
			e.update(at(established.Add(time.Hour)), established, true)
			e.update(at(established.Add(time.Hour)), established.Add(time.Minute), true)
		}, established.Add(crdSettleDelay)},
		"deleted": {func(e settleTimes) {
			e.update(at(established), established, true)
			e.update(at(established), established, false)
		}, time.Time{}},
		"deleted and created again": {func(e settleTimes) {
			e.update(at(established), established, true)
			e.update(at(established), established, false)
			e.update(at(established.Add(time.Minute)), established.Add(time.Minute), true)
		}, established.Add(time.Minute + crdSettleDelay)},
	} {
		t.Run(name, func(t *testing.T) {
			e := settleTimes{}
			c.note(e)
			if got := e[widget].settledAt; !got.Equal(c.want) {
				t.Errorf("until %s, want %s", got, c.want)
			}
		})
	}
}

func TestTransformKeepsEstablishedTime(t *testing.T) {
	condition := map[string]any{"type": "Established", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}
	transform := func() *crdInfo {
		out, err := transformCRD(&unstructured.Unstructured{Object: map[string]any{
			"status": map[string]any{"conditions": []any{map[string]any{"type": "NamesAccepted", "status": "True"}, condition}},
		}})
		d, ok := out.(*crdInfo)
		if err != nil || !ok {
			t.Fatalf("%T, %v", out, err)
		}
		return d
	}
	if d := transform(); !d.establishedAt.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
		t.Errorf("since %s", d.establishedAt)
	}
	condition["status"] = "False"
	if d := transform(); !d.establishedAt.IsZero() || d.established {
		t.Errorf("%+v", d)
	}
}
