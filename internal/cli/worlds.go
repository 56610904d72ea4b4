package cli

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/digest"
	"mlkeeper.dev/internal/engine/fieldownership"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/kustomize"
)

// noCluster is the world without a cluster: nothing exists but the objects of the file.
type noCluster struct {
	now  time.Time
	apis map[schema.GroupVersionKind]bool
	all  bool
	// others are the objects of the file that are no custom resources.
	others []*unstructured.Unstructured
}

// newNoCluster reads the values of --api.
func newNoCluster(now time.Time, apis []string, all bool) (*noCluster, error) {
	out := &noCluster{now: now, apis: map[schema.GroupVersionKind]bool{}, all: all}
	for _, text := range apis {
		parts := strings.Split(text, "/")
		if len(parts) != 3 || slices.Contains(parts, "") {
			return nil, fmt.Errorf("--api %q: use GROUP/VERSION/KIND, such as route.openshift.io/v1/Route", text)
		}
		out.apis[schema.GroupVersionKind{Group: parts[0], Version: parts[1], Kind: parts[2]}] = true
	}
	return out, nil
}

func (n *noCluster) live(context.Context, schema.GroupVersionKind, string, string) (*unstructured.Unstructured, error) {
	return nil, nil
}

// refer implements world. The objects are as the API server would store them.
func (n *noCluster) refer(objects []*unstructured.Unstructured, namespace string) error {
	for _, u := range objects {
		if u.GetName() == "" {
			return fmt.Errorf("%s has no name: nothing can refer to it", plan.KeyOf(u))
		}
		scoped, known := kustomize.Namespaced(u.GroupVersionKind())
		if err := setNamespace(u, namespace, n.namespace(), known && !scoped); err != nil {
			return fmt.Errorf("%s: %w", plan.KeyOf(u), err)
		}
		n.others = append(n.others, fieldownership.ForCreate(u))
	}
	return nil
}

// find returns an object of the file.
func (n *noCluster) find(gvk schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	for _, u := range n.others {
		if u.GroupVersionKind().GroupKind() == gvk.GroupKind() && u.GetNamespace() == namespace && u.GetName() == name {
			return u.DeepCopy()
		}
	}
	return nil
}

func (n *noCluster) serves(gvk schema.GroupVersionKind) (bool, error) {
	if removed(gvk) {
		return n.apis[gvk], nil
	}
	// Every cluster serves what the Kubernetes API server has built in.
	return n.all || n.apis[gvk] || clientgoscheme.Scheme.Recognizes(gvk), nil
}

// kubernetes is the version of Kubernetes whose APIs count as served without a cluster.
var kubernetes = [2]int{1, 36}

// removed says that Kubernetes had an API and has it no more, by the lifecycle that its types declare.
func removed(gvk schema.GroupVersionKind) bool {
	if gvk.Group == "apiextensions.k8s.io" || gvk.Group == "apiregistration.k8s.io" {
		return gvk.Version != "v1"
	}
	if !clientgoscheme.Scheme.IsGroupRegistered(gvk.Group) {
		return false
	}
	object, err := clientgoscheme.Scheme.New(gvk)
	if err != nil {
		return true
	}
	lifecycle, ok := object.(interface{ APILifecycleRemoved() (major, minor int) })
	if !ok {
		return false
	}
	major, minor := lifecycle.APILifecycleRemoved()
	return major < kubernetes[0] || major == kubernetes[0] && minor <= kubernetes[1]
}

func (n *noCluster) exists() bool      { return false }
func (n *noCluster) namespace() string { return metav1.NamespaceDefault }

func (n *noCluster) reader(ctx context.Context, r controller.Any, all []*target) (func(client.Object) controller.Reader, func() error) {
	reads := &fileReads{controller: r, all: all}
	return func(cr client.Object) controller.Reader {
		return noClusterReader{noCluster: n, ctx: ctx, reads: reads, cr: cr}
	}, func() error { return reads.failure }
}

// noClusterReader is the reader of one custom resource in the world without a cluster. It keeps the context of its one
// rendering.
type noClusterReader struct {
	*noCluster
	ctx   context.Context
	reads *fileReads
	cr    client.Object
}

// Referenced implements controller.Reader.
func (r noClusterReader) Referenced(
	_ context.Context, gvk schema.GroupVersionKind, namespace, name string,
) (*unstructured.Unstructured, error) {
	return r.find(gvk, namespace, name), nil
}

// ReferencedAs implements controller.Reader.
func (r noClusterReader) ReferencedAs(
	_ context.Context, _ string, gvk schema.GroupVersionKind, namespace, name string,
) (*unstructured.Unstructured, error) {
	return r.find(gvk, namespace, name), nil
}

// Child implements controller.Reader.
func (noClusterReader) Child(schema.GroupVersionKind, string, string) *observe.Object { return nil }

// Serves implements controller.Reader.
func (r noClusterReader) Serves(gvk schema.GroupVersionKind) bool {
	served, _ := r.serves(gvk)
	return served
}

// Namespaced implements controller.Reader; without a cluster the kinds of Kubernetes are known.
func (noClusterReader) Namespaced(gvk schema.GroupVersionKind) (namespaced, served bool) {
	return kustomize.Namespaced(gvk)
}

// ServesVersion implements controller.Reader.
func (r noClusterReader) ServesVersion(gv schema.GroupVersion) bool {
	for gvk := range r.apis {
		if gvk.GroupVersion() == gv {
			return true
		}
	}
	for gvk := range clientgoscheme.Scheme.AllKnownTypes() {
		if gvk.GroupVersion() == gv && !removed(gvk) {
			return true
		}
	}
	return r.all && !clientgoscheme.Scheme.IsGroupRegistered(gv.Group)
}

// Kinds implements controller.Reader: those of Kubernetes, and those that are given.
func (r noClusterReader) Kinds() []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for gvk := range clientgoscheme.Scheme.AllKnownTypes() {
		if _, known := kustomize.Namespaced(gvk); known && !removed(gvk) {
			out = append(out, gvk)
		}
	}
	for gvk := range r.apis {
		if !slices.Contains(out, gvk) {
			out = append(out, gvk)
		}
	}
	slices.SortFunc(out, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// KubernetesVersion implements controller.Reader.
func (noClusterReader) KubernetesVersion() string {
	return fmt.Sprintf("v%d.%d.0", kubernetes[0], kubernetes[1])
}

// Siblings implements controller.Reader.
func (r noClusterReader) Siblings() []client.Object { return oldestFirst(r.reads.siblings(r.cr)) }

// Targets implements controller.Reader.
func (noClusterReader) Targets(string, string) []*unstructured.Unstructured { return nil }

// Background implements controller.Reader; nothing runs here that could be asked, but archives can be fetched.
func (r noClusterReader) Background(_ string, _ time.Duration, job controller.Job) any {
	return r.reads.ask(r.ctx, job)
}

// Render implements controller.Reader.
func (r noClusterReader) Render(name string, every time.Duration, job controller.Job) any {
	return r.Background(name, every, job)
}

// Digest implements controller.Reader.
func (noClusterReader) Digest(...map[string][]byte) string { return digest.Redacted }

// Now implements controller.Reader.
func (r noClusterReader) Now() time.Time { return r.now }

// fileReads are the reads that the file answers, and the first failure of a read that cannot return one.
type fileReads struct {
	controller controller.Any
	all        []*target
	failure    error
}

func (f *fileReads) fail(err error) {
	if f.failure == nil {
		f.failure = err
	}
}

// ask asks a job at once where the answer is rendered; elsewhere it would only tell of what runs.
func (f *fileReads) ask(ctx context.Context, job controller.Job) any {
	if !f.controller.RendersAnswers() {
		return nil
	}
	return job(ctx, nil)
}

// siblings are the other custom resources of the file of the same kind in the namespace.
func (f *fileReads) siblings(cr client.Object) []client.Object {
	var out []client.Object
	for _, t := range f.all {
		u := t.admitted
		if t.controller.GVK() != f.controller.GVK() || u.GetNamespace() != cr.GetNamespace() || u.GetUID() == cr.GetUID() {
			continue
		}
		if sibling := f.decode(cr, u); sibling != nil {
			out = append(out, sibling)
		}
	}
	return out
}

// decode makes an object of the same Go type as cr.
func (f *fileReads) decode(cr client.Object, u *unstructured.Unstructured) client.Object {
	fresh, ok := reflect.New(reflect.TypeOf(cr).Elem()).Interface().(client.Object)
	if !ok {
		f.fail(fmt.Errorf("bug: %T is no object", cr))
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, fresh); err != nil {
		// The engine skips what does not decode as well.
		return nil
	}
	return fresh
}

// oldestFirst sorts by creationTimestamp, then UID, as the engine does.
func oldestFirst(all []client.Object) []client.Object {
	slices.SortFunc(all, func(a, b client.Object) int {
		if c := a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time); c != 0 {
			return c
		}
		return strings.Compare(string(a.GetUID()), string(b.GetUID()))
	})
	return all
}

// somewhere is the world of a cluster.
type somewhere struct {
	*cluster
	now     time.Time
	context string
}

// refer implements world: what the cluster has counts.
func (s *somewhere) refer([]*unstructured.Unstructured, string) error { return nil }

func (s *somewhere) exists() bool      { return true }
func (s *somewhere) namespace() string { return s.context }

func (s *somewhere) serves(gvk schema.GroupVersionKind) (bool, error) {
	mapping, err := s.lookup(gvk)
	return mapping != nil, err
}

func (s *somewhere) live(
	ctx context.Context, gvk schema.GroupVersionKind, namespace, name string,
) (*unstructured.Unstructured, error) {
	mapping, err := s.lookup(gvk)
	if err != nil || mapping == nil || name == "" {
		return nil, err
	}
	live, err := s.resource(mapping, namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", gvk.Kind, name, err)
	}
	return live, nil
}

func (s *somewhere) reader(ctx context.Context, r controller.Any, all []*target) (func(client.Object) controller.Reader, func() error) {
	reads := &fileReads{controller: r, all: all}
	return func(cr client.Object) controller.Reader {
		return &somewhereReader{somewhere: s, ctx: ctx, reads: reads, cr: cr}
	}, func() error { return reads.failure }
}

// somewhereReader is the reader of one custom resource in a cluster. It keeps the context of its one rendering, since
// most reads of controller.Reader have none: in the engine they are answered from memory.
type somewhereReader struct {
	*somewhere
	ctx   context.Context
	reads *fileReads
	cr    client.Object
}

// Referenced implements controller.Reader.
func (r *somewhereReader) Referenced(
	ctx context.Context, gvk schema.GroupVersionKind, namespace, name string,
) (*unstructured.Unstructured, error) {
	live, err := r.live(ctx, gvk, namespace, name)
	if live != nil {
		live.SetManagedFields(nil)
	}
	return live, err
}

// ReferencedAs implements controller.Reader; the command reads with the rights of whoever calls it.
func (r *somewhereReader) ReferencedAs(
	ctx context.Context, _ string, gvk schema.GroupVersionKind, namespace, name string,
) (*unstructured.Unstructured, error) {
	return r.Referenced(ctx, gvk, namespace, name)
}

// Child implements controller.Reader.
func (r *somewhereReader) Child(gvk schema.GroupVersionKind, namespace, name string) *observe.Object {
	live, err := r.live(r.ctx, gvk, namespace, name)
	if err != nil {
		r.reads.fail(err)
	}
	// The engine watches by label, so that it cannot see what carries none.
	if live == nil || live.GetLabels()[keeper.ControllerLabel] != r.reads.controller.Name() ||
		(plan.Stack{GVK: r.reads.controller.GVK()}).OfAnother(live) {
		return nil
	}
	return observe.From(live, health.NeedsStatus(gvk.GroupKind()))
}

// Serves implements controller.Reader.
func (r *somewhereReader) Serves(gvk schema.GroupVersionKind) bool {
	served, err := r.serves(gvk)
	if err != nil {
		r.reads.fail(err)
	}
	return served
}

// Namespaced implements controller.Reader.
func (r *somewhereReader) Namespaced(gvk schema.GroupVersionKind) (namespaced, served bool) {
	mapping, err := r.lookup(gvk)
	if err != nil || mapping == nil {
		r.reads.fail(err)
		return false, false
	}
	return mapping.Scope.Name() == meta.RESTScopeNameNamespace, true
}

// ServesVersion implements controller.Reader.
func (r *somewhereReader) ServesVersion(gv schema.GroupVersion) bool {
	return slices.ContainsFunc(r.kinds(), func(kind servedKind) bool {
		if kind.Group != gv.Group {
			return false
		}
		mapping, err := r.lookup(kind.WithVersion(gv.Version))
		if err != nil {
			r.reads.fail(err)
		}
		return mapping != nil
	})
}

// Kinds implements controller.Reader.
func (r *somewhereReader) Kinds() []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for _, kind := range r.kinds() {
		mappings, err := r.mapper().RESTMappings(kind.GroupKind)
		if err != nil {
			r.reads.fail(err)
		}
		for _, mapping := range mappings {
			out = append(out, mapping.GroupVersionKind)
		}
	}
	slices.SortFunc(out, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// KubernetesVersion implements controller.Reader.
func (r *somewhereReader) KubernetesVersion() string {
	if r.version == nil {
		return ""
	}
	info, err := r.version(r.ctx)
	if err != nil {
		r.reads.fail(fmt.Errorf("ask for the version of the API server: %w", err))
		return ""
	}
	return info.GitVersion
}

// Siblings implements controller.Reader: those of the cluster, and those of the file that are not there yet.
func (r *somewhereReader) Siblings() []client.Object {
	out := r.reads.siblings(r.cr)
	mapping, err := r.lookup(r.reads.controller.GVK())
	if err != nil || mapping == nil {
		r.reads.fail(err)
		return oldestFirst(out)
	}
	live, err := r.list(r.ctx, mapping, r.cr.GetNamespace(), metav1.ListOptions{})
	if err != nil {
		r.reads.fail(fmt.Errorf("list %s: %w", mapping.Resource.Resource, err))
	}
	for _, u := range live {
		if u.GetUID() == r.cr.GetUID() || u.GetDeletionTimestamp() != nil ||
			slices.ContainsFunc(out, func(o client.Object) bool { return o.GetUID() == u.GetUID() }) {
			continue
		}
		if sibling := r.reads.decode(r.cr, u); sibling != nil {
			out = append(out, sibling)
		}
	}
	return oldestFirst(out)
}

// Targets implements controller.Reader.
func (r *somewhereReader) Targets(wire, namespace string) []*unstructured.Unstructured {
	for _, w := range r.reads.controller.Wires() {
		if w.Name != wire {
			continue
		}
		mapping, err := r.lookup(w.GVK)
		if err != nil || mapping == nil {
			r.reads.fail(err)
			return nil
		}
		all, err := r.list(r.ctx, mapping, namespace, metav1.ListOptions{
			LabelSelector: w.LabelSelector, FieldSelector: w.FieldSelector,
		})
		if err != nil {
			r.reads.fail(fmt.Errorf("list %s: %w", mapping.Resource.Resource, err))
			return nil
		}
		if w.Strip != nil {
			for i := range all {
				all[i] = w.Strip(all[i])
			}
		}
		return all
	}
	r.reads.fail(errors.New("bug: there is no wire " + wire))
	return nil
}

// Background implements controller.Reader.
func (r *somewhereReader) Background(_ string, _ time.Duration, job controller.Job) any {
	return r.reads.ask(r.ctx, job)
}

// Render implements controller.Reader.
func (r *somewhereReader) Render(name string, every time.Duration, job controller.Job) any {
	return r.Background(name, every, job)
}

// Digest implements controller.Reader.
func (*somewhereReader) Digest(...map[string][]byte) string { return digest.Redacted }

// Now implements controller.Reader.
func (r *somewhereReader) Now() time.Time { return r.now }
