package seldon

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/helm"
	"mlkeeper.dev/internal/rendering"
)

// adopted is the revision that takes a release of Helm over, which counts as the first one: an upgrade.
func adopted(digest, valuesDigest string) revision {
	return revision{Number: 2, Installed: 1, Run: rendering.Digest(digest, valuesDigest)}
}

// existing are objects under the names of those of a component that is yet to be applied.
type existing struct {
	// release is one of a release of Helm in the namespace, foreign one without MLKeeper's mark; nil where there is none.
	release, foreign *unstructured.Unstructured
}

// lookForExisting looks with the rights that the chart is written with: what these do not let it read cannot be adopted either.
func (r request) lookForExisting(ctx context.Context, live controller.Live, rendered []*unstructured.Unstructured) (out existing, err error) {
	for _, u := range rendered {
		if live == nil || out.release != nil {
			break
		}
		found, err := live.Get(ctx, r.user, u.GroupVersionKind(), cmp.Or(u.GetNamespace(), r.namespace), u.GetName())
		if apierrors.IsForbidden(err) || found == nil && err == nil {
			continue
		}
		if err != nil {
			return out, fmt.Errorf("%w: %w", helm.ErrUnavailable, err)
		}
		if helm.Released(found, r.namespace) {
			out.release = found
		}
		if out.foreign == nil && found.GetAnnotations()[keeper.OwnerAnnotation] == "" && found.GroupVersionKind() != gvkNamespace {
			out.foreign = found
		}
	}
	return out, nil
}

// conflict refuses a component of whose objects some exist and are not to be adopted, as Helm does before it runs a hook. Where no hook
// comes before them, the engine applies the other objects and reports these.
func (r request) conflict(e existing, hooks bool) *plan.Problem {
	if e.foreign == nil || r.adopts || r.settings.DryRun || e.release == nil && !hooks {
		return nil
	}
	return &plan.Problem{
		Class: plan.Blocked, Reason: decide.ReasonForeignOwner, Field: r.field, Value: r.from.Name,
		Message: fmt.Sprintf("%s exists already and is not MLKeeper's; nothing of the chart is applied, and no hook of it is run", plan.KeyOf(e.foreign)),
		Remedy: "rename or delete that object; to adopt what exists with its data, annotate the SeldonOperator with " +
			keeper.AdoptAnnotation + "=true",
	}
}

// renderRevision renders the chart as the revision that it is now. The first one takes over what a release of Helm has installed.
func (r request) renderRevision(
	ctx context.Context, run rendering.Run[Content], in helm.Input, credentials *componentCredentials, now revision, valuesDigest string,
) (helm.Rendered, revision, error) {
	in.Revision, in.Upgrade = int(now.Number), now.upgrade()
	rendered, err := r.renderOnce(ctx, in, credentials)
	if err != nil || r.recorded.ValuesDigest != "" {
		return rendered, now, err
	}
	found, err := r.lookForExisting(ctx, run.Live, rendered.Objects)
	if err != nil {
		return rendered, now, err
	}
	hooks := slices.ContainsFunc(rendered.Before, func(u *unstructured.Unstructured) bool { return helm.Runs(u, false) })
	if problem := r.conflict(found, hooks); problem != nil {
		return rendered, now, *problem
	}
	if found.release == nil {
		return rendered, now, nil
	}
	now = adopted(run.Result.Sources[0].Digest, valuesDigest)
	in.Revision, in.Upgrade = int(now.Number), now.upgrade()
	rendered, err = r.renderOnce(ctx, in, credentials)
	return rendered, now, err
}

// renderOnce renders the chart. In a dry run nothing is stored, so that no later pass would render what needs certificates.
func (r request) renderOnce(ctx context.Context, in helm.Input, credentials *componentCredentials) (helm.Rendered, error) {
	rendered, err := helm.Render(ctx, in)
	if err != nil || !r.settings.DryRun || len(rendered.Wanted) == 0 {
		return rendered, err
	}
	wanted := credentials.certificates(rendered.Wanted)
	if r.keys.makeAll(r.settings.Random, r.now, wanted); r.keys.lacks(wanted) {
		return rendered, r.noCertificate()
	}
	return helm.Render(ctx, in)
}
