package engine

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/adoption"
	"mlkeeper.dev/internal/engine/digestkey"
	"mlkeeper.dev/internal/engine/plan"
)

// releases fails the test when an object is released.
type releases struct{ t *testing.T }

func (r releases) Release(context.Context, plan.Stamped, []plan.Owner) error {
	r.t.Error("an object is released")
	return nil
}

func (r releases) ReleaseOwned(context.Context, schema.GroupVersionKind, plan.Stack, plan.Owner) error {
	r.t.Error("the objects of a kind are released")
	return nil
}

// TestNothingIsReleasedWhileAProblemStands: the finalizers stay, too, and whoever owns a retained object again would be answered each time.
func TestNothingIsReleasedWhileAProblemStands(t *testing.T) {
	s, _ := bareStacks()
	s.adopter, s.digests = adoption.Adopter{Releaser: releases{t}}, &digestkey.Store{}
	p := passOf("a", newState("uid"), "")
	claim := &unstructured.Unstructured{}
	claim.SetAPIVersion("v1")
	claim.SetKind("PersistentVolumeClaim")
	p.plan = plan.Plan{Problems: []plan.Problem{{Class: plan.Waiting}}, Stages: []plan.Stage{{Objects: []plan.Object{{Desired: claim, Retain: true}}}}}
	if done, err := s.adopt(t.Context(), p); done || err != nil {
		t.Errorf("the reconcile ends: %v, %v", done, err)
	}
}
