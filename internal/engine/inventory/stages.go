package inventory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
)

// spacing is how far apart the numbers of new stages are, so that one between two others renumbers neither; maxStage is the
// largest number that the schema allows.
const spacing, maxStage = 1000, 1_000_000

// assign finds the Inventories of each stage, by its name. One of an earlier version has no name yet: it is of the stage that has most
// of its objects, or, if none has any, of the stage at its place, unless that has one. former are those of stages that the plan
// no longer has.
func assign(stages []plan.Stage, existing []*keeper.Inventory) (ofStage [][]*keeper.Inventory, former []*keeper.Inventory) {
	ofStage = make([][]*keeper.Inventory, len(stages))
	at := map[string]int{}
	for i, stage := range stages {
		at[stage.Name] = i
	}
	unnamed := map[int32][]*keeper.Inventory{}
	for _, inv := range existing {
		if i, planned := at[inv.Spec.StageName]; planned {
			ofStage[i] = append(ofStage[i], inv)
		} else if inv.Spec.StageName == "" {
			unnamed[inv.Spec.Stage] = append(unnamed[inv.Spec.Stage], inv)
		} else {
			former = append(former, inv)
		}
	}
	if len(unnamed) == 0 {
		return ofStage, former
	}
	stagesOf := map[plan.Key]int{}
	for i, stage := range stages {
		for _, o := range stage.Objects {
			stagesOf[o.Key()] = i
		}
	}
	var rest []int32
	for _, number := range sortedNumbers(unnamed) {
		if i, some := mostOf(unnamed[number], stagesOf); some {
			ofStage[i] = append(ofStage[i], unnamed[number]...)
		} else {
			rest = append(rest, number)
		}
	}
	for _, number := range rest {
		if i := int(number); i < len(stages) && len(ofStage[i]) == 0 {
			ofStage[i] = unnamed[number]
		} else {
			former = append(former, unnamed[number]...)
		}
	}
	return ofStage, former
}

func sortedNumbers(of map[int32][]*keeper.Inventory) []int32 {
	out := make([]int32, 0, len(of))
	for number := range of {
		out = append(out, number)
	}
	slices.Sort(out)
	return out
}

// mostOf is the stage that has most of the objects of Inventories; the first of several.
func mostOf(invs []*keeper.Inventory, stagesOf map[plan.Key]int) (stage int, some bool) {
	count := map[int]int{}
	for _, inv := range invs {
		for _, e := range inv.Spec.Entries {
			if i, planned := stagesOf[plan.KeyOfEntry(e)]; planned {
				count[i]++
			}
		}
	}
	for i, n := range count {
		if !some || cmp.Or(cmp.Compare(n, count[stage]), cmp.Compare(stage, i)) > 0 {
			stage, some = i, true
		}
	}
	return stage, some
}

// numbersOf numbers the stages such that the numbers grow. A stage that has Inventories keeps its number where that is possible, so that
// one that is inserted or removed changes no Inventory of the others. If there is no room between two, all are numbered anew.
func numbersOf(ofStage [][]*keeper.Inventory) []int32 {
	out := make([]int32, len(ofStage))
	keep := growing(ofStage)
	for from := 0; from < len(out); {
		if keep[from] {
			out[from] = ofStage[from][0].Spec.Stage
			from++
			continue
		}
		to := from
		for to < len(out) && !keep[to] {
			to++
		}
		lower, step := -spacing, int32(spacing)
		if from > 0 {
			lower = int(out[from-1])
		}
		if to < len(out) {
			upper := int(ofStage[to][0].Spec.Stage)
			lower = max(lower, -1)
			step = int32(min(spacing, (upper-lower)/(to-from+1))) //nolint:gosec // A number of the schema.
		}
		for ; from < to; from++ {
			lower += int(step)
			out[from] = int32(lower) //nolint:gosec // Checked below.
		}
		if step == 0 || lower > maxStage {
			return anew(len(out))
		}
	}
	return out
}

// anew are numbers as far apart as there is room for.
func anew(n int) []int32 {
	out, step := make([]int32, n), min(spacing, maxStage/max(n, 1))
	for i := range out {
		out[i] = int32(i * step) //nolint:gosec // Not more than maxStage.
	}
	return out
}

// growing are the stages that keep their numbers: as many as can, in their order.
func growing(ofStage [][]*keeper.Inventory) []bool {
	length, before := make([]int, len(ofStage)), make([]int, len(ofStage))
	last := -1
	for i, invs := range ofStage {
		before[i] = -1
		if len(invs) == 0 {
			continue
		}
		length[i] = 1
		for j := range i {
			if length[j] >= length[i] && len(ofStage[j]) > 0 && ofStage[j][0].Spec.Stage < invs[0].Spec.Stage {
				length[i], before[i] = length[j]+1, j
			}
		}
		if last < 0 || length[i] > length[last] {
			last = i
		}
	}
	out := make([]bool, len(ofStage))
	for ; last >= 0; last = before[last] {
		out[last] = true
	}
	return out
}

// renumber writes the numbers of Inventories that have others, one after the other and such that the order is right after each
// write: the order of a teardown is that of the numbers, and the process may end at any time.
func (s *Store) renumber(ctx context.Context, ofStage [][]*keeper.Inventory, numbers []int32, confirm func() error) error {
	one := func(i int, grows bool) error {
		for j, inv := range ofStage[i] {
			if inv.Spec.Stage == numbers[i] || inv.Spec.Stage < numbers[i] != grows {
				continue
			}
			if err := confirm(); err != nil {
				return err
			}
			next := inv.DeepCopy()
			next.Spec.Stage = numbers[i]
			written, err := s.update(ctx, next)
			if err != nil {
				return fmt.Errorf("number Inventory %s: %w", inv.Name, err)
			}
			ofStage[i][j] = written
		}
		return nil
	}
	for i := len(ofStage) - 1; i >= 0; i-- {
		if err := one(i, true); err != nil {
			return err
		}
	}
	for i := range ofStage {
		if err := one(i, false); err != nil {
			return err
		}
	}
	return nil
}

// SameOwner reports whether a name is that of an Inventory of the same custom resource as a given one, also of one that is deleted. The
// part of a name before the stage is that of the custom resource (plan.Stack.InventoryPrefix).
func SameOwner(name string, inv *keeper.Inventory) bool {
	first, separator := firstOfStage(inv)
	prefix := first[:max(0, strings.LastIndex(first, separator))]
	return strings.HasPrefix(name, prefix+".") || strings.HasPrefix(name, prefix+"-")
}

// SameStage reports whether a name is that of an Inventory of the same custom resource and stage as a given one, also of one that
// is deleted.
func SameStage(name string, inv *keeper.Inventory) bool {
	first, separator := firstOfStage(inv)
	return name == first || strings.HasPrefix(name, first+separator)
}

// firstOfStage is the name of the first Inventory of a stage, which one of its Inventories begins with, and what comes before the stage and
// the number of a part in a name. Those of an earlier version end in the number of the stage.
func firstOfStage(inv *keeper.Inventory) (name, separator string) {
	name, separator = inv.Name, "-"
	if strings.Contains(inv.Name, ".") {
		separator = "."
	}
	if inv.Spec.Part > 0 {
		name = strings.TrimSuffix(name, fmt.Sprintf("%s%d", separator, inv.Spec.Part))
	}
	return name, separator
}
