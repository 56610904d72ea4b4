package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/util/csaupgrade"
	"k8s.io/kube-openapi/pkg/spec3"

	"mlkeeper.dev/internal/engine/act"
	"mlkeeper.dev/internal/engine/apistatus"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/observe"
)

// predict says what an apply would leave of a live object, and what else is to be known of it.
//
// The manager first turns the fields of its POST into fields of an apply, so that those which it declares no longer go,
// and then applies. A dry run can do only one of the two, so both are done here, with the schema that the API server
// publishes, and the result is tried as an update: that adds the defaults and asks admission. Whoever may not update
// gets the merge alone; then the fields of the POST stay, since nothing tells what was declared from what was defaulted.
func (d *differ) predict(
	ctx context.Context, a decide.Action, live, desired *unstructured.Unstructured, managers sets.Set[string],
) (after *unstructured.Unstructured, note string, err error) {
	if d.local {
		after, err = d.mergeLocally(a, live, desired)
		return after, "", err
	}
	merged, err := d.schemas.apply(live, desired, managers)
	if err != nil {
		return nil, "", fmt.Errorf("merge %s: %w", a.Key, err)
	}
	if a.Reason == decide.ReasonUnverified && sameContent(live, merged) {
		// Only the operator has the key of the hashes in the inventory. The merge tells as well whether anybody has changed the object.
		return live, "", nil
	}
	mapping, err := d.lookup(desired.GroupVersionKind())
	if err != nil {
		return nil, "", err
	}
	opts := metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: observe.FieldManager}
	tried, err := d.resource(mapping, live.GetNamespace()).Update(ctx, merged, opts)
	if act.KeepsLimits(err, desired) {
		// The manager takes these out, whoever holds them.
		unstructured.RemoveNestedField(merged.Object, "spec", "strategy", "rollingUpdate")
		tried, err = d.resource(mapping, live.GetNamespace()).Update(ctx, merged, opts)
	}
	switch {
	case err == nil:
		return tried, "", nil
	case apierrors.IsConflict(err):
		return nil, "", fmt.Errorf("%s was changed while it was compared: try again", a.Key)
	case untried(err):
		d.warn("no dry run of " + a.Key.Kind + "s is possible, so fields that the API server fills in, or that would be " +
			"removed, may be missing: " + withoutValues(a, err))
		after, err = d.mergeLocally(a, live, desired)
		return after, "", err
	case apistatus.Immutable(err):
		note = "the change needs an immutable field to change: the object is recreated where that is safe, and otherwise Stalled: " + withoutValues(a, err)
		return merged, note, nil
	}
	note = "the API server would refuse it: " + withoutValues(a, err)
	d.refusals = append(d.refusals, fmt.Errorf("%s: %s", a.Key, note))
	return merged, note, nil
}

// sameContent says that two states of an object differ in their managedFields at most.
func sameContent(one, other *unstructured.Unstructured) bool {
	one, other = one.DeepCopy(), other.DeepCopy()
	one.SetManagedFields(nil)
	other.SetManagedFields(nil)
	return equality.Semantic.DeepEqual(one.Object, other.Object)
}

// mergeLocally is what an apply would leave without the defaults and the admission of the API server.
func (d *differ) mergeLocally(a decide.Action, live, desired *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	after, err := d.schemas.apply(live, desired, nil)
	if err != nil {
		return nil, fmt.Errorf("merge %s: %w", a.Key, err)
	}
	return keepDefaulted(live, after), nil
}

// untried says that the API server did not try the change: for want of rights, or since a webhook takes no dry run.
func untried(err error) bool {
	if apierrors.IsUnauthorized(err) || apierrors.IsMethodNotSupported(err) {
		return true
	}
	if apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "dry run") {
		return true
	}
	return apierrors.IsForbidden(err) && !apistatus.OverQuota(err) && !apistatus.Denied(err)
}

// withoutValues is an answer of the API server; of a Secret its reason alone, since the answer may quote values.
func withoutValues(a decide.Action, err error) string {
	if a.Key.GroupKind == secretKind {
		return string(apierrors.ReasonForError(err)) + " (the answer is omitted, as it may contain values)"
	}
	return cut(err.Error(), 400)
}

// schemas merges objects as server-side apply does, with the schemas that the API server publishes.
type schemas struct {
	client openapi.Client
	known  map[schema.GroupVersion]managedfields.TypeConverter
}

func newSchemas(client openapi.Client) *schemas {
	return &schemas{client: client, known: map[schema.GroupVersion]managedfields.TypeConverter{}}
}

// apply does what server-side apply by MLKeeper would do to a live object, but for defaults and admission. The fields that managers
// have written, such as MLKeeper's POST, count as applied, so that those which are declared no longer go.
func (s *schemas) apply(live, desired *unstructured.Unstructured, managers sets.Set[string]) (*unstructured.Unstructured, error) {
	gvk := desired.GroupVersionKind()
	converter, err := s.converter(gvk.GroupVersion())
	if err != nil {
		return nil, err
	}
	manager, err := managedfields.NewDefaultFieldManager(converter, sameVersion{}, sameVersion{}, sameVersion{}, gvk,
		gvk.GroupVersion(), "", nil)
	if err != nil {
		return nil, err
	}
	live = live.DeepCopy()
	if managers != nil {
		if err := csaupgrade.UpgradeManagedFields(live, managers, observe.FieldManager); err != nil {
			return nil, err
		}
	}
	out, err := manager.Apply(live, desired.DeepCopy(), observe.FieldManager, true)
	if err != nil {
		return nil, err
	}
	merged, ok := out.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("bug: the merge gave %T", out)
	}
	return merged, nil
}

// converter knows the schemas of a group version. Where none are published every list is replaced as a whole.
func (s *schemas) converter(gv schema.GroupVersion) (managedfields.TypeConverter, error) {
	if known, found := s.known[gv]; found {
		return known, nil
	}
	out := managedfields.NewDeducedTypeConverter()
	if s.client != nil {
		published, err := s.published(gv)
		if err != nil {
			return nil, err
		}
		if published != nil {
			out = published
		}
	}
	s.known[gv] = out
	return out, nil
}

func (s *schemas) published(gv schema.GroupVersion) (managedfields.TypeConverter, error) {
	paths, err := s.client.Paths()
	if err != nil {
		return nil, fmt.Errorf("read the schemas of the API server: %w", err)
	}
	path := "apis/" + gv.String()
	if gv.Group == "" {
		path = "api/" + gv.Version
	}
	document, found := paths[path]
	if !found {
		return nil, nil
	}
	raw, err := document.Schema(runtime.ContentTypeJSON)
	if err != nil {
		return nil, fmt.Errorf("read the schemas of %s: %w", gv, err)
	}
	var spec spec3.OpenAPI
	if err := json.Unmarshal(raw, &spec); err != nil {
		return nil, fmt.Errorf("read the schemas of %s: %w", gv, err)
	}
	if spec.Components == nil {
		return nil, nil
	}
	return managedfields.NewTypeConverter(spec.Components.Schemas, false)
}

// sameVersion stands for the conversions of an API server where there is one version only. Fields that somebody declared
// in another version are nobody's here.
type sameVersion struct{ runtime.ObjectConvertor }

// ConvertToVersion implements runtime.ObjectConvertor.
func (sameVersion) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	gvk := in.GetObjectKind().GroupVersionKind()
	if same, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{gvk}); ok && same == gvk {
		return in, nil
	}
	return nil, runtime.NewNotRegisteredErrForKind("diff", gvk)
}

// Default implements runtime.ObjectDefaulter.
func (sameVersion) Default(runtime.Object) {}

// New implements runtime.ObjectCreater.
func (sameVersion) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(gvk)
	return u, nil
}
