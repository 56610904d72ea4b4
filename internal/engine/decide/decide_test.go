package decide

import (
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/digest"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/plan"
)

var (
	configMaps  = kinds[0]
	deployments = kinds[1]
	claims      = kinds[2]
	namespaces  = kinds[3]
	crds        = kinds[4]
	gateways    = kinds[5] // Of the CRDs of these tests.

	otherGateways = kinds[6]
)

// scene is one desired object that is there, of ours, as declared and remembered.
func scene(t *testing.T, gvk schema.GroupVersionKind, change func(*plan.Object)) (Item, thing) {
	t.Helper()
	key := keyFor(gvk, "a")
	o := desired(gvk, key)
	if change != nil {
		change(&o)
	}
	st, err := plan.Stamp(digest.Key{}, o, stack, self, 0)
	if err != nil {
		t.Fatal(err)
	}
	th := thing{
		uid: "u", marked: true, id: stack.ID(), digest: st.Digest, fields: "f", health: health.Current,
	}
	if len(st.Desired.GetOwnerReferences()) > 0 {
		th.controller = self.UID
	}
	return Item{
		Stamped: st, Observed: th.observed(gvk, key), Served: true, Synced: true,
		Known: &keeper.InventoryEntry{UID: "u", AppliedHash: st.Digest, OwnedFieldsHash: "f"},
	}, th
}

func decideOne(item Item) Action {
	return Decide(Input{
		Stack: stack, Owners: []plan.Owner{self}, Stages: []Stage{{Name: "s", Items: []Item{item}}}, Prune: true,
	})[0]
}

func TestJudge(t *testing.T) {
	type change = func(*Item, *thing)
	held := func(o *plan.Object) { o.Hold = "a Secret to be stored" }
	hook := func(o *plan.Object) {
		o.Hook, o.DeleteCompleted = true, true
		o.Desired.SetAnnotations(map[string]string{keeper.RunAnnotation: "two"})
	}
	wasRun := func(run string, completed bool) change {
		return func(i *Item, _ *thing) {
			i.Observed, i.Known.AppliedHash, i.Known.Run, i.Known.Completed = nil, "old", run, completed
		}
	}
	for _, c := range []struct {
		name   string
		object func(*plan.Object)
		change change
		verb   Verb
		reason string
	}{
		{"as declared", nil, nil, Leave, ""},
		{"missing", nil, func(i *Item, _ *thing) { i.Observed = nil }, Create, ReasonMissing},
		{"completed, and gone", nil, func(i *Item, _ *thing) { i.Observed, i.Known.Completed = nil, true }, Leave, ReasonCompleted},
		{
			"completed as it was before, and gone", nil,
			func(i *Item, _ *thing) { i.Observed, i.Known.Completed, i.Known.AppliedHash = nil, true, "old" }, Create, ReasonChanged,
		},
		{"a hook that completed as it was before, for the same run, and is gone", hook, wasRun("two", true), Leave, ReasonCompleted},
		{"a hook that completed as it was before, for another run, and is gone", hook, wasRun("one", true), Create, ReasonChanged},
		{"a hook that completed as it was before, for no run, and is gone", hook, wasRun("", true), Create, ReasonChanged},
		{"a hook that was made for the same run as it was before, and is gone", hook, wasRun("two", false), Create, ReasonMissing},
		{
			"what names a run and is no hook, completed as it was before, and gone",
			func(o *plan.Object) { o.Desired.SetAnnotations(map[string]string{keeper.RunAnnotation: "two"}) }, wasRun("two", true), Create, ReasonChanged,
		},
		{
			"completed, held and gone", held,
			func(i *Item, _ *thing) { i.Observed, i.Known.Completed = nil, true }, Leave, ReasonCompleted,
		},
		{
			"completed, but the cache is not complete", nil,
			func(i *Item, _ *thing) { i.Synced, i.Observed, i.Known.Completed = false, nil, true }, Wait, ReasonNotSynced,
		},
		{"completed, and there", nil, func(i *Item, th *thing) { i.Known.Completed, th.fields = true, "g" }, Apply, ReasonDrift},
		{
			"missing, behind a step", nil,
			func(i *Item, _ *thing) { i.Observed, i.Known, i.Ordered = nil, nil, "a hook" }, Wait, ReasonDependency,
		},
		{"deleted by somebody, behind a step", nil, func(i *Item, _ *thing) { i.Observed, i.Ordered = nil, "a hook" }, Create, ReasonMissing},
		{
			"changed, behind a step", nil,
			func(i *Item, th *thing) { th.digest, i.Known.AppliedHash, i.Ordered = "old", "old", "a hook" }, Wait, ReasonDependency,
		},
		{"drifted, behind a step", nil, func(i *Item, th *thing) { th.fields, i.Ordered = "g", "a hook" }, Apply, ReasonDrift},
		{"as declared, behind a step", nil, func(i *Item, _ *thing) { i.Ordered = "a hook" }, Leave, ""},
		{"a hook for the same run", hook, func(i *Item, th *thing) { th.digest, i.Known.AppliedHash, th.run = "old", "old", "two" }, Apply, ReasonChanged},
		{
			"a hook that has completed for the same run", hook,
			func(i *Item, th *thing) {
				th.digest, i.Known.AppliedHash, th.run, th.completed, i.Ordered = "old", "old", "two", true, "a hook"
			}, Leave, ReasonCompleted,
		},
		{
			"a hook that was seen to complete for the same run", hook,
			func(i *Item, th *thing) {
				th.digest, i.Known.AppliedHash, th.run, i.Known.Completed = "old", "old", "two", true
			}, Leave, ReasonCompleted,
		},
		{
			"a hook that has completed for the same run, and is recorded so", hook,
			func(i *Item, th *thing) {
				th.digest, th.run, i.Known.Completed, i.Stored = "old", "two", true, i.Known
			}, Delete, ReasonCompleted,
		},
		{
			"a hook that has completed for the same run, and is recorded as it was before", hook,
			func(i *Item, th *thing) {
				th.digest, th.run = "old", "two"
				i.Known.AppliedHash, i.Known.Run, i.Known.Completed, i.Stored = "old", "two", true, i.Known
			}, Delete, ReasonCompleted,
		},
		{
			"a hook that has completed for the same run, and was applied with more left out", hook,
			func(i *Item, th *thing) {
				th.run, th.completed, i.Outdated, i.Known.Completed, i.Stored = "two", true, true, true, i.Known
			},
			Delete, ReasonCompleted,
		},
		{
			"a hook that has completed for another run", hook,
			func(i *Item, th *thing) {
				th.digest, i.Known.AppliedHash, th.run, th.completed = "old", "old", "one", true
			}, Delete, ReasonChanged,
		},
		{"a hook for another run", hook, func(i *Item, th *thing) { th.digest, i.Known.AppliedHash, th.run = "old", "old", "one" }, Delete, ReasonChanged},
		{
			"a hook for another run, behind a step", hook,
			func(i *Item, th *thing) {
				th.digest, i.Known.AppliedHash, th.run, i.Ordered = "old", "old", "one", "a hook"
			}, Wait, ReasonDependency,
		},
		{"a hook that has completed", hook, func(i *Item, _ *thing) { i.Known.Completed, i.Stored = true, i.Known }, Delete, ReasonCompleted},
		{"a hook that has completed, and is not recorded", hook, func(i *Item, _ *thing) { i.Known.Completed = true }, Leave, ReasonCompleted},
		{
			"a hook that has completed, and is recorded as it runs", hook,
			func(i *Item, _ *thing) { i.Stored = ptr.To(*i.Known); i.Known.Completed = true }, Leave, ReasonCompleted,
		},
		{
			"a hook that has completed, and another of the name is recorded", hook,
			func(i *Item, _ *thing) {
				i.Known.Completed, i.Stored = true, &keeper.InventoryEntry{UID: "v", AppliedHash: i.Digest, Completed: true}
			}, Leave, ReasonCompleted,
		},
		{"a hook that runs", hook, nil, Leave, ""},
		{"missing and unknown", nil, func(i *Item, _ *thing) { i.Observed, i.Known = nil, nil }, Create, ReasonMissing},
		{
			"the API is not served", nil, func(i *Item, _ *thing) { i.Served, i.Observed = false, nil }, Wait, ReasonNotServed,
		},
		{
			"the API of an optional object is not served", func(o *plan.Object) { o.Optional = true },
			func(i *Item, _ *thing) { i.Served, i.Observed = false, nil }, Skip, ReasonNotServed,
		},
		{"an optional object", func(o *plan.Object) { o.Optional = true }, nil, Leave, ""},
		{"the cache is not complete", nil, func(i *Item, _ *thing) { i.Synced, i.Observed = false, nil }, Wait, ReasonNotSynced},
		{
			"the cache is not complete, and what it has is of another", nil,
			func(i *Item, th *thing) { i.Synced, th.controller = false, "other" }, Wait, ReasonNotSynced,
		},
		{"held and missing", held, func(i *Item, _ *thing) { i.Observed = nil }, Wait, ReasonDependency},
		{"held, as declared", held, nil, Leave, ""},
		{"held and changed", held, func(i *Item, th *thing) { th.digest, i.Known.AppliedHash = "old", "old" }, Wait, ReasonDependency},
		{"held and of another", held, func(_ *Item, th *thing) { th.controller = "other" }, Conflict, ReasonForeignOwner},
		{"of another", nil, func(_ *Item, th *thing) { th.controller = "other" }, Conflict, ReasonForeignOwner},
		{"of another, but adoptable", nil, func(i *Item, th *thing) { th.controller, i.Adopt = "other", true }, Leave, ""},
		{
			"of another and going", nil, func(_ *Item, th *thing) { th.controller, th.terminating = "other", true },
			Conflict, ReasonForeignOwner,
		},
		{"going", nil, func(_ *Item, th *thing) { th.terminating = true }, Wait, ReasonTerminating},
		{
			"adopted, changed", nil,
			func(i *Item, th *thing) {
				th.controller, th.adopted, th.digest, i.Known.AppliedHash = "", true, "old", "old"
			},
			Apply, ReasonChanged,
		},
		{"the plan changed", nil, func(i *Item, th *thing) { th.digest, i.Known.AppliedHash = "old", "old" }, Apply, ReasonChanged},
		{"the plan changed, nothing known", nil, func(i *Item, th *thing) { th.digest, i.Known = "old", nil }, Apply, ReasonChanged},
		{"the digest was changed by somebody", nil, func(_ *Item, th *thing) { th.digest = "old" }, Apply, ReasonDrift},
		{"the digest was taken off", nil, func(_ *Item, th *thing) { th.digest = "" }, Apply, ReasonDrift},
		{"what we own changed", nil, func(_ *Item, th *thing) { th.fields = "g" }, Apply, ReasonDrift},
		{"what we own is gone", nil, func(_ *Item, th *thing) { th.fields = "" }, Apply, ReasonDrift},
		{"nothing is known", nil, func(i *Item, _ *thing) { i.Known = nil }, Apply, ReasonUnverified},
		{"another object of the name is known", nil, func(i *Item, _ *thing) { i.Known.UID = "v" }, Apply, ReasonUnverified},
		{"an earlier write is known", nil, func(i *Item, _ *thing) { i.Known.AppliedHash = "old" }, Apply, ReasonUnverified},
		{"something was left out for another schema", nil, func(i *Item, _ *thing) { i.Outdated = true }, Apply, ReasonChanged},
		{"it is unhealthy", nil, func(_ *Item, th *thing) { th.health = health.Failed }, Leave, ""},
		{"retained", func(o *plan.Object) { o.Retain = true }, nil, Leave, ""},
		{
			"retained, but it would go with the custom resource", func(o *plan.Object) { o.Retain = true },
			func(_ *Item, th *thing) { th.controller = self.UID }, Apply, ReasonDrift,
		},
		{
			"orphaned, but it would go with the custom resource", func(o *plan.Object) { o.Orphan = true },
			func(_ *Item, th *thing) { th.controller = self.UID }, Apply, ReasonDrift,
		},
		{
			"retained, and its marks name another", func(o *plan.Object) { o.Retain = true },
			func(_ *Item, th *thing) { th.id, th.fields = "Kind.group/ns/other", "g" }, Apply, ReasonDrift,
		},
		{
			"retained by another of the same name", func(o *plan.Object) { o.Retain = true },
			func(i *Item, th *thing) { th.id, i.Known.UID = "Kind.group/ns/other", "v" }, Conflict, ReasonForeignOwner,
		},
		{"to be created only", func(o *plan.Object) { o.IfNotPresent = true }, func(_ *Item, th *thing) { th.digest = "x" }, Leave, ReasonUnchanged},
		{
			"to be created only, and missing", func(o *plan.Object) { o.IfNotPresent = true },
			func(i *Item, _ *thing) { i.Observed = nil }, Create, ReasonMissing,
		},
		{
			"to be created only, of another", func(o *plan.Object) { o.IfNotPresent = true },
			func(_ *Item, th *thing) { th.controller = "other" }, Conflict, ReasonForeignOwner,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			item, th := scene(t, configMaps, c.object)
			if c.change != nil {
				c.change(&item, &th)
			}
			if item.Observed != nil {
				item.Observed = th.observed(configMaps, item.Key)
			}
			a := decideOne(item)
			if a.Verb != c.verb || a.Reason != c.reason {
				t.Errorf("%s %q (%s)", a.Verb, a.Reason, a.Detail)
			}
			if a.Key != item.Key || a.Object.Desired != item.Desired {
				t.Error("the action is about something else")
			}
			if a.Writes() != (c.verb == Create || c.verb == Apply || c.verb == Delete) || (a.Verb == Delete) != (a.ResourceVersion != "") {
				t.Errorf("%s writes: %v", a.Verb, a.Writes())
			}
			if item.Known != nil && a.KnownUID != item.Known.UID {
				t.Errorf("known UID %q", a.KnownUID)
			}
		})
	}
}

func TestApplyCarriesWhatActNeeds(t *testing.T) {
	item, th := scene(t, configMaps, nil)
	th.created, th.digest = true, "old"
	item.Observed = th.observed(configMaps, item.Key)
	if a := decideOne(item); a.UID != "u" || !a.Migrate || a.Adopted || a.MigratePrevious {
		t.Errorf("posted: %+v", a)
	}
	th.created, th.adopted, th.controller = false, true, ""
	item.Observed = th.observed(configMaps, item.Key)
	if a := decideOne(item); a.UID != "u" || a.Migrate || !a.Adopted || a.MigratePrevious {
		t.Errorf("adopted: %+v", a)
	}
	th.adopted, th.controller, th.digest = false, self.UID, ""
	item.Observed = th.observed(configMaps, item.Key)
	if a := decideOne(item); !a.MigratePrevious {
		t.Errorf("the previous operator's: %+v", a)
	}
	item.Partial = true
	if a := decideOne(item); a.MigratePrevious {
		t.Errorf("declared in part: %+v", a)
	}
}

func TestGates(t *testing.T) {
	crd, _ := scene(t, crds, nil)
	namespace, _ := scene(t, namespaces, nil)
	deployment, _ := scene(t, deployments, nil)
	unhealthy := func(item Item) Item {
		o := *item.Observed
		o.Health.Status, item.Observed = health.InProgress, &o
		return item
	}
	absent := func(item Item) Item { item.Observed = nil; return item }
	leftAsItIs := func(item Item) Item { item.IfNotPresent, item.Digest = true, "another"; return item }
	foreign := func(item Item) Item {
		o := *item.Observed
		o.Labels, item.Observed = nil, &o
		return item
	}
	optional := func(item Item) Item {
		item.Optional, item.Served, item.Observed = true, false, nil
		return item
	}
	for _, c := range []struct {
		name   string
		stage  Stage
		late   schema.GroupVersionKind
		detail string
	}{
		{"CRD that is left as it is", Stage{Items: []Item{leftAsItIs(crd)}}, gateways, ""},
		{"CRD that is left as it is, missing", Stage{Items: []Item{absent(leftAsItIs(crd))}}, gateways, "CustomResourceDefinition a to exist"},
		{"CRD established", Stage{Items: []Item{crd}}, gateways, ""},
		{"CRD not established", Stage{Items: []Item{unhealthy(crd)}}, gateways, "CustomResourceDefinition a to be ready"},
		{"CRD missing", Stage{Items: []Item{absent(crd)}}, gateways, "CustomResourceDefinition a to exist"},
		{"CRD of another", Stage{Items: []Item{foreign(crd)}}, gateways, "CustomResourceDefinition a to exist"},
		{"CRD missing, timed out", Stage{TimedOut: true, Items: []Item{absent(crd)}}, gateways, ""},
		{"CRD of something else missing", Stage{Items: []Item{absent(crd)}}, configMaps, ""},
		{"CRD of the kind in another group missing", Stage{Items: []Item{absent(crd)}}, otherGateways, ""},
		{"CRD of something else missing, asked for", Stage{WaitHealthy: true, Items: []Item{absent(crd)}}, configMaps, "CustomResourceDefinition a to exist"},
		{"namespace missing", Stage{Items: []Item{absent(namespace)}}, configMaps, "Namespace ns to exist"},
		{"namespace missing, not in it", Stage{Items: []Item{absent(namespace)}}, namespaces, ""},
		{"deployment unhealthy", Stage{Items: []Item{unhealthy(deployment)}}, configMaps, ""},
		{"deployment missing", Stage{Items: []Item{absent(deployment)}}, configMaps, ""},
		{"deployment unhealthy, asked for", Stage{WaitHealthy: true, Items: []Item{unhealthy(deployment)}}, configMaps, "Deployment ns/a to be ready"},
		{"deployment missing, asked for", Stage{WaitHealthy: true, Items: []Item{absent(deployment)}}, configMaps, "Deployment ns/a to exist"},
		{"optional, not served", Stage{WaitHealthy: true, Items: []Item{optional(deployment)}}, configMaps, ""},
		{"timed out", Stage{WaitHealthy: true, TimedOut: true, Items: []Item{unhealthy(deployment)}}, configMaps, ""},
		{"nothing", Stage{WaitHealthy: true}, configMaps, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			late, _ := scene(t, c.late, nil)
			late.Observed = nil
			in := Input{Stack: stack, Owners: []plan.Owner{self}, Stages: []Stage{c.stage, {}, {Items: []Item{late}}}}
			actions := Decide(in)
			a := actions[len(actions)-1]
			want := Action{Verb: Create, Reason: ReasonMissing}
			if c.detail != "" {
				want = Action{Verb: Wait, Reason: ReasonDependency, Detail: c.detail}
			}
			if a.Verb != want.Verb || a.Reason != want.Reason || a.Detail != want.Detail {
				t.Errorf("%s %s %q", a.Verb, a.Reason, a.Detail)
			}
		})
	}
}

func TestAwaits(t *testing.T) {
	healthy, _ := scene(t, deployments, nil)
	ill := healthy
	o := *healthy.Observed
	o.Health.Status = health.InProgress
	ill.Observed = &o
	harmless := ill
	harmless.IgnoreHealth = true
	in := Input{Stack: stack, Owners: []plan.Owner{self}, Stages: []Stage{
		{Name: "healthy", Items: []Item{healthy}}, {Name: "ill", Items: []Item{ill}}, {Name: "harmless", Items: []Item{harmless}}, {Name: "empty"},
	}}
	for _, c := range []struct {
		names []string
		want  string
	}{
		{nil, ""},
		{[]string{"healthy", "empty", "harmless", "unknown"}, ""},
		{[]string{"healthy", "ill"}, "Deployment ns/a to be ready"},
	} {
		if got := Awaits(in, c.names); got != c.want {
			t.Errorf("%v: waits for %q", c.names, got)
		}
	}
}

func TestAGateHoldsBackLaterStagesOnly(t *testing.T) {
	crd, _ := scene(t, crds, nil)
	crd.Observed = nil
	beside, _ := scene(t, configMaps, nil)
	beside.Observed = nil
	changed, th := scene(t, deployments, nil)
	th.digest = "old"
	changed.Observed = th.observed(deployments, changed.Key)
	actions := Decide(Input{Stack: stack, Owners: []plan.Owner{self}, Stages: []Stage{
		{Items: []Item{crd, beside}}, {Items: []Item{changed}},
	}})
	if got := verbs(actions); !reflect.DeepEqual(got, []string{
		"Create Missing apiextensions.k8s.io/CustomResourceDefinition a", "Create Missing /ConfigMap ns/a",
		"Apply DriftDetected apps/Deployment ns/a",
	}) {
		t.Error(got)
	}
}

func TestPrune(t *testing.T) {
	entry := func(gvk schema.GroupVersionKind) keeper.InventoryEntry {
		key := keyFor(gvk, "a")
		e := keeper.InventoryEntry{UID: "u"}
		e.Group, e.Version, e.Kind, e.Namespace, e.Name = key.Group, gvk.Version, key.Kind, key.Namespace, key.Name
		return e
	}
	for _, c := range []struct {
		name   string
		gvk    schema.GroupVersionKind
		change func(*Extra, *thing)
		verb   Verb // empty for no action at all
		reason string
	}{
		{"ours", deployments, nil, Delete, ReasonPruned},
		{"found by its labels alone", deployments, func(e *Extra, _ *thing) { e.Entry = keeper.InventoryEntry{} }, Delete, ReasonPruned},
		{"retained", deployments, func(e *Extra, _ *thing) { e.Entry.Policy = keeper.Retain }, Leave, ReasonRetained},
		{
			"orphaned", deployments,
			func(e *Extra, th *thing) { e.Entry.Policy, th.controller = keeper.Orphan, "" }, Delete, ReasonPruned,
		},
		{
			"retained, nothing known", deployments,
			func(e *Extra, th *thing) { e.Entry, th.controller = keeper.InventoryEntry{}, "" }, Leave, ReasonRetained,
		},
		{"adopted", deployments, func(_ *Extra, th *thing) { th.controller, th.adopted = "", true }, Leave, ReasonRetained},
		{"a claim", claims, nil, Leave, ReasonRetained},
		{"a namespace", namespaces, nil, Leave, ReasonRetained},
		{"a CRD", crds, nil, Leave, ReasonRetained},
		{"of another by now", deployments, func(_ *Extra, th *thing) { th.controller = "other" }, "", ""},
		{"going", deployments, func(_ *Extra, th *thing) { th.terminating = true }, Wait, ReasonTerminating},
		{"unseen", deployments, func(e *Extra, _ *thing) { e.Observed = nil }, Delete, ReasonPruned},
		{"unseen and gone", deployments, func(e *Extra, _ *thing) { e.Observed, e.Gone = nil, true }, "", ""},
		{"unseen and never written", deployments, func(e *Extra, _ *thing) { e.Observed, e.Entry.UID = nil, "" }, "", ""},
		{"unseen and retained", deployments, func(e *Extra, _ *thing) { e.Observed, e.Entry.Policy = nil, keeper.Retain }, "", ""},
		{"unseen and orphaned", deployments, func(e *Extra, _ *thing) { e.Observed, e.Entry.Policy = nil, keeper.Orphan }, Delete, ReasonPruned},
		{"unwatched", deployments, func(e *Extra, _ *thing) { e.Observed, e.Unwatched = nil, true }, Wait, ReasonNotSynced},
		{"seen, though not all are", deployments, func(e *Extra, _ *thing) { e.Unwatched = true }, Delete, ReasonPruned},
		{"unwatched and gone", deployments, func(e *Extra, _ *thing) { e.Observed, e.Unwatched, e.Gone = nil, true, true }, "", ""},
		{"unwatched and retained", deployments, func(e *Extra, _ *thing) { e.Observed, e.Unwatched, e.Entry.Policy = nil, true, keeper.Retain }, "", ""},
		{"an unseen claim", claims, func(e *Extra, _ *thing) { e.Observed = nil }, "", ""},
		{"an unseen namespace", namespaces, func(e *Extra, _ *thing) { e.Observed = nil }, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, th := scene(t, c.gvk, nil)
			key := keyFor(c.gvk, "a")
			e := Extra{Entry: entry(c.gvk), Observed: th.observed(c.gvk, key)}
			if c.change != nil {
				c.change(&e, &th)
			}
			if e.Observed != nil {
				e.Observed = th.observed(c.gvk, key)
			}
			in := Input{Stack: stack, Owners: []plan.Owner{self}, Extras: []Extra{e}, Prune: true}
			actions := Decide(in)
			if c.verb == "" {
				if len(actions) > 0 {
					t.Errorf("%+v", actions)
				}
				return
			}
			if len(actions) != 1 || actions[0].Verb != c.verb || actions[0].Reason != c.reason || actions[0].Key != key {
				t.Fatalf("%+v", actions)
			}
			if a := actions[0]; c.verb == Delete && (a.UID != "u" || a.Version != "v1" || a.Object.Desired != nil) {
				t.Errorf("%+v", a)
			}
			in.Prune = false
			if got := Decide(in); len(got) > 0 {
				t.Errorf("pruned while a problem stands: %+v", got)
			}
		})
	}
}

// TestTheAnnotationOfAnObjectKeepsIt: it counts although no manifest has it, and with its own value alone.
func TestTheAnnotationOfAnObjectKeepsIt(t *testing.T) {
	for value, want := range map[string]Verb{keeper.PruneDisabled: Leave, "Disabled": Delete, "": Delete} {
		_, th := scene(t, deployments, nil)
		observed := th.observed(deployments, keyFor(deployments, "a"))
		observed.Annotations[keeper.PruneAnnotation] = value
		got := Decide(Input{Stack: stack, Owners: []plan.Owner{self}, Extras: []Extra{{Observed: observed}}, Prune: true})
		if len(got) != 1 || got[0].Verb != want {
			t.Errorf("%q: %+v", value, got)
		}
	}
}

// TestWhatWasRunStaysWhileAProblemStands: the Job of a hook has the logs that tell why it has failed.
func TestWhatWasRunStaysWhileAProblemStands(t *testing.T) {
	for run, want := range map[string]Verb{"": Delete, "digest": Leave} {
		_, th := scene(t, deployments, nil)
		observed := th.observed(deployments, keyFor(deployments, "a"))
		observed.Annotations[keeper.RunAnnotation] = run
		in := Input{Stack: stack, Owners: []plan.Owner{self}, Extras: []Extra{{Observed: observed}}, Prune: true, KeepRuns: true}
		if got := Decide(in); len(got) != 1 || got[0].Verb != want {
			t.Errorf("%q: %+v", run, got)
		}
		in.KeepRuns = false
		if got := Decide(in); len(got) != 1 || got[0].Verb != Delete {
			t.Errorf("%q without a problem: %+v", run, got)
		}
	}
}

// TestWhatIsWaitedForSaysWhatToDo: an object that a finalizer holds is waited for without an end, and only who has set it can mend that.
func TestWhatIsWaitedForSaysWhatToDo(t *testing.T) {
	item, th := scene(t, configMaps, nil)
	th.terminating = true
	item.Observed = th.observed(configMaps, item.Key)
	if a := decideOne(item); !strings.Contains(a.Detail, item.Key.String()+" to be gone") || !strings.Contains(a.Detail, "finalizers") {
		t.Errorf("it waits for %q", a.Detail)
	}
}
