package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestAnOperatorHasTheShippedRightsAndNoOthers asks as operators for what they may and may not do. What they may not is in the
// audit log, and fails the package unless a test expects it.
func TestAnOperatorHasTheShippedRightsAndNoOthers(t *testing.T) {
	c := Shared(t)
	c.InstallCRDs(t)
	ns := c.Namespace(t)
	cr := c.Apply(t, `
apiVersion: trustyai.opendatahub.io/v1alpha1
kind: TrustyAIService
metadata: {name: one}
spec:
  storage: {format: PVC, folder: /inputs, size: 1Gi}
  data: {filename: data.csv, format: CSV}
  metrics: {schedule: 5s}
`, ns)[0]
	trustyAI, kubeflow := c.as(t, Rights{Controllers: []string{"trustyai"}}), c.as(t, Rights{Controllers: []string{"kubeflow"}})
	tenant := c.as(t, Rights{Controllers: []string{"kubeflow"}}, ns)
	notShipped := c.as(t, Rights{Controllers: []string{"one", "other"}, Roles: []string{listing("nodes"), listing("podtemplates")}})
	owned := client.RawPatch(types.MergePatchType, []byte(
		`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"0"}]}}`))
	c.ExpectRefusals(t, "the test asks for what no role grants", "/nodes|/impersonated|/"+ns+"/(trustyaiservices|pods)")
	for what, test := range map[string]struct {
		err     error
		allowed bool
		// logged is what the audit log says of a refusal that fails a package.
		logged string
	}{
		"a child of the controller":                          {trustyAI.List(t.Context(), &corev1.ConfigMapList{}), true, ""},
		"what another controller may read":                   {trustyAI.List(t.Context(), &corev1.NodeList{}), false, "list /api/v1/nodes: "},
		"the same, of that controller":                       {kubeflow.List(t.Context(), &corev1.NodeList{}), true, ""},
		"of two controllers that are not shipped, one":       {notShipped.List(t.Context(), &corev1.NodeList{}), true, ""},
		"of two controllers that are not shipped, the other": {notShipped.List(t.Context(), &corev1.PodTemplateList{}), true, ""},
		// Admission's OwnerReferencesPermissionEnforcement, as on OpenShift.
		"an owner of what it may not delete": {
			trustyAI.Patch(t.Context(), cr, owned), false, "cannot set an ownerRef on a resource you can't delete",
		},
		"acting as an account, which may not": {tenant.List(t.Context(), &corev1.PodList{}, client.InNamespace(ns)), false, ""},
		"acting as an account without a right to": {
			c.as(t, Rights{Controllers: []string{"trustyai"}}, ns).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "impersonated"}, &corev1.Pod{}),
			false, "cannot impersonate",
		},
	} {
		if refused := apierrors.IsForbidden(test.err); refused == test.allowed || test.allowed && test.err != nil {
			t.Errorf("%s: %v", what, test.err)
		}
		if test.logged == "" {
			continue
		}
		// The same log, without what this test expects.
		Eventually(t, 10*time.Second, func() error { return contains((&Cluster{Dir: c.Dir}).Granted(), test.logged) })
	}
	if err := contains((&Cluster{Dir: c.Dir}).Granted(), "/namespaces/"+ns+"/pods: "); err == nil {
		t.Error("what an account of a tenant may not do counts as a missing right of the operator")
	}
	if err := c.Granted(); err != nil {
		t.Errorf("what a test expects fails the package: %v", err)
	}
	if err := contains(c.Granted("nobody"), "no request of "+userOf("nobody")); err != nil {
		t.Error(err)
	}
}

// listing is a role to list a resource. The right to delete it is one by which effective knows that the role is in effect.
func listing(resource string) string {
	return `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: any}
rules: [{apiGroups: [""], resources: [` + resource + `], verbs: [list, delete]}]
`
}

// as is a client of an operator, or of the default ServiceAccount of a namespace that the operator acts as.
func (c *Cluster) as(t *testing.T, rights Rights, namespace ...string) client.Client {
	t.Helper()
	config, err := c.Operator(rights)
	if err != nil {
		t.Fatal(err)
	}
	for _, ns := range namespace {
		config.Impersonate.UserName = "system:serviceaccount:" + ns + ":default"
	}
	out, err := client.New(config, client.Options{Scheme: Scheme(), Mapper: c.Client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// contains is an error unless another one has a text.
func contains(err error, text string) error {
	if err == nil || !strings.Contains(err.Error(), text) {
		return fmt.Errorf("want %q, got: %v", text, err) //nolint:errorlint // The text is what counts.
	}
	return nil
}
