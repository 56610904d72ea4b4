package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/plan"
)

// stamp puts the time that passed before a line.
func (w *waiter) stamp(line string) string {
	return fmt.Sprintf("%5s  %s", w.env.Now().Sub(w.start).Round(time.Second), Clean(line))
}

// objectPrefix begins the keys under which is kept what was told of objects.
const objectPrefix = "object "

// printChanges prints what changed since the last call: the custom resource, and each object whose health changed.
func (w *waiter) printChanges(now snapshot) error {
	var lines []string
	say := func(key, text string) {
		if w.told[key] != text {
			w.told[key] = text
			lines = append(lines, w.stamp(text))
		}
	}
	for _, warning := range now.warnings {
		say("warning "+warning, "warning: "+warning)
	}
	name := w.subject.key().String()
	switch {
	case now.live == nil:
	case w.goal == goalDeleted && !now.status.Deleting:
		say(name, name+" exists and has not been deleted yet")
	case w.goal == goalDeleted:
		say(name, name+" is being deleted"+heldBy(now.live.GetFinalizers()))
	case now.status.Ready != "True" || !now.status.Observed:
		say(name, name+": "+w.awaits(&now.status))
	}
	if !w.listed {
		return printLines(w.out, lines...)
	}
	there := map[string]bool{}
	for i := range now.status.Objects {
		o := &now.status.Objects[i]
		key := objectPrefix + o.key().String()
		// What is missing of a custom resource that goes is no news: it is gone.
		if w.goal == goalDeleted && o.Health == healthMissing {
			continue
		}
		there[key] = true
		say(key, "  "+o.Kind+" "+o.Name+": "+w.stateOf(o, now))
	}
	for _, key := range sortedKeys(w.told) {
		if name, isObject := strings.CutPrefix(key, objectPrefix); isObject && !there[key] && now.complete {
			delete(w.told, key)
			lines = append(lines, w.stamp("  "+name+": gone"))
		}
	}
	return printLines(w.out, lines...)
}

// awaits is what a custom resource waits for, in its own words.
func (w *waiter) awaits(s *StackStatus) string {
	text := s.Ready + s.notes()
	if s.Reason != "" {
		text += ", " + s.Reason
	}
	if s.Message != "" {
		text += ": " + s.Message
	}
	return cut("Ready is "+text, 400)
}

func (w *waiter) stateOf(o *ObjectStatus, now snapshot) string {
	switch o.Health {
	case string(health.Current):
		return "ready"
	case string(health.Terminating):
		return "being deleted" + heldBy(finalizersOf(now.whole, o.key()))
	}
	return healthText(o.Health) + ", " + o.Reason + ": " + o.Message
}

func heldBy(finalizers []string) string {
	if len(finalizers) == 0 {
		return ""
	}
	return ", delayed by the finalizers " + strings.Join(finalizers, ", ")
}

func finalizersOf(all []*unstructured.Unstructured, key plan.Key) []string {
	for _, u := range all {
		if plan.KeyOf(u) == key {
			return u.GetFinalizers()
		}
	}
	return nil
}

// going are the objects that go with the custom resource and are still there: those that have an owner.
func (s *snapshot) going() []*ObjectStatus { return s.owned(true) }

// kept are the objects that stay when the custom resource goes.
func (s *snapshot) kept() []*ObjectStatus { return s.owned(false) }

func (s *snapshot) owned(owned bool) []*ObjectStatus {
	controlled := map[plan.Key]bool{}
	for _, u := range s.whole {
		controlled[plan.KeyOf(u)] = metav1.GetControllerOfNoCopy(u) != nil || u.GetDeletionTimestamp() != nil
	}
	var out []*ObjectStatus
	for i := range s.status.Objects {
		if has, found := controlled[s.status.Objects[i].key()]; found && has == owned {
			out = append(out, &s.status.Objects[i])
		}
	}
	return out
}

// timedOut is the failure after the whole time: what is missing, and what to do.
func (w *waiter) timedOut(ctx context.Context, timeout time.Duration) error {
	verdict := "is not Ready after"
	switch {
	case w.goal == goalDeleted:
		verdict = "is not gone after"
	case w.unhandled():
		verdict = "was not reconciled within"
	}
	text := fmt.Sprintf("%s %s %s.\n%s", w.subject.key(), verdict, timeout, w.missing(ctx))
	if w.goal == goalReady && w.seen.live != nil && (!w.seen.status.Observed || w.seen.status.Reason == "NotReconciled" || w.unhandled()) {
		d := &detective{cluster: w.cluster, now: w.env.Now()}
		text += "\n" + strings.Join(d.managers(ctx), "\n")
	}
	return errors.New(text)
}

// unhandled says that no manager has seen the request to reconcile that is waited for.
func (w *waiter) unhandled() bool { return w.handled && w.seen.live != nil && !handled(w.seen.live) }

// remedy is what helps: what the reason says, or, where it only points at the objects, what these say.
func (w *waiter) remedy(ctx context.Context) string {
	status := &w.seen.status
	reason := status.Reason
	switch {
	case status.Suspended:
		reason = "SuspendAnnotation"
	case w.unhandled():
		reason = "NotReconciled"
	}
	a, found := adviceOn(reason)
	if found && !a.vague {
		return a.remedy
	}
	whole := map[plan.Key]*unstructured.Unstructured{}
	for _, u := range w.seen.whole {
		whole[plan.KeyOf(u)] = u
	}
	d := &detective{cluster: w.cluster, now: w.env.Now()}
	for _, c := range d.clues(ctx, status, whole) {
		if c.remedy != "" {
			return c.remedy
		}
	}
	return "It may need more time: wait again with a larger --timeout."
}

// missing lists what stands in the way, and what to do about it.
func (w *waiter) missing(ctx context.Context) string {
	now := &w.seen
	var lines []string
	if w.goal == goalDeleted {
		lines = w.remaining()
	} else {
		lines = append(lines, "  "+w.awaits(&now.status))
		for i := range now.status.Objects {
			if o := &now.status.Objects[i]; o.Health != string(health.Current) {
				lines = append(lines, "  "+o.Kind+" "+o.Name+" is "+w.stateOf(o, *now))
			}
		}
		if remedy := w.remedy(ctx); remedy != "" {
			lines = append(lines, "What to do: "+remedy)
		}
	}
	lines = append(lines, "More: mlkeeper explain "+w.subject.argument())
	for i := range lines {
		lines[i] = Clean(lines[i])
	}
	return strings.Join(lines, "\n")
}

func (w *waiter) remaining() []string {
	now := &w.seen
	var lines []string
	if now.live != nil {
		switch held := now.live.GetFinalizers(); {
		case !now.status.Deleting:
			lines = append(lines, "  it has not been deleted: delete it with kubectl")
		case len(held) > 0:
			lines = append(lines, "  its finalizers "+strings.Join(held, ", ")+" delay the deletion: start the controller that set them, or "+
				"remove them manually")
		}
	}
	for _, o := range now.going() {
		lines = append(lines, "  "+o.Kind+" "+o.Name+" still exists"+heldBy(finalizersOf(now.whole, o.key())))
	}
	if len(now.going()) > 0 && now.live == nil {
		lines = append(lines, "What to do: the garbage collector of the cluster deletes these objects, and those of Inventories need a running "+
			"manager; check that both run.")
	}
	return lines
}
