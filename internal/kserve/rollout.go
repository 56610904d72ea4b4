package kserve

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/plan"
)

// The status of an InferenceService does not say which spec it speaks of: its conditions stay True for what ran before while an
// update is rolled out (kserve#4626), and its observedGeneration is another object's (kserve#6081). What KServe makes of it does:
// the annotations of an InferenceService become those of the pods (kserve, components/predictor.go, buildObjectMeta), MLKeeper's
// digest among them. So an order has arrived when every Deployment, or Knative Service, has the digest in its template and is
// through with it.

// gvkDeployment and gvkKnative are what KServe makes of a component, by the deployment mode.
var (
	gvkDeployment = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	gvkKnative    = schema.GroupVersionKind{Group: "serving.knative.dev", Version: "v1", Kind: "Service"}
)

const (
	// serviceLabel and componentLabel are KServe's (pkg/constants): the InferenceService that something was made for, and the component.
	serviceLabel, componentLabel = "serving.kserve.io/inferenceservice", "component"
	// modelMesh is the deployment mode in which nothing is made for an InferenceService alone: its status is all there is.
	modelMesh = "ModelMesh"
	// askEvery is how often they are read in the first minute in which an order waits for them. After that the pauses grow: to askSlowly
	// while the order is in time, so that its end is told in time, and on when its time is up.
	askEvery, askSlowly = 2 * time.Second, 15 * time.Second
	// maxWorkloads bounds what is read of one service: three components, with workers and canaries.
	maxWorkloads = 20
)

// workload is what KServe made for a component of an InferenceService.
type workload struct {
	Kind, Name, Component string
	// Owner is the UID of the InferenceService, and Digest that of the one which the template was made from.
	Owner  types.UID
	Digest string
	Health health.Result
}

// workloads is the answer to what there is in one namespace, or why it is not known.
type workloads struct {
	Items   []workload
	Failure string
	// Pause is the longest pause until they are read again; 0 for askEvery.
	Pause time.Duration
}

var _ controller.Retryable = (*workloads)(nil)

// Retry implements controller.Retryable.
func (w *workloads) Retry() time.Duration {
	if w.Failure != "" {
		return controller.RetryPassing
	}
	return w.Pause
}

// rollsOut says that the order is one by which KServe has something to make.
func (f Facts) rollsOut() bool {
	switch f.Element.Order.Type {
	case acm.OrderDeploy, acm.OrderUpdate, acm.OrderMigrate:
		return true
	}
	return false
}

// pause is the longest pause until what an order waits for is read again: what does not come within a minute may take hours, or never come.
func (f Facts) pause() time.Duration {
	switch {
	case !f.Now.Before(f.Deadline):
		return controller.RetryPassing
	case !f.Now.Before(f.SlowFrom):
		return askSlowly
	}
	return 0
}

// rollouts asks what KServe made of the services of an order that is carried out as far as they tell, by namespace.
func (f Facts) rollouts(read controller.Reader) map[string]*workloads {
	if !f.rollsOut() || f.GoesBack || f.Outcome != nil && f.Outcome.Failure == "" {
		return nil
	}
	names := map[string][]string{}
	for _, service := range f.Services {
		child := read.Child(gvkService, service.GetNamespace(), service.GetName())
		if child == nil || child.Health.Status != health.Current {
			return nil
		}
		names[child.Namespace] = append(names[child.Namespace], child.Name)
	}
	kinds := []schema.GroupVersionKind{gvkDeployment}
	if read.Serves(gvkKnative) {
		kinds = append(kinds, gvkKnative)
	}
	pause := f.pause()
	out := map[string]*workloads{}
	for namespace, services := range names {
		question := made(kinds, namespace, services, pause)
		out[namespace], _ = read.Background("what runs in "+namespace+" for "+f.Element.Order.ID, askEvery, question).(*workloads)
	}
	return out
}

// made asks for what KServe made of some services.
func made(kinds []schema.GroupVersionKind, namespace string, services []string, pause time.Duration) controller.Job {
	selector := serviceLabel + " in (" + strings.Join(services, ",") + ")"
	return func(ctx context.Context, live controller.Live) any {
		out := &workloads{Pause: pause}
		for _, gvk := range kinds {
			items, err := live.List(ctx, gvk, namespace, selector, int64(len(services)*maxWorkloads))
			if err != nil {
				return &workloads{Failure: controller.Cut(err.Error(), maxFailure)}
			}
			for i := range items {
				out.Items = append(out.Items, workloadOf(&items[i]))
			}
		}
		return out
	}
}

func workloadOf(u *unstructured.Unstructured) workload {
	out := workload{
		Kind: u.GetKind(), Name: u.GetName(), Component: u.GetLabels()[componentLabel], Health: health.Of(u),
	}
	if ref := metav1.GetControllerOfNoCopy(u); ref != nil {
		out.Owner = ref.UID
	}
	out.Digest, _, _ = unstructured.NestedString(u.Object, "spec", "template", "metadata", "annotations", keeper.AppliedHashAnnotation)
	return out
}

// rollingOut says what of the services is not rolled out yet, in a sentence; empty where all are as they were ordered, and while
// they do not even say that they are Ready.
func rollingOut(facts Facts, seen controller.ObservedState) string {
	if !facts.rollsOut() || !seen.Ready {
		return ""
	}
	for _, service := range facts.Services {
		key := plan.KeyOf(service)
		observed := seen.Objects[key].Observed
		if observed == nil || runsOn(service, observed.Stripped()) == modelMesh {
			continue
		}
		known := facts.Rollouts[key.Namespace]
		if known == nil {
			return "what runs " + key.String() + " is being read"
		}
		for _, component := range components(service) {
			if lacks := known.lacks(observed.UID, observed.AppliedHash(), component); lacks != "" {
				return "waiting for " + key.String() + ": " + lacks
			}
		}
	}
	return ""
}

// runsOn is the deployment mode of a service: what it declares, else what KServe says.
func runsOn(declared, live *unstructured.Unstructured) string {
	if mode := declared.GetAnnotations()["serving.kserve.io/deploymentMode"]; mode != "" || live == nil {
		return mode
	}
	mode, _, _ := unstructured.NestedString(live.Object, "status", "deploymentMode")
	return mode
}

// components are those of a service.
func components(service *unstructured.Unstructured) []string {
	out := []string{"predictor"}
	spec, _ := service.Object["spec"].(map[string]any)
	for _, component := range []string{"transformer", "explainer"} {
		if spec[component] != nil {
			out = append(out, component)
		}
	}
	return out
}

// lacks says what a component of a service still lacks; empty for nothing.
func (w *workloads) lacks(owner types.UID, digest, component string) string {
	if w.Failure != "" {
		return w.Failure
	}
	found := false
	for _, one := range w.Items {
		if one.Owner != owner || one.Component != component {
			continue
		}
		found = true
		switch {
		case one.Digest != digest:
			return fmt.Sprintf("KServe has not brought what was ordered to %s %s yet", one.Kind, one.Name)
		case one.Health.Status != health.Current:
			return fmt.Sprintf("%s %s: %s", one.Kind, one.Name, one.Health.Message)
		}
	}
	if !found {
		return "KServe has made nothing for the " + component + " yet"
	}
	return ""
}
