package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/console"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/wiring"
)

// needs are the keys of the rows that an object waits for: what the pods of a workload mount, and a Namespace that is not there yet.
func needs(o *ObjectStatus, live *unstructured.Unstructured, rows map[string]any) []string {
	var out []string
	need := func(gk schema.GroupKind, namespace, name string, settledToo bool) {
		key := "object/" + rowKey(plan.Key{GroupKind: gk, Namespace: namespace, Name: name})
		row, found := rows[key].(objectRow)
		if found && name != "" && (settledToo || row.Health != string(health.Current)) && !slices.Contains(out, key) {
			out = append(out, key)
		}
	}
	if o.Namespace != "" {
		need(schema.GroupKind{Kind: "Namespace"}, "", o.Namespace, false)
	}
	if live == nil {
		return out
	}
	path := []string{"spec", "template", "spec", "volumes"}
	if o.Kind == "CronJob" {
		path = append([]string{"spec", "jobTemplate"}, path...)
	}
	volumes, _, _ := unstructured.NestedSlice(live.Object, path...)
	for _, item := range volumes {
		volume, _ := item.(map[string]any)
		for _, source := range []struct{ field, name, kind string }{
			{"persistentVolumeClaim", "claimName", "PersistentVolumeClaim"}, {"configMap", "name", "ConfigMap"}, {"secret", "secretName", "Secret"},
		} {
			name, _, _ := unstructured.NestedString(volume, source.field, source.name)
			need(schema.GroupKind{Kind: source.kind}, o.Namespace, name, true)
		}
	}
	return out
}

// wiredTo are the custom resources that have an entry in an object, such as the TrustyAIService that monitors an InferenceService.
func wiredTo(u *unstructured.Unstructured) []console.Ref {
	// Whoever may edit the object may damage the record, which tells nothing then.
	record, err := wiring.Recorded(u)
	if err != nil {
		return nil
	}
	var out []console.Ref
	for _, e := range record.Entries {
		gk, namespace, name, ok := parseOwner(e.Owner)
		ref := console.Ref{Group: gk.Group, Kind: gk.Kind, Namespace: namespace, Name: name}
		if ok && !slices.Contains(out, ref) {
			out = append(out, ref)
		}
	}
	return out
}

// wireWatch is the watch on the metadata of the objects of others that one wire of a controller edits.
type wireWatch struct {
	*informer
	name string
}

// wiredRow is an object of somebody else with an entry of the custom resource.
type wiredRow struct {
	Parent string `json:"parent"`
	Group  string `json:"group"`
	ObjectStatus
	Order int `json:"order"`
	// Owner is the custom resource that the object itself belongs to.
	Owner *console.Ref `json:"owner,omitempty"`
}

// healthWired is the health of an object of somebody else that has an entry of the custom resource; how that object is, is not looked at.
const healthWired = "Wired"

// watchWires watches the metadata of the objects that the controller of the custom resource edits in its namespace: the record of the
// entries is an annotation.
func (v *stackView) watchWires(ctx context.Context) error {
	ctx = logr.NewContext(ctx, logr.Discard())
	for _, wire := range v.subject.controller.Wires() {
		mapping, err := v.lookup(wire.GVK)
		if err != nil {
			return err
		}
		if mapping == nil || mapping.Scope.Name() == meta.RESTScopeNameRoot {
			continue
		}
		i := metadatainformer.NewFilteredMetadataInformer(v.metadata, mapping.Resource, v.subject.namespace, 0, cache.Indexers{},
			func(o *metav1.ListOptions) { o.LabelSelector, o.FieldSelector = wire.LabelSelector, wire.FieldSelector }).Informer()
		if err := i.SetTransform(reduceWired); err != nil {
			return err
		}
		one := wireWatch{&informer{i, wire.GVK}, wire.Name}
		v.wires = append(v.wires, one)
		if err := v.run(ctx, one.informer, v.refuses(one.informer)); err != nil {
			return err
		}
	}
	return nil
}

// reduceWired keeps the annotations that tell of entries and of the owner.
func reduceWired(item any) (any, error) {
	o, ok := item.(*metav1.PartialObjectMetadata)
	if !ok {
		return item, nil
	}
	kept := map[string]string{}
	for _, name := range []string{keeper.WiringAnnotation, keeper.OwnerAnnotation} {
		if value, found := o.Annotations[name]; found {
			kept[name] = value
		}
	}
	o.ObjectMeta = metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, Annotations: kept}
	return o, nil
}

// wireRows adds the objects of others that have an entry of the custom resource.
func (v *stackView) wireRows(rows map[string]any, order int) {
	const parent = "stage/wired"
	self := console.Ref{
		Group: v.subject.controller.GVK().Group, Kind: v.subject.controller.GVK().Kind, Namespace: v.subject.namespace, Name: v.subject.name,
	}
	n := 0
	for _, watch := range v.wires {
		for _, u := range watch.objects() {
			if !slices.Contains(wiredTo(u), self) {
				continue
			}
			key := plan.KeyOf(u)
			row := wiredRow{Parent: parent, Group: key.Group, Order: n, ObjectStatus: ObjectStatus{
				APIVersion: watch.gvk.GroupVersion().String(), Kind: key.Kind, Namespace: key.Namespace, Name: key.Name,
				Health: healthWired, Reason: watch.name, Message: fmt.Sprintf("It has an entry of %s %s.", self.Kind, self.Name),
			}}
			if gk, namespace, name, ok := parseOwner(u.GetAnnotations()[keeper.OwnerAnnotation]); ok {
				row.Owner = &console.Ref{Group: gk.Group, Kind: gk.Kind, Namespace: namespace, Name: name}
			}
			rows["wired/"+rowKey(key)] = row
			n++
		}
	}
	if n > 0 {
		rows[parent] = stageRow{Parent: "stack", Stage: true, Name: "objects of others with an entry", Order: order}
	}
}
