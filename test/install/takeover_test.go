package install

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/internal/pki"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/harness"
)

const tasDefinition = "trustyaiservices.trustyai.opendatahub.io"

// applier is a way in which definitions come into a cluster.
type applier struct {
	name string
	args []string
}

// appliers are kubectl, Open Data Hub's operator, and kubectl under the name that make has, too: what that applied is removed where it applies a
// file without it.
var appliers = []applier{
	{"client-side", []string{"apply"}},
	{"server-side", []string{"apply", "--server-side", "--field-manager=opendatahub-operator"}},
	{"server-side by kubectl", []string{"apply", "--server-side"}},
}

// webhook is upstream's operator as far as the API server sees it: a Service with a pod that is ready.
const webhook = `apiVersion: v1
kind: Namespace
metadata: {name: opendatahub}
---
apiVersion: v1
kind: Service
metadata: {name: trustyai-webhook-service, namespace: opendatahub}
spec: {selector: {control-plane: trustyai-service-operator}, ports: [{port: 443, targetPort: 9443}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: trustyai-service-operator-controller-manager, namespace: opendatahub}
spec:
  selector: {matchLabels: {control-plane: trustyai-service-operator}}
  template:
    metadata: {labels: {control-plane: trustyai-service-operator}}
    spec: {containers: [{name: manager, image: "quay.io/trustyai/trustyai-service-operator:v1.39.0"}]}
`

// webhookAnswers starts upstream's operator, or stops it, and waits until the API server reaches its webhook, or no longer.
func webhookAnswers(t *testing.T, c *cluster.Cluster, answers bool) {
	t.Helper()
	replicas, want := "0", ""
	if answers {
		replicas, want = "1", "true"
	}
	c.Kubectl(t, "-n", "opendatahub", "scale", "deployment", "trustyai-service-operator-controller-manager", "--replicas="+replicas)
	cluster.Eventually(t, 2*time.Minute, func() error {
		ready := c.Kubectl(t, "-n", "opendatahub", "get", "endpointslices", "-o", "jsonpath={.items[*].endpoints[*].conditions.ready}")
		if ready != want {
			return fmt.Errorf("endpoints are ready: %q, not %q", ready, want)
		}
		return nil
	})
}

func definitionOf(t *testing.T, c *cluster.Cluster, name string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	out := &apiextensionsv1.CustomResourceDefinition{}
	if !found(t, c, name, out) {
		return nil
	}
	return out
}

// found reads an object of the cluster, if it is there.
func found(t *testing.T, c *cluster.Cluster, name string, out client.Object) bool {
	t.Helper()
	err := c.Client.Get(t.Context(), client.ObjectKey{Name: name}, out)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return err == nil
}

// takenOver is what a test compares before and after: the objects with their UIDs, and a child of each.
type takenOver struct {
	*original
	objects []*unstructured.Unstructured
	// children are UIDs and resourceVersions by the name of the owner.
	children map[string]string
}

// stands puts an original into a cluster, and a child below each of its objects.
func stands(t *testing.T, c *cluster.Cluster, o original, apply ...string) *takenOver {
	t.Helper()
	o.stand(t, c, apply...)
	out := &takenOver{original: &o, children: map[string]string{}}
	for _, r := range o.releases {
		objects, err := cluster.Parse(r.objects)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range objects {
			// Upstream's webhook converts nothing here, so the UID is read in the version in which the object is stored.
			uid := c.Kubectl(t, "get", o.resource(u.GroupVersionKind().Version), u.GetName(), "-o", "jsonpath={.metadata.uid}")
			u.SetUID(types.UID(uid))
			out.objects = append(out.objects, u)
			c.Apply(t, fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata:
  name: child-of-%[1]s
  namespace: default
  ownerReferences: [{apiVersion: %[2]s, kind: %[3]s, name: %[1]s, uid: %[4]s, controller: true, blockOwnerDeletion: true}]
data: {a: "1"}
`, u.GetName(), u.GetAPIVersion(), u.GetKind(), uid))
			out.children[u.GetName()] = childOf(t, c, u.GetName())
		}
	}
	return out
}

func childOf(t *testing.T, c *cluster.Cluster, name string) string {
	t.Helper()
	return c.Kubectl(t, "get", "configmap", "child-of-"+name, "-o", "jsonpath={.metadata.uid} {.metadata.resourceVersion}")
}

// check says what is missing of MLKeeper's definitions, or wrong with them: every version reads and writes every object, which is as it
// was, and nothing happened to children.
func (o *takenOver) check(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	if definitionOf(t, c, "inventories.keeper.mlkeeper.dev") == nil {
		t.Error("the definition of Inventory is not there")
	}
	d := definitionOf(t, c, o.definition)
	if d.Spec.Conversion.Strategy != apiextensionsv1.NoneConverter || d.Spec.PreserveUnknownFields {
		t.Errorf("%s converts by %s, and preserves unknown fields: %t", o.definition, d.Spec.Conversion.Strategy, d.Spec.PreserveUnknownFields)
	}
	if d.Labels["app.kubernetes.io/part-of"] != "mlkeeper" || d.Annotations["controller-gen.kubebuilder.io/version"] == "v0.20.0" {
		t.Errorf("%s is the original's: %v %v", o.definition, d.Labels, d.Annotations)
	}
	if !slices.Equal(d.Status.StoredVersions, o.stored) {
		t.Errorf("%s: the stored versions are %v, want %v", o.definition, d.Status.StoredVersions, o.stored)
	}
	for _, version := range o.versions {
		for i, was := range o.objects {
			o.readAndWrite(t, c, version, was, fmt.Sprintf("%d%ds", d.Generation, i+1))
		}
	}
	for name, was := range o.children {
		if now := childOf(t, c, name); now != was {
			t.Errorf("the child of %s was %s, and is %s", name, was, now)
		}
	}
}

// readAndWrite compares an object in one version with what was stored, changes it, and changes it back.
func (o *takenOver) readAndWrite(t *testing.T, c *cluster.Cluster, version string, was *unstructured.Unstructured, value string) {
	t.Helper()
	now := o.read(t, c, version, was)
	want, _ := was.Object["spec"].(map[string]any)
	have, _ := now.Object["spec"].(map[string]any)
	if now.GetUID() != was.GetUID() || !holds(have, want) {
		t.Errorf("%s %s is %v with UID %s, and was %v with %s", o.resource(version), was.GetName(), have, now.GetUID(), want, was.GetUID())
	}
	before := o.value(t, now)
	for _, value := range []string{value, before} {
		patch := fmt.Sprintf(o.change, value)
		if before == "" && value == "" {
			patch = strings.Replace(patch, `""`, "null", 1)
		}
		if err := c.Client.Patch(t.Context(), now, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
		for _, other := range o.versions {
			if read := o.value(t, o.read(t, c, other, was)); read != value {
				t.Errorf("%s %s was written as %s in %s, and is %s", o.resource(other), was.GetName(), value, version, read)
			}
		}
	}
}

// read reads an object in one version. The API server takes a moment until a definition that has changed is what it serves.
func (o *takenOver) read(t *testing.T, c *cluster.Cluster, version string, was *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	now := &unstructured.Unstructured{}
	now.SetGroupVersionKind(schema.GroupVersionKind{Group: o.group, Version: version, Kind: was.GetKind()})
	cluster.Eventually(t, time.Minute, func() error {
		return c.Client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: was.GetName()}, now)
	})
	return now
}

// value is what an object has in the field that users change.
func (o *takenOver) value(t *testing.T, u *unstructured.Unstructured) string {
	t.Helper()
	value, _, err := unstructured.NestedString(u.Object, strings.Split(o.path, ".")...)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// holds says that a value has all of another one: further fields are those that MLKeeper's schema defaults.
func holds(have, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		all, ok := have.(map[string]any)
		for field, value := range want {
			ok = ok && holds(all[field], value)
		}
		return ok
	case []any:
		all, ok := have.([]any)
		ok = ok && len(all) == len(want)
		for i := 0; ok && i < len(want); i++ {
			ok = holds(all[i], want[i])
		}
		return ok
	}
	return reflect.DeepEqual(have, want)
}

// sampled applies the sample that the README begins with, which is of the version that is not stored.
func sampled(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	c.Kubectl(t, "apply", "-f", filepath.Join(root, "config", "samples", "trustyai-service.yaml"))
	c.Kubectl(t, "get", "trustyaiservices.v1alpha1.trustyai.opendatahub.io", "trustyai-service-example")
}

// TestMakeOverUpstreamsDefinition installs over the definition of the upstream operator, however that was applied. While its webhook
// answers, the operator runs: nothing is written without FORCE=1. Once that is gone, the definition is adopted without more.
func TestMakeOverUpstreamsDefinition(t *testing.T) {
	c := cluster.Start(t)
	run := maker(t, c)
	c.Apply(t, webhook)
	for i, by := range appliers {
		for _, answers := range []bool{true, false} {
			if !answers && i > 0 && !*everyWay {
				continue
			}
			t.Run(fmt.Sprintf("%s, webhook answers %t", by.name, answers), func(t *testing.T) {
				webhookAnswers(t, c, answers)
				o := stands(t, c, trustyaiService, by.args...)
				injectAuthority(t, c, answers)
				checksAlike(t, c, o.definition, answers)
				force := "FORCE="
				if answers {
					nothingIsInstalled(t, c, run)
					force = "FORCE=1"
				}
				out, err := run("install", force)
				must(t, out, err)
				if !strings.Contains(out, tasDefinition+" is another operator's") {
					t.Errorf("it does not say what it changes:\n%s", out)
				}
				o.check(t, c)
				sampled(t, c)
				// It can be run again, and there is nothing to adopt any more.
				for _, args := range [][]string{{"install"}, {"deploy", "IMG=" + image}} {
					out, err = run(args...)
					must(t, out, err)
					if strings.Contains(out, "another operator's") {
						t.Errorf("make %v adopts again:\n%s", args, out)
					}
					o.check(t, c)
				}
				checksWell(t, c)
				o.prune(t, c)
				c.DeleteDefinitions(t)
				c.Kubectl(t, "-n", namespace, "delete", "deployment", "--all")
			})
		}
	}
}

// injectAuthority has the authority of the webhook's certificate in upstream's definition, as OpenShift's service-ca writes it at the annotation
// service.beta.openshift.io/inject-cabundle (trustyai-service-operator at 11c335b, config/components/tas/patches). While the webhook answers, the
// devcluster writes that of the pod, and puts it in the place of any other.
func injectAuthority(t *testing.T, c *cluster.Cluster, answers bool) {
	t.Helper()
	if answers {
		cluster.Eventually(t, time.Minute, func() error {
			for _, m := range definitionOf(t, c, tasDefinition).ManagedFields {
				if m.Manager == "cainjector" {
					return nil
				}
			}
			return fmt.Errorf("nobody has written the caBundle of %s", tasDefinition)
		})
		return
	}
	pair, err := pki.NewServer(rand.Reader, time.Now(), nil, "service-ca", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Kubectl(t, "patch", "crd", tasDefinition, "--type=merge", "--field-manager=service-ca-operator", "-p",
		fmt.Sprintf(`{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":%q}}}}}`, base64.StdEncoding.EncodeToString(pair.CertPEM)))
}

// nothingIsInstalled: make says why, and how to go on, and neither writes upstream's definition nor another one.
func nothingIsInstalled(t *testing.T, c *cluster.Cluster, run func(args ...string) (string, error)) {
	t.Helper()
	before := definitionOf(t, c, tasDefinition)
	for _, args := range [][]string{{"install"}, {"deploy", "IMG=" + image}} {
		out, err := run(args...)
		for _, part := range []string{tasDefinition, "opendatahub/trustyai-webhook-service", "FORCE=1"} {
			if err == nil || !strings.Contains(out, part) {
				t.Errorf("make %v: %v\n%s", args, err, out)
			}
		}
		if definitionOf(t, c, "inventories.keeper.mlkeeper.dev") != nil {
			t.Errorf("make %v installed the half", args)
		}
		if now := definitionOf(t, c, tasDefinition); now.ResourceVersion != before.ResourceVersion {
			t.Errorf("make %v changed upstream's definition", args)
		}
	}
}

// prune does what docs/operations.md says to have no object stored in v1alpha1 any more.
func (o *takenOver) prune(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	file := filepath.Join(c.Dir, "all.json")
	if err := os.WriteFile(file, []byte(c.Kubectl(t, "get", "trustyaiservices.v1.trustyai.opendatahub.io", "-A", "-o", "json")), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Kubectl(t, "replace", "-f", file)
	c.Kubectl(t, "patch", "crd", tasDefinition, "--subresource=status", "--type=merge", "-p", `{"status":{"storedVersions":["v1"]}}`)
	pruned := *o.original
	pruned.stored = []string{"v1"}
	(&takenOver{original: &pruned, objects: o.objects, children: o.children}).check(t, c)
}

// everyWay is set by make test-chart and make test-original.
var everyWay = flag.Bool("install.every-way", false, "apply each original in each way; without it each way is taken, with some of the originals")

// TestMakeOverTheOtherDefinitions installs over the definitions of the other originals, which have no webhook, however they were applied.
func TestMakeOverTheOtherDefinitions(t *testing.T) {
	c := cluster.Start(t)
	run := maker(t, c)
	for i, name := range slices.Sorted(maps.Keys(originals)) {
		o, ways := originals[name], appliers
		if !*everyWay {
			ways = ways[i%len(ways):][:1]
		}
		for _, by := range ways {
			t.Run(name+", "+by.name, func(t *testing.T) {
				t.Cleanup(func() { c.DeleteDefinitions(t) })
				old := stands(t, c, o, by.args...)
				checksAlike(t, c, o.definition, false)
				for range 2 {
					out, err := run("install")
					must(t, out, err)
					old.check(t, c)
				}
			})
		}
	}
}

// TestMakeOverAnotherToolsDefinitions: fields of MLKeeper's own definitions that another tool has applied are taken with FORCE=1 only.
func TestMakeOverAnotherToolsDefinitions(t *testing.T) {
	c := cluster.Start(t)
	run := maker(t, c)
	out, err := run("install")
	must(t, out, err)
	c.Kubectl(t, "apply", "--server-side", "--force-conflicts", "--field-manager=argocd-controller", "-f", writeFile(t, c, `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: `+tasDefinition+`, annotations: {controller-gen.kubebuilder.io/version: v0.24.0}}
`))
	// Until it is served the API server writes its status.
	c.AwaitServed(t, tasDefinition)
	before := definitionOf(t, c, tasDefinition)
	for _, force := range []string{"", "0"} {
		if out, err := run("install", "FORCE="+force); err == nil || !strings.Contains(out, "argocd-controller") || !strings.Contains(out, "FORCE=1") {
			t.Errorf("FORCE=%s: %v\n%s", force, err, out)
		}
	}
	if now := definitionOf(t, c, tasDefinition); now.ResourceVersion != before.ResourceVersion {
		t.Error("it was written")
	}
	out, err = run("install", "FORCE=1")
	must(t, out, err)
	if now := definitionOf(t, c, tasDefinition); now.Annotations["controller-gen.kubebuilder.io/version"] == "v0.24.0" {
		t.Errorf("the annotations are %v", now.Annotations)
	}
}

func writeFile(t *testing.T, c *cluster.Cluster, text string) string {
	t.Helper()
	file := filepath.Join(c.Dir, "written.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestInstallFileOverUpstreamsDefinition applies config/install.yaml, whose objects kubectl applies one by one. No way to apply it
// leaves a version that nobody can read: the API server refuses the definition, the manager tells so, and the two commands
// that docs/operations.md has put it right.
func TestInstallFileOverUpstreamsDefinition(t *testing.T) {
	c := cluster.Start(t)
	old := stands(t, c, trustyaiService, appliers[1].args...)
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, "config", "install.yaml")
	for _, apply := range [][]string{{"apply"}, {"apply", "--server-side"}, {"apply", "--server-side", "--force-conflicts"}} {
		out, err := c.TryKubectl(append(apply, "-f", file)...)
		if err == nil || !strings.Contains(err.Error()+out, "spec.conversion") && !strings.Contains(err.Error()+out, "conflict") {
			t.Errorf("%v: %v\n%s", apply, err, out)
		}
		if d := definitionOf(t, c, tasDefinition); d.Annotations["controller-gen.kubebuilder.io/version"] != "v0.20.0" {
			t.Errorf("%v: the definition is MLKeeper's, and its conversion %s", apply, d.Spec.Conversion.Strategy)
		}
	}

	ctx, stop := context.WithCancel(t.Context())
	operator, ended, err := harness.Run(ctx, c, harness.Options{}, fixture.Controller())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	cluster.Eventually(t, 90*time.Second, func() error {
		if err := operator.Engine.Ready(); err == nil || !strings.Contains(err.Error(), "opendatahub/trustyai-webhook-service") {
			return fmt.Errorf("ready over upstream's definition: %w", err)
		}
		return nil
	})
	c.Kubectl(t, "patch", "crd", tasDefinition, "--type=json", "-p", `[{"op":"replace","path":"/spec/conversion","value":{"strategy":"None"}}]`)
	c.Kubectl(t, "apply", "--server-side", "--force-conflicts", "-f", file)
	old.check(t, c)
	sampled(t, c)
	cluster.Eventually(t, 90*time.Second, operator.Engine.Ready)
}
