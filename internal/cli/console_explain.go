package cli

import (
	"context"
	"fmt"
	"time"
)

// explainEvery is how long at least lies between two explanations of one custom resource: each asks for pods, volumes and events, and a
// custom resource whose condition flaps must not have the API server asked all the time.
const explainEvery = 2 * time.Second

// explanations has a custom resource explained in the background, once for all who look, when its condition Ready changed.
type explanations struct {
	explanation *Explanation
	explained   chan *Explanation
	// explaining says that one is being made, sign is what the last one was made for, and asked when.
	explaining bool
	sign       string
	asked      time.Time
}

// explain begins an explanation if there is none of what Ready says now.
func (v *stackView) explain(ctx context.Context, now *snapshot) {
	s := &now.status
	sign := fmt.Sprint(s.Ready, s.Reason, s.Message, s.Observed, s.Stalled, s.Suspended, s.Deleting)
	if v.explaining || sign == v.sign || !now.complete {
		return
	}
	pause := time.Until(v.asked.Add(explainEvery))
	v.explaining, v.sign, v.asked = true, sign, time.Now().Add(max(pause, 0))
	subject := *v.subject
	subject.live = now.live
	status, whole := now.status, byKey(now.whole)
	v.running.Go(func() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		e := v.source.explainFrom(ctx, v.source.env, &subject, &status, whole)
		e.Warnings = []string{}
		v.explained <- e
	})
}
