package world

import (
	"testing"
)

func TestMetrics(t *testing.T) {
	before := ParseMetrics("# HELP a b\na{x=\"1\",y=\"with space\"} 2\na{x=\"2\"} 3\nab 9\n")
	after := ParseMetrics("a{x=\"1\",y=\"with space\"} 2\na{x=\"2\"} 5\nab 9\nbroken\n")
	if got := before.Sum("a"); got != 5 {
		t.Errorf("the sum is %g", got)
	}
	if got := after.Sum("a", `x="2"`); got != 5 {
		t.Errorf("the sum with a label is %g", got)
	}
	since := after.Since(before, "a")
	if len(since) != 1 || since[`a{x="2"}`] != 2 {
		t.Errorf("grew by %v", since)
	}
	if !after.Has("ab") || after.Has("b") {
		t.Error("Has is wrong")
	}
}

func TestRssAnon(t *testing.T) {
	got, err := rssAnon("VmRSS:\t  200 kB\nRssAnon:\t   12 kB\nRssFile:\t 1 kB\n")
	if err != nil || got != 12*1024 {
		t.Fatalf("%g, %v", got, err)
	}
	if _, err := rssAnon("Name:\tx\n"); err == nil {
		t.Fatal("a kernel thread has memory")
	}
}

func TestShapesFill(t *testing.T) {
	for _, shape := range []Shape{ADR, Upstream} {
		s := Services(shape, "ns", 3, 1)[0]
		u, err := s.Object()
		if err != nil || u.GetNamespace() != "ns-00003" || u.GetName() != "svc" {
			t.Fatalf("%s: %v, %v", shape.Name, u, err)
		}
	}
	mixed := Mixed([]Shape{ADR, Upstream}, "m", 0, 3)
	if mixed[0].Namespace != "m-adr-00000" || mixed[1].Namespace != "m-upstream-00001" || mixed[2].Shape.Name != "adr" {
		t.Fatalf("%+v", mixed)
	}
}
