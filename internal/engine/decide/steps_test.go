package decide

import (
	"maps"
	"testing"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/plan"
)

func pointers(items []Item) (out []*Item) {
	for i := range items {
		out = append(out, &items[i])
	}
	return out
}

// TestSteps: a step waits for everything in the steps below it, and for a hook first of all, since that opens by no timeout.
func TestSteps(t *testing.T) {
	type change = func(*Item, *thing)
	object := func(step int, hook bool, change change) Item {
		item, th := scene(t, deployments, func(o *plan.Object) { o.Step, o.Hook = step, hook })
		if change != nil {
			change(&item, &th)
			if item.Observed != nil {
				item.Observed = th.observed(deployments, item.Key)
			}
		}
		return item
	}
	var (
		completed  = func(_ *Item, th *thing) { th.completed = true }
		recorded   = func(i *Item, _ *thing) { i.Known.Completed = true }
		gone       = func(i *Item, _ *thing) { i.Observed, i.Known.Completed = nil, true }
		missing    = func(i *Item, _ *thing) { i.Observed, i.Known = nil, nil }
		old        = func(_ *Item, th *thing) { th.digest, th.completed = "old", true }
		unhealthy  = func(_ *Item, th *thing) { th.health = health.InProgress }
		toComplete = Before{Waits: "Deployment ns/a to complete", Hook: true}
		toExist    = Before{Waits: "Deployment ns/a to exist", Hook: true}
		toUpdate   = Before{Waits: "Deployment ns/a to be updated", Hook: true}
		toBeReady  = Before{Waits: "Deployment ns/a to be ready"}
	)
	for name, c := range map[string]struct {
		items []Item
		want  map[int]Before
	}{
		"one step":                     {[]Item{object(0, true, nil), object(0, false, nil)}, nil},
		"a hook that runs":             {[]Item{object(0, true, nil), object(1, false, nil)}, map[int]Before{0: {}, 1: toComplete}},
		"a hook that is healthy only":  {[]Item{object(0, true, func(_ *Item, th *thing) { th.health = health.Current }), object(1, false, nil)}, map[int]Before{0: {}, 1: toComplete}},
		"a hook that has completed":    {[]Item{object(0, true, completed), object(1, false, nil)}, map[int]Before{0: {}, 1: {}}},
		"and is recorded so":           {[]Item{object(0, true, recorded), object(1, false, nil)}, map[int]Before{0: {}, 1: {}}},
		"and is gone":                  {[]Item{object(0, true, gone), object(1, false, nil)}, map[int]Before{0: {}, 1: {}}},
		"a hook that is to be made":    {[]Item{object(0, true, missing), object(1, false, nil)}, map[int]Before{0: {}, 1: toExist}},
		"a hook of before":             {[]Item{object(0, true, old), object(1, false, nil)}, map[int]Before{0: {}, 1: toUpdate}},
		"hooks one after the other":    {[]Item{object(0, true, completed), object(1, true, nil), object(2, false, nil)}, map[int]Before{0: {}, 1: {}, 2: toComplete}},
		"the objects before a hook":    {[]Item{object(0, false, unhealthy), object(1, true, completed)}, map[int]Before{0: {}, 1: toBeReady}},
		"a hook counts first":          {[]Item{object(0, false, unhealthy), object(0, true, nil), object(1, false, nil)}, map[int]Before{0: {}, 1: toComplete}},
		"whatever order they come in":  {[]Item{object(3, false, nil), object(-1, true, nil)}, map[int]Before{-1: {}, 3: toComplete}},
		"and holds back all above it":  {[]Item{object(0, true, nil), object(1, false, unhealthy), object(2, true, nil)}, map[int]Before{0: {}, 1: toComplete, 2: toComplete}},
		"a hook of the same step, too": {[]Item{object(0, true, nil), object(1, true, nil), object(1, false, nil)}, map[int]Before{0: {}, 1: toComplete}},
	} {
		in := Input{Stack: stack, Owners: ownersOfScene}
		if got := Steps(in, pointers(c.items)); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	for name, c := range map[string]struct {
		item Item
		want bool
	}{
		"it failed":           {object(0, true, func(_ *Item, th *thing) { th.health = health.Failed }), true},
		"it is no hook":       {object(0, false, func(_ *Item, th *thing) { th.health = health.Failed }), false},
		"it failed before":    {object(0, true, func(_ *Item, th *thing) { th.health, th.digest = health.Failed, "old" }), false},
		"it is to be deleted": {object(0, true, func(_ *Item, th *thing) { th.health, th.terminating = health.Failed, true }), false},
		"it runs":             {object(0, true, unhealthy), false},
	} {
		if _, got := c.item.Failed(); got != c.want {
			t.Errorf("%s: failed is %t", name, got)
		}
	}
}

// TestSpend: what is made for hooks alone has served when all of them have completed, and serves again before one that is to run again.
func TestSpend(t *testing.T) {
	for name, c := range map[string]struct {
		hook       func(*Item, *thing)
		helper     func(*Item, *thing)
		deletes    bool
		want, news bool
	}{
		"the hook runs":                       {nil, nil, true, false, false},
		"it has completed":                    {func(_ *Item, th *thing) { th.completed = true }, nil, true, true, true},
		"and is gone":                         {func(i *Item, _ *thing) { i.Observed, i.Known.Completed = nil, true }, nil, true, true, true},
		"as it was before":                    {func(_ *Item, th *thing) { th.digest, th.completed = "old", true }, nil, true, false, false},
		"the object stays":                    {func(_ *Item, th *thing) { th.completed = true }, nil, false, false, false},
		"the object is to be changed":         {func(_ *Item, th *thing) { th.completed = true }, func(_ *Item, th *thing) { th.digest = "old" }, true, false, false},
		"the object is not there yet":         {func(_ *Item, th *thing) { th.completed = true }, func(i *Item, _ *thing) { i.Observed = nil }, true, false, false},
		"the object is another":               {func(_ *Item, th *thing) { th.completed = true }, func(_ *Item, th *thing) { th.uid = "v" }, true, false, false},
		"the object has served, and is gone":  {func(_ *Item, th *thing) { th.completed = true }, func(i *Item, _ *thing) { i.Observed, i.Known.Completed = nil, true }, true, true, false},
		"it has served, and the hook is made": {func(i *Item, _ *thing) { i.Observed = nil }, func(i *Item, _ *thing) { i.Observed, i.Known.Completed = nil, true }, true, false, true},
	} {
		made := func(hook, deletes bool, change func(*Item, *thing)) Item {
			item, th := scene(t, deployments, func(o *plan.Object) { o.Hook, o.DeleteCompleted = hook, deletes })
			if change != nil {
				change(&item, &th)
				if item.Observed != nil {
					item.Observed = th.observed(deployments, item.Key)
				}
			}
			return item
		}
		helper := made(false, c.deletes, c.helper)
		news := Spend(Input{Stack: stack, Owners: ownersOfScene}, Stage{Items: []Item{helper, made(true, false, c.hook)}})
		if helper.Known.Completed != c.want || len(news) > 0 != c.news {
			t.Errorf("%s: it has served: %t, and new are %d", name, helper.Known.Completed, len(news))
		}
	}
	helper, _ := scene(t, deployments, func(o *plan.Object) { o.DeleteCompleted = true })
	news := Spend(Input{Stack: stack, Owners: ownersOfScene}, Stage{Items: []Item{helper}})
	if len(news) != 1 || decideOne(news[0]).Verb != Leave {
		t.Fatalf("without a hook that ends, it goes before it is recorded: %+v", news)
	}
	if news[0].Stored = news[0].Known; decideOne(news[0]).Verb != Delete {
		t.Errorf("without a hook that ends, it stays: %+v", news)
	}
	helper.Known = nil
	if news := Spend(Input{Stack: stack, Owners: ownersOfScene}, Stage{Items: []Item{helper}}); len(news) > 0 {
		t.Errorf("what was not recorded has served: %+v", news)
	}
}

// TestSpendRecordsAHookThatChanges: one that has completed as it was declared before is recorded as it is there, where the record does not tell, such as
// after a crash. What another owner has is not recorded.
func TestSpendRecordsAHookThatChanges(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Item, *thing)
		news   bool
	}{
		"as declared":                         {func(i *Item, th *thing) { th.digest = i.Digest }, false},
		"nothing is recorded":                 {func(i *Item, _ *thing) { i.Known = nil }, true},
		"it is listed":                        {func(i *Item, _ *thing) { i.Known.UID = "" }, true},
		"another is recorded":                 {func(i *Item, _ *thing) { i.Known.UID, i.Known.Completed, i.Known.Run = "v", true, "two" }, true},
		"it is recorded as it runs":           {func(i *Item, _ *thing) { i.Known.Run = "two" }, true},
		"it is recorded, and not for what":    {func(i *Item, _ *thing) { i.Known.Completed = true }, true},
		"it is recorded as it is":             {func(i *Item, _ *thing) { i.Known.Completed, i.Known.Run = true, "two" }, false},
		"it has completed for something else": {func(_ *Item, th *thing) { th.run = "one" }, false},
		"it runs":                             {func(_ *Item, th *thing) { th.completed = false }, false},
		"it is another's":                     {func(_ *Item, th *thing) { th.controller, th.id = "other", "Kind.group/ns/other" }, false},
	} {
		item, th := scene(t, deployments, func(o *plan.Object) {
			o.Hook = true
			o.Desired.SetAnnotations(map[string]string{keeper.RunAnnotation: "two"})
		})
		th.digest, th.run, th.completed, item.Known.AppliedHash = "old", "two", true, "old"
		c.change(&item, &th)
		item.Observed = th.observed(deployments, item.Key)
		items := []Item{item}
		news := Spend(Input{Stack: stack, Owners: ownersOfScene}, Stage{Items: items})
		if len(news) > 0 != c.news {
			t.Errorf("%s: recorded are %+v", name, news)
			continue
		}
		if !c.news {
			continue
		}
		e := *items[0].Known
		if e.UID != "u" || e.AppliedHash != "old" || e.OwnedFieldsHash != "f" || !e.Completed || e.Run != "two" {
			t.Errorf("%s: it is recorded as %+v", name, e)
		}
		if a := decideOne(items[0]); a.Verb != Leave || a.Reason != ReasonCompleted {
			t.Errorf("%s: it is decided to %s, since %s", name, a.Verb, a.Reason)
		}
		if items[0].Observed = nil; !items[0].done() {
			t.Errorf("%s: once it is gone, it is to run again", name)
		}
	}
}

// TestWhatIsDoneHoldsNothingBack has a stage that waits for a Job which completed and is gone.
func TestWhatIsDoneHoldsNothingBack(t *testing.T) {
	item, _ := scene(t, configMaps, nil)
	item.Observed = nil
	for _, completed := range []bool{true, false} {
		item.Known.Completed = completed
		if by := ClosedBy(Input{Stack: stack, Owners: []plan.Owner{self}}, Stage{Items: []Item{item}, WaitHealthy: true}); (by == "") != completed {
			t.Errorf("completed %t: the gate waits for %q", completed, by)
		}
	}
}

var ownersOfScene = []plan.Owner{self}
