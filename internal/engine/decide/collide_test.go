package decide

import (
	"testing"

	"pgregory.net/rapid"
)

// TestCollidingStacksComeToRest goes on where the bound of TestExhaustively ends: two stacks that share one name and
// have another each, a user who changes his mind, and as many faults as the trace has steps. It checks the invariants at every
// step, and that the stacks come to rest from where the trace ends. None of them adopts.
func TestCollidingStacksComeToRest(t *testing.T) {
	for _, sc := range []scenario{
		{
			name: "of one controller", controllers: []uint8{0, 0}, deletes: true, gate: true,
			children: []child{
				{gvk: configMaps, versions: both},
				{gvk: deployments, stage: 1, versions: [maxStacks]uint8{3, 1}},
				{gvk: claims, retain: true, versions: [maxStacks]uint8{1, 3}},
			},
		},
		{
			name: "of two controllers", controllers: []uint8{0, 1}, deletes: true,
			children: []child{
				{gvk: configMaps, versions: both},
				{gvk: claims, retain: true, versions: [maxStacks]uint8{3, 1}},
				{gvk: deployments, versions: [maxStacks]uint8{1, 3}},
			},
		},
	} {
		t.Run(sc.name, func(t *testing.T) {
			m, err := newModel(sc)
			if err != nil {
				t.Fatal(err)
			}
			rapid.Check(t, func(t *rapid.T) { m.trace(t, 80) })
		})
	}
}

// trace takes random steps. Steps of the engine are as likely as all others together, or nothing would ever get done.
func (m *model) trace(t *rapid.T, limit int) {
	s := m.start(false)
	s.faults, s.edits = 255, 255
	length := rapid.IntRange(1, limit).Draw(t, "length")
	var way []step
	for range length {
		var work, other []step
		m.steps(&s, func(one step) {
			if one.op <= opSave && one.op != opLost {
				work = append(work, one)
			} else {
				other = append(other, one)
			}
		})
		from := work
		if len(other) > 0 && rapid.IntRange(0, 2).Draw(t, "interfere") == 0 {
			from = other
		}
		one := rapid.SampledFrom(from).Draw(t, "step")
		way = append(way, one)
		var broken string
		if s, broken = m.do(s, one); broken != "" {
			t.Fatal(&finding{invariant: broken, way: way})
		}
	}
	for schedule := range schedules {
		if bad := m.rest(s, schedule); bad != "" {
			t.Fatal(&finding{invariant: bad, way: way})
		}
	}
}
