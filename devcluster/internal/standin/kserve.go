package standin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"
)

// What KServe makes and tells is read from its version 0.17.0: pkg/controller/v1beta1/inferenceservice with its components and
// reconcilers, and pkg/apis/serving/v1beta1. Where its master of 2026-08-21 (aaac4e294) differs, a comment says which of them rules.

var (
	deployments     = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	knativeServices = schema.GroupVersionResource{Group: "serving.knative.dev", Version: "v1", Resource: "services"}
	pods            = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// The deployment modes, and the labels and annotations of KServe.
const (
	standard, knative, modelMesh = "Standard", "Knative", "ModelMesh"
	modeAnnotation               = "serving.kserve.io/deploymentMode"
	stopAnnotation               = "serving.kserve.io/stop"
	serviceLabel                 = "serving.kserve.io/inferenceservice"
	componentLabel               = "component"
	// templateAnnotation has the hash of what a child was made from, so that it is updated only for another.
	templateAnnotation = "devcluster.mlkeeper.dev/template"
	// serviceFinalizer is held until the TrainedModels of a service are deleted (controller.go, deleteExternalResources).
	serviceFinalizer = "inferenceservice.finalizers"
	// servingDomain is the ingressDomain of inferenceservice-config.
	servingDomain = "models." + domain
)

// conditionNames are the names of the conditions of a component: its own, and in Knative mode those of its route and configuration.
var conditionNames = map[string][3]string{
	"predictor":   {predictorCondition, "PredictorRouteReady", "PredictorConfigurationReady"},
	"transformer": {"TransformerReady", "TransformerRouteReady", "TransformerConfigurationReady"},
	"explainer":   {"ExplainerReady", "ExplainerRoutesReady", "ExplainerConfigurationReady"},
}

// titles are the components as messages name them.
var titles = map[string]string{"predictor": "Predictor", "transformer": "Transformer", "explainer": "Explainer"}

// modeOf is the deployment mode of a service; without the annotation it is Standard.
func modeOf(obj *unstructured.Unstructured) string {
	switch mode := obj.GetAnnotations()[modeAnnotation]; mode {
	case "", "RawDeployment":
		return standard
	case "Serverless":
		return knative
	default:
		return mode
	}
}

// componentsOf are the components of a service, in the order in which KServe reconciles them.
func componentsOf(obj *unstructured.Unstructured) []string {
	out := []string{"predictor"}
	for _, component := range []string{"transformer", "explainer"} {
		if _, found, _ := unstructured.NestedMap(obj.Object, "spec", component); found {
			out = append(out, component)
		}
	}
	return out
}

// reconcileInferenceService makes the children of a service, and returns the status that follows from theirs. An error beside a
// status is tried again, as KServe does with what it cannot act on.
func reconcileInferenceService(ctx context.Context, client dynamic.Interface, obj *unstructured.Unstructured, now string) (map[string]any, error) {
	mode := modeOf(obj)
	if mode == modelMesh {
		return modelMeshStatus(obj, now), nil
	}
	out := statusOf(obj, mode, now)
	components := componentsOf(obj)
	stopped := obj.GetAnnotations()[stopAnnotation] == "true"
	for _, component := range components {
		err := out.reconcile(ctx, client, component, stopped)
		if mode == knative && apierrors.IsNotFound(err) {
			return out.done(), nil // Without Knative nothing is made, and nothing more is told (controller.go, "ServerlessModeRejected").
		}
		if err != nil {
			return out.done(), err
		}
	}
	if stopped {
		out.stop(components)
		return out.done(), nil
	}
	out.set("Stopped", condition{status: isFalse})
	if mode == knative {
		out.crossComponents(components)
	}
	out.ingress(components)
	return out.done(), nil
}

// reconcile makes what a component runs, and tells what becomes of it.
func (s *serviceStatus) reconcile(ctx context.Context, client dynamic.Interface, component string, stopped bool) error {
	if component == "predictor" {
		if err := s.chooseRuntime(ctx, client); err != nil {
			return err
		}
	}
	resource := deployments
	if s.mode == knative {
		resource = knativeServices
	}
	children := client.Resource(resource).Namespace(s.service.GetNamespace())
	if stopped {
		return ignoreGone(children.Delete(ctx, s.childName(component), metav1.DeleteOptions{}))
	}
	if err := s.hostName(component); err != nil {
		return err
	}
	wanted, err := s.child(component)
	if err != nil {
		return err
	}
	child, err := ensure(ctx, children, wanted)
	if err != nil {
		s.refused(component, err)
		return err
	}
	selector := labels.Set{"serving.knative.dev/revision": fmt.Sprint(s.component(component)["latestCreatedRevision"])}
	if s.mode == standard {
		if err := scale(ctx, client, s.service, component, child); err != nil {
			return err
		}
		s.standard(component, child)
		selector = labels.Set{"app": child.GetLabels()["app"]}
	} else {
		s.knative(component, child)
	}
	if component != "predictor" {
		return nil
	}
	list, err := client.Resource(pods).Namespace(s.service.GetNamespace()).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err == nil {
		s.model(list.Items)
	}
	return err
}

// hostName refuses a component whose host name is none: the name of its child, a dash and the namespace are one label of it, by the
// domainTemplate of inferenceservice-config (ingress/domain.go, GenerateDomainName; raw/raw_kube_reconciler.go, createRawURL).
func (s *serviceStatus) hostName(component string) error {
	if s.mode != standard {
		return nil
	}
	label := s.childName(component) + "-" + s.service.GetNamespace()
	if problems := validation.IsDNS1123Label(label); len(problems) > 0 {
		return fmt.Errorf("failed creating host name: invalid domain name %q: %s", label+"."+servingDomain, problems[0])
	}
	return nil
}

// refused tells that a child was refused (predictor.go, Reconcile, PropagateRawStatusWithMessages). What is only late is not told.
func (s *serviceStatus) refused(component string, err error) {
	if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
		s.set(conditionNames[component][0], condition{isFalse, "ReconcileFailed", fmt.Sprintf("fails to reconcile %s: %s", component, err)})
	}
}

// ensure makes a child, or gives it another template; what is scaled stays (deployment_reconciler.go, checkDeploymentExist).
func ensure(ctx context.Context, client dynamic.ResourceInterface, want *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live, err := client.Get(ctx, want.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return client.Create(ctx, want, metav1.CreateOptions{})
	}
	if err != nil || live.GetAnnotations()[templateAnnotation] == want.GetAnnotations()[templateAnnotation] {
		return live, err
	}
	for _, field := range []string{"template", "strategy"} {
		value, there, _ := unstructured.NestedFieldCopy(want.Object, "spec", field)
		if !there {
			unstructured.RemoveNestedField(live.Object, "spec", field)
		} else if err := unstructured.SetNestedField(live.Object, value, "spec", field); err != nil {
			return nil, err
		}
	}
	live.SetLabels(want.GetLabels())
	annotations := want.GetAnnotations()
	for _, own := range []string{"deployment.kubernetes.io/revision"} {
		if value, ok := live.GetAnnotations()[own]; ok {
			annotations[own] = value
		}
	}
	live.SetAnnotations(annotations)
	return client.Update(ctx, live, metav1.UpdateOptions{})
}

// scale plays the autoscaler that KServe makes: it keeps the replicas between those of the component, and each change counts as a
// generation of the Deployment.
func scale(ctx context.Context, client dynamic.Interface, obj *unstructured.Unstructured, component string, child *unstructured.Unstructured) error {
	least, _, _ := unstructured.NestedInt64(obj.Object, "spec", component, "minReplicas")
	most, _, _ := unstructured.NestedInt64(obj.Object, "spec", component, "maxReplicas")
	least = max(least, 1)
	have, _, _ := unstructured.NestedInt64(child.Object, "spec", "replicas")
	want := min(max(have, least), max(most, least))
	if most == 0 && have > least {
		want = have // Nothing bounds it.
	}
	if have == want {
		return nil
	}
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, want)
	_, err := client.Resource(deployments).Namespace(obj.GetNamespace()).
		Patch(ctx, child.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func (s *serviceStatus) childName(component string) string {
	return s.service.GetName() + "-" + component
}

// child is what is made for a component, a Deployment or a Knative Service, with the labels of its template. A Deployment is rolled out
// as the component says (deployment_reconciler.go, createRawDefaultDeployment).
func (s *serviceStatus) child(component string) (*unstructured.Unstructured, error) {
	made, err := s.template(component)
	if err != nil {
		return nil, err
	}
	spec := map[string]any{"template": made}
	labels, _, _ := unstructured.NestedMap(made, "metadata", "labels")
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "serving.knative.dev/v1", "kind": "Service", "spec": spec, "metadata": map[string]any{"labels": labels},
	}}
	if s.mode != knative {
		u.SetAPIVersion("apps/v1")
		u.SetKind("Deployment")
		spec["selector"] = map[string]any{"matchLabels": map[string]any{"app": labels["app"]}}
		if strategy, there, _ := unstructured.NestedMap(s.service.Object, "spec", component, "deploymentStrategy"); there {
			spec["strategy"] = strategy
		}
	}
	u.SetName(s.childName(component))
	u.SetNamespace(s.service.GetNamespace())
	u.SetAnnotations(map[string]string{templateAnnotation: hash(spec)})
	yes := true
	u.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: s.service.GetAPIVersion(), Kind: s.service.GetKind(), Name: s.service.GetName(), UID: s.service.GetUID(),
		Controller: &yes, BlockOwnerDeletion: &yes,
	}})
	return u, nil
}

func hash(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic("bug: JSON does not encode: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

func anyOf(values map[string]string) map[string]any {
	out := map[string]any{}
	for key, value := range values {
		out[key] = value
	}
	return out
}

// conditionIn reads a condition of a child; empty where there is none.
func conditionIn(u *unstructured.Unstructured, kind string) condition {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, one := range list {
		if c, ok := one.(map[string]any); ok && c["type"] == kind {
			status, _ := c["status"].(string)
			reason, _ := c["reason"].(string)
			message, _ := c["message"].(string)
			return condition{status, reason, message}
		}
	}
	return condition{}
}

// modelMeshStatus is that of a service which ModelMesh's own controller has loaded.
func modelMeshStatus(obj *unstructured.Unstructured, now string) map[string]any {
	out := statusOf(obj, modelMesh, now)
	for _, kind := range terminal {
		out.set(kind, condition{status: isTrue})
	}
	out.transition("UpToDate", "Loaded", nil)
	out.fields["url"] = "grpc://modelmesh-serving." + obj.GetNamespace() + ":8033"
	return out.done()
}

// knativeServiceStatus is that of a Knative Service. A change of it makes a revision, which becomes ready in a second step.
func knativeServiceStatus(obj *unstructured.Unstructured, now string) map[string]any {
	revision := fmt.Sprintf("%s-%05d", obj.GetName(), obj.GetGeneration())
	created, _, _ := unstructured.NestedString(obj.Object, "status", "latestCreatedRevisionName")
	out := map[string]any{
		"observedGeneration": obj.GetGeneration(), "latestCreatedRevisionName": revision,
		"url": fmt.Sprintf("http://%s.%s.%s", obj.GetName(), obj.GetNamespace(), servingDomain),
	}
	ready := isUnknown
	if created == revision {
		ready, out["latestReadyRevisionName"] = isTrue, revision
	}
	all := conditionsOf(nil, now)
	for _, kind := range []string{"ConfigurationsReady", "Ready", "RoutesReady"} {
		all.put(kind, condition{status: ready})
	}
	out["conditions"] = all.list()
	return out
}
