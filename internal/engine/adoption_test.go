package engine

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/adoption"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/digestkey"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/reader"
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

// unreadable is a controller whose Gather fails, with an error or a panic.
type unreadable struct {
	projecting
	panics bool
}

func (u unreadable) Gather(context.Context, controller.Reader, *v1.TrustyAIService) (struct{}, error) {
	if u.panics {
		panic("over an odd object")
	}
	return struct{}{}, errors.New("no answer")
}

// ofKinds counts the kinds that are released.
type ofKinds struct {
	releases
	n int
}

func (r *ofKinds) ReleaseOwned(context.Context, schema.GroupVersionKind, plan.Stack, plan.Owner) error {
	r.n++
	return nil
}

// TestADeletionDoesNotHangForWhatCannotBeRead: the finalizers of a previous operator go after several attempts, and what is to be retained stays.
// Until then the next attempt may tell what that is, and a custom resource that is not being deleted keeps its finalizers.
func TestADeletionDoesNotHangForWhatCannotBeRead(t *testing.T) {
	for _, deleting := range []bool{true, false} {
		for _, panics := range []bool{true, false} {
			s, clock := readingStacks()
			s.sys = unreadable{panics: panics}
			released, patches := &ofKinds{releases: releases{t}}, 0
			s.adopter = adoption.Adopter{
				Releaser: released, Retained: []schema.GroupVersionKind{{Version: "v1", Kind: "PersistentVolumeClaim"}},
				Patch: func(context.Context, metav1.Object, []byte) error { patches++; return nil },
				Live:  func(_ context.Context, cr metav1.Object) (metav1.Object, error) { return cr, nil },
			}
			attempt := func() error {
				p := passOf("a", newState("uid"), "")
				p.cr, p.reader = p.before.DeepCopy(), s.readers.New(reader.Request{})
				if deleting {
					now := metav1.NewTime(clock.Now())
					p.cr.DeletionTimestamp = &now
				}
				_, err := s.run(t.Context(), p, true)
				return err
			}
			for range reportedAfter {
				if err := attempt(); err == nil || patches > 0 {
					t.Errorf("deleting: %t, panics: %t: an early attempt gives %v and %d writes", deleting, panics, err, patches)
				}
				clock.Step(s.queue.backoff.When(reconcile.Request{NamespacedName: passOf("a", nil, "").key}))
			}
			want := 0
			if deleting {
				want = 1
			}
			if err := attempt(); (err == nil) != deleting || patches != want || released.n != want {
				t.Errorf("deleting: %t, panics: %t: at last %v, %d writes, %d kinds released", deleting, panics, err, patches, released.n)
			}
		}
	}
}
