package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tfservingv1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	trustyaiv1 "mlkeeper.dev/api/trustyai/v1"
)

// FieldManager is the name under which the helpers of this package write.
const FieldManager = "mlkeeper-test"

// callTimeout limits one request of a helper.
const callTimeout = 30 * time.Second

var notInAName = regexp.MustCompile(`[^a-z0-9]+`)

// Namespace creates a namespace named after the test. When the test ends, everything that workloads in it refer to must be
// there (MissingOnPurpose names exceptions). Then the namespace is deleted, without waiting for its end: only what would reach
// into the next test is gone by then, which are the custom resources, since its operator would care for them, and claims
// that have no volume yet, since they would take its.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	slug := strings.Trim(notInAName.ReplaceAllString(strings.ToLower(t.Name()), "-"), "-")
	// KServe makes one label of a host name, of 63 characters at most, of this and the name of a service with its component.
	if len(slug) > 28 {
		slug = strings.TrimRight(slug[:28], "-")
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: slug + "-" + rand.String(6)}}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := c.Client.Create(ctx, ns); err != nil {
		t.Fatalf("create namespace %s: %v", ns.Name, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		defer cancel()
		if err := c.clearServices(ctx, ns.Name); err != nil {
			t.Logf("delete the custom resources of namespace %s: %v", ns.Name, err)
		}
		if err := c.Client.Delete(ctx, ns); client.IgnoreNotFound(err) != nil {
			t.Logf("delete namespace %s: %v", ns.Name, err)
		}
		// Nobody creates another one in a namespace that ends.
		if err := c.clearUnboundClaims(ctx, ns.Name); err != nil {
			t.Logf("delete the claims of namespace %s: %v", ns.Name, err)
		}
	})
	c.checkAtEnd(t, ns.Name)
	return ns.Name
}

// clearServices deletes the custom resources of a namespace, held by finalizers or not.
func (c *Cluster) clearServices(ctx context.Context, namespace string) error {
	for _, list := range []client.ObjectList{&trustyaiv1.TrustyAIServiceList{}, &tfservingv1alpha1.TfservList{}} {
		err := c.Client.List(ctx, list, client.InNamespace(namespace))
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		if err := meta.EachListItem(list, func(item runtime.Object) error {
			return c.clear(ctx, item.(client.Object)) //nolint:forcetypeassert // The items of a client's list are objects.
		}); err != nil {
			return err
		}
	}
	return nil
}

// clearUnboundClaims deletes the claims of a namespace that any PersistentVolume without a claim would be bound to.
func (c *Cluster) clearUnboundClaims(ctx context.Context, namespace string) error {
	var claims corev1.PersistentVolumeClaimList
	if err := c.Client.List(ctx, &claims, client.InNamespace(namespace)); err != nil {
		return err
	}
	var errs []error
	for i := range claims.Items {
		if claims.Items[i].Status.Phase == corev1.ClaimPending {
			errs = append(errs, c.clear(ctx, &claims.Items[i]))
		}
	}
	return errors.Join(errs...)
}

func (c *Cluster) clear(ctx context.Context, o client.Object) error {
	free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	return errors.Join(
		client.IgnoreNotFound(c.Client.Delete(ctx, o)),
		client.IgnoreNotFound(c.Client.Patch(ctx, o, free)),
	)
}

// Parse splits a YAML text into its objects.
func Parse(text string) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		var raw runtime.RawExtension
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if len(raw.Raw) == 0 || string(raw.Raw) == "null" || string(raw.Raw) == "{}" {
			continue
		}
		// Unstructured tells integers from floats, which a plain map does not.
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(raw.Raw); err != nil {
			return nil, err
		}
		out = append(out, u)
	}
}

// Apply server-side applies every object of a YAML text, or of the file of that name where source is one line. Objects
// of namespaced kinds that name no namespace go to the given one, or to "default". It waits for kinds whose definition was just made: their
// discovery, and what serves them, follow the definition. It returns the objects as stored.
func (c *Cluster) Apply(t testing.TB, source string, namespace ...string) []*unstructured.Unstructured {
	t.Helper()
	text := source
	if !strings.Contains(source, "\n") {
		data, err := os.ReadFile(source)
		if err != nil {
			t.Fatalf("apply: %v", err)
		}
		text = string(data)
	}
	objects, err := Parse(text)
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	ns := "default"
	if len(namespace) > 0 {
		ns = namespace[0]
	}
	for _, u := range objects {
		var err error
		Eventually(t, callTimeout, func() error {
			if err = c.applyOne(u, ns); meta.IsNoMatchError(err) || notServed(err) {
				return fmt.Errorf("apply %s %s: %w", u.GetKind(), u.GetName(), err)
			}
			return nil
		})
		if err != nil {
			t.Fatalf("apply %s %s: %v", u.GetKind(), u.GetName(), err)
		}
	}
	return objects
}

// notServed says that the API server does not know the path of a request, as of a kind that is known from a definition of before.
func notServed(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

func (c *Cluster) applyOne(u *unstructured.Unstructured, namespace string) error {
	if err := c.SetNamespace(u, namespace); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	return c.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u),
		client.FieldOwner(FieldManager), client.ForceOwnership)
}

// SetNamespace puts an object of a namespaced kind that names no namespace into the given one.
func (c *Cluster) SetNamespace(u *unstructured.Unstructured, namespace string) error {
	namespaced, err := c.Client.IsObjectNamespaced(u)
	if err != nil {
		return err
	}
	if namespaced && u.GetNamespace() == "" {
		u.SetNamespace(namespace)
	}
	return nil
}

// Get reads one object live; it returns nil where there is none, or no such kind.
func (c *Cluster) Get(t testing.TB, gvk schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, u)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		t.Fatalf("get %s %s/%s: %v", gvk.Kind, namespace, name, err)
	}
	return u
}

// InstallCRDs applies the repository's CustomResourceDefinitions, or those in some folders of config/crd, and waits until the API server
// serves them.
func (c *Cluster) InstallCRDs(t testing.TB, folders ...string) {
	t.Helper()
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	if len(folders) == 0 {
		folders = []string{"*"}
	}
	var files []string
	for _, folder := range folders {
		found, err := filepath.Glob(filepath.Join(root, "config", "crd", folder, "*_*.yaml"))
		if err != nil || len(found) == 0 {
			t.Fatalf("no definitions in config/crd/%s (%v): run make generate", folder, err)
		}
		files = append(files, found...)
	}
	sort.Strings(files)
	var names []string
	for _, file := range files {
		for _, u := range c.Apply(t, file) {
			names = append(names, u.GetName())
		}
	}
	c.AwaitServed(t, names...)
}

// Kubectl runs kubectl against the cluster and returns what it printed; a failure fails the test.
func (c *Cluster) Kubectl(t testing.TB, args ...string) string {
	t.Helper()
	out, err := c.TryKubectl(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TryKubectl runs kubectl against the cluster and returns what it printed, and its failure.
func (c *Cluster) TryKubectl(args ...string) (string, error) {
	return c.process.run(append([]string{"kubectl", "--dir", c.Dir}, args...)...)
}

// DeleteDefinitions deletes all CustomResourceDefinitions and waits until they are gone. The API server's finalizer of them lists their objects,
// and after a failure, as while the storage of a definition that was just created is initialized, it looks at the definition again after
// five minutes only (apiextensions-apiserver, crd_finalizer.go), or when it changes, as here.
func (c *Cluster) DeleteDefinitions(t testing.TB) {
	t.Helper()
	c.Kubectl(t, "delete", "crd", "--all", "--wait=false")
	Eventually(t, time.Minute, func() error {
		left := strings.Fields(c.Kubectl(t, "get", "crd", "-o", "name"))
		for _, name := range left {
			if _, err := c.TryKubectl("annotate", name, "--overwrite", "looked-at="+time.Now().Format("150405")); err != nil && !strings.Contains(err.Error(), "NotFound") {
				return err
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("definitions are still there: %v", left)
		}
		return nil
	})
}

// InstallDefinitions adds third-party definitions of devcluster's catalog to a cluster that runs.
func (c *Cluster) InstallDefinitions(t testing.TB, names ...string) {
	t.Helper()
	c.component(t, append([]string{"crds"}, names...)...)
}

// StopComponent stops one component of the control plane, such as kube-controller-manager.
func (c *Cluster) StopComponent(t testing.TB, name string) {
	t.Helper()
	c.component(t, "stop", name)
}

// KillComponent kills one component of the control plane without a chance to clean up.
func (c *Cluster) KillComponent(t testing.TB, name string) {
	t.Helper()
	c.component(t, "stop", "--kill", name)
}

// StartComponent starts a stopped component of the control plane and waits until it is healthy.
func (c *Cluster) StartComponent(t testing.TB, name string) {
	t.Helper()
	if name == apiServer {
		// It refuses everything until it has read the roles, and says in /readyz (informer-sync) when it has.
		defer c.expectRefusalsSince(time.Now())
	}
	c.component(t, "start", name)
}

func (c *Cluster) component(t testing.TB, args ...string) {
	t.Helper()
	if _, err := c.process.run(append(args, "--dir", c.Dir)...); err != nil {
		t.Fatal(err)
	}
}
