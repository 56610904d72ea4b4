package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/plan"
)

const (
	// maxPods bounds the pods that are listed below one workload; the others are counted.
	maxPods = 50
	// maxContainers bounds the containers of a pod that are looked at.
	maxContainers = 64
	// maxReason bounds a message that is kept of a pod.
	maxReason = 300
)

var (
	replicaSetKind = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}
	jobKind        = schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}
	// between are the kinds that stand between a workload and its pods; an empty one says that nothing does.
	between = map[schema.GroupKind]schema.GroupVersionKind{
		{Group: "apps", Kind: "Deployment"}:  replicaSetKind,
		{Group: "apps", Kind: "ReplicaSet"}:  {},
		{Group: "apps", Kind: "StatefulSet"}: {},
		{Group: "apps", Kind: "DaemonSet"}:   {},
		{Group: "batch", Kind: "CronJob"}:    jobKind,
		{Group: "batch", Kind: "Job"}:        {},
	}
)

// podRow is a pod below the workload that it belongs to.
type podRow struct {
	Parent string `json:"parent"`
	Group  string `json:"group"`
	ObjectStatus
	// Containers says how many of them are ready, such as 1/2.
	Containers string `json:"containers"`
	Restarts   int64  `json:"restarts"`
	Order      int    `json:"order"`
}

// moreRow stands for the pods of a workload that are not listed.
type moreRow struct {
	Parent string `json:"parent"`
	More   string `json:"more"`
	Order  int    `json:"order"`
}

// podWatches are the watches on the pods of a custom resource, and on the metadata of what stands between these and its workloads. They are
// those of `mlkeeper console` alone; the other commands ask for pods where they need them.
type podWatches struct {
	*watches
	by map[childWatch]*informer
}

// coverPods watches pods in each namespace that has a workload of the custom resource.
func (p *podWatches) coverPods(ctx context.Context, whole []*unstructured.Unstructured) error {
	ctx = logr.NewContext(ctx, logr.Discard())
	for _, u := range whole {
		owned, found := between[u.GroupVersionKind().GroupKind()]
		if !found {
			continue
		}
		for _, gvk := range []schema.GroupVersionKind{podKind, owned} {
			key := childWatch{gvk.GroupKind(), u.GetNamespace()}
			if gvk.Empty() || p.by[key] != nil {
				continue
			}
			mapping, err := p.lookup(gvk)
			if err != nil {
				return err
			}
			if mapping == nil {
				continue
			}
			var i cache.SharedIndexInformer
			if gvk == podKind {
				i = dynamicinformer.NewFilteredDynamicInformer(p.dynamic, mapping.Resource, key.namespace, 0, cache.Indexers{}, nil).Informer()
			} else {
				i = metadatainformer.NewFilteredMetadataInformer(p.metadata, mapping.Resource, key.namespace, 0, cache.Indexers{}, nil).Informer()
			}
			if err := i.SetTransform(reduceOwned); err != nil {
				return err
			}
			p.by[key] = &informer{i, gvk}
			if err := p.run(ctx, p.by[key], p.refuses(p.by[key])); err != nil {
				return err
			}
		}
	}
	return nil
}

// reduceOwned keeps of a pod what its row shows, and of what stands between it and its workload the owner. A namespace has pods of others as
// well, and all of them are held while somebody looks.
func reduceOwned(item any) (any, error) {
	switch o := item.(type) {
	case *metav1.PartialObjectMetadata:
		o.ObjectMeta = metav1.ObjectMeta{
			Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, OwnerReferences: o.OwnerReferences,
		}
	case *unstructured.Unstructured:
		out := identityOf(o)
		out.SetOwnerReferences(o.GetOwnerReferences())
		if status, _, _ := unstructured.NestedMap(o.Object, "status"); status != nil {
			out.Object["status"] = reducedStatus(status)
		}
		return out, nil
	}
	return item, nil
}

func reducedStatus(status map[string]any) map[string]any {
	out := map[string]any{}
	for _, field := range []string{"phase", "reason"} {
		if text, ok := status[field].(string); ok {
			out[field] = cut(text, maxReason)
		}
	}
	parts := func(field string, reduce func(map[string]any) map[string]any) {
		var list []any
		all, _ := status[field].([]any)
		for _, item := range all[:min(len(all), maxContainers)] {
			if m, ok := item.(map[string]any); ok {
				list = append(list, reduce(m))
			}
		}
		if list != nil {
			out[field] = list
		}
	}
	parts("conditions", func(c map[string]any) map[string]any {
		return map[string]any{"type": c["type"], "status": c["status"], "reason": c["reason"], "message": cut(textOf(c["message"]), maxReason)}
	})
	for _, field := range []string{"initContainerStatuses", "containerStatuses"} {
		parts(field, func(c map[string]any) map[string]any {
			reduced := map[string]any{"name": c["name"], "ready": c["ready"], "restartCount": c["restartCount"]}
			for _, state := range []string{"waiting", "terminated"} {
				reason, found, _ := unstructured.NestedString(c, "state", state, "reason")
				message, _, _ := unstructured.NestedString(c, "state", state, "message")
				if found {
					reduced["state"] = map[string]any{state: map[string]any{"reason": reason, "message": cut(message, maxReason)}}
				}
			}
			return reduced
		})
	}
	return out
}

// listed says that every watch on pods has listed what there is, or may not.
func (p *podWatches) listed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range p.by {
		if _, refused := p.refused[i]; !i.HasSynced() && !refused {
			return false
		}
	}
	return true
}

// unread are the kinds that may not be watched and without which pods can be missed; Inventories where no workload is known, since few may read
// them. hides says that one of the kinds is that of a workload that is known, whose pods are missed.
func (p *podWatches) unread() (kinds []string, hides bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, why := range p.refused {
		gk := i.gvk.GroupKind()
		owned := slices.Contains(slices.Collect(maps.Values(p.by)), i)
		if _, workload := between[gk]; owned || workload || i.gvk == inventoryKind && len(p.by) == 0 {
			kinds, hides = append(kinds, fmt.Sprintf("%s may not be watched, so that pods are missed: %s", gk.Kind, why)), hides || owned
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds), hides
}

// pods are the pods of each workload, by whose they are: by the controller of their metadata, or by that of the ReplicaSet or Job between.
func (p *podWatches) pods(whole []*unstructured.Unstructured) map[plan.Key][]*unstructured.Unstructured {
	owners := map[types.UID]plan.Key{}
	for _, u := range whole {
		if _, found := between[u.GroupVersionKind().GroupKind()]; found && u.GetUID() != "" {
			owners[u.GetUID()] = plan.KeyOf(u)
		}
	}
	owner := func(u *unstructured.Unstructured) (plan.Key, bool) {
		ref := metav1.GetControllerOfNoCopy(u)
		if ref == nil {
			return plan.Key{}, false
		}
		key, found := owners[ref.UID]
		return key, found
	}
	var pods []*unstructured.Unstructured
	middle := map[types.UID]plan.Key{}
	for _, i := range p.by {
		for _, u := range i.objects() {
			if i.gvk == podKind {
				pods = append(pods, u)
			} else if key, found := owner(u); found {
				middle[u.GetUID()] = key
			}
		}
	}
	maps.Copy(owners, middle)
	out := map[plan.Key][]*unstructured.Unstructured{}
	for _, u := range pods {
		if key, found := owner(u); found {
			out[key] = append(out[key], u)
		}
	}
	return out
}

// podRows are the pods of the workloads, the worst first.
func (p *podWatches) podRows(whole []*unstructured.Unstructured) map[string]any {
	out := map[string]any{}
	for key, pods := range p.pods(whole) {
		parent := "object/" + rowKey(key)
		list := make([]podRow, 0, len(pods))
		for _, u := range pods {
			list = append(list, podRowOf(parent, u))
		}
		slices.SortFunc(list, func(a, b podRow) int {
			return cmp.Or(cmp.Compare(severity(a.Health), severity(b.Health)), cmp.Compare(a.Name, b.Name))
		})
		for i := range list[:min(len(list), maxPods)] {
			list[i].Order = i
			out["pod/"+list[i].Namespace+"/"+list[i].Name] = list[i]
		}
		if len(list) > maxPods {
			out["more/"+parent] = moreRow{Parent: parent, More: counted(list[maxPods:]), Order: maxPods}
		}
	}
	return out
}

// podRowOf describes a pod. Its message is that of a container that does not run, where one tells why.
func podRowOf(parent string, u *unstructured.Unstructured) podRow {
	result := health.Of(u)
	out := podRow{Parent: parent, ObjectStatus: ObjectStatus{
		APIVersion: "v1", Kind: podKind.Kind, Namespace: u.GetNamespace(), Name: u.GetName(),
		Health: string(result.Status), Reason: result.Reason, Message: result.Message,
	}}
	if result.Status != health.Current {
		out.Message = cmp.Or(podDetail(u), result.Message)
	}
	ready, all := 0, 0
	containers, _, _ := unstructured.NestedSlice(u.Object, "status", "containerStatuses")
	for _, item := range containers {
		c, _ := item.(map[string]any)
		all++
		if c["ready"] == true {
			ready++
		}
		restarts, _ := c["restartCount"].(int64)
		out.Restarts += restarts
	}
	out.Containers = fmt.Sprintf("%d/%d", ready, all)
	return out
}

// severity orders healths, the worst first.
func severity(status string) int {
	order := []string{healthMissing, string(health.Failed), string(health.Unknown), string(health.InProgress), string(health.Terminating)}
	if i := slices.Index(order, status); i >= 0 {
		return i
	}
	return len(order)
}

// counted says how many pods of each health there are.
func counted(pods []podRow) string {
	counts := map[string]int{}
	for i := range pods {
		counts[pods[i].Health]++
	}
	text := fmt.Sprintf("%d more pods:", len(pods))
	for _, status := range sortedKeys(counts) {
		text += fmt.Sprintf(" %d %s", counts[status], status)
	}
	return text
}
