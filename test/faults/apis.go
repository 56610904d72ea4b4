package faults

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// definitionGVK is the kind of definitions.
var definitionGVK = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// definition reads the definition of a resource, which has the resource's full name.
func (s *Suite) definition(resource string) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(definitionGVK)
	return u, s.cluster.Client.Get(s.ctx, client.ObjectKey{Name: resource}, u)
}

// defined says that a resource comes from a definition.
func (s *Suite) defined(resource string) bool {
	if !strings.Contains(resource, ".") {
		return false
	}
	_, err := s.definition(resource)
	return err == nil
}

// locks keep plans apart that change the same API, which all namespaces have in common.
type locks struct {
	mu sync.Mutex
	by map[string]*sync.Mutex
}

// lock locks the resources, in an order that all have in common; what it returns unlocks them.
func (l *locks) lock(resources []string) (unlock func()) {
	var held []*sync.Mutex
	for _, resource := range slices.Sorted(slices.Values(resources)) {
		l.mu.Lock()
		if l.by == nil {
			l.by = map[string]*sync.Mutex{}
		}
		if l.by[resource] == nil {
			l.by[resource] = &sync.Mutex{}
		}
		one := l.by[resource]
		l.mu.Unlock()
		one.Lock()
		held = append(held, one)
	}
	return func() {
		for _, one := range held {
			one.Unlock()
		}
	}
}

// custom are the resources of a workload's objects that come from definitions.
func (s *Suite) custom(ref *reference) []string {
	var out []string
	for key := range ref.end {
		resource, _, _ := strings.Cut(key, "/")
		if strings.Contains(resource, ".") && !slices.Contains(out, resource) && s.defined(resource) {
			out = append(out, resource)
		}
	}
	return slices.DeleteFunc(out, func(resource string) bool {
		return resource == inventories || slices.ContainsFunc(s.kinds, func(k *Kind) bool { return k.Resource == resource })
	})
}

// removeAPI deletes the definition of the child; the objects of its resource go with it.
func (r *run) removeAPI(*unstructured.Unstructured) (func() error, error) {
	resource := r.plan.Standing.Resource
	for key := range r.children() {
		if strings.HasPrefix(key, resource+"/") {
			r.allowed[key] = tally{1, 1}
		}
	}
	r.suite.recorder.tolerate(resource)
	was, err := r.suite.definition(resource)
	if err != nil {
		return nil, err
	}
	if err := r.suite.cluster.Client.Delete(r.ctx, was.DeepCopy()); err != nil {
		return nil, err
	}
	end := func() error {
		again := &unstructured.Unstructured{Object: map[string]any{"spec": was.Object["spec"]}}
		again.SetGroupVersionKind(definitionGVK)
		again.SetName(was.GetName())
		again.SetLabels(was.GetLabels())
		again.SetAnnotations(was.GetAnnotations())
		return errors.Join(r.suite.cluster.Client.Create(r.suite.ctx, again), r.served(was))
	}
	return end, r.await("the definition to be gone", func() error {
		if _, err := r.suite.definition(resource); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
}

// served waits until the API server serves the resource of a definition.
func (r *run) served(definition *unstructured.Unstructured) error {
	return r.await("the resource to be served", func() error {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{
			Group:   nestedText(definition, "spec", "group"),
			Version: storageVersion(definition),
			Kind:    nestedText(definition, "spec", "names", "listKind"),
		})
		return r.suite.cluster.Client.List(r.ctx, list, client.Limit(1))
	})
}

func nestedText(u *unstructured.Unstructured, fields ...string) string {
	text, _, _ := unstructured.NestedString(u.Object, fields...)
	return text
}

// storageVersion is the version that a definition stores.
func storageVersion(definition *unstructured.Unstructured) string {
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, item := range versions {
		if v, ok := item.(map[string]any); ok && v["storage"] == true {
			return fmt.Sprint(v["name"])
		}
	}
	return ""
}

// alteration changes what declares a field, by its name and with the value that the child has there; it says whether it did.
type alteration func(parent map[string]any, name string, value any) bool

// withoutField takes the declaration of the field out.
func withoutField(parent map[string]any, name string, _ any) bool {
	properties, _ := parent["properties"].(map[string]any)
	if _, declared := properties[name]; !declared || parent["x-kubernetes-preserve-unknown-fields"] == true {
		return false
	}
	delete(properties, name)
	required, _ := parent["required"].([]any)
	parent["required"] = slices.DeleteFunc(required, func(field any) bool { return field == name })
	return true
}

// ofAnotherType gives the field another type.
func ofAnotherType(parent map[string]any, name string, value any) bool {
	properties, _ := parent["properties"].(map[string]any)
	if _, declared := properties[name]; !declared {
		return false
	}
	other := "string"
	if _, text := value.(string); text {
		other = "integer"
	}
	properties[name] = map[string]any{"type": other}
	return true
}

// requiring requires a field beside it that the child does not have.
func requiring(parent map[string]any, _ string, _ any) bool {
	properties, ok := parent["properties"].(map[string]any)
	if !ok {
		return false
	}
	const field = "requiredByFaults"
	properties[field] = map[string]any{"type": "string"}
	required, _ := parent["required"].([]any)
	parent["required"] = append(required, field)
	return true
}

// removeField replaces the definition by one without a field of the child, and has the child created again.
func (r *run) removeField(u *unstructured.Unstructured) (func() error, error) {
	end, at, err := r.alter(u, withoutField)
	if err != nil {
		return end, err
	}
	err = r.await("the field to be dropped", func() error {
		live := u.DeepCopy()
		if err := r.suite.cluster.Client.Get(r.ctx, client.ObjectKeyFromObject(u), live); err != nil {
			return err
		}
		if slices.ContainsFunc(managed(live), func(f field) bool { return f.pointer == at }) {
			return errors.New("it is there")
		}
		return nil
	})
	if err != nil {
		return end, err
	}
	return end, r.provoke(u)
}

// changeType replaces the definition by one in which a field of the child has another type, and has the child created again.
func (r *run) changeType(u *unstructured.Unstructured) (func() error, error) {
	return r.alterAndProvoke(u, ofAnotherType)
}

// requireField replaces the definition by one that requires a field which the child does not have, and has the child created again.
func (r *run) requireField(u *unstructured.Unstructured) (func() error, error) {
	return r.alterAndProvoke(u, requiring)
}

// alterAndProvoke alters the definition, waits until the child is refused, and has the operator create it again.
func (r *run) alterAndProvoke(u *unstructured.Unstructured, alter alteration) (func() error, error) {
	end, _, err := r.alter(u, alter)
	if err != nil {
		return end, err
	}
	err = r.await("the child to be refused", func() error {
		// What is there may keep what is invalid now.
		another := foreign(u)
		another.SetName(u.GetName() + "-probe")
		err := client.NewDryRunClient(r.suite.cluster.Client).Create(r.ctx, another, client.FieldOwner(user))
		if !apierrors.IsInvalid(err) {
			return fmt.Errorf("it is not: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, end())
	}
	return end, r.provoke(u)
}

// alter changes the schema of one field of the child, the first for which the API server takes it. It returns what puts the schema
// back, and the field.
func (r *run) alter(u *unstructured.Unstructured, alter alteration) (end func() error, at string, err error) {
	r.suite.recorder.tolerate(r.plan.Standing.Resource)
	was, at, err := r.suite.alter(r.suite.cluster.Client, r.plan.Standing.Resource, u, alter)
	if err != nil || was == nil {
		return nil, "", cmp.Or(err, errNoDrift)
	}
	r.note("the schema of %s is another", at)
	return func() error { return r.putBack(was) }, at, nil
}

// alterable says that a cause needs no field of a child that comes from a definition, or finds one whose schema can be altered.
func (s *Suite) alterable(c *cause, resource string, u *unstructured.Unstructured) bool {
	if c.alter == nil {
		return true
	}
	was, _, err := s.alter(client.NewDryRunClient(s.cluster.Client), resource, u, c.alter)
	return err == nil && was != nil
}

// alter changes the schema of the first managed field of an object for which the API server takes it, by a client. It returns the definition
// as it was, and the field; nil where there is no such field.
func (s *Suite) alter(by client.Client, resource string, u *unstructured.Unstructured, alter alteration) (*unstructured.Unstructured, string, error) {
	was, err := s.definition(resource)
	if err != nil {
		return nil, "", err
	}
	for _, f := range managed(u) {
		if !strings.HasPrefix(f.pointer, "/spec/") {
			continue
		}
		changed := was.DeepCopy()
		parent, name := schemaOf(changed, u.GroupVersionKind().Version, f.pointer)
		if parent == nil || !alter(parent, name, f.value) {
			continue
		}
		if err := by.Update(s.ctx, changed); err == nil {
			return was, f.pointer, nil
		} else if !apierrors.IsInvalid(err) {
			return nil, "", err
		}
	}
	return nil, "", nil
}

// putBack gives a definition the spec that it had.
func (r *run) putBack(was *unstructured.Unstructured) error {
	return r.await("the schema to be as before", func() error {
		live, err := r.suite.definition(was.GetName())
		if err != nil {
			return err
		}
		live.Object["spec"] = was.Object["spec"]
		return r.suite.cluster.Client.Update(r.suite.ctx, live)
	})
}

// schemaOf finds, in the schema of a version, what declares a field, and the name of the field in it; nil where nothing does.
func schemaOf(definition *unstructured.Unstructured, version, at string) (parent map[string]any, name string) {
	versions, _, _ := unstructured.NestedFieldNoCopy(definition.Object, "spec", "versions")
	list, _ := versions.([]any)
	for _, item := range list {
		v, _ := item.(map[string]any)
		if v["name"] != version {
			continue
		}
		here, _, _ := unstructured.NestedFieldNoCopy(v, "schema", "openAPIV3Schema")
		steps := strings.Split(strings.TrimPrefix(at, "/"), "/")
		for _, step := range steps[:len(steps)-1] {
			here = below(here, step)
		}
		parent, _ = here.(map[string]any)
		return parent, strings.NewReplacer("~1", "/", "~0", "~").Replace(steps[len(steps)-1])
	}
	return nil, ""
}

// below is the schema of a field or an item.
func below(here any, step string) any {
	node, _ := here.(map[string]any)
	if items, list := node["items"]; list {
		return items
	}
	properties, _ := node["properties"].(map[string]any)
	return properties[step]
}
