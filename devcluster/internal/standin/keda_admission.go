package standin

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"
)

// kedaAdmission is KEDA's webhook of ScaledObjects (apis/keda/v1alpha1/scaledobject_webhook.go). Its own is not called where it does not
// answer (failurePolicy ignore); this one has to.
var kedaAdmission = &admission{webhook: "vscaledobject.kb.io", validate: validateScaledObject}

func validateScaledObject(ctx context.Context, client dynamic.Interface, obj, old *unstructured.Unstructured) error {
	if old != nil && len(obj.GetFinalizers()) < len(old.GetFinalizers()) && equality.Semantic.DeepEqual(obj.Object["spec"], old.Object["spec"]) {
		return nil // isRemovingFinalizer
	}
	s, err := scaledObjectOf(obj)
	if err != nil {
		return err
	}
	for _, verify := range []func() error{
		func() error { return verifyCounts(s) },
		func() error { return verifyTriggers(s) },
		func() error { return verifyName(obj, s) },
		func() error { return verifyScaledObjects(ctx, client, obj, s) },
		func() error { return verifyAutoscalers(ctx, client, obj, s) },
		func() error { return verifyRequests(ctx, client, obj, s) },
	} {
		if err := verify(); err != nil {
			return err
		}
	}
	return nil
}

// verifyCounts is CheckReplicaCountBoundsAreValid.
func verifyCounts(s *scaledObject) error {
	if s.minimum() > s.maximum() {
		return fmt.Errorf("MinReplicaCount=%d must be less than MaxReplicaCount=%d", s.minimum(), s.maximum())
	}
	if idle := s.Spec.IdleReplicaCount; idle != nil && *idle >= s.minimum() {
		return fmt.Errorf("IdleReplicaCount=%d must be less than MinReplicaCount=%d", *idle, s.minimum())
	}
	return nil
}

// verifyTriggers is ValidateTriggers, CheckFallbackValid, and what verifyCPUMemoryScalers says of scaling to zero.
func verifyTriggers(s *scaledObject) error {
	names, others := map[string]bool{}, 0
	for i := range s.Spec.Triggers {
		t := &s.Spec.Triggers[i]
		if t.UseCachedMetrics && (t.resource() || t.Type == "cron") {
			return fmt.Errorf("property \"useCachedMetrics\" is not supported for %q scaler", t.Type)
		}
		if t.Name != "" && names[t.Name] {
			return fmt.Errorf("triggerName %q is defined multiple times in the ScaledObject/ScaledJob, but it must be unique", t.Name)
		}
		names[t.Name] = true
		if !t.resource() {
			others++
		}
	}
	switch {
	case len(s.Spec.Triggers) == 0:
		return errors.New("no triggers defined in the ScaledObject/ScaledJob")
	case s.Spec.Fallback != nil && others == 0:
		return errors.New("at least one trigger (that is not cpu or memory) has to have the `AverageValue` type for the fallback to be enabled")
	case others == 0 && s.minimum() == 0:
		return errors.New("scaledobject has only cpu/memory triggers AND minReplica is 0 (scale to zero doesn't work in this case)")
	}
	return nil
}

func verifyName(obj *unstructured.Unstructured, s *scaledObject) error {
	for what, name := range map[string]string{"scaledobject name": obj.GetName(), "HPA name": kedaHPA(obj, s)} {
		if len(name) > kedaNameLength {
			return fmt.Errorf("%s %q is %d characters long; must be no more than %d characters", what, name, len(name), kedaNameLength)
		}
	}
	return nil
}

// verifyScaledObjects refuses a second ScaledObject of a Deployment, or of a HorizontalPodAutoscaler.
func verifyScaledObjects(ctx context.Context, client dynamic.Interface, obj *unstructured.Unstructured, s *scaledObject) error {
	list, err := client.Resource(scaledObjects).Namespace(obj.GetNamespace()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		other, err := scaledObjectOf(&list.Items[i])
		if err != nil || list.Items[i].GetName() == obj.GetName() {
			continue
		}
		if other.Spec.ScaleTargetRef.Name == s.Spec.ScaleTargetRef.Name {
			return fmt.Errorf("the workload '%s' of type 'apps/v1.Deployment' is already managed by the ScaledObject '%s'",
				s.Spec.ScaleTargetRef.Name, list.Items[i].GetName())
		}
		if kedaHPA(&list.Items[i], other) == kedaHPA(obj, s) {
			return fmt.Errorf("the HPA '%s' is already managed by the ScaledObject '%s'", kedaHPA(obj, s), list.Items[i].GetName())
		}
	}
	return nil
}

// verifyAutoscalers is verifyHpas: whoever made the HorizontalPodAutoscaler, and also while it is being deleted.
func verifyAutoscalers(ctx context.Context, client dynamic.Interface, obj *unstructured.Unstructured, s *scaledObject) error {
	list, err := client.Resource(horizontalPodAutoscaler).Namespace(obj.GetNamespace()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		hpa := &list.Items[i]
		ref, _, _ := unstructured.NestedStringMap(hpa.Object, "spec", "scaleTargetRef")
		if ref["kind"] != "Deployment" || ref["name"] != s.Spec.ScaleTargetRef.Name || hpa.GetAnnotations()["validations.keda.sh/hpa-ownership"] == "false" {
			continue
		}
		owned := false
		for _, owner := range hpa.GetOwnerReferences() {
			owned = owned || owner.Kind == obj.GetKind() && owner.Name == obj.GetName()
		}
		transferred := obj.GetAnnotations()["scaledobject.keda.sh/transfer-hpa-ownership"] == "true" && kedaHPA(obj, s) == hpa.GetName()
		if !owned && !transferred {
			return fmt.Errorf("the workload '%s' of type 'apps/v1.Deployment' is already managed by the hpa '%s'", ref["name"], hpa.GetName())
		}
	}
	return nil
}

// verifyRequests is verifyCPUMemoryScalers: the Deployment has to be there, and each container that a trigger is about has a request or a
// limit. The limit of a LimitRange, which KEDA takes too, is not looked for.
func verifyRequests(ctx context.Context, client dynamic.Interface, obj *unstructured.Unstructured, s *scaledObject) error {
	for i := range s.Spec.Triggers {
		t := &s.Spec.Triggers[i]
		if !t.resource() {
			continue
		}
		u, err := client.Resource(deployments).Namespace(obj.GetNamespace()).Get(ctx, s.Spec.ScaleTargetRef.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
		for _, item := range containers {
			container, _ := item.(map[string]any)
			if named := t.Metadata["containerName"]; named != "" && container["name"] != named {
				continue
			}
			_, requested, _ := unstructured.NestedFieldNoCopy(container, "resources", "requests", t.Type)
			_, limited, _ := unstructured.NestedFieldNoCopy(container, "resources", "limits", t.Type)
			if !requested && !limited {
				return fmt.Errorf("the scaledobject has a %v trigger but the container %s doesn't have the %v request defined", t.Type, container["name"], t.Type)
			}
		}
	}
	return nil
}

// kedaMetric is the metric of a trigger: what the pods use, or a metric of KEDA's own metrics server.
func kedaMetric(i int, t *kedaTrigger, of string) autoscalingv2.MetricSpec {
	value := t.Metadata["value"]
	if t.resource() {
		percent, _ := strconv.ParseInt(value, 10, 32)
		return autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
			Name:   corev1.ResourceName(t.Type),
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To(int32(max(percent, 1)))}, //nolint:gosec // 32 bits were parsed.
		}}
	}
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
		Metric: autoscalingv2.MetricIdentifier{
			Name: fmt.Sprintf("s%d-%s", i, t.Type), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{kedaLabel: of}},
		},
		Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: resource.NewQuantity(1, resource.DecimalSI)},
	}}
}
