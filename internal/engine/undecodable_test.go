package engine

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/watch"
)

// TestInvariant18WhatDoesNotFitIsToldLessAndLessOften: the operator for whose definition it fits may still run, and say otherwise each time.
func TestInvariant18WhatDoesNotFitIsToldLessAndLessOften(t *testing.T) {
	s, clock := bareStacks()
	bad := &watch.Undecodable{Unstructured: &unstructured.Unstructured{Object: map[string]any{}}, Err: errors.New("spec.x is a number")}
	bad.SetNamespace("a")
	bad.SetName("x")
	for range backoff.TakenBack.Free + 1 {
		if result, err := s.undecodable(t.Context(), bad); err != nil || result.RequeueAfter > 0 {
			t.Fatalf("it waits %s: %v", result.RequeueAfter, err)
		}
	}
	result, err := s.undecodable(t.Context(), bad)
	if err != nil || result.RequeueAfter < time.Second {
		t.Fatalf("it is written again after %s: %v", result.RequeueAfter, err)
	}
	clock.Step(result.RequeueAfter)
	if result, err := s.undecodable(t.Context(), bad); err != nil || result.RequeueAfter > 0 {
		t.Errorf("after the pause it waits %s: %v", result.RequeueAfter, err)
	}
}
