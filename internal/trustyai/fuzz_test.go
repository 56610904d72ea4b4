package trustyai

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/controller"
)

// FuzzRender renders arbitrary specs: nothing panics, every object is whole, and input never becomes structure.
func FuzzRender(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"storage":{"format":"PVC","folder":"/in: puts","size":"x"},"metrics":{"schedule":"5s\nfoo: bar"}}`,
		`{"storage":{"format":"DATABASE"},"trustyaiMetrics":{"schedule":"1s"},"data":{"filename":"$(A)\nprivileged: true"}}`,
		`{"replicas":-1,"storage":{"format":"PVC","folder":"/x","size":"1Gi","pv":"p"},"metrics":{"schedule":"5s"},"exposure":"Secured"}`,
		`{"metrics":{"schedule":"5s"},"serviceMonitoring":{"interval":"1s","ref":{"metadata":{"labels":{"a":"b"}},"spec":{"endpoints":[{"port":"x","scheme":null},{}],"selector":null}}}}`,
		`{"metrics":{"schedule":"5s"},"tls":{"issuerRef":{"name":"x"}},"scheduling":{"affinity":{},"nodeSelector":{"a":"b"}}}`,
	} {
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, database bool) {
		cr := custom(t, upstreamSpec)
		cr.Spec = v1.TrustyAIServiceSpec{}
		if json.Unmarshal(raw, &cr.Spec) != nil {
			return
		}
		// The certificates are of no interest here, and slow to make.
		c := newCluster(gvkServiceCA)
		if database {
			secret := credentials("p")
			secret.SetName(namesOf(cr).databaseSecret)
			c.Put(secret)
		}
		facts, p := gatherAndRender(t, c, cr)
		for _, stage := range p.Stages {
			for _, o := range stage.Objects {
				check(t, o.Desired)
			}
		}
		for _, problem := range p.Problems {
			if strings.ContainsAny(problem.Field, "\n\r") {
				t.Errorf("a field of two lines: %q", problem.Field)
			}
		}
		testSystem().Project(cr, facts, controller.ObservedState{Plan: testSystem().Render(cr, facts), Now: testNow})
	})
}

func check(t *testing.T, u *unstructured.Unstructured) {
	if u.GetName() == "" || u.GetNamespace() == "" && u.GetKind() != "ClusterRoleBinding" {
		t.Errorf("%s %q has no name or namespace", u.GetKind(), u.GetName())
	}
	valid := validation.IsDNS1123Subdomain
	if u.GetKind() == "ClusterRoleBinding" { // The names of RBAC's kinds are segments of a path (pkg/apis/rbac/validation).
		valid = content.IsPathSegmentName
	}
	if errs := valid(u.GetName()); len(errs) > 0 {
		t.Errorf("%s %q: %v", u.GetKind(), u.GetName(), errs)
	}
	for key, text := range u.GetLabels() {
		if len(validation.IsValidLabelValue(text)) > 0 || len(validation.IsQualifiedName(key)) > 0 {
			t.Errorf("label %q=%q", key, text)
		}
	}
	if _, err := json.Marshal(u.Object); err != nil {
		t.Errorf("%s: %v", u.GetKind(), err)
	}
	if u.GetKind() != "Deployment" {
		return
	}
	containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
	for _, item := range containers {
		security, _, _ := unstructured.NestedMap(item.(map[string]any), "securityContext")
		if _, found := security["privileged"]; found || security["allowPrivilegeEscalation"] != false {
			t.Error("input changed the security context")
		}
	}
}
