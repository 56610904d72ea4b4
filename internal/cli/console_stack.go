package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/internal/console"
	"mlkeeper.dev/internal/engine/plan"
)

// stageRow is a stage in the tree of a custom resource.
type stageRow struct {
	Parent string `json:"parent"`
	Stage  bool   `json:"stage"`
	Name   string `json:"name"`
	Order  int    `json:"order"`
	// Waits are the keys of the stages whose objects must be healthy before those of this one are created.
	Waits []string `json:"waits,omitempty"`
}

// objectRow is an object in the tree of a custom resource.
type objectRow struct {
	Parent string `json:"parent"`
	Group  string `json:"group"`
	ObjectStatus
	Order int `json:"order"`
	// Waits are the keys of the objects of the same custom resource without which this one does not run.
	Waits []string `json:"waits,omitempty"`
	// WiredTo are the custom resources that have an entry in this object.
	WiredTo []console.Ref `json:"wiredTo,omitempty"`
}

// topRow is the custom resource itself.
type topRow struct {
	stackRow
	Warnings []string `json:"warnings"`
	// Progress is that of the applications of a KfDef, or of the components of a SeldonOperator.
	Progress []progressPart `json:"progress,omitempty"`
}

// progressPart is how far one part of a custom resource is.
type progressPart struct {
	Name    string `json:"name"`
	Phase   string `json:"phase"`
	Message string `json:"message"`
	Ready   int64  `json:"ready"`
	Objects int64  `json:"objects"`
}

// Stack implements console.Source: the watches of `mlkeeper wait` and those on pods, for as long as somebody looks.
func (s *consoleSource) Stack(ctx context.Context, ref console.Ref, feed *console.Feed) error {
	one, err := s.open(ctx, ref)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	v := newStackView(s, one)
	defer func() {
		cancel()
		v.wait()
		s.board.remove(ref)
	}()
	if err := v.start(ctx); err != nil {
		return err
	}
	if err := v.watchWires(ctx); err != nil {
		return err
	}
	v.running.Go(func() { v.follow(ctx, func(string) { v.wake() }) })
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-v.failed:
			return unauthorized(err)
		case e := <-v.explained:
			v.explanation, v.explaining = e, false
			// What changed meanwhile may need another explanation.
			v.wake()
			continue
		case <-v.changed:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(settle):
		}
		if err := v.look(ctx, ref, feed); err != nil {
			return err
		}
	}
}

// look shows what there is now.
func (v *stackView) look(ctx context.Context, ref console.Ref, feed *console.Feed) error {
	now, synced := v.snapshot()
	if !synced {
		return nil
	}
	if more, err := v.cover(ctx, now.expected); more || err != nil {
		return err
	}
	if now.live == nil {
		return fmt.Errorf("%s was deleted", v.subject.key())
	}
	if err := v.coverPods(ctx, now.whole); err != nil {
		return err
	}
	v.explain(ctx, &now)
	v.source.board.put(ref, &now)
	return feed.Replace(v.rows(ctx, &now))
}

// stackView is the tree of one custom resource.
type stackView struct {
	source *consoleSource
	*podWatches
	wires []wireWatch
	// declared are the stages as they were rendered for a generation of the custom resource.
	declared   stageMap
	generation int64
	warnings   []string
	explanations
}

func newStackView(s *consoleSource, one *subject) *stackView {
	return &stackView{
		source: s, podWatches: &podWatches{watches: newWatches(s.cluster, one), by: map[childWatch]*informer{}},
		explanations: explanations{explained: make(chan *Explanation, 1)},
	}
}

// rows are the custom resource, its stages, its objects and their pods.
func (v *stackView) rows(ctx context.Context, now *snapshot) map[string]any {
	tree := grow(now.status, v.stages(ctx, now))
	top := topRow{
		stackRow: v.source.row(v.subject.controller, now.live), Warnings: append(append([]string{}, now.warnings...), v.warnings...),
		Progress: progressOf(now.live),
	}
	if lost, _ := v.reach.state(); lost != "" {
		top.Warnings = append(top.Warnings, unanswered(lost))
	}
	out := v.podRows(now.whole)
	out["stack"] = top
	if v.explanation != nil {
		out["explanation"] = v.explanation
	}
	whole := byKey(now.whole)
	for i := range tree.Stages {
		stage := &tree.Stages[i]
		key := stageKey(stage.Stage)
		name := "stage " + stage.Name
		switch {
		case stage.Stage < 0:
			name = cmp.Or(stage.Name, "in no stage")
		case stage.Name == "":
			name = fmt.Sprintf("stage %d", stage.Stage+1)
		}
		row := stageRow{Parent: "stack", Stage: true, Name: name, Order: i}
		for _, before := range v.declared.waits[stage.Stage] {
			row.Waits = append(row.Waits, stageKey(before))
		}
		out[key] = row
		for j := range stage.Objects {
			o := stage.Objects[j]
			out["object/"+rowKey(o.key())] = objectRow{Parent: key, Group: o.key().Group, ObjectStatus: o, Order: j}
		}
	}
	for key, row := range out {
		if o, ok := row.(objectRow); ok {
			o.Waits, o.WiredTo = needs(&o.ObjectStatus, whole[o.key()], out), wiredTo(whole[o.key()])
			out[key] = o
		}
	}
	v.wireRows(out, len(tree.Stages))
	return out
}

func stageKey(stage int) string { return fmt.Sprintf("stage/%d", stage) }

func byKey(whole []*unstructured.Unstructured) map[plan.Key]*unstructured.Unstructured {
	out := make(map[plan.Key]*unstructured.Unstructured, len(whole))
	for _, u := range whole {
		out[plan.KeyOf(u)] = u
	}
	return out
}

// stages are those that the Inventories record and, where rendering asks no source, those that are declared. These are rendered anew for
// each generation, and not for each change.
func (v *stackView) stages(ctx context.Context, now *snapshot) stageMap {
	c := &collector{cluster: v.cluster, namespace: v.subject.namespace, only: v.subject}
	out := stageMap{}
	if v.inventories != nil {
		out = inventoryStages(c.decodeInventories(v.inventories.objects())[inventoryOwner(stackOf(v.subject.controller, now.live))])
	}
	if v.subject.controller.RendersAnswers() {
		return out
	}
	if v.generation != now.live.GetGeneration() {
		current := *v.subject
		current.live = now.live
		rendered := inventoryStages(nil)
		c.renderStages(ctx, v.source.env, &current, &rendered)
		v.declared, v.generation, v.warnings = rendered, now.live.GetGeneration(), c.warnings
	}
	if len(v.declared.names) == 0 {
		return out
	}
	return v.declared
}

// progressOf reads how far the applications of a KfDef or the components of a SeldonOperator are.
func progressOf(u *unstructured.Unstructured) []progressPart {
	var out []progressPart
	for _, field := range []string{"applications", "components"} {
		parts, _, _ := unstructured.NestedSlice(u.Object, "status", field)
		for _, item := range parts {
			part, ok := item.(map[string]any)
			if !ok {
				continue
			}
			ready, _ := part["ready"].(int64)
			objects, _ := part["objects"].(int64)
			out = append(out, progressPart{
				Name: textOf(part["name"]), Phase: textOf(part["phase"]), Message: textOf(part["message"]), Ready: ready, Objects: objects,
			})
		}
	}
	return out
}
