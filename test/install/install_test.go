package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/test/cluster"
)

const (
	namespace = "mlkeeper-system"
	manager   = "mlkeeper-controller-manager"
	image     = "registry.example.com/mlkeeper:v0.1.0"
)

// trusted and participant are the flags that two of the components stand for.
var (
	trusted     = []string{"--allow-operator-privileges=kubeflow,seldon"}
	participant = []string{"--participant-config=/etc/mlkeeper/participant/application.yaml"}
)

// allComponents are the folders of config/components but for those of controllers, which CONTROLLERS names.
func allComponents(t *testing.T) []string {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Join(root, "config", "components"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, entry := range entries {
		if controllers[entry.Name()] != entry.Name() {
			out = append(out, entry.Name())
		}
	}
	return out
}

// definition is a kind of the Prometheus operator, whatever is in it.
const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {plural: %[1]s, kind: %[2]s}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// monitored are the kinds of the Prometheus operator of which config/monitoring has an object, by their plurals.
var monitored = map[string]string{"podmonitors": "PodMonitor", "prometheusrules": "PrometheusRule"}

// monitoringKinds has the cluster serve what config/monitoring holds.
func monitoringKinds(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	for plural, kind := range monitored {
		c.Apply(t, fmt.Sprintf(definition, plural, kind))
		c.AwaitServed(t, plural+".monitoring.coreos.com")
	}
}

// maker runs make in the root of the repository against one cluster.
func maker(t *testing.T, c *cluster.Cluster) func(args ...string) (string, error) {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	return func(args ...string) (string, error) { return c.Make(t, root, args...) }
}

// must fails the test with the output of what failed.
func must(t *testing.T, out string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// operator is the Deployment as it is stored.
func operator(t *testing.T, c *cluster.Cluster) *appsv1.Deployment {
	t.Helper()
	out := &appsv1.Deployment{}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: manager}, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// runs says what is wrong with the image and the flags of the operator.
func runs(d *appsv1.Deployment, with, without []string) error {
	container := d.Spec.Template.Spec.Containers[0]
	var failed error
	if container.Image != image {
		failed = fmt.Errorf("it runs the image %s", container.Image)
	}
	for _, flag := range with {
		if !slices.Contains(container.Args, flag) {
			failed = errors.Join(failed, fmt.Errorf("it runs without %s", flag))
		}
	}
	for _, flag := range without {
		if slices.Contains(container.Args, flag) {
			failed = errors.Join(failed, fmt.Errorf("it runs with %s", flag))
		}
	}
	return failed
}

// TestComponentsCombine switches the parts of config/components on and off, one after the other and together: neither the
// image nor a flag of another part is lost, and rights do not outlive the flag that they are for.
func TestComponentsCombine(t *testing.T) {
	c := cluster.Start(t)
	monitoringKinds(t, c)
	run := maker(t, c)
	if out, err := run("deploy"); err == nil || !strings.Contains(out, "IMG=") {
		t.Errorf("without an image: %v\n%s", err, out)
	}
	if out, err := run("deploy", "IMG="+image, "COMPONENTS=trusted no-such"); err == nil || !strings.Contains(out, `no component "no-such"`) {
		t.Errorf("with a component that is not there: %v\n%s", err, out)
	}
	if out, err := run("deploy", "IMG="+image, "CONTROLLERS=trustyai kserve"); err == nil || !strings.Contains(out, "component participant") {
		t.Errorf("with a controller that comes with a component: %v\n%s", err, out)
	}
	if out, err := run("deploy", "IMG="+image, "CONTROLLERS=trustyai", "COMPONENTS=trusted"); err == nil || !strings.Contains(out, "kubeflow or seldon") {
		t.Errorf("with rights for controllers that are off: %v\n%s", err, out)
	}
	var base []string
	for _, step := range []struct {
		components    string
		with, without []string
	}{
		{"", []string{"--leader-elect"}, slices.Concat(trusted, participant)},
		{"trusted", trusted, participant},
		{"trusted participant", slices.Concat(trusted, participant), nil},
		{"participant disruption-budget", participant, trusted},
		{strings.Join(allComponents(t), " "), slices.Concat(trusted, participant), nil},
		{"", nil, slices.Concat(trusted, participant)},
	} {
		out, err := run("deploy", "IMG="+image, "COMPONENTS="+step.components)
		must(t, out, err)
		if err := has(c, "mlkeeper-kserve", strings.Contains(step.components, "participant")); err != nil {
			t.Errorf("with %q: %v", step.components, err)
		}
		d := operator(t, c)
		if base == nil {
			base = d.Spec.Template.Spec.Containers[0].Args
		}
		if err := runs(d, slices.Concat(base, step.with), step.without); err != nil {
			t.Errorf("with %q: %v", step.components, err)
		}
		if want := int32(1 + strings.Count(step.components, "disruption-budget")); *d.Spec.Replicas != want {
			t.Errorf("with %q: %d replicas", step.components, *d.Spec.Replicas)
		}
		for _, v := range d.Spec.Template.Spec.Volumes {
			if v.ConfigMap == nil {
				continue
			}
			key := client.ObjectKey{Namespace: namespace, Name: v.ConfigMap.Name}
			if err := c.Client.Get(t.Context(), key, &corev1.ConfigMap{}); err != nil {
				t.Errorf("with %q: the volume %s: %v", step.components, v.Name, err)
			}
		}
		enforced(t, c, !strings.Contains(step.components, "trusted"))
		reader := c.Client.Get(t.Context(), client.ObjectKey{Name: "mlkeeper-metrics-reader"}, &rbacv1.ClusterRoleBinding{})
		if on := strings.Contains(step.components, "monitoring"); on != (reader == nil) || !on && !apierrors.IsNotFound(reader) {
			t.Errorf("with %q: the binding of who reads the metrics: %v", step.components, reader)
		}
		if err := alerted(c, namespace, strings.Contains(step.components, "monitoring")); err != nil {
			t.Errorf("with %q: %v", step.components, err)
		}
		bound := &rbacv1.ClusterRoleBinding{}
		err = c.Client.Get(t.Context(), client.ObjectKey{Name: "mlkeeper-trusted"}, bound)
		if on := strings.Contains(step.components, "trusted"); on != (err == nil) || !on && !apierrors.IsNotFound(err) {
			t.Errorf("with %q: the binding to cluster-admin: %v", step.components, err)
		} else if on && bound.Subjects[0].Namespace != namespace {
			t.Errorf("cluster-admin is bound to a ServiceAccount in %s", bound.Subjects[0].Namespace)
		}
	}
}

// enforced: the admission policies deny what the operator never does. An operator that is trusted writes objects of all kinds, which they
// then only note in the audit log.
func enforced(t *testing.T, c *cluster.Cluster, deny bool) {
	t.Helper()
	want := admissionv1.Audit
	if deny {
		want = admissionv1.Deny
	}
	list := &admissionv1.ValidatingAdmissionPolicyBindingList{}
	if err := c.Client.List(t.Context(), list); err != nil || len(list.Items) == 0 {
		t.Fatalf("%d bindings of admission policies: %v", len(list.Items), err)
	}
	for i := range list.Items {
		if got := list.Items[i].Spec.ValidationActions; !slices.Equal(got, []admissionv1.ValidationAction{want}) {
			t.Errorf("the binding %s has the actions %v, not %s", list.Items[i].Name, got, want)
		}
	}
}

// alerted says that the objects of the Prometheus operator are there, as they should be or not be.
func alerted(c *cluster.Cluster, in string, wanted bool) error {
	for _, kind := range monitored {
		o := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "monitoring.coreos.com/v1", Kind: kind}}
		err := c.Client.Get(context.Background(), client.ObjectKey{Namespace: in, Name: "mlkeeper"}, o)
		if wanted != (err == nil) || !wanted && !apierrors.IsNotFound(err) {
			return fmt.Errorf("the %s: %w", kind, err)
		}
	}
	return nil
}

// has says that a ClusterRole is there, with its binding, as it should be or not be.
func has(c *cluster.Cluster, role string, wanted bool) error {
	for _, o := range []client.Object{&rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}} {
		err := c.Client.Get(context.Background(), client.ObjectKey{Name: role}, o)
		if wanted != (err == nil) || !wanted && !apierrors.IsNotFound(err) {
			return fmt.Errorf("%T %s: %w", o, role, err)
		}
	}
	return nil
}

// TestControllersAreSwitchedOff deploys all controllers and then one: the rights of the others go, and their definitions stay with all
// custom resources.
func TestControllersAreSwitchedOff(t *testing.T) {
	c := cluster.Start(t)
	run := maker(t, c)
	all := []string{"trustyai", "tfserving", "kubeflow", "seldon"}
	for _, on := range [][]string{all, {"trustyai"}, {"kubeflow", "tfserving"}} {
		out, err := run("deploy", "IMG="+image, "CONTROLLERS="+strings.Join(on, " "))
		must(t, out, err)
		var with, without []string
		for _, controller := range all {
			if flag := "--controllers=" + controller; slices.Contains(on, controller) {
				with = append(with, flag)
			} else {
				without = append(without, flag)
			}
			if err := has(c, "mlkeeper-"+controller, slices.Contains(on, controller)); err != nil {
				t.Errorf("with %v: %v", on, err)
			}
		}
		if err := runs(operator(t, c), with, without); err != nil {
			t.Errorf("with %v: %v", on, err)
		}
		// The proxies of Secured services, which keep running, are bound to it.
		if err := c.Client.Get(t.Context(), client.ObjectKey{Name: "mlkeeper-trustyai-proxy"}, &rbacv1.ClusterRole{}); err != nil {
			t.Errorf("with %v: the role of the proxies: %v", on, err)
		}
		for _, controller := range all {
			for _, definition := range build(t, filepath.Join("crd", controller)) {
				if d := definitionOf(t, c, definition.GetName()); d == nil || d.DeletionTimestamp != nil {
					t.Errorf("with %v: the definition %s is not there", on, definition.GetName())
				}
			}
		}
	}
}

// TestAllOfADeploymentIsInItsNamespace renders every component for another namespace, in which all of it has to be, and
// whose ServiceAccount all bindings have to name.
func TestAllOfADeploymentIsInItsNamespace(t *testing.T) {
	c := cluster.Start(t)
	monitoringKinds(t, c)
	run := maker(t, c)
	out, err := run("deploy", "IMG="+image, "NAMESPACE=elsewhere", "COMPONENTS="+strings.Join(allComponents(t), " "))
	must(t, out, err)
	t.Cleanup(func() {
		out, err := run("undeploy", "NAMESPACE=elsewhere")
		must(t, out, err)
		// What the control plane makes of the definitions goes a moment after them.
		cluster.Eventually(t, time.Minute, func() error {
			all, err := c.Everything(context.WithoutCancel(t.Context()))
			for _, o := range all {
				if strings.Contains(o.Name, "mlkeeper") {
					err = errors.Join(err, fmt.Errorf("make undeploy leaves %s", o))
				}
			}
			return err
		})
	})
	all, err := c.Everything(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		if o.Namespace != "" && o.Namespace != "elsewhere" && strings.Contains(o.Name, "mlkeeper") {
			t.Errorf("%s is not in the namespace", o)
		}
	}
	bindings := &rbacv1.ClusterRoleBindingList{}
	if err := c.Client.List(t.Context(), bindings); err != nil {
		t.Fatal(err)
	}
	for i := range bindings.Items {
		for _, s := range bindings.Items[i].Subjects {
			if s.Name == manager && s.Namespace != "elsewhere" {
				t.Errorf("%s binds the ServiceAccount of %s", bindings.Items[i].Name, s.Namespace)
			}
		}
	}
}

// agrees: somebody who declares the same, such as a GitOps tool, disagrees with nobody: what the API server fills in is no other value.
func agrees(t *testing.T, c *cluster.Cluster, manifests ...string) {
	t.Helper()
	apply := []string{"apply", "--server-side", "--dry-run=server", "--field-manager=another"}
	if out, err := c.TryKubectl(append(apply, manifests...)...); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestInstallFileAndDeployMix applies config/install.yaml and runs make deploy, in this order and with every way to apply: none
// meets a conflict, and the operator ends with the image and the flags of the last.
func TestInstallFileAndDeployMix(t *testing.T) {
	for name, apply := range map[string][]string{
		"client-side": {"apply"}, "server-side": {"apply", "--server-side"},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster.Start(t)
			run := maker(t, c)
			root, err := cluster.Root()
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(root, "config", "install.yaml")
			c.Kubectl(t, append(apply, "-f", file)...)
			agrees(t, c, "-f", file)
			c.Kubectl(t, append(apply, "-f", file)...)
			monitoringKinds(t, c)
			for _, components := range []string{"", strings.Join(allComponents(t), " "), "trusted"} {
				out, err := run("deploy", "IMG="+image, "COMPONENTS="+components)
				must(t, out, err)
				agrees(t, c, "-k", filepath.Join(root, "bin", "deploy"))
			}
			if err := runs(operator(t, c), trusted, participant); err != nil {
				t.Error(err)
			}
		})
	}
}
