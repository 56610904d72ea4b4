package wiring

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

const (
	unwirePage    = 500
	unwireRetries = 5
)

// Unwire takes every recorded entry out of every target of the wires, in all namespaces. It is for a cluster from which
// the operator is gone (invariant 6): one that runs would put the entries back. It is idempotent, goes on after a failure,
// and returns all failures together; progress is told one sentence for each object it changed, skipped or failed on.
func Unwire(ctx context.Context, api dynamic.Interface, mapper meta.RESTMapper, wires []Wire, progress func(string)) error {
	if progress == nil {
		progress = func(string) {}
	}
	var failures []error
	for i := range wires {
		wire := &wires[i]
		mapping, err := mapper.RESTMapping(wire.GVK.GroupKind(), wire.GVK.Version)
		if meta.IsNoMatchError(err) {
			progress(fmt.Sprintf("%s: the cluster does not serve %s, nothing to do", wire.Name, wire.GVK.Kind))
			continue
		}
		if err == nil {
			err = unwireAll(ctx, api.Resource(mapping.Resource), wire, progress)
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("wire %s: %w", wire.Name, err))
		}
	}
	return errors.Join(failures...)
}

func unwireAll(ctx context.Context, api dynamic.NamespaceableResourceInterface, wire *Wire, progress func(string)) error {
	options := metav1.ListOptions{LabelSelector: wire.LabelSelector, FieldSelector: wire.FieldSelector, Limit: unwirePage}
	var failures []error
	for {
		page, err := api.List(ctx, options)
		if apierrors.IsResourceExpired(err) && options.Continue != "" {
			// What is done already has no annotation any more, so starting over costs only the reads.
			options.Continue = ""
			continue
		}
		if err != nil {
			return errors.Join(append(failures, fmt.Errorf("list: %w", err))...)
		}
		for i := range page.Items {
			item := &page.Items[i]
			_, marked := item.GetAnnotations()[keeper.WiringAnnotation]
			if _, claimed := wire.claimed(item); !marked && !claimed {
				continue
			}
			if err := unwireOne(ctx, api.Namespace(item.GetNamespace()), wire, item, progress); err != nil {
				failures = append(failures, err)
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return errors.Join(failures...)
		}
	}
}

func unwireOne(ctx context.Context, api dynamic.ResourceInterface, wire *Wire, live *unstructured.Unstructured,
	progress func(string),
) error {
	name := fmt.Sprintf("%s %s/%s", wire.GVK.Kind, live.GetNamespace(), live.GetName())
	for range unwireRetries {
		if _, err := Recorded(live); err != nil {
			return fmt.Errorf("%s: the annotation %s cannot be read (%w): take MLKeeper's entries out by hand and remove it",
				name, keeper.WiringAnnotation, err)
		}
		if live.GetDeletionTimestamp() != nil {
			progress(name + ": is being deleted, left")
			return nil
		}
		done, err := unwireWrite(ctx, api, wire, live)
		if err == nil {
			progress(name + ": " + done)
			return nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s: %w", name, err)
		}
		if live, err = api.Get(ctx, live.GetName(), metav1.GetOptions{}); apierrors.IsNotFound(err) {
			progress(name + ": is gone")
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return fmt.Errorf("%s: changed %d times meanwhile; run unwire again", name, unwireRetries)
}

func unwireWrite(ctx context.Context, api dynamic.ResourceInterface, wire *Wire, live *unstructured.Unstructured) (string, error) {
	d := decide(wire, live, nil)
	if len(d.entries) > 0 {
		reason := "its entries cannot be taken out"
		if len(d.outcomes) > 0 && d.outcomes[0].Message != "" {
			reason = d.outcomes[0].Message
		}
		return "", errors.New(reason)
	}
	if !d.needed() {
		return "nothing to take out", nil
	}
	out, remove, err := d.seal(wire, live)
	if err != nil {
		return "", err
	}
	if remove {
		uid, version := live.GetUID(), live.GetResourceVersion()
		err := api.Delete(ctx, live.GetName(), metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
		})
		return "deleted, for MLKeeper had created it", err
	}
	_, err = api.Update(ctx, out, metav1.UpdateOptions{FieldManager: FieldManager})
	return fmt.Sprintf("took out %d entries", len(d.recorded.Entries)), err
}
