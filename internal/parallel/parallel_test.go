package parallel

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func TestAPanicEndsOneItemOnly(t *testing.T) {
	var logged string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) { logged += args }, funcr.Options{}))
	wrong := errors.New("wrong")
	for _, limit := range []int{1, 2, 16} {
		var done atomic.Int32
		items := []string{"well", "wrong", "panics", "nil", "well"}
		failures := Each(ctx, limit, items, func(_ context.Context, i int, item string) error {
			done.Add(1)
			switch item {
			case "wrong":
				return wrong
			case "panics":
				panic("over item " + string(rune('0'+i)))
			case "nil":
				var nobody *strings.Builder
				nobody.Reset()
			}
			return nil
		})
		if done.Load() != 5 || len(failures) != 5 || failures[0] != nil || !errors.Is(failures[1], wrong) || failures[4] != nil {
			t.Errorf("%d at once: %d items were dealt with: %v", limit, done.Load(), failures)
		}
		if failures[2] == nil || !strings.Contains(failures[2].Error(), "over item 2") || failures[3] == nil {
			t.Errorf("%d at once: the panics are told of as %v and %v", limit, failures[2], failures[3])
		}
	}
	if !strings.Contains(logged, "TestAPanicEndsOneItemOnly") {
		t.Errorf("the log has no stack: %s", logged)
	}
}

func TestNoMoreAreInWorkThanTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		start := time.Now()
		Each(t.Context(), 3, make([]int, 7), func(context.Context, int, int) error {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Second)
			now.Add(-1)
			return nil
		})
		if took := time.Since(start); most.Load() != 3 || took != 3*time.Second {
			t.Errorf("%d at once, for %s", most.Load(), took)
		}
	})
	if failures := Each(t.Context(), 3, nil, func(context.Context, int, int) error { return nil }); len(failures) > 0 {
		t.Errorf("of nothing: %v", failures)
	}
}

func TestNothingBeginsAfterTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	failures := Each(ctx, 1, []int{0, 1, 2}, func(_ context.Context, i, _ int) error {
		if i == 1 {
			cancel()
		}
		return nil
	})
	if failures[0] != nil || failures[1] != nil || !errors.Is(failures[2], context.Canceled) {
		t.Errorf("failures %v", failures)
	}
}
