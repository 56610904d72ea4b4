package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"mlkeeper.dev/config/crd"
)

const tasDefinition = "trustyaiservices.trustyai.opendatahub.io"

var (
	definitionGVK = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	sliceGVK      = schema.GroupVersionKind{Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSlice"}
	odhGVK        = schema.GroupVersionKind{Group: "datasciencecluster.opendatahub.io", Version: "v2", Kind: "DataScienceCluster"}
)

// shipped is a definition of this release as it stands in a cluster after an installation.
func shipped(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	all, err := readDefinitions(crd.Definitions)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(all, func(d shippedDefinition) bool { return d.object.GetName() == name })
	u := all[at].object
	u.SetLabels(map[string]string{partOf: "mlkeeper"})
	versions, _ := versionsOf(u)
	setField(t, u, []any{map[string]any{"type": "Established", "status": "True"}}, "status", "conditions")
	setField(t, u, []any{versions[0]}, "status", "storedVersions")
	setField(t, u, map[string]any{"strategy": "None"}, "spec", "conversion")
	return u
}

func setField(t *testing.T, u *unstructured.Unstructured, value any, fields ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(u.Object, value, fields...); err != nil {
		t.Fatal(err)
	}
}

// theirs is the definition of TrustyAI as the upstream operator has it.
func theirs(t *testing.T, change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	t.Helper()
	u := shipped(t, tasDefinition)
	u.SetLabels(nil)
	setField(t, u, map[string]any{"strategy": "Webhook", "webhook": map[string]any{
		"clientConfig": map[string]any{"service": map[string]any{"namespace": "opendatahub", "name": "hook"}},
	}}, "spec", "conversion")
	setField(t, u, []any{map[string]any{"manager": "opendatahub-operator", "operation": "Apply"}, map[string]any{"manager": "kube-apiserver", "subresource": "status"}},
		"metadata", "managedFields")
	setField(t, u, []any{"v1alpha1", "v1"}, "status", "storedVersions")
	for _, f := range change {
		f(u)
	}
	return u
}

func endpoints(ready bool) *unstructured.Unstructured {
	u := object(sliceGVK, "opendatahub", "hook-x", map[string]any{
		"endpoints": []any{map[string]any{"conditions": map[string]any{"ready": ready}}},
	})
	u.SetLabels(map[string]string{"kubernetes.io/service-name": "hook"})
	return u
}

// checked is a cluster for check, in which the reviews of rights allow what may says.
func checked(t *testing.T, may func(user, verb, resource string) bool, objects ...*unstructured.Unstructured) *cluster {
	t.Helper()
	c, dyn := fakeCluster(t, append(slices.Clone(statusKinds), definitionGVK, sliceGVK, odhGVK), objects...)
	c.version = func(context.Context) (*apiversion.Info, error) {
		return &apiversion.Info{GitVersion: "v1.36.2+k3s1"}, nil
	}
	reviewing(dyn, may)
	return c
}

func reviewing(dyn *dynamicfake.FakeDynamicClient, may func(user, verb, resource string) bool) {
	dyn.PrependReactor("create", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		u := a.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured).DeepCopy()
		user, _, _ := unstructured.NestedString(u.Object, "spec", "user")
		verb, _, _ := unstructured.NestedString(u.Object, "spec", "resourceAttributes", "verb")
		resource, _, _ := unstructured.NestedString(u.Object, "spec", "resourceAttributes", "resource")
		return true, u, unstructured.SetNestedField(u.Object, may(user, verb, resource), "status", "allowed")
	})
}

func everything(string, string, string) bool { return true }

// checks are those of a report by their subject.
func checks(t *testing.T, c *cluster, wantStatus int, args ...string) map[string]Check {
	t.Helper()
	stdout, stderr, err := run(t, NewCheckCommand(environment(fakeController{}, c)), "", append(args, "-o", "json")...)
	var report CheckReport
	if status(err) != wantStatus || json.Unmarshal([]byte(stdout), &report) != nil {
		t.Fatalf("%v: %v\n%s%s", args, err, stdout, stderr)
	}
	out := map[string]Check{}
	for _, one := range report.Checks {
		out[one.Subject] = one
	}
	return out
}

func expect(t *testing.T, got Check, state string, words ...string) {
	t.Helper()
	if got.State != state {
		t.Errorf("%s is %q and not %q: %s", got.Subject, got.State, state, got.Message)
	}
	for _, word := range words {
		if !strings.Contains(got.Message, word) {
			t.Errorf("%s does not say %q: %s", got.Subject, word, got.Message)
		}
	}
}

func TestCheckBeforeAnInstallation(t *testing.T) {
	c := checked(t, everything)
	all := checks(t, c, 0, "--pre")
	expect(t, all["Kubernetes"], checkOK, "v1.36.2")
	expect(t, all["rights"], checkOK)
	for _, name := range []string{tasDefinition, "inventories.keeper.mlkeeper.dev", "kfdefs.kfdef.apps.kubeflow.org"} {
		expect(t, all[name], checkChange, "make install creates it")
	}
	if one := checks(t, c, 0, "--pre", "--controller", "trustyai"); one["kfdefs.kfdef.apps.kubeflow.org"].State != "" || one[tasDefinition].State == "" {
		t.Errorf("--controller does not limit the definitions: %v", one)
	}
	for version, want := range map[string]string{"v1.33.9": "older than 1.34", "v1.37.0-alpha.1": "newer than 1.36", "v2.0.0": "newer than 1.36"} {
		c.version = func(context.Context) (*apiversion.Info, error) { return &apiversion.Info{GitVersion: version}, nil }
		expect(t, checks(t, c, 1, "--pre")["Kubernetes"], checkProblem, version, want)
	}
	for _, version := range []string{"v1.34.0", "v1.35.2-gke.1", "v1.36.11"} {
		c.version = func(context.Context) (*apiversion.Info, error) { return &apiversion.Info{GitVersion: version}, nil }
		expect(t, checks(t, c, 0, "--pre")["Kubernetes"], checkOK, version)
	}
	for _, args := range [][]string{{"--controller", "trustyai"}, {"--pre", "--controller", "nobody"}, {"-o", "yaml"}} {
		if _, _, err := run(t, NewCheckCommand(environment(fakeController{}, c)), "", args...); status(err) != 1 {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// TestSupportedReleasesAreTheSameEverywhere compares the supported releases with the control plane of the tests, what the chart refuses and the pages.
func TestSupportedReleasesAreTheSameEverywhere(t *testing.T) {
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for name, want := range map[string]string{
		"devcluster/go.mod": "\tk8s.io/kubernetes v" + newest.String() + ".",
		"devcluster/versions/" + oldest.String() + ".mod": "\tk8s.io/kubernetes v" + oldest.String() + ".",
		"charts/mlkeeper/Chart.yaml":                      "kubeVersion: \">=" + oldest.String() + ".0-0\"",
		"charts/mlkeeper/README.md":                       "Kubernetes " + oldest.String() + " or later",
		"docs/cli.md":                                     oldest.String() + " to " + newest.String(),
		"docs/releases.md":                                oldest.String() + " to " + newest.String(),
	} {
		if !strings.Contains(read(name), want) {
			t.Errorf("%s does not say %q", name, want)
		}
	}
	if oldest.Major() != newest.Major() || oldest.Minor()+2 != newest.Minor() {
		t.Errorf("%s to %s are not three minor releases", oldest, newest)
	}
}

func TestCheckOverAnotherOperatorsDefinition(t *testing.T) {
	all := checks(t, checked(t, everything, theirs(t), endpoints(true)), 1, "--pre")
	expect(t, all[tasDefinition], checkProblem, "opendatahub/hook", "stop that operator", "FORCE=1")
	if d := all[tasDefinition].Definition; d.Stands != standsForeign || !d.Answers || !slices.Equal(d.Managers, []string{"opendatahub-operator"}) {
		t.Errorf("the definition is %+v", d)
	}
	for name, objects := range map[string][]*unstructured.Unstructured{
		"no pod is ready": {theirs(t), endpoints(false)}, "no Service": {theirs(t)},
	} {
		all := checks(t, checked(t, everything, objects...), 0, "--pre")
		t.Log(name)
		expect(t, all[tasDefinition], checkChange, "adopts it", "opendatahub-operator", "objects stay", "v1alpha1 and v1")
	}
	url := theirs(t, func(u *unstructured.Unstructured) {
		setField(t, u, map[string]any{"url": "https://hook.example.com/convert"}, "spec", "conversion", "webhook", "clientConfig")
	})
	expect(t, checks(t, checked(t, everything, url), 1, "--pre")[tasDefinition], checkProblem, "https://hook.example.com/convert")
	lost := theirs(t, func(u *unstructured.Unstructured) {
		setField(t, u, []any{"v1", "v1alpha0"}, "status", "storedVersions")
	})
	expect(t, checks(t, checked(t, everything, lost), 1, "--pre")[tasDefinition], checkProblem, "v1alpha0", "status.storedVersions")
	owned := theirs(t, func(u *unstructured.Unstructured) {
		setField(t, u, []any{map[string]any{"kind": "TrustyAI", "name": "default-trustyai", "apiVersion": "x/v1", "uid": "1"}}, "metadata", "ownerReferences")
	})
	expect(t, checks(t, checked(t, everything, owned), 0, "--pre")[tasDefinition], checkWarning, "TrustyAI default-trustyai")
	odh := object(odhGVK, "", "default-dsc", map[string]any{"spec": map[string]any{"components": map[string]any{"trustyai": map[string]any{"managementState": "Managed"}}}})
	expect(t, checks(t, checked(t, everything, odh), 1, "--pre")["DataScienceCluster default-dsc"], checkProblem, "Removed")
	setField(t, odh, "Removed", "spec", "components", "trustyai", "managementState")
	if all := checks(t, checked(t, everything, odh), 0, "--pre"); all["DataScienceCluster default-dsc"].State != "" {
		t.Errorf("%v", all)
	}
}

// TestCheckOfADefinitionThatIsBeingDeleted: whatever it is, it goes.
func TestCheckOfADefinitionThatIsBeingDeleted(t *testing.T) {
	for name, u := range map[string]*unstructured.Unstructured{"MLKeeper's": shipped(t, tasDefinition), "another operator's": theirs(t)} {
		now := metav1.Now()
		u.SetDeletionTimestamp(&now)
		u.SetFinalizers([]string{"customresourcecleanup.apiextensions.k8s.io"})
		got := checks(t, checked(t, everything, u), 1, "--pre")[tasDefinition]
		t.Log(name)
		expect(t, got, checkProblem, "is being deleted", "finalizers", "kubectl get "+tasDefinition+" -A")
		if !got.Definition.Deleting {
			t.Errorf("the definition is %+v", got.Definition)
		}
	}
}

// TestCheckWithoutTheRightToReadEndpoints says which right is missing, and takes the other operator for one that runs.
func TestCheckWithoutTheRightToReadEndpoints(t *testing.T) {
	c := checked(t, everything, theirs(t))
	c.dynamic.(*dynamicfake.FakeDynamicClient).PrependReactor("list", "endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Group: "discovery.k8s.io", Resource: "endpointslices"}, "", nil)
	})
	stdout, stderr, err := run(t, NewCheckCommand(environment(fakeController{}, c)), "", "--pre")
	for _, want := range []string{"warning " + tasDefinition + ": you may not list endpointslices.discovery.k8s.io", "stop that operator"} {
		if status(err) != 1 || !strings.Contains(stdout, want) {
			t.Errorf("%v: want %q:\n%s%s", err, want, stdout, stderr)
		}
	}
}

func TestCheckOfTheRightsToInstall(t *testing.T) {
	all := checks(t, checked(t, func(_, verb, resource string) bool {
		return verb != "*" && verb != "escalate" && resource != "deployments"
	}), 1, "--pre")
	expect(t, all["rights"], checkProblem, "get/create/patch/delete deployments.apps", "escalate clusterroles.rbac.authorization.k8s.io")
	all = checks(t, checked(t, func(_, verb, _ string) bool { return verb != "*" }), 0, "--pre")
	expect(t, all["rights"], checkOK)
}

// TestRightsToInstallAreThoseOfTheManifests: whoever lacks a right to write one of the kinds in config/ is told before, and not by half an
// installation. The kinds of config/components are deleted where a component is off.
func TestRightsToInstallAreThoseOfTheManifests(t *testing.T) {
	has := func(gvk schema.GroupVersionKind, verbs ...string) {
		resource := resourceOf(gvk)
		for _, verb := range verbs {
			if !slices.ContainsFunc(installRules, func(r rule) bool {
				return r.group == gvk.Group && slices.Contains(r.resources, resource) && slices.Contains(r.verbs, verb)
			}) {
				t.Errorf("%s of %s.%s is not looked for", verb, resource, gvk.Group)
			}
		}
	}
	seen := map[schema.GroupVersionKind]bool{}
	for pattern, verbs := range map[string][]string{
		"install.yaml": {"get", "create", "patch"}, "components/*/*.yaml": {"get", "create", "patch", "delete"},
		"rbac/*/*.yaml": {"get", "create", "patch", "delete"}, "monitoring/reader/*.yaml": {"get", "delete"},
	} {
		files, err := filepath.Glob(filepath.Join("..", "..", "config", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for text := range strings.SplitSeq(string(raw), "\n---\n") {
				var one metav1.TypeMeta
				if err := yaml.Unmarshal([]byte(text), &one); err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				// Files that kustomize reads, and the participant's own one, are no objects.
				if gvk := one.GroupVersionKind(); gvk.Kind != "" && gvk.Group != "kustomize.config.k8s.io" {
					seen[gvk] = true
					has(gvk, verbs...)
				}
			}
		}
	}
	if len(seen) < 12 {
		t.Errorf("only %d kinds were seen: %v", len(seen), seen)
	}
	// What the component participant generates, and what hack/crds.sh reads.
	has(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "get", "create", "patch", "delete")
	has(sliceGVK, "list")
}

// TestCheckOfTheRolesInTheOperatorsOwnNamespace: they are asked for in that namespace alone, and those of a controller only where the manager runs
// it.
func TestCheckOfTheRolesInTheOperatorsOwnNamespace(t *testing.T) {
	const payloads, digests, leases = "Role mlkeeper-system/mlkeeper-kserve-payloads", "Role mlkeeper-system/mlkeeper-digest-key",
		"Role mlkeeper-system/mlkeeper-leader-election"
	checksWithout := func(status int, lacks func(namespace, verb, resource, name string) bool, controllers ...string) map[string]Check {
		objects := []*unstructured.Unstructured{managerOf(1, controllers...), shipped(t, "inventories.keeper.mlkeeper.dev"), shipped(t, tasDefinition)}
		for _, name := range []string{"compositiondefinitions", "compositionelements", "pendingorders"} {
			objects = append(objects, shipped(t, name+".keeper.mlkeeper.dev"))
		}
		c := checked(t, everything, objects...)
		c.dynamic.(*dynamicfake.FakeDynamicClient).PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
			u := a.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured).DeepCopy()
			asked, _, _ := unstructured.NestedStringMap(u.Object, "spec", "resourceAttributes")
			allowed := !lacks(asked["namespace"], asked["verb"], asked["resource"], asked["name"])
			return true, u, unstructured.SetNestedField(u.Object, allowed, "status", "allowed")
		})
		return checks(t, c, status)
	}
	all := checksWithout(1, func(namespace, verb, resource, name string) bool {
		return namespace == "mlkeeper-system" && resource == "secrets" && verb == "list" && name == ""
	}, "trustyai", "kserve")
	expect(t, all[payloads], checkProblem, "mlkeeper-controller-manager may not list secrets", "make deploy")
	expect(t, all[digests], checkOK)
	expect(t, all[leases], checkOK)
	expect(t, all["ClusterRole mlkeeper-engine"], checkOK)
	all = checksWithout(1, func(namespace, _, _, _ string) bool { return namespace != "" }, "trustyai")
	expect(t, all[leases], checkProblem, "get/list/create/update/delete leases.coordination.k8s.io, create/patch events")
	expect(t, all[digests], checkProblem, "may not get secrets, create secrets")
	if one, found := all[payloads]; found {
		t.Errorf("the manager runs no participant, and %q is asked for: %+v", payloads, one)
	}
	all = checksWithout(0, func(namespace, _, resource, _ string) bool {
		return namespace != "mlkeeper-system" && resource == "leases"
	}, "trustyai", "kserve")
	expect(t, all[payloads], checkOK)
}

// managerOf is the manager as config/ deploys it.
func managerOf(available int64, controllers ...string) *unstructured.Unstructured {
	args := []any{"manager", "--controllers="}
	for _, name := range controllers {
		args = append(args, "--controllers="+name)
	}
	u := object(deployGVK, "mlkeeper-system", "mlkeeper-controller-manager", map[string]any{
		"spec": map[string]any{"replicas": available, "template": map[string]any{"spec": map[string]any{
			"serviceAccountName": "mlkeeper-controller-manager", "containers": []any{map[string]any{"args": args}},
		}}},
		"status": map[string]any{"availableReplicas": available},
	})
	u.SetLabels(map[string]string{"app.kubernetes.io/name": "mlkeeper", "control-plane": "controller-manager"})
	return u
}

func TestCheckOfAnInstallation(t *testing.T) {
	const manager, role = "manager mlkeeper-system/mlkeeper-controller-manager", "ClusterRole mlkeeper-trustyai"
	installed := func() []*unstructured.Unstructured {
		return []*unstructured.Unstructured{managerOf(1, "trustyai"), shipped(t, tasDefinition), shipped(t, "inventories.keeper.mlkeeper.dev")}
	}
	all := checks(t, checked(t, everything, installed()...), 0)
	expect(t, all[manager], checkOK, "trustyai")
	expect(t, all[tasDefinition], checkOK, "of this release")
	expect(t, all[role], checkOK, "system:serviceaccount:mlkeeper-system:mlkeeper-controller-manager")
	if len(all) != 8 {
		t.Errorf("%d checks, although one controller runs: %v", len(all), all)
	}
	may := func(user, verb, resource string) bool {
		return user != "system:serviceaccount:mlkeeper-system:mlkeeper-controller-manager" || verb != "patch" || resource != "deployments"
	}
	expect(t, checks(t, checked(t, may, installed()...), 1)[role], checkProblem, "patch deployments.apps", "make deploy")
	expect(t, checks(t, checked(t, everything), 1)["manager"], checkProblem, "make deploy")
	expect(t, checks(t, checked(t, everything, managerOf(0, "trustyai")), 1)[manager], checkProblem, "describe deployment")
	expect(t, checks(t, checked(t, everything, managerOf(1, "trustyai")), 1)[tasDefinition], checkProblem, "not there")
	for want, change := range map[string]func(*unstructured.Unstructured){
		"another operator's": func(u *unstructured.Unstructured) { u.SetLabels(nil) },
		"of another release": func(u *unstructured.Unstructured) {
			_, versions := versionsOf(u)
			versions[0].(map[string]any)["additionalPrinterColumns"] = []any{}
			setField(t, u, versions, "spec", "versions")
		},
		"does not serve it": func(u *unstructured.Unstructured) { setField(t, u, []any{}, "status", "conditions") },
	} {
		objects := installed()
		change(objects[1])
		expect(t, checks(t, checked(t, everything, objects...), 1)[tasDefinition], checkProblem, want)
	}
}
