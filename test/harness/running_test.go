package harness

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// TestAManagerThatDiesIsReported: a test whose operator ended early proves nothing.
func TestAManagerThatDiesIsReported(t *testing.T) {
	for name, manager := range map[string]func(context.Context) error{
		"died early: boom":  func(context.Context) error { return errors.New("died early: boom") },
		"gave no reason":    func(context.Context) error { return nil },
		"not stop cleanly:": func(ctx context.Context) error { <-ctx.Done(); return errors.New("a runnable hangs") },
	} {
		r := start(manager)
		if !strings.HasPrefix(name, "not stop") {
			<-r.ended
			if err := r.died(); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: told while the test runs is %v", name, err)
			}
		} else if err := r.died(); err != nil {
			t.Errorf("%s: told while it runs is %v", name, err)
		}
		if err := r.stop(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: told at the end is %v", name, err)
		}
	}
	r := start(func(ctx context.Context) error { <-ctx.Done(); return nil })
	if err := errors.Join(r.died(), r.stop()); err != nil {
		t.Errorf("a manager that was stopped is reported: %v", err)
	}
}
