package standin

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
)

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// uidRange is the annotation with the range of users and groups of a namespace (openshift/api, security/v1/consts.go).
const uidRange = "openshift.io/sa.scc.uid-range"

// allocateRanges gives every Namespace its range of users and groups shortly after its creation, as OpenShift's
// cluster-policy-controller does. Until then no pod of it is admitted. No range is given before those are known that were: another
// process may have given them.
func allocateRanges(ctx context.Context, client dynamic.Interface) {
	const first, size = 1000000000, 10000
	var mu sync.Mutex
	next := first
	informer := dynamicinformer.NewDynamicSharedInformerFactory(client, 0).ForResource(namespaces).Informer()
	follow(ctx, informer, func(ns *unstructured.Unstructured, enqueue func(*unstructured.Unstructured)) {
		var start, length int
		if _, err := fmt.Sscanf(ns.GetAnnotations()[uidRange], "%d/%d", &start, &length); err == nil {
			mu.Lock()
			next = max(next, start+size)
			mu.Unlock()
		}
		enqueue(ns)
	}, func(ns *unstructured.Unstructured) error {
		if ns.GetAnnotations()[uidRange] != "" {
			return nil
		}
		mu.Lock()
		block := fmt.Sprintf("%d/%d", next, size)
		level := (next - first) / size
		next += size
		mu.Unlock()
		ns = ns.DeepCopy()
		annotations := ns.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[uidRange], annotations["openshift.io/sa.scc.supplemental-groups"] = block, block
		annotations["openshift.io/sa.scc.mcs"] = fmt.Sprintf("s0:c%d,c%d", level/1024+1, level%1024)
		ns.SetAnnotations(annotations)
		_, err := client.Resource(namespaces).Update(ctx, ns, metav1.UpdateOptions{FieldManager: "cluster-policy-controller"})
		return ignoreGone(err)
	})
}
