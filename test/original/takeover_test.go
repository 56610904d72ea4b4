//go:build realoriginal

package original

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
)

const finalizer = "trustyai.opendatahub.io/finalizer"

// TestRealOperatorsServicesAreTakenOverAndHandedBack follows docs/trustyai.md, "Adopting a service of the upstream operator" and "Handing a
// service back": with ten services of the upstream operator itself, no step restarts a pod of theirs, or of the models that they are wired to.
func TestRealOperatorsServicesAreTakenOverAndHandedBack(t *testing.T) {
	s, start := newSite(t), time.Now()
	s.c.Kubectl(t, "create", "namespace", upstreamNamespace)
	s.c.Kubectl(t, "apply", "--server-side", "-k", s.manifest())
	s.startUpstream()
	s.create()
	s.ready(s.upstreams)
	before, starts := s.settle(), s.startTimes()
	s.took("upstream has ten services Ready", start)

	start = time.Now()
	if told := s.mlkeeper(1, "diff", "--adopt", "-A", "-o", "summary"); !strings.Contains(told, "10 adopted, 7 objects released, no pod restarts") {
		t.Error("mlkeeper diff --adopt tells something else than ten adoptions without a restart")
	}
	s.stopUpstream()
	s.mlkeeper(0, "check", "--pre", "--controller", "trustyai")
	s.deployMLKeeper()
	s.startMLKeeper()
	s.ready(s.keepers)
	s.took("MLKeeper has them Ready", start)
	s.unchanged(before, "after the adoption")
	s.mlkeeper(0, "check")
	s.versions()
	s.unchanged(before, "after each version was written")

	start = time.Now()
	s.stop()
	s.startMLKeeper()
	s.works()
	s.ready(s.keepers)
	s.took("MLKeeper has them Ready after a restart", start)
	s.unchanged(before, "after a restart of MLKeeper")
	s.table(starts)

	start = time.Now()
	s.handBack()
	s.ready(s.upstreams)
	s.took("upstream has them Ready again", start)
	s.unchanged(before, "after they were handed back")
	s.table(starts)
}

// handBack follows the steps of the page.
func (s *site) handBack() {
	s.t.Helper()
	s.c.Kubectl(s.t, "-n", cluster.OperatorNamespace, "scale", "deployment", cluster.OperatorAccount, "--replicas=0")
	s.c.Kubectl(s.t, "-n", cluster.OperatorNamespace, "wait", "--for=delete", "pod", "-l", "control-plane=controller-manager", "--timeout=2m")
	s.stop()
	s.mlkeeper(0, "hand-back", "--dry-run")
	s.mlkeeper(0, "hand-back")
	s.c.Kubectl(s.t, "apply", "--server-side", "--force-conflicts", "-k", s.manifest())
	s.startUpstream()
}

// upstreams says why a service is not as upstream leaves it: Ready by upstream's own conditions, with its finalizer and the binding of its proxy.
func (s *site) upstreams(one service) error {
	cr := s.c.Get(s.t, fixture.GVK, one.namespace, one.name)
	if !slices.Contains(cr.GetFinalizers(), finalizer) {
		return errors.New("it has no finalizer of upstream's")
	}
	name := one.name + "-" + one.namespace + "-proxy-rolebinding"
	binding := s.c.Get(s.t, bindings, "", name)
	if binding == nil {
		return fmt.Errorf("the ClusterRoleBinding %s is not there", name)
	}
	if role, _, _ := unstructured.NestedString(binding.Object, "roleRef", "name"); role != "trustyai-service-operator-proxy-role" {
		return fmt.Errorf("the ClusterRoleBinding %s grants %s", name, role)
	}
	return errors.Join(conditionTrue(cr, "ProvisioningSucceeded"), conditionTrue(cr, "Ready"))
}

// keepers says why a service is not as MLKeeper leaves it.
func (s *site) keepers(one service) error {
	cr := s.c.Get(s.t, fixture.GVK, one.namespace, one.name)
	if len(cr.GetFinalizers()) > 0 {
		return fmt.Errorf("it has the finalizers %v", cr.GetFinalizers())
	}
	if format, _, _ := unstructured.NestedString(cr.Object, "status", "storageFormat"); format == "" {
		return errors.New("it is not adopted yet")
	}
	if observed, _, _ := unstructured.NestedInt64(cr.Object, "status", "observedGeneration"); observed != cr.GetGeneration() {
		return fmt.Errorf("the generation %d is observed, not %d", observed, cr.GetGeneration())
	}
	return conditionTrue(cr, "Ready")
}

// conditionTrue says what a condition has in place of True.
func conditionTrue(cr *unstructured.Unstructured, kind string) error {
	conditions, _, _ := unstructured.NestedSlice(cr.Object, "status", "conditions")
	for _, one := range conditions {
		if condition := one.(map[string]any); condition["type"] == kind {
			if condition["status"] == string(metav1.ConditionTrue) {
				return nil
			}
			return fmt.Errorf("%s is %v: %v %v", kind, condition["status"], condition["reason"], condition["message"])
		}
	}
	return fmt.Errorf("it has no condition %s", kind)
}

// versions reads and writes each service in both versions, and looks at the versions that are stored.
func (s *site) versions() {
	s.t.Helper()
	for _, one := range services {
		specs := map[string]string{}
		for _, version := range []string{"v1", "v1alpha1"} {
			resource := "trustyaiservices." + version + ".trustyai.opendatahub.io/" + one.name
			specs[s.c.Kubectl(s.t, "-n", one.namespace, "get", resource, "-o", "jsonpath={.spec}")] = version
			s.c.Kubectl(s.t, "-n", one.namespace, "label", resource, "written-in-"+version+"=yes")
			s.c.Kubectl(s.t, "-n", one.namespace, "patch", resource, "--dry-run=server", "--type=merge", "-p", `{"spec":{"metrics":{"schedule":"7s"}}}`)
		}
		if len(specs) != 1 {
			s.t.Errorf("%s/%s has other specs in other versions: %v", one.namespace, one.name, specs)
		}
		if labels := s.c.Get(s.t, fixture.GVK, one.namespace, one.name).GetLabels(); labels["written-in-v1"] != "yes" || labels["written-in-v1alpha1"] != "yes" {
			s.t.Errorf("%s/%s has the labels %v", one.namespace, one.name, labels)
		}
	}
	crd := s.c.Get(s.t, definitions, "", definition)
	if stored, _, _ := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions"); !slices.Equal(stored, []string{"v1"}) {
		s.t.Errorf("the stored versions are %v", stored)
	}
	if strategy, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "strategy"); strategy != "None" {
		s.t.Errorf("the versions are converted by %s", strategy)
	}
}
