package tenants

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
)

// try does something in a namespace, for which NS stands in manifests. What it writes has no effect: the policies judge dry runs, too.
type try func(ctx context.Context, c client.Client, ns string) error

// attempt is something that the operator must not do, with the policy that refuses it; empty where several do.
type attempt struct {
	policy, name string
	try          try
}

func create(manifest string) try {
	return with(manifest, func(ctx context.Context, c client.Client, u *unstructured.Unstructured) error {
		return c.Create(ctx, u, client.DryRunAll)
	})
}

func remove(manifest string) try {
	return with(manifest, func(ctx context.Context, c client.Client, u *unstructured.Unstructured) error {
		return c.Delete(ctx, u, client.DryRunAll)
	})
}

func replace(manifest string) try {
	return with(manifest, func(ctx context.Context, c client.Client, u *unstructured.Unstructured) error {
		return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.DryRunAll, client.ForceOwnership, client.FieldOwner("mlkeeper"))
	})
}

func with(manifest string, do func(context.Context, client.Client, *unstructured.Unstructured) error) try {
	return func(ctx context.Context, c client.Client, ns string) error {
		objects, err := cluster.Parse(strings.ReplaceAll(manifest, "NS", ns))
		if err != nil {
			return err
		}
		return do(ctx, c, objects[0])
	}
}

// owned is the annotation of a child of a custom resource in a namespace.
func owned(namespace string) string {
	return `annotations: {keeper.mlkeeper.dev/owner: "TrustyAIService.trustyai.opendatahub.io/` + namespace + `/a"}`
}

const (
	head    = "apiVersion: v1\nkind: "
	rbac    = "apiVersion: rbac.authorization.k8s.io/v1\nkind: "
	proxy   = "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: mlkeeper-trustyai-proxy}\n"
	highest = "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}\n"
)

// others are objects of others that are there already.
const others = rbac + "ClusterRoleBinding\nmetadata: {name: NS-theirs}\nsubjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: theirs}]\n" + proxy +
	"---\n" + head + "ConfigMap\nmetadata: {name: theirs, namespace: NS}\n" +
	"---\n" + head + "ConfigMap\nmetadata: {name: wired, namespace: NS, annotations: {keeper.mlkeeper.dev/wiring: '{\"entries\":[]}'}}\n" +
	"---\n" + head + "ConfigMap\nmetadata: {name: elsewhere, namespace: NS}\n" +
	"---\n" + head + "Service\nmetadata: {name: theirs, namespace: NS}\nspec: {selector: {a: b}, ports: [{port: 80}]}\n"

func attempts() []attempt {
	subject := func(namespace string) string {
		return "subjects: [{kind: ServiceAccount, name: a-proxy, namespace: " + namespace + "}]\n"
	}
	binding := rbac + "ClusterRoleBinding\nmetadata: {name: 'mlkeeper:trustyai-proxy:NS:a'}\n"
	return append([]attempt{
		{"bindings", "bind another ClusterRole", create(binding + subject("NS") + highest)},
		{"bindings", "bind a ServiceAccount of another namespace", create(binding + subject("other") + proxy)},
		{"bindings", "bind a user", create(binding + "subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: u}]\n" + proxy)},
		{"bindings", "bind one more", create(binding + "subjects: [{kind: ServiceAccount, name: a-proxy, namespace: NS}, {kind: ServiceAccount, name: b, namespace: NS}]\n" + proxy)},
		{"bindings", "bind under a name of others", create(rbac + "ClusterRoleBinding\nmetadata: {name: somebody-NS-proxy-rolebinding}\n" + subject("NS") + proxy)},
		{"bindings", "write a binding of others", replace(rbac + "ClusterRoleBinding\nmetadata: {name: NS-theirs}\n" + subject("NS") + proxy)},
		{"deletions", "delete a binding of others", remove(rbac + "ClusterRoleBinding\nmetadata: {name: NS-theirs}\n")},
		{"deletions", "delete a ConfigMap of others", remove(head + "ConfigMap\nmetadata: {name: theirs, namespace: NS}\n")},
		{"deletions", "delete what it has only wired", remove(head + "ConfigMap\nmetadata: {name: wired, namespace: NS}\n")},
		{"deletions", "delete a child of another namespace's", remove(head + "ConfigMap\nmetadata: {name: elsewhere, namespace: NS}\n")},
		{"", "delete a namespace", remove(head + "Namespace\nmetadata: {name: NS}\n")},
		{"escalation", "bind a role in a namespace", create(rbac + "RoleBinding\nmetadata: {name: x, namespace: NS}\n" + subject("NS") + highest)},
		{"escalation", "write a role", create(rbac + "ClusterRole\nmetadata: {name: x}\n")},
		{"escalation", "create a pod", create(head + "Pod\nmetadata: {name: x, namespace: NS}\nspec: {containers: [{name: c, image: c}]}\n")},
		{"escalation", "create a DaemonSet", create(strings.NewReplacer("Deployment", "DaemonSet").Replace(pods("")))},
		{"escalation", "write a webhook", create("apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: x}\n")},
		{"escalation", "get a token", func(ctx context.Context, c client.Client, _ string) error {
			sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "default"}}
			return c.SubResource("token").Create(ctx, sa, &authenticationv1.TokenRequest{})
		}},
		{"ownership", "create what is for no custom resource", create(head + "ConfigMap\nmetadata: {name: x, namespace: NS}\n")},
		{"ownership", "create what is for a custom resource of another namespace", create(head + "ConfigMap\nmetadata: {name: x, namespace: NS, " + owned("other") + "}\n")},
		{"ownership", "write what is for a custom resource of another namespace", replace(head + "ConfigMap\nmetadata: {name: theirs, namespace: NS, " + owned("other") + "}\n")},
		{"ownership", "create an autoscaler that is for no custom resource", create("apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: x, namespace: NS}\n" +
			"spec: {scaleTargetRef: {name: x}, triggers: [{type: cron, metadata: {}}]}\n")},
		{"ownership", "create a Secret as if it were wired", create(head + "Secret\nmetadata: {name: x, namespace: NS, annotations: {keeper.mlkeeper.dev/wiring: '{}'}}\n")},
		{"ownership", "write a Service of others as if it were wired", replace(head + "Service\nmetadata: {name: theirs, namespace: NS, annotations: {keeper.mlkeeper.dev/wiring: '{}'}}\n" +
			"spec: {selector: {a: c}}\n")},
		{"ownership", "write an object of others", replace(head + "ConfigMap\nmetadata: {name: theirs, namespace: NS}\ndata: {a: b}\n")},
		{"ownership", "write a Service of others", replace(head + "Service\nmetadata: {name: theirs, namespace: NS}\nspec: {selector: {a: c}}\n")},
		{"ownership", "have an object of others deleted", replace(head + "ConfigMap\nmetadata: {name: theirs, namespace: NS, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: x, uid: x}]}\n")},
		{"secrets", "have a token written", create(head + "Secret\nmetadata: {name: x, namespace: NS, annotations: {kubernetes.io/service-account.name: default, " +
			strings.TrimPrefix(owned("NS"), "annotations: {") + "}\ntype: kubernetes.io/service-account-token\n")},
		{"system-namespaces", "create in kube-system", create(head + "ConfigMap\nmetadata: {name: x, namespace: kube-system, " + owned("kube-system") + "}\n")},
		{"system-namespaces", "write in kube-system", replace(head + "ConfigMap\nmetadata: {name: extension-apiserver-authentication, namespace: kube-system, " + owned("kube-system") + "}\ndata: {x: z}\n")},
	}, nodes()...)
}

// impersonating is the administrator's client as another user.
func impersonating(t *testing.T, c *cluster.Cluster, user string) (*rest.Config, client.Client) {
	t.Helper()
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	out, err := client.New(config, client.Options{Scheme: cluster.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return config, out
}

// TestPoliciesRefuseTheOperatorWhatItNeverDoes: not even with all rights the operator's ServiceAccount, in whatever namespace it is, can
// do what is of use to a thief only, or to whoever misled it. Anybody else with these rights can.
func TestPoliciesRefuseTheOperatorWhatItNeverDoes(t *testing.T) {
	c := cluster.Shared(t)
	installPolicies(t, c)
	ns := c.Namespace(t)
	c.Apply(t, strings.ReplaceAll(others+deployments, "NS", ns))
	ofAnother, err := cluster.Parse(head + "ConfigMap\nmetadata: {name: elsewhere, namespace: " + ns + ", " + owned("other") + "}\n")
	if err == nil {
		err = c.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(ofAnother[0]), client.FieldOwner("mlkeeper"))
	}
	if err != nil {
		t.Fatal(err)
	}
	user := "system:serviceaccount:" + ns + "-operator:" + cluster.OperatorAccount
	c.Kubectl(t, "create", "clusterrolebinding", ns, "--clusterrole=cluster-admin", "--user="+user)
	t.Cleanup(func() { _, _ = c.TryKubectl("delete", "clusterrolebinding", ns, ns+"-theirs") })
	// Pods are refused while their ServiceAccount is missing.
	cluster.Eventually(t, patience, func() error {
		return c.There(t, schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}, ns, "default")
	})
	config, operator := impersonating(t, c, user)
	refused := map[string]bool{}
	for _, a := range attempts() {
		t.Run(a.name, func(t *testing.T) {
			cluster.Eventually(t, patience, func() error {
				if err := a.try(t.Context(), operator, ns); !deniedBy(err, a.policy) {
					return errors.Join(fmt.Errorf("the policy %s does not refuse it", a.policy), err)
				}
				return nil
			})
			if err := a.try(t.Context(), c.Client, ns); err != nil {
				t.Errorf("others are refused it, too: %v", err)
			}
		})
		refused[a.policy] = true
	}
	for name, try := range ordinary() {
		t.Run(name, func(t *testing.T) {
			if err := try(t.Context(), operator, ns); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("run a command in a pod", func(t *testing.T) {
		typed, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Client.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "theirs"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}},
		}); err != nil {
			t.Fatal(err)
		}
		err = typed.CoreV1().RESTClient().Post().Namespace(ns).Resource("pods").Name("theirs").SubResource("exec").
			Param("command", "id").Do(t.Context()).Error()
		if !deniedBy(err, "escalation") {
			t.Errorf("%v", err)
		}
	})
	// Whoever may write a child may write the annotation on it, which must not prevent its repair.
	t.Run("repair a child", func(t *testing.T) {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"data":{"a":"b"}}`))
		if err := operator.Patch(t.Context(), ofAnother[0], patch, client.DryRunAll); err != nil {
			t.Error(err)
		}
	})
	t.Run("repair a child without its annotation", func(t *testing.T) {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":null},"data":{"a":"b"}}`))
		if err := operator.Patch(t.Context(), ofAnother[0], patch, client.DryRunAll); err != nil {
			t.Error(err)
		}
	})
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("admissionregistration.k8s.io/v1")
	list.SetKind("ValidatingAdmissionPolicyList")
	if err := c.Client.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for _, u := range list.Items {
		// The operators of other tests have policies of their own, whose names go on with their controllers.
		name, ours := strings.CutPrefix(u.GetName(), "mlkeeper-")
		tried := func(policy string) bool { return name == policy || strings.HasPrefix(name, policy+"-") }
		if ours && !slices.ContainsFunc(slices.Collect(maps.Keys(refused)), tried) {
			t.Errorf("nothing is tried that policy %s refuses", u.GetName())
		}
		if warnings, found, _ := unstructured.NestedSlice(u.Object, "status", "typeChecking", "expressionWarnings"); found {
			t.Errorf("the expressions of %s: %v", u.GetName(), warnings)
		}
	}
}

// deniedBy says that a policy refused, or any of them where it has no name.
func deniedBy(err error, policy string) bool {
	return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'mlkeeper-"+policy)
}

// TestAnOrdinaryLifeUnderThePolicies: custom resources of every kind are created, repaired and deleted by the operator, and nothing is
// refused, which would fail the package.
func TestAnOrdinaryLifeUnderThePolicies(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, logr.Discard())
	secured, plain := fixture.Create(t, c, fixture.Secured), fixture.Create(t, c, fixture.Plain)
	ns := c.Namespace(t)
	c.Kubectl(t, "label", "namespace", ns, keeper.CompositionsLabel+"="+keeper.CompositionsAllowed)
	sources(t, c, ns, "", "")
	all := append([]sample{{gvk: elementGVK, name: "element-" + ns, manifest: strings.ReplaceAll(element, "NS", ns), child: inferenceGVK, childOf: "iris"}}, samples...)
	for _, s := range all {
		c.Apply(t, s.manifest, ns)
	}
	secured.AwaitReady(t, c)
	plain.AwaitReady(t, c)
	await := func() {
		for _, s := range all {
			cluster.Eventually(t, patience, func() error { return ready(t, c, s.gvk, place(s, ns), s.name) })
		}
	}
	await()
	// Drift: what is deleted comes back.
	recreated(t, c, bindingGVK, client.ObjectKey{Name: secured.Binding()})
	for _, s := range all {
		recreated(t, c, s.child, client.ObjectKey{Namespace: ns, Name: s.childOf})
	}
	await()
	// The end: everything goes but the claims, and the entries in objects of others.
	for _, s := range all {
		u := c.Get(t, s.gvk, place(s, ns), s.name)
		if err := c.Client.Delete(t.Context(), u); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []*fixture.Service{secured, plain} {
		c.Kubectl(t, "-n", s.Namespace, "delete", "trustyaiservice", s.Name)
	}
	for _, namespace := range []string{ns, secured.Namespace, plain.Namespace} {
		cluster.Eventually(t, patience, func() error {
			out := c.Kubectl(t, "-n", namespace, "get", "deployments,services,configmaps,secrets,serviceaccounts,inferenceservices",
				"-l", keeper.ControllerLabel, "-o", "name")
			if out != "" {
				return fmt.Errorf("in %s are left %s", namespace, out)
			}
			return nil
		})
	}
	cluster.Eventually(t, patience, func() error { return c.Gone(t, bindingGVK, "", secured.Binding()) })
}

// place is the namespace of a custom resource.
func place(s sample, namespace string) string {
	if s.gvk == elementGVK {
		return ""
	}
	return namespace
}

// recreated deletes an object and waits for the next one of its name.
func recreated(t *testing.T, c *cluster.Cluster, gvk schema.GroupVersionKind, key client.ObjectKey) {
	t.Helper()
	before := c.Get(t, gvk, key.Namespace, key.Name)
	if before == nil {
		t.Fatalf("there is no %s %s", gvk.Kind, key)
	}
	if err := c.Client.Delete(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, patience, func() error {
		if now := c.Get(t, gvk, key.Namespace, key.Name); now == nil || now.GetUID() == before.GetUID() {
			return fmt.Errorf("%s %s is not recreated", gvk.Kind, key)
		}
		return nil
	})
}
