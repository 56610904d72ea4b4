package standin

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"
)

// The rules of KEDA are those of kedacore/keda v2.21.0. What it would ask of the scalers, an annotation says.
const (
	kedaManager    = "keda"
	kedaFinalizer  = "finalizer.keda.sh"
	kedaLabel      = "scaledobject.keda.sh/name"
	kedaPaused     = "autoscaling.keda.sh/paused"
	kedaPausedAt   = "autoscaling.keda.sh/paused-replicas"
	kedaNameLength = 63
	// kedaInactive on a ScaledObject says that none of its triggers is active.
	kedaInactive = "devcluster.mlkeeper.dev/keda-inactive"
)

var (
	scaledObjects           = schema.GroupVersionResource{Group: "keda.sh", Version: "v1alpha1", Resource: "scaledobjects"}
	horizontalPodAutoscaler = schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}
)

// scaledObject is what is read of a ScaledObject.
type scaledObject struct {
	Spec struct {
		ScaleTargetRef   autoscalingv2.CrossVersionObjectReference `json:"scaleTargetRef"`
		MinReplicaCount  *int32                                    `json:"minReplicaCount"`
		MaxReplicaCount  *int32                                    `json:"maxReplicaCount"`
		IdleReplicaCount *int32                                    `json:"idleReplicaCount"`
		Fallback         *struct{}                                 `json:"fallback"`
		Triggers         []kedaTrigger                             `json:"triggers"`
		Advanced         struct {
			HorizontalPodAutoscalerConfig struct {
				Name     string                                         `json:"name"`
				Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior"`
			} `json:"horizontalPodAutoscalerConfig"`
		} `json:"advanced"`
	} `json:"spec"`
}

type kedaTrigger struct {
	Type             string            `json:"type"`
	Name             string            `json:"name"`
	UseCachedMetrics bool              `json:"useCachedMetrics"`
	Metadata         map[string]string `json:"metadata"`
}

// resource says that the trigger is about what the pods use, which the HorizontalPodAutoscaler asks for by itself.
func (t *kedaTrigger) resource() bool { return t.Type == "cpu" || t.Type == "memory" }

func (s *scaledObject) minimum() int32 { return ptr.Deref(s.Spec.MinReplicaCount, 0) }
func (s *scaledObject) maximum() int32 { return ptr.Deref(s.Spec.MaxReplicaCount, 100) }

// target is the Deployment, which is all that is scaled here.
func (s *scaledObject) target() (string, error) {
	ref := s.Spec.ScaleTargetRef
	if ref.Kind != "" && ref.Kind != "Deployment" {
		return "", fmt.Errorf("the stand-in of KEDA scales Deployments only, not %s %s", ref.Kind, ref.Name)
	}
	return ref.Name, nil
}

func scaledObjectOf(u *unstructured.Unstructured) (*scaledObject, error) {
	out := &scaledObject{}
	return out, runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"spec": u.Object["spec"]}, out)
}

// kedaHPA is getHpaName.
func kedaHPA(u *unstructured.Unstructured, s *scaledObject) string {
	if name := s.Spec.Advanced.HorizontalPodAutoscalerConfig.Name; name != "" {
		return name
	}
	return "keda-hpa-" + u.GetName()
}

// reconcileScaledObject is reconcileScaledObject of controllers/keda/scaledobject_controller.go, and one round of the scale loop of
// pkg/scaling/executor/scale_scaledobjects.go after it.
func reconcileScaledObject(ctx context.Context, client dynamic.Interface, obj *unstructured.Unstructured, _ string) (map[string]any, error) {
	s, err := scaledObjectOf(obj)
	if err != nil {
		return nil, err
	}
	name, err := s.target()
	if err != nil {
		return nil, err
	}
	target := &scaleTarget{client: client.Resource(deployments).Namespace(obj.GetNamespace()), name: name}
	if err := kedaScale(ctx, client, obj, s, target); err != nil {
		reason := kedaCondition("Ready", "False", "ScaledObjectCheckFailed", err.Error())
		return map[string]any{"conditions": []any{reason}}, err
	}
	conditions := []any{kedaCondition("Ready", "True", "ScaledObjectReady", "ScaledObject is defined correctly and is ready for scaling")}
	if pausedByAnnotation(obj) {
		conditions = append(conditions, kedaCondition("Paused", "True", "ScaledObjectPaused", "ScaledObject is paused"))
	}
	return map[string]any{"conditions": conditions, "hpaName": kedaHPA(obj, s), "scaleTargetKind": "apps/v1.Deployment"}, nil
}

func kedaCondition(kind, status, reason, message string) map[string]any {
	return map[string]any{"type": kind, "status": status, "reason": reason, "message": message}
}

func pausedByAnnotation(obj *unstructured.Unstructured) bool {
	marks := obj.GetAnnotations()
	if _, found := marks[kedaPausedAt]; found {
		return true
	}
	paused, err := strconv.ParseBool(marks[kedaPaused])
	return marks[kedaPaused] != "" && (paused || err != nil)
}

// kedaScale does all that KEDA writes.
func kedaScale(ctx context.Context, client dynamic.Interface, obj *unstructured.Unstructured, s *scaledObject, target *scaleTarget) error {
	autoscalers := client.Resource(horizontalPodAutoscaler).Namespace(obj.GetNamespace())
	if pausedByAnnotation(obj) {
		if err := autoscalers.Delete(ctx, kedaHPA(obj, s), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if n, err := strconv.ParseInt(obj.GetAnnotations()[kedaPausedAt], 10, 32); err == nil {
			return target.set(ctx, n)
		}
		return nil
	}
	if obj.GetLabels()[kedaLabel] != obj.GetName() {
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, kedaLabel, obj.GetName())
		_, err := client.Resource(scaledObjects).Namespace(obj.GetNamespace()).Patch(ctx, obj.GetName(), types.MergePatchType, []byte(patch),
			metav1.PatchOptions{FieldManager: kedaManager})
		if err != nil {
			return err
		}
	}
	current, err := target.get(ctx)
	if err != nil {
		return err
	}
	if err := ensureAutoscaler(ctx, autoscalers, obj, s); err != nil {
		return err
	}
	active, least := obj.GetAnnotations()[kedaInactive] == "", int64(s.minimum())
	switch {
	case active && current == 0:
		return target.set(ctx, max(least, 1))
	case !active && least == 0 && current > 0, !active && current < least:
		return target.set(ctx, least)
	}
	return nil
}

// scaleTarget is the Deployment by its subresource scale.
type scaleTarget struct {
	client dynamic.ResourceInterface
	name   string
}

func (t *scaleTarget) get(ctx context.Context) (int64, error) {
	scale, err := t.client.Get(ctx, t.name, metav1.GetOptions{}, "scale")
	if err != nil {
		return 0, err
	}
	n, _, err := unstructured.NestedInt64(scale.Object, "spec", "replicas")
	return n, err
}

func (t *scaleTarget) set(ctx context.Context, n int64) error {
	scale, err := t.client.Get(ctx, t.name, metav1.GetOptions{}, "scale")
	if err != nil {
		return err
	}
	if current, _, _ := unstructured.NestedInt64(scale.Object, "spec", "replicas"); current == n {
		return nil
	}
	if err := unstructured.SetNestedField(scale.Object, n, "spec", "replicas"); err != nil {
		return err
	}
	_, err = t.client.Update(ctx, scale, metav1.UpdateOptions{FieldManager: kedaManager}, "scale")
	return err
}

// ensureAutoscaler makes the HorizontalPodAutoscaler, or corrects it (controllers/keda/hpa.go).
func ensureAutoscaler(ctx context.Context, autoscalers dynamic.ResourceInterface, obj *unstructured.Unstructured, s *scaledObject) error {
	wanted, err := kedaAutoscaler(obj, s)
	if err != nil {
		return err
	}
	live, err := autoscalers.Get(ctx, wanted.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = autoscalers.Create(ctx, wanted, metav1.CreateOptions{FieldManager: kedaManager})
		return err
	}
	if err != nil || settled(live.Object["spec"], wanted.Object["spec"]) {
		return err
	}
	live.Object["spec"] = wanted.Object["spec"]
	_, err = autoscalers.Update(ctx, live, metav1.UpdateOptions{FieldManager: kedaManager})
	return err
}

func kedaAutoscaler(obj *unstructured.Unstructured, s *scaledObject) (*unstructured.Unstructured, error) {
	hpa := &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler"},
		ObjectMeta: metav1.ObjectMeta{
			Name: kedaHPA(obj, s), Namespace: obj.GetNamespace(),
			Labels: map[string]string{"app.kubernetes.io/managed-by": "keda-operator", kedaLabel: obj.GetName()},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: obj.GetAPIVersion(), Kind: obj.GetKind(), Name: obj.GetName(), UID: obj.GetUID(),
				Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
			}},
		},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: s.Spec.ScaleTargetRef.Name},
			MinReplicas:    ptr.To(max(s.minimum(), 1)), MaxReplicas: s.maximum(),
			Behavior: s.Spec.Advanced.HorizontalPodAutoscalerConfig.Behavior,
		},
	}
	for i := range s.Spec.Triggers {
		hpa.Spec.Metrics = append(hpa.Spec.Metrics, kedaMetric(i, &s.Spec.Triggers[i], obj.GetName()))
	}
	raw, err := json.Marshal(hpa)
	if err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{}
	return out, out.UnmarshalJSON(raw)
}
