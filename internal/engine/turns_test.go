package engine

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	testclock "k8s.io/utils/clock/testing"

	"mlkeeper.dev/internal/engine/background"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/reader"
	"mlkeeper.dev/internal/engine/watch"
	"mlkeeper.dev/internal/limit"
)

// TestWhoWaitsForLongIsTold has a rendering that gets no turn: the problem that it passes by itself says why it does not, and no other does.
func TestWhoWaitsForLongIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		jobs := background.New(background.Options[watch.Referrer]{
			Clock: testclock.NewFakeClock(time.Unix(1e9, 0)), Namespace: func(watch.Referrer) string { return "ns" }, Rendering: func() {},
			Done: func(watch.Referrer) {}, Log: logr.Discard(),
		})
		defer jobs.Stop()
		workers := limit.New(1, 1)
		workers.Acquire(t.Context(), "other", 1)
		readers := &reader.Readers{Jobs: jobs}
		tell := func() []plan.Problem {
			p := &reconciliation[*unstructured.Unstructured, struct{}]{reader: readers.New(reader.Request{}), problems: []plan.Problem{
				{Class: plan.Waiting, Reason: "Fetching", Message: "it is rendered", Remedy: "nothing to do", Brief: true},
				{Class: plan.Waiting, Reason: "SecretNotFound", Message: "it is absent", Remedy: "create it"},
			}}
			p.reader.Render("render", controller.Once, func(ctx context.Context, _ controller.Live) any {
				workers.Acquire(ctx, "ns", 1)
				return nil
			})
			p.tellWait()
			return p.problems
		}
		if got := tell()[0]; got.Message != "it is rendered" || got.Remedy != "nothing to do" {
			t.Errorf("at once: %+v", got)
		}
		time.Sleep(time.Hour)
		got := tell()
		if !strings.HasPrefix(got[0].Message, "it is rendered; it has waited for its turn") || !strings.Contains(got[0].Remedy, "--work-memory") || !got[0].Brief {
			t.Errorf("after an hour: %+v", got[0])
		}
		if got[1].Message != "it is absent" || got[1].Remedy != "create it" {
			t.Errorf("another problem: %+v", got[1])
		}
	})
}
