package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
)

// handBackManager is the field manager of what the command writes.
const handBackManager = "mlkeeper-hand-back"

// NewHandBackCommand returns `mlkeeper hand-back`.
func NewHandBackCommand(env Environment) *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:   "hand-back",
		Short: "Prepare the objects of MLKeeper for the original operator, after the manager was stopped",
		Long: `Prepare the TrustyAIServices of all namespaces, and the objects below them, for the original operator: the custom resources own their
objects again instead of Inventories, the Inventories are deleted, MLKeeper's labels and annotations go, and bindings to a role of
MLKeeper's are deleted, which the original operator creates anew. No pod restarts, and claims stay. Custom resources of other kinds, and
what belongs to them, are not written.

The manager must not run, since it would adopt everything again. The definition, with the webhook that converts its versions, comes
with the original operator's manifest: apply that afterwards. Do not run make undeploy or make uninstall before, which delete the definitions
and with them every custom resource. The command can be repeated.`,
		Example: `  mlkeeper hand-back --dry-run
  mlkeeper hand-back`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := env.Connection.open()
			if err != nil {
				return err
			}
			return runHandBack(cmd, c, env.Controllers(), dry)
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print what would be done; the API server checks it and changes nothing")
	return cmd
}

// handBack gives custom resources back to the operator that had them before.
type handBack struct {
	*cluster
	// api writes; with a dry run the API server stores nothing.
	api dynamic.Interface
	say func(text string) error
}

func runHandBack(cmd *cobra.Command, c *cluster, controllers []controller.Any, dry bool) error {
	ctx := cmd.Context()
	if err := c.noManager(ctx); err != nil {
		return err
	}
	h := &handBack{cluster: c, api: c.dynamic}
	prefix := ""
	if dry {
		h.api, prefix = dryRun{c.dynamic}, "dry run: "
	}
	h.say = func(text string) error { return printLines(cmd.OutOrStdout(), Clean(prefix+text)) }
	var failed error
	for _, r := range controllers {
		if r.Previous().TakesBack {
			failed = errors.Join(failed, h.kind(ctx, r))
		}
	}
	if failed != nil {
		return fmt.Errorf("%w\nnot everything was handed back: correct the errors above and run hand-back again", failed)
	}
	return h.say("next, apply the original operator's manifest: its definition has the webhook that converts the versions")
}

// kind hands back every custom resource of a controller.
func (h *handBack) kind(ctx context.Context, r controller.Any) error {
	mapping, err := h.lookup(r.GVK())
	if err != nil || mapping == nil {
		return err
	}
	all, err := h.list(ctx, mapping, "", metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list %s: %w", mapping.Resource.Resource, err)
	}
	var inventories byOwner
	if served, err := h.lookup(inventoryKind); err != nil {
		return err
	} else if served != nil {
		c := &collector{cluster: h.cluster}
		inventories = c.inventories(ctx)
		if len(c.warnings) > 0 {
			return errors.New(c.warnings[0])
		}
	}
	var failed error
	for _, u := range all {
		if err := h.customResource(ctx, r, u, inventories[inventoryOwner(stackOf(r, u))]); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", plan.KeyOf(u), err))
		}
	}
	return failed
}

// customResource hands back one custom resource: its objects first, and once none of them refers to the Inventories, these.
func (h *handBack) customResource(ctx context.Context, r controller.Any, cr *unstructured.Unstructured, inventories []keeper.Inventory) error {
	entries := entriesOf(cr, inventories)
	owners := map[string]bool{string(cr.GetUID()): true}
	for i := range inventories {
		owners[string(inventories[i].UID)] = true
	}
	keys := slices.SortedFunc(maps.Keys(entries), func(a, b plan.Key) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		if err := h.child(ctx, r, cr, entries[key], owners); err != nil {
			return err
		}
	}
	for i := range inventories {
		name := inventories[i].Name
		if inventories[i].DeletionTimestamp != nil {
			// An earlier run deleted it; the garbage collector removes its finalizer.
			continue
		}
		// What could still refer to it is not deleted with it.
		err := h.api.Resource(keeper.GroupVersion.WithResource("inventories")).Delete(ctx, name, metav1.DeleteOptions{
			Preconditions: metav1.NewUIDPreconditions(string(inventories[i].UID)), PropagationPolicy: ptr.To(metav1.DeletePropagationOrphan),
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete the Inventory %s: %w", name, err)
		}
		if err := h.say("Inventory " + name + ": deleted"); err != nil {
			return err
		}
	}
	return nil
}

// child hands back one object, if it is there and belongs to the custom resource.
func (h *handBack) child(
	ctx context.Context, r controller.Any, cr *unstructured.Unstructured, e keeper.InventoryEntry, owners map[string]bool,
) error {
	mapping, err := h.lookup(schema.GroupVersionKind{Group: e.Group, Version: e.Version, Kind: e.Kind})
	if err != nil || mapping == nil {
		return err
	}
	live, err := h.resource(mapping, e.Namespace).Get(ctx, e.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	key := plan.KeyOfEntry(e)
	if err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	ours := live.GetLabels()[keeper.ControllerLabel] == r.Name() && live.GetAnnotations()[keeper.OwnerAnnotation] == stackOf(r, cr).ID()
	for _, ref := range live.GetOwnerReferences() {
		ours = ours || owners[string(ref.UID)]
	}
	if !ours {
		return nil
	}
	var api dynamic.ResourceInterface = h.api.Resource(mapping.Resource)
	if e.Namespace != "" {
		api = h.api.Resource(mapping.Resource).Namespace(e.Namespace)
	}
	if bindsMLKeeper(live) {
		err := api.Delete(ctx, e.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(live.GetUID()))})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete %s: %w", key, err)
		}
		return h.say(key.String() + ": deleted, since it binds a role of MLKeeper's; the original operator creates it with its own")
	}
	before := live.DeepCopy()
	text := returned(live, cr, e, owners)
	if equality.Semantic.DeepEqual(before, live) {
		return nil
	}
	if _, err := api.Update(ctx, live, metav1.UpdateOptions{FieldManager: handBackManager}); err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	return h.say(key.String() + ": " + text)
}

// bindsMLKeeper says that an object binds a ClusterRole of MLKeeper's, which goes with it.
func bindsMLKeeper(live *unstructured.Unstructured) bool {
	role, _, _ := unstructured.NestedString(live.Object, "roleRef", "name")
	return live.GroupVersionKind().Group == rbacv1.GroupName && strings.HasPrefix(role, "mlkeeper-")
}

// returned changes an object into what it was with the original operator, and says so: the custom resource owns it, except for what is
// to stay and what is not in its namespace, and MLKeeper's marks are gone.
func returned(live, cr *unstructured.Unstructured, e keeper.InventoryEntry, owners map[string]bool) string {
	refs := slices.DeleteFunc(live.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return owners[string(ref.UID)] })
	text := "stays when the custom resource is deleted"
	if e.Policy == "" && e.Namespace == cr.GetNamespace() && live.GetKind() != "PersistentVolumeClaim" {
		text = "owned by " + plan.KeyOf(cr).String()
		refs = append(refs, metav1.OwnerReference{
			APIVersion: cr.GetAPIVersion(), Kind: cr.GetKind(), Name: cr.GetName(), UID: cr.GetUID(), Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
		})
	}
	live.SetOwnerReferences(refs)
	live.SetLabels(unmarked(live.GetLabels()))
	live.SetAnnotations(unmarked(live.GetAnnotations()))
	return text
}

// unmarked are labels or annotations without MLKeeper's.
func unmarked(all map[string]string) map[string]string {
	maps.DeleteFunc(all, func(name, _ string) bool { return strings.HasPrefix(name, keeper.AnnotationPrefix) })
	return all
}
