package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/console"
)

// objectView is one object as the page shows it.
type objectView struct {
	// YAML is the object without managedFields; of a Secret its metadata alone.
	YAML string `json:"yaml"`
	// Conditions have type, status, reason and message, Managers the field manager, its operation and when it wrote last.
	Conditions [][]string    `json:"conditions"`
	Managers   [][]string    `json:"managers"`
	Events     []EventReport `json:"events"`
}

// maxShown bounds the YAML of an object, in bytes; an object may have 1 MiB and more.
const maxShown = 256 << 10

// lastApplied holds a whole object, the values of a Secret too.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Object implements console.Source. Of Secrets only the metadata is read.
func (s *consoleSource) Object(ctx context.Context, ref console.Ref) (any, error) {
	gk := schema.GroupKind{Group: ref.Group, Kind: ref.Kind}
	mapping, err := s.mapper().RESTMapping(gk)
	if err != nil {
		return nil, fmt.Errorf("the cluster does not serve %s: %w", gk, err)
	}
	u, err := s.get(ctx, mapping, ref)
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("you may not read it: %w", err)
	case err != nil:
		return nil, unauthorized(err)
	}
	out := &objectView{Conditions: [][]string{}, Managers: managersOf(u), Events: s.eventsOf(ctx, u)}
	u.SetManagedFields(nil)
	annotations := u.GetAnnotations()
	delete(annotations, lastApplied)
	u.SetAnnotations(annotations)
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, item := range conditions {
		if c, ok := item.(map[string]any); ok {
			out.Conditions = append(out.Conditions, []string{textOf(c["type"]), textOf(c["status"]), textOf(c["reason"]), textOf(c["message"])})
		}
	}
	var text strings.Builder
	if err := printYAML(&text, u.Object); err != nil {
		return nil, err
	}
	out.YAML = text.String()
	if len(out.YAML) > maxShown {
		out.YAML = strings.ToValidUTF8(out.YAML[:maxShown], "") + "\n... cut: kubectl get -o yaml prints the whole"
	}
	return out, nil
}

func textOf(value any) string {
	text, _ := value.(string)
	return Clean(text)
}

// get reads an object, and of a Secret its metadata.
func (s *consoleSource) get(ctx context.Context, mapping *meta.RESTMapping, ref console.Ref) (*unstructured.Unstructured, error) {
	if mapping.GroupVersionKind.GroupKind() != secretKind {
		return s.resource(mapping, ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	}
	partial, err := s.metadata.Resource(mapping.Resource).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(partial)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(mapping.GroupVersionKind)
	return u, nil
}

// managersOf are the field managers of an object, the latest first.
func managersOf(u *unstructured.Unstructured) [][]string {
	managed := u.GetManagedFields()
	slices.SortStableFunc(managed, func(a, b metav1.ManagedFieldsEntry) int { return timeOf(b).Compare(timeOf(a)) })
	out := [][]string{}
	for _, m := range managed {
		name := m.Manager
		if m.Subresource != "" {
			name += " (" + m.Subresource + ")"
		}
		out = append(out, []string{Clean(name), string(m.Operation), timeOf(m).Format(time.RFC3339)})
	}
	return out
}

func timeOf(m metav1.ManagedFieldsEntry) time.Time {
	if m.Time == nil {
		return time.Time{}
	}
	return m.Time.UTC()
}

// eventsOf are the events about an object; none where they may not be read.
func (s *consoleSource) eventsOf(ctx context.Context, u *unstructured.Unstructured) []EventReport {
	out := []EventReport{}
	mapping, err := s.lookup(eventKind)
	if err != nil || mapping == nil {
		return out
	}
	namespace := u.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	all, err := s.list(ctx, mapping, namespace, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(u.GetUID())})
	if err != nil {
		return out
	}
	for _, event := range all {
		if uid, _, _ := unstructured.NestedString(event.Object, "involvedObject", "uid"); uid == string(u.GetUID()) {
			out = append(out, readEvent(event))
		}
	}
	slices.SortStableFunc(out, func(a, b EventReport) int { return b.LastSeen.Compare(a.LastSeen) })
	return out[:min(len(out), maxEvents)]
}
