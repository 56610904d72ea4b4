package decide

import (
	"os"
	"testing"
	"time"
)

// longForm says whether the larger bounds are to be searched, which takes minutes.
func longForm() bool { return os.Getenv("MLKEEPER_EXPLORE") == "long" }

var both = [maxStacks]uint8{3, 3}

// scenarios are the starts of the search: one stack, and two that collide.
var scenarios = []scenario{
	{
		name: "one stack, a gate before a child", controllers: []uint8{0}, gate: true, faults: [2]uint8{1, 2}, edits: [2]uint8{1, 1},
		children: []child{{gvk: deployments, versions: both}, {gvk: configMaps, stage: 1, versions: both}},
	},
	{
		name: "one stack, a kept claim and a child that a change drops", controllers: []uint8{0}, deletes: true,
		faults: [2]uint8{1, 2}, edits: [2]uint8{1, 2},
		children: []child{{gvk: claims, retain: true, versions: both}, {gvk: configMaps, versions: [maxStacks]uint8{1, 0}}},
	},
	{
		name: "one stack, a claim and another kept child that a change drops", controllers: []uint8{0}, deletes: true,
		faults: [2]uint8{1, 2}, edits: [2]uint8{1, 2},
		children: []child{
			{gvk: claims, retain: true, versions: [maxStacks]uint8{1, 0}},
			{gvk: configMaps, retain: true, versions: [maxStacks]uint8{1, 0}},
		},
	},
	{
		name: "one stack, one child", controllers: []uint8{0}, deletes: true, faults: [2]uint8{2, 4}, edits: [2]uint8{2, 3},
		children: []child{{gvk: configMaps, versions: both}},
	},
	{
		name: "two stacks, one name", controllers: []uint8{0, 0}, deletes: true, faults: [2]uint8{1, 2}, edits: [2]uint8{1, 2},
		children: []child{{gvk: configMaps, versions: both}},
	},
	{
		name: "two stacks of two controllers, one name", controllers: []uint8{0, 1}, deletes: true, faults: [2]uint8{1, 2}, edits: [2]uint8{1, 2},
		children: []child{{gvk: configMaps, versions: both}},
	},
	{
		name: "two stacks, one name that a change of the first drops", controllers: []uint8{0, 0}, faults: [2]uint8{2, 2}, edits: [2]uint8{1, 2},
		children: []child{{gvk: configMaps, versions: [maxStacks]uint8{1, 3}}},
	},
	{
		name: "two stacks, one kept claim", controllers: []uint8{0, 0}, deletes: true, faults: [2]uint8{1, 2}, edits: [2]uint8{1, 2},
		children: []child{{gvk: claims, retain: true, versions: both}},
	},
	{
		name: "two stacks, one kept claim, and somebody who exchanges their marks", controllers: []uint8{0, 0}, relabel: true,
		faults: [2]uint8{1, 2}, edits: [2]uint8{1, 2},
		children: []child{{gvk: claims, retain: true, versions: both}},
	},
	{
		name: "two stacks, of which one adopts nobody's object", controllers: []uint8{0, 0}, adopt: [maxStacks]bool{false, true},
		planted: true, faults: [2]uint8{1, 1}, edits: [2]uint8{1, 2},
		children: []child{{gvk: configMaps, versions: both}},
	},
	{
		name: "two stacks that both adopt nobody's object", controllers: []uint8{0, 0}, adopt: [maxStacks]bool{true, true}, planted: true,
		faults: [2]uint8{1, 2}, edits: [2]uint8{1, 2},
		children: []child{{gvk: configMaps, versions: both}},
	},
	{
		name: "two stacks, the second adopts what a change of the first drops", controllers: []uint8{0, 0},
		adopt: [maxStacks]bool{false, true}, faults: [2]uint8{1, 2}, edits: [2]uint8{1, 2},
		children: []child{{gvk: configMaps, versions: [maxStacks]uint8{1, 3}}},
	},
	{
		name: "two stacks of two controllers, the second adopts what a change of the first drops", controllers: []uint8{0, 1},
		adopt: [maxStacks]bool{false, true}, faults: [2]uint8{1, 2}, edits: [2]uint8{1, 2},
		children: []child{{gvk: configMaps, versions: [maxStacks]uint8{1, 3}}},
	},
	{
		name: "two stacks that share one name and have one each", controllers: []uint8{0, 0}, faults: [2]uint8{0, 1}, edits: [2]uint8{1, 0},
		children: []child{
			{gvk: configMaps, versions: both},
			{gvk: deployments, versions: [maxStacks]uint8{3, 0}},
			{gvk: claims, retain: true, versions: [maxStacks]uint8{0, 3}},
		},
	},
}

// TestExhaustively searches every scenario for a state in which an invariant is violated, or from which the stacks do not come to
// rest as declared once nothing interferes any more.
func TestExhaustively(t *testing.T) {
	total := 0
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			m, err := newModel(sc)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			states, steps, found := m.explore(m.start(longForm()))
			total += states
			t.Logf("%d states, %d steps, %d different decisions in %s", states, steps, len(m.decisions),
				time.Since(began).Round(time.Millisecond))
			if found != nil {
				t.Error(found)
			}
		})
	}
	t.Logf("%d states in all", total)
}
