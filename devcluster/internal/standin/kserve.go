package standin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// What KServe makes and tells is read from its master of 2026-08-21 (aaac4e294): pkg/controller/v1beta1/inferenceservice with its
// components and reconcilers, and pkg/apis/serving/v1beta1/inference_service_status.go.

var (
	deployments     = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	knativeServices = schema.GroupVersionResource{Group: "serving.knative.dev", Version: "v1", Resource: "services"}
)

// The deployment modes, and the labels and annotations of KServe.
const (
	standard, knative, modelMesh = "Standard", "Knative", "ModelMesh"
	modeAnnotation               = "serving.kserve.io/deploymentMode"
	serviceLabel                 = "serving.kserve.io/inferenceservice"
	componentLabel               = "component"
	// templateAnnotation has the hash of the template that a child was made from, so that it is updated only for another.
	templateAnnotation = "devcluster.mlkeeper.dev/template"
)

// conditionsOf are the names of the conditions of a component: its own, and in Knative mode those of its route and configuration.
var conditionsOf = map[string][3]string{
	"predictor":   {"PredictorReady", "PredictorRouteReady", "PredictorConfigurationReady"},
	"transformer": {"TransformerReady", "TransformerRouteReady", "TransformerConfigurationReady"},
	"explainer":   {"ExplainerReady", "ExplainerRoutesReady", "ExplainerConfigurationReady"},
}

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

// reconcileInferenceService makes the children of a service, and returns the status that follows from theirs.
func reconcileInferenceService(ctx context.Context, client dynamic.Interface, obj *unstructured.Unstructured, now string) (map[string]any, error) {
	mode := modeOf(obj)
	if mode == modelMesh {
		return modelMeshStatus(obj, now), nil
	}
	resource, want := deployments, deploymentOf
	if mode == knative {
		resource, want = knativeServices, knativeServiceOf
	}
	children := map[string]*unstructured.Unstructured{}
	for _, component := range componentsOf(obj) {
		child, err := ensure(ctx, client.Resource(resource).Namespace(obj.GetNamespace()), want(obj, component))
		if mode == knative && apierrors.IsNotFound(err) {
			// Without Knative nothing is made, and nothing more is told (controller.go, "ServerlessModeRejected").
			return map[string]any{"deploymentMode": mode, "conditions": conditionList(now, map[string]condition{
				"PredictorReady": {"Unknown", ""}, "IngressReady": {"Unknown", ""}, "Ready": {"Unknown", ""},
			})}, nil
		}
		if err != nil {
			return nil, err
		}
		if mode == standard {
			if err := scale(ctx, client, obj, component, child); err != nil {
				return nil, err
			}
		}
		children[component] = child
	}
	return kserveStatus(obj, mode, children, now), nil
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
	template, _, _ := unstructured.NestedMap(want.Object, "spec", "template")
	if err := unstructured.SetNestedMap(live.Object, template, "spec", "template"); err != nil {
		return nil, err
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

// template is that of a component's pods: labels and annotations of the service become theirs (predictor.go, buildObjectMeta), and
// everything of the component but its scaling makes for another.
func template(obj *unstructured.Unstructured, component string) map[string]any {
	spec, found, _ := unstructured.NestedMap(obj.Object, "spec", component)
	if !found {
		spec = map[string]any{}
	}
	for _, field := range []string{"minReplicas", "maxReplicas", "scaleTarget", "scaleMetric", "autoScaling"} {
		delete(spec, field)
	}
	labels := maps.Clone(obj.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[serviceLabel], labels[componentLabel], labels["app"] = obj.GetName(), component, "isvc."+obj.GetName()+"-"+component
	annotations := map[string]any{}
	for key, value := range obj.GetAnnotations() {
		// The others of serviceAnnotationDisallowedList are made by KServe itself.
		if key != "kubectl.kubernetes.io/last-applied-configuration" {
			annotations[key] = value
		}
	}
	pod := map[string]any{"containers": []any{map[string]any{
		"name": "kserve-container", "image": domain + "/kserve", "args": []any{"--model_name=" + obj.GetName(), "--spec=" + hash(spec)},
	}}}
	if selector, ok := spec["nodeSelector"]; ok {
		pod["nodeSelector"] = selector
	}
	return map[string]any{"metadata": map[string]any{"labels": anyOf(labels), "annotations": annotations}, "spec": pod}
}

// child is what is made for a component, with the labels and annotations of its template.
func child(obj *unstructured.Unstructured, component, apiVersion, kind string) *unstructured.Unstructured {
	made := template(obj, component)
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "spec": map[string]any{"template": made},
		"metadata": map[string]any{
			"name": obj.GetName() + "-" + component, "namespace": obj.GetNamespace(),
			"labels": maps.Clone(made["metadata"].(map[string]any)["labels"].(map[string]any)),
		},
	}}
	u.SetAnnotations(map[string]string{templateAnnotation: hash(made)})
	yes := true
	u.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: obj.GetAPIVersion(), Kind: obj.GetKind(), Name: obj.GetName(), UID: obj.GetUID(), Controller: &yes, BlockOwnerDeletion: &yes,
	}})
	return u
}

func deploymentOf(obj *unstructured.Unstructured, component string) *unstructured.Unstructured {
	u := child(obj, component, "apps/v1", "Deployment")
	spec := u.Object["spec"].(map[string]any)
	spec["selector"] = map[string]any{"matchLabels": map[string]any{"app": u.GetLabels()["app"]}}
	return u
}

func knativeServiceOf(obj *unstructured.Unstructured, component string) *unstructured.Unstructured {
	return child(obj, component, "serving.knative.dev/v1", "Service")
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

// condition is a status with its reason.
type condition struct{ status, reason string }

// conditionList has conditions in the order of their types, as Knative's library sorts them.
func conditionList(now string, all map[string]condition) []any {
	var out []any
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		one := map[string]any{"type": kind, "status": all[kind].status, "lastTransitionTime": now}
		if all[kind].reason != "" {
			one["reason"] = all[kind].reason
		}
		out = append(out, one)
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
			return condition{status, reason}
		}
	}
	return condition{}
}

// worst is what several conditions come to: False before Unknown before True.
func worst(all ...condition) condition {
	out := condition{status: "True"}
	for _, c := range all {
		if c.status != "True" && out.status != "False" {
			out = c
		}
	}
	return out
}

// kserveStatus is the status of a service by those of its children. observedGeneration is that of the child that was looked at
// last, as KServe copies it.
func kserveStatus(obj *unstructured.Unstructured, mode string, children map[string]*unstructured.Unstructured, now string) map[string]any {
	name, namespace := obj.GetName(), obj.GetNamespace()
	all, components := map[string]condition{}, map[string]any{}
	out := map[string]any{"deploymentMode": mode, "components": components}
	var routes, configurations []condition
	for _, component := range componentsOf(obj) {
		child, names := children[component], conditionsOf[component]
		told := map[string]any{}
		if mode == standard {
			all[names[0]] = standardReady(child)
		} else {
			all[names[0]], all[names[1]], all[names[2]] = knativeReady(child, "Ready"), knativeReady(child, "RoutesReady"), knativeReady(child, "ConfigurationsReady")
			routes, configurations = append(routes, all[names[1]]), append(configurations, all[names[2]])
			for to, from := range map[string]string{"latestCreatedRevision": "latestCreatedRevisionName", "latestReadyRevision": "latestReadyRevisionName"} {
				if revision, _, _ := unstructured.NestedString(child.Object, "status", from); revision != "" {
					told[to] = revision
				}
			}
		}
		if all[names[0]].status == "True" {
			told["url"] = fmt.Sprintf("http://%s-%s-%s.models.%s", name, component, namespace, domain)
		}
		components[component] = told
		if seen, found, _ := unstructured.NestedInt64(child.Object, "status", "observedGeneration"); found {
			out["observedGeneration"] = seen
		}
	}
	if mode == knative {
		all["RoutesReady"], all["LatestDeploymentReady"] = worst(routes...), worst(configurations...)
	}
	all["IngressReady"] = condition{status: "True"}
	if predictor := all["PredictorReady"]; predictor.status != "True" {
		all["IngressReady"] = condition{predictor.status, "Predictor ingress not created"}
	}
	all["Ready"], all["Stopped"] = worst(all["PredictorReady"], all["IngressReady"]), condition{status: "False"}
	if all["Ready"].status == "True" {
		out["url"] = fmt.Sprintf("http://%s-%s.models.%s", name, namespace, domain)
		out["address"] = map[string]any{"url": fmt.Sprintf("http://%s-predictor.%s.svc.cluster.local", name, namespace)}
	}
	out["conditions"], out["modelStatus"] = conditionList(now, all), modelStatus(obj, all["Ready"].status == "True")
	return out
}

// modelStatus is that of a predictor with pods (PropagateModelStatus): what was loaded once stays the active state.
func modelStatus(obj *unstructured.Unstructured, ready bool) map[string]any {
	if ready {
		return map[string]any{"transitionStatus": "UpToDate", "states": map[string]any{"activeModelState": "Loaded", "targetModelState": "Loaded"}}
	}
	active, _, _ := unstructured.NestedString(obj.Object, "status", "modelStatus", "states", "activeModelState")
	return map[string]any{"transitionStatus": "InProgress", "states": map[string]any{"activeModelState": active, "targetModelState": "Pending"}}
}

// standardReady is what a Deployment comes to (PropagateRawStatus). While an update is rolled out it is available, and so True.
func standardReady(deployment *unstructured.Unstructured) condition {
	available, progressing := conditionIn(deployment, "Available"), conditionIn(deployment, "Progressing")
	out := condition{status: "False"}
	if available.status == "True" {
		out = available
	}
	switch {
	case progressing.status == "False":
		out = progressing
	case progressing.status == "True" && progressing.reason == "NewReplicaSetAvailable":
		out = progressing
	case progressing.status == "True" && available.status != "True":
		out = condition{"Unknown", progressing.reason}
	}
	if available.status == "False" {
		out = available
	}
	if failure := conditionIn(deployment, "ReplicaFailure"); failure.status == "True" {
		out = condition{"False", failure.reason}
	}
	return out
}

// knativeReady is a condition of a Knative Service, Unknown while there is none.
func knativeReady(service *unstructured.Unstructured, kind string) condition {
	if c := conditionIn(service, kind); c.status != "" {
		return c
	}
	return condition{status: "Unknown"}
}

// modelMeshStatus is that of a service which ModelMesh's own controller has loaded.
func modelMeshStatus(obj *unstructured.Unstructured, now string) map[string]any {
	return map[string]any{
		"deploymentMode": modelMesh, "modelStatus": modelStatus(obj, true),
		"url": "grpc://modelmesh-serving." + obj.GetNamespace() + ":8033",
		"conditions": conditionList(now, map[string]condition{
			"PredictorReady": {status: "True"}, "Ready": {status: "True"},
		}),
	}
}

// knativeServiceStatus is that of a Knative Service. A change of it makes a revision, which becomes ready in a second step.
func knativeServiceStatus(obj *unstructured.Unstructured, now string) map[string]any {
	revision := fmt.Sprintf("%s-%05d", obj.GetName(), obj.GetGeneration())
	created, _, _ := unstructured.NestedString(obj.Object, "status", "latestCreatedRevisionName")
	all := map[string]condition{"ConfigurationsReady": {status: "True"}, "Ready": {status: "True"}, "RoutesReady": {status: "True"}}
	out := map[string]any{"observedGeneration": obj.GetGeneration(), "latestCreatedRevisionName": revision}
	if created != revision {
		all = map[string]condition{"ConfigurationsReady": {status: "Unknown"}, "Ready": {status: "Unknown"}, "RoutesReady": {status: "Unknown"}}
	} else {
		out["latestReadyRevisionName"] = revision
	}
	out["conditions"] = conditionList(now, all)
	return out
}
