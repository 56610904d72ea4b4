package standin

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

var routes = schema.GroupVersionResource{Group: "route.openshift.io", Version: "v1", Resource: "routes"}

// byHost is the index of the Routes that want a host.
const byHost = "host"

func hostOf(route *unstructured.Unstructured) string {
	host, _, _ := unstructured.NestedString(route.Object, "spec", "host")
	return host
}

// router admits Routes as the default router of OpenShift does (openshift/router at 4b401a86,
// pkg/router/controller/unique_host.go): of those with the same host and path the oldest, whatever its namespace; and none of
// another namespace beside it. The host is not the router's to choose: the API server fills it in at the creation.
func router(ctx context.Context, client dynamic.Interface) {
	informer := dynamicinformer.NewDynamicSharedInformerFactory(client, 0).ForResource(routes).Informer()
	err := informer.AddIndexers(cache.Indexers{byHost: func(obj any) ([]string, error) {
		if route, ok := obj.(*unstructured.Unstructured); ok && hostOf(route) != "" {
			return []string{hostOf(route)}, nil
		}
		return nil, nil
	}})
	if err != nil {
		fmt.Fprintln(os.Stderr, "stand-in: routes:", err)
		return
	}
	follow(ctx, informer, func(route *unstructured.Unstructured, enqueue func(*unstructured.Unstructured)) {
		enqueue(route)
		// What one of them gets depends on the others, also when it goes or takes another host.
		rivals, _ := informer.GetIndexer().ByIndex(byHost, hostOf(route))
		for _, rival := range rivals {
			if u, ok := rival.(*unstructured.Unstructured); ok {
				enqueue(u)
			}
		}
	}, func(route *unstructured.Unstructured) error {
		rivals, err := informer.GetIndexer().ByIndex(byHost, hostOf(route))
		if err != nil {
			return err
		}
		wanted := routeStatus(route, rivals, timestamp(time.Now()))
		if settled(route.Object["status"], wanted) {
			return nil
		}
		route = route.DeepCopy()
		status, _, _ := unstructured.NestedMap(route.Object, "status")
		if status == nil {
			status = map[string]any{}
		}
		maps.Copy(status, wanted)
		route.Object["status"] = status
		_, err = client.Resource(routes).Namespace(route.GetNamespace()).UpdateStatus(ctx, route, metav1.UpdateOptions{})
		return ignoreGone(err)
	})
}

// routeStatus is the verdict on a Route among those of the same host.
func routeStatus(route *unstructured.Unstructured, rivals []any, now string) map[string]any {
	host := hostOf(route)
	condition := map[string]any{"type": "Admitted", "status": "True", "lastTransitionTime": now}
	reject := func(reason, message string) {
		condition["status"], condition["reason"], condition["message"] = "False", reason, message
	}
	if host == "" {
		reject("NoHostValue", "no host value was defined for the route")
	}
	if errs := validateCertificates(route); len(errs) > 0 {
		reject("ExtendedValidationFailed", errs.ToAggregate().Error())
	}
	for _, item := range rivals {
		rival, ok := item.(*unstructured.Unstructured)
		if !ok || rival.GetUID() == route.GetUID() || !older(rival, route) {
			continue
		}
		if rival.GetNamespace() != route.GetNamespace() {
			reject("HostAlreadyClaimed", fmt.Sprintf("a route in another namespace holds %s and is older than %s", host, route.GetName()))
		} else if samePath(rival, route) {
			reject("HostAlreadyClaimed", fmt.Sprintf("route %s already exposes %s and is older", rival.GetName(), host))
		}
	}
	ingress := map[string]any{
		"host": host, "routerName": "default", "routerCanonicalHostname": "router-default.apps." + domain,
		"wildcardPolicy": "None", "conditions": []any{condition},
	}
	return map[string]any{"ingress": []any{ingress}}
}

func samePath(a, b *unstructured.Unstructured) bool {
	one, _, _ := unstructured.NestedString(a.Object, "spec", "path")
	other, _, _ := unstructured.NestedString(b.Object, "spec", "path")
	return one == other
}

// older is the order of Routes: by age, and within a second by UID.
func older(a, b *unstructured.Unstructured) bool {
	one, other := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	if !one.Equal(&other) {
		return one.Before(&other)
	}
	return slices.Compare([]byte(a.GetUID()), []byte(b.GetUID())) < 0
}
