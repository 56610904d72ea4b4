package engine

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mlkeeper.dev/internal/engine/adoption"
	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/observe"
)

func (s *stacks[C, F]) newAdopter() adoption.Adopter {
	return adoption.Adopter{
		Finalizers: s.def.StripFinalizers, Retained: s.def.Retained, Releaser: s.actor,
		Patch: func(ctx context.Context, cr metav1.Object, patch []byte) error { return s.patch(ctx, cr, patch) },
		Live:  s.liveMetadata,
	}
}

// kept is what the cache keeps of the metadata of a custom resource.
func (s *stacks[C, F]) kept() observe.Metadata {
	return observe.Metadata{Annotations: s.def.Annotations, Finalizers: s.def.StripFinalizers}
}

// liveMetadata reads the metadata of a custom resource, of which the cache keeps a part; nil where it is gone.
func (s *stacks[C, F]) liveMetadata(ctx context.Context, cr metav1.Object) (metav1.Object, error) {
	mapping, ok := s.catalog.Lookup(s.def.GVK)
	if !ok {
		return nil, nil
	}
	live, err := s.metadata.Resource(mapping.Resource).Namespace(cr.GetNamespace()).Get(ctx, cr.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the finalizers of %s %s/%s: %w", s.def.GVK.Kind, cr.GetNamespace(), cr.GetName(), err)
	}
	return live, nil
}

// adopts says that the finalizers of a previous operator are to be removed from a custom resource. A suspended one keeps them until it is
// being deleted.
func (s *stacks[C, F]) adopts(cr metav1.Object) bool {
	return s.adopter.Pending(cr) && (cr.GetDeletionTimestamp() != nil || !s.isSuspended(cr))
}

// previousRuns is the warning of a custom resource that gets the finalizers of a previous operator again and again.
const previousRuns = "somebody sets the finalizer of a previous operator again whenever it was removed: stop that operator, which waits for " +
	"objects that MLKeeper has now"

// adopt removes the finalizers after the plan was rendered and before anything is written for it. done says that the reconcile ends; the
// write enqueues the custom resource again. While it is not known which objects must be retained after the custom resource, the finalizers stay,
// and the reconcile goes on and reports why.
func (s *stacks[C, F]) adopt(ctx context.Context, p *reconciliation[C, F]) (done bool, err error) {
	if p.cr.GetDeletionTimestamp() == nil && p.state.released.Waits(s.Clock.Now()) {
		p.requeueAt(p.state.released.Due())
		p.warnings = append(p.warnings, previousRuns)
		return false, nil
	}
	rendered := !p.gatherFailed && len(p.plan.Problems) == 0
	if !rendered && p.cr.GetDeletionTimestamp() == nil {
		return false, nil
	}
	if err := s.adopter.ReleasePlan(ctx, s.digests.Key(), p.plan, p.stack, s.self(p.cr)); err != nil {
		return true, err
	}
	p.state.refs = p.reader.Done(p.state.refs)
	if rendered {
		p.state.released.Again(backoff.TakenBack, s.Clock.Now())
		return true, s.adopter.RemoveFinalizers(ctx, p.before)
	}
	if p.opening() {
		if rest := s.holdOpening(p.state, p.reader.Opening()); rest > 0 {
			s.queue.addLast(rest, p.key.Namespace, p.key.Name)
			return true, nil
		}
	}
	return true, s.adoptUnrendered(ctx, p.before)
}

// adoptUnrendered removes the finalizers from a custom resource that is being deleted and of which nothing can be rendered.
func (s *stacks[C, F]) adoptUnrendered(ctx context.Context, cr metav1.Object) error {
	if err := s.adopter.ReleaseKinds(ctx, s.stackOf(cr), s.self(cr)); err != nil {
		return err
	}
	return s.adopter.RemoveFinalizers(ctx, cr)
}

// patch writes to a custom resource by a merge patch. That it is gone is no failure, since its own event follows.
func (s *stacks[C, F]) patch(ctx context.Context, cr metav1.Object, patch []byte, sub ...string) error {
	mapping, ok := s.catalog.Lookup(s.def.GVK)
	if !ok {
		return nil
	}
	_, err := s.client.Resource(mapping.Resource).Namespace(cr.GetNamespace()).Patch(ctx, cr.GetName(),
		types.MergePatchType, patch, metav1.PatchOptions{FieldManager: observe.FieldManager}, sub...)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write %s %s/%s: %w", s.def.GVK.Kind, cr.GetNamespace(), cr.GetName(), err)
	}
	return nil
}
