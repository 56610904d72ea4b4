package standin

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// optOut is the annotation that keeps the stand-in away from an object.
const optOut = "devcluster.mlkeeper.dev/stand-in"

// domain is reserved for tests, so that no made-up host can ever resolve.
const domain = "devcluster.test"

// role is one third-party controller that is played.
type role struct {
	resource schema.GroupVersionResource
	// crd is the name of the CRD whose presence switches the role on.
	crd string
	// status returns the healthy status of an object.
	status func(obj *unstructured.Unstructured, now string) map[string]any
	// reconcile, in place of status, makes what the controller makes of an object, and returns the status that follows from
	// it; children are the kinds of that, which name the object in the label childOf.
	reconcile func(ctx context.Context, client dynamic.Interface, obj *unstructured.Unstructured, now string) (map[string]any, error)
	children  []schema.GroupVersionResource
	childOf   string
	// finalizer is one that the controller puts on an object, and takes off when it is deleted.
	finalizer string
	// admission are the webhooks of the controller; nil for none.
	admission *admission
	// run, in place of all else, plays a controller whose work is not the status of one kind; it returns when ctx ends.
	run func(ctx context.Context, client dynamic.Interface)
}

// roles lists everything that the stand-in plays.
var roles = []role{
	{
		crd: "routes.route.openshift.io",
		run: router,
	},
	{
		crd: "securitycontextconstraints.security.openshift.io",
		run: allocateRanges,
	},
	{
		crd: "servicecas.operator.openshift.io",
		run: serviceCA,
	},
	{
		resource: schema.GroupVersionResource{
			Group: "serving.kserve.io", Version: "v1beta1", Resource: "inferenceservices",
		},
		crd:       "inferenceservices.serving.kserve.io",
		reconcile: reconcileInferenceService,
		children:  []schema.GroupVersionResource{deployments, knativeServices, pods},
		childOf:   serviceLabel,
		finalizer: serviceFinalizer,
		admission: kserveAdmission,
	},
	{
		resource:  scaledObjects,
		crd:       "scaledobjects.keda.sh",
		reconcile: reconcileScaledObject,
		children:  []schema.GroupVersionResource{horizontalPodAutoscaler},
		childOf:   kedaLabel,
		finalizer: kedaFinalizer,
		admission: kedaAdmission,
	},
	{
		resource: knativeServices,
		crd:      "services.serving.knative.dev",
		status:   knativeServiceStatus,
	},
	{
		crd: "certificates.cert-manager.io",
		run: playCertManager,
	},
	{
		resource: schema.GroupVersionResource{Group: "eventing.knative.dev", Version: "v1", Resource: "brokers"},
		crd:      "brokers.eventing.knative.dev",
		status:   brokerStatus,
	},
	{
		resource: schema.GroupVersionResource{Group: "eventing.knative.dev", Version: "v1", Resource: "triggers"},
		crd:      "triggers.eventing.knative.dev",
		status:   triggerStatus,
	},
}

// timestamp renders a condition time.
func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// brokerStatus is that of a Broker of the class MTChannelBasedBroker.
func brokerStatus(obj *unstructured.Unstructured, now string) map[string]any {
	out := readyStatus("", "")(obj, now)
	out["address"] = map[string]any{
		"url": fmt.Sprintf("http://broker-ingress.knative-eventing.svc.cluster.local/%s/%s", obj.GetNamespace(), obj.GetName()),
	}
	return out
}

// triggerStatus is that of a Trigger whose subscriber is a Service.
func triggerStatus(obj *unstructured.Unstructured, now string) map[string]any {
	out := readyStatus("", "")(obj, now)
	name, _, _ := unstructured.NestedString(obj.Object, "spec", "subscriber", "ref", "name")
	out["subscriberUri"] = fmt.Sprintf("http://%s.%s.svc.cluster.local", name, obj.GetNamespace())
	return out
}

// readyStatus is the status of the kinds that report one Ready condition.
func readyStatus(reason, message string) func(*unstructured.Unstructured, string) map[string]any {
	return func(obj *unstructured.Unstructured, now string) map[string]any {
		return map[string]any{
			"conditions": []any{map[string]any{
				"type": "Ready", "status": "True", "reason": reason, "message": message,
				"observedGeneration": obj.GetGeneration(), "lastTransitionTime": now,
			}},
		}
	}
}

// settled reports whether the object already has the wanted status, whatever
// the times say: rewriting it for a new time would wake every watcher for ever.
func settled(current, wanted any) bool {
	switch w := wanted.(type) {
	case map[string]any:
		c, ok := current.(map[string]any)
		if !ok {
			return false
		}
		for k, v := range w {
			if k == "lastTransitionTime" {
				continue
			}
			if !settled(c[k], v) {
				return false
			}
		}
		return true
	case []any:
		c, ok := current.([]any)
		if !ok || len(c) != len(w) {
			return false
		}
		for i := range w {
			if !settled(c[i], w[i]) {
				return false
			}
		}
		return true
	default:
		return current == wanted
	}
}
