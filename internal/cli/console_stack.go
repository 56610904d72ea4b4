package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"mlkeeper.dev/internal/console"
)

// stageRow is a stage in the tree of a custom resource.
type stageRow struct {
	Parent string `json:"parent"`
	Stage  bool   `json:"stage"`
	Name   string `json:"name"`
	Order  int    `json:"order"`
}

// objectRow is an object in the tree of a custom resource.
type objectRow struct {
	Parent string `json:"parent"`
	Group  string `json:"group"`
	ObjectStatus
	Order int `json:"order"`
}

// topRow is the custom resource itself.
type topRow struct {
	stackRow
	Warnings []string `json:"warnings"`
}

// Stack implements console.Source: the watches of `mlkeeper wait`, for as long as somebody looks.
func (s *consoleSource) Stack(ctx context.Context, ref console.Ref, feed *console.Feed) error {
	one, err := s.open(ctx, ref)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := newWatches(s.cluster, one)
	defer func() {
		cancel()
		w.wait()
	}()
	if err := w.start(ctx); err != nil {
		return err
	}
	v := &stackView{consoleSource: s, watches: w, subject: one}
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-w.failed:
			return err
		case <-w.changed:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(settle):
		}
		now, synced := w.snapshot()
		if !synced {
			continue
		}
		if more, err := w.cover(ctx, now.expected); err != nil {
			return err
		} else if more {
			continue
		}
		if now.live == nil {
			return fmt.Errorf("%s was deleted", one.key())
		}
		if err := feed.Replace(v.rows(ctx, &now)); err != nil {
			return err
		}
	}
}

// stackView is the tree of one custom resource.
type stackView struct {
	*consoleSource
	watches *watches
	subject *subject
	// declared are the stages as they were rendered for a generation of the custom resource.
	declared   stageMap
	generation int64
	warnings   []string
}

// rows are the custom resource, its stages and its objects.
func (v *stackView) rows(ctx context.Context, now *snapshot) map[string]any {
	tree := grow(now.status, v.stages(ctx, now))
	top := topRow{stackRow: v.row(v.subject.controller, now.live), Warnings: append(append([]string{}, now.warnings...), v.warnings...)}
	out := map[string]any{"stack": top}
	for i := range tree.Stages {
		stage := &tree.Stages[i]
		key := fmt.Sprintf("stage/%d", stage.Stage)
		name := "stage " + stage.Name
		switch {
		case stage.Stage < 0:
			name = cmp.Or(stage.Name, "in no stage")
		case stage.Name == "":
			name = fmt.Sprintf("stage %d", stage.Stage+1)
		}
		out[key] = stageRow{Parent: "stack", Stage: true, Name: name, Order: i}
		for j := range stage.Objects {
			o := stage.Objects[j]
			out["object/"+rowKey(o.key())] = objectRow{Parent: key, Group: o.key().Group, ObjectStatus: o, Order: j}
		}
	}
	return out
}

// stages are those that the Inventories record and, where rendering asks no source, those that are declared. These are rendered anew for
// each generation, and not for each change.
func (v *stackView) stages(ctx context.Context, now *snapshot) stageMap {
	c := &collector{cluster: v.cluster, namespace: v.subject.namespace, only: v.subject}
	out := stageMap{}
	if v.watches.inventories != nil {
		out = inventoryStages(c.decodeInventories(v.watches.inventories.objects())[inventoryOwner(stackOf(v.subject.controller, now.live))])
	}
	if v.subject.controller.RendersAnswers() {
		return out
	}
	if v.generation != now.live.GetGeneration() {
		current := *v.subject
		current.live = now.live
		rendered := inventoryStages(nil)
		c.renderStages(ctx, v.env, &current, &rendered)
		v.declared, v.generation, v.warnings = rendered, now.live.GetGeneration(), c.warnings
	}
	if len(v.declared.names) == 0 {
		return out
	}
	return v.declared
}
