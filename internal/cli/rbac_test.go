package cli

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/wiring"
)

func rbacController() fakeController {
	return fakeController{
		wires: []wiring.Wire{{Name: "a", GVK: configGVK, CreateName: "c"}, {Name: "b", GVK: configGVK}, {Name: "c", GVK: deployGVK}},
		rules: []controller.Rule{{
			Group: "rbac.authorization.k8s.io", Resources: []string{"clusterroles"}, Names: []string{"a:b"}, Verbs: []string{"bind"},
			Why: "A reason that is long enough to be broken into several lines of the role, since nobody wants to read lines\nthat do not end: \x1b[31m.",
		}},
	}
}

func TestRBAC(t *testing.T) {
	stdout, _, err := run(t, NewRBACCommand(environment(rbacController(), nil)), "")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "rbac.golden.yaml", stdout)
	parts := strings.Split(stdout, "---\n")
	if len(parts) != 2 {
		t.Fatalf("%d documents", len(parts))
	}
	for i, name := range []string{"mlkeeper-engine", "mlkeeper-trustyai"} {
		var r rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict([]byte(parts[i]), &r); err != nil || r.Name != name || len(r.Rules) == 0 {
			t.Errorf("%v: %v", err, r)
		}
		for _, rule := range r.Rules {
			if len(rule.APIGroups) != 1 || len(rule.Resources) == 0 || len(rule.Verbs) == 0 || strings.Contains(strings.Join(append(rule.Verbs, rule.Resources...), ""), "*") {
				t.Errorf("rule %v", rule)
			}
		}
	}
	engine, _, err := run(t, NewRBACCommand(environment(rbacController(), nil)), "", "--engine")
	if err != nil || engine != parts[0] {
		t.Errorf("--engine prints %v\n%s", err, engine)
	}
	one, _, err := run(t, NewRBACCommand(environment(rbacController(), nil)), "", "--controller", "trustyai")
	if err != nil || one != parts[1] {
		t.Errorf("--controller prints %v\n%s", err, one)
	}
	if _, _, err := run(t, NewRBACCommand(environment(rbacController(), nil)), "", "--controller", "x"); err == nil || !strings.Contains(err.Error(), "there are trustyai") {
		t.Errorf("%v", err)
	}
}

func TestResourceOf(t *testing.T) {
	for kind, want := range map[schema.GroupVersionKind]string{
		{Version: "v1", Kind: "Endpoints"}:                                                  "endpoints",
		{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"}:                        "ingresses",
		{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"}:                  "networkpolicies",
		{Group: "security.openshift.io", Version: "v1", Kind: "SecurityContextConstraints"}: "securitycontextconstraints",
		{Group: "serving.kserve.io", Version: "v1beta1", Kind: "InferenceService"}:          "inferenceservices",
		{Version: "v1", Kind: "PersistentVolumeClaim"}:                                      "persistentvolumeclaims",
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"}:     "clusterrolebindings",
		{Group: "monitoring.coreos.com", Version: "v1", Kind: "ServiceMonitor"}:             "servicemonitors",
	} {
		if got := resourceOf(kind); got != want {
			t.Errorf("resourceOf(%s) = %q, want %q", kind.Kind, got, want)
		}
	}
}
