package kserve

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/digest"
	"mlkeeper.dev/internal/engine/plan"
)

// Nothing proves who gave an order: whoever may write to the topic can. So orders go into those namespaces alone which an
// administrator labelled, and a service that somebody made becomes an element's only by a mark on it.

var (
	gvkNamespace      = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	gvkServiceAccount = schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}
)

// Reasons of services that are left out.
const (
	reasonNamespaceNotAllowed      = "NamespaceNotAllowed"
	reasonNamespaceAbsent          = "NamespaceAbsent"
	reasonServiceAccountNotAllowed = "ServiceAccountNotAllowed"
	reasonNotHandedOver            = "NotHandedOver"
)

// admitted says why a service may not be made in its namespace; nil where it may.
func admitted(ctx context.Context, read controller.Reader, service *unstructured.Unstructured) (*plan.Problem, error) {
	name := service.GetNamespace()
	namespace, err := read.Referenced(ctx, gvkNamespace, corev1.NamespaceAll, name)
	label := keeper.CompositionsLabel + "=" + keeper.CompositionsAllowed
	switch {
	case err != nil:
		return nil, err
	case namespace == nil:
		return &plan.Problem{
			Class: plan.Waiting, Reason: reasonNamespaceAbsent, Field: "namespace", Value: name,
			Message: "there is no such namespace", Remedy: "create it with the label " + label,
		}, nil
	case namespace.GetLabels()[keeper.CompositionsLabel] != keeper.CompositionsAllowed:
		return &plan.Problem{
			Class: plan.Terminal, Reason: reasonNamespaceNotAllowed, Field: "namespace", Value: name,
			Message: "no orders are let into the namespace",
			Remedy:  "have an administrator allow them: kubectl label namespace " + name + " " + label,
		}, nil
	}
	pods, err := podsOf(service)
	var problem plan.Problem
	switch {
	case errors.As(err, &problem):
		return &problem, nil
	case err != nil:
		return nil, err
	}
	if forbidden := podSecurity(pods, namespace.GetLabels()); forbidden != nil {
		return forbidden, nil
	}
	if forbidden := placement(name, pods, namespace.GetLabels()); forbidden != nil {
		return forbidden, nil
	}
	if forbidden := injecting(service, pods, namespace.GetLabels()); forbidden != nil {
		return forbidden, nil
	}
	return admittedAccounts(ctx, read, name, pods)
}

// admittedAccounts says why the pods may not run as their ServiceAccounts, whose rights an order would get; nil where they may. The default
// ServiceAccount is the one of every pod of the namespace.
func admittedAccounts(ctx context.Context, read controller.Reader, namespace string, pods []pod) (*plan.Problem, error) {
	for _, one := range pods {
		name := one.serviceAccount()
		if name == "default" {
			continue
		}
		account, err := read.Referenced(ctx, gvkServiceAccount, namespace, name)
		if err != nil {
			return nil, err
		}
		if account != nil && account.GetLabels()[keeper.CompositionsLabel] == keeper.CompositionsAllowed {
			continue
		}
		return &plan.Problem{
			Class: plan.Terminal, Reason: reasonServiceAccountNotAllowed, Field: one.field + ".serviceAccountName", Value: name,
			Message: "orders may not use the rights of this ServiceAccount",
			Remedy: "remove the field, or have an administrator allow it: kubectl label serviceaccount -n " + namespace + " " + name + " " +
				keeper.CompositionsLabel + "=" + keeper.CompositionsAllowed,
		}, nil
	}
	return nil, nil
}

// admit returns those of the services that may be made, and why the others may not. What stands already stays; all are asked for where
// stands is nil: those of an order that is yet to be carried out. The namespace of what stands is read nevertheless: of an object to which
// no custom resource refers at the moment nothing is kept, so that each of a thousand elements would read it again.
func admit(
	ctx context.Context, read controller.Reader, services []*unstructured.Unstructured, stands func(*unstructured.Unstructured) bool,
) (may []*unstructured.Unstructured, held *plan.Problem, err error) {
	for _, service := range services {
		problem, err := admitted(ctx, read, service)
		switch {
		case err == nil && problem == nil:
			may = append(may, service)
		case stands != nil && stands(service):
			may = append(may, service)
		case err != nil:
			return nil, nil, err
		case held == nil || problem.Class == plan.Terminal:
			held = problem
		}
	}
	return may, held, nil
}

// standing says of a service whether it is there exactly as it is declared, by the digest of what was written last. The name alone does not
// tell: a service that an order was refused for goes on as it was before, and the next order would bring what was refused.
func standing(read controller.Reader, cr *keeper.CompositionElement) func(*unstructured.Unstructured) bool {
	gvk := Definition().GVK
	stack := plan.Stack{Controller: ControllerName, GVK: gvk, Name: cr.Name, UID: cr.UID}
	owner := plan.Owner{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Name: cr.Name, UID: cr.UID}
	return func(service *unstructured.Unstructured) bool {
		child := read.Child(gvkService, service.GetNamespace(), service.GetName())
		if child == nil {
			return false
		}
		// The key is for Secrets, which no order has.
		stamped, err := plan.Stamp(digest.Key{}, plan.Object{Desired: service}, stack, owner, 0)
		return err == nil && child.AppliedHash() == stamped.Digest
	}
}

// handOver leaves out the services that somebody else made, and nobody handed over to the element. It is about those that the
// runtime calls deployed and never ordered of us: the previous participant made them, which left no mark, or so a message says.
// An order that makes nothing leaves that as it is.
func (f *Facts) handOver(ctx context.Context, read controller.Reader) error {
	switch f.Element.Order.Type {
	case acm.NoOrder, acm.OrderLock, acm.OrderUnlock, acm.OrderReview, acm.OrderPrecheck:
	default:
		return nil
	}
	var out []*unstructured.Unstructured
	f.HandedOver = map[plan.Key]bool{}
	for _, service := range f.Services {
		key := plan.KeyOf(service)
		if read.Child(gvkService, key.Namespace, key.Name) == nil {
			live, err := read.Referenced(ctx, gvkService, key.Namespace, key.Name)
			if err != nil {
				return err
			}
			f.HandedOver[key] = live != nil && live.GetAnnotations()[keeper.ElementAnnotation] == f.Element.ID
			if live != nil && !f.HandedOver[key] {
				f.Held = &plan.Problem{
					Class: plan.Blocked, Reason: reasonNotHandedOver, Field: "metadata.annotations", Value: keeper.ElementAnnotation,
					Message: key.String() + " exists already, and nothing on it says that it is this element's; it is left alone",
					Remedy: "hand it over: kubectl annotate inferenceservice -n " + key.Namespace + " " + key.Name + " " +
						keeper.ElementAnnotation + "=" + f.Element.ID,
				}
				continue
			}
		}
		out = append(out, service)
	}
	f.Services = out
	return nil
}
