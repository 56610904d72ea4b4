package trustyai

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

// seen observes every object of a plan: as a working cluster has it, or as change leaves it.
func seen(p plan.Plan, change func(u *unstructured.Unstructured) bool) controller.ObservedState {
	out := controller.ObservedState{Plan: p, Now: testNow, Objects: map[plan.Key]controller.State{}, Ready: len(p.Problems) == 0, Problems: p.Problems}
	for _, stage := range p.Stages {
		for _, o := range stage.Objects {
			u := o.Desired.DeepCopy()
			u.SetGeneration(1)
			switch u.GetKind() {
			case "Deployment":
				u.Object["status"] = map[string]any{
					"observedGeneration": int64(1), "replicas": int64(1), "updatedReplicas": int64(1), "readyReplicas": int64(1), "availableReplicas": int64(1),
				}
			case "PersistentVolumeClaim":
				u.Object["status"] = map[string]any{"phase": "Bound"}
			case "Route":
				u.Object["status"] = map[string]any{"ingress": []any{map[string]any{
					"conditions": []any{map[string]any{"type": "Admitted", "status": "True"}},
				}}}
			}
			state := controller.State{}
			if change == nil || change(u) {
				state.Observed = observe.From(u, true)
				state.Current = state.Observed.Health.Status == health.Current
			}
			out.Objects[o.Key()] = state
			out.Ready = out.Ready && (state.Current || o.IgnoreHealth)
		}
	}
	return out
}

func condition(cr *v1.TrustyAIService, kind string) string {
	c := meta.FindStatusCondition(cr.Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return string(c.Status) + "/" + c.Reason + "/" + c.Message
}

// Test_ScaledToZero: such a service is as declared, and serves nobody. Upstream's kuttl case state-updated waits for the phase.
func Test_ScaledToZero(t *testing.T) {
	c, cr := newCluster(), custom(t, upstreamSpec)
	var none int32
	cr.Spec.Replicas = &none
	facts, p := gatherAndRender(t, c, cr)
	verdict := testSystem().Project(cr, facts, seen(p, func(u *unstructured.Unstructured) bool {
		if u.GetKind() == "Deployment" {
			u.Object["status"] = map[string]any{"observedGeneration": int64(1)}
		}
		return true
	}))
	if cr.Status.Phase != phaseNotReady || verdict.Reason != "ScaledToZero" || verdict.Hold {
		t.Errorf("the phase is %q, the verdict %+v", cr.Status.Phase, verdict)
	}
	if got := condition(cr, ConditionAvailable); !strings.HasPrefix(got, "False/") {
		t.Errorf("Available is %s", got)
	}
}

func Test_Conditions(t *testing.T) {
	without := func(kind string) func(*unstructured.Unstructured) bool {
		return func(u *unstructured.Unstructured) bool { return u.GetKind() != kind }
	}
	noStatus := func(kind string) func(*unstructured.Unstructured) bool {
		return func(u *unstructured.Unstructured) bool {
			if u.GetKind() == kind {
				delete(u.Object, "status")
			}
			return true
		}
	}
	// A rollout exceeds its deadline for any cause, such as an image that cannot be pulled.
	exceeded := func(u *unstructured.Unstructured) bool {
		if u.GetKind() == "Deployment" {
			u.Object["status"] = map[string]any{"observedGeneration": int64(1), "replicas": int64(1), "conditions": []any{
				map[string]any{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"},
			}}
		}
		return true
	}
	// The pod of the template before serves beside one of the latest template, which may have other credentials.
	replaced := func(u *unstructured.Unstructured) bool {
		if u.GetKind() == "Deployment" {
			u.Object["status"] = map[string]any{
				"observedGeneration": int64(1), "replicas": int64(2), "updatedReplicas": int64(1), "readyReplicas": int64(1), "availableReplicas": int64(1),
			}
		}
		return true
	}
	const unchecked = "Unknown/DBNotChecked/The pods did not become ready in time, so that their connection to the database is not known: " +
		"see what keeps them from it, such as their events and logs"
	healthy := map[string]string{
		ConditionStorageReady:             "True/StorageHealthy/Storage system is functioning correctly.",
		ConditionModelMeshReady:           "False/NotInstalled/ModelMesh is not installed in the namespace",
		ConditionInferenceServicesPresent: "False/InferenceServicesNotFound/InferenceServices not found",
		ConditionPVCAvailable:             "True/PVCFound/PersistentVolumeClaim found",
		ConditionDBAvailable:              "",
		ConditionRouteAvailable:           "True/RouteFound/Route found",
		ConditionAvailable:                "True/AllComponentsReady/AllComponentsReady",
		ConditionProvisioningSucceeded:    "True/ProvisioningComplete/Service provisioning completed successfully",
		ConditionDegraded:                 "False/FullyFunctional/All components are fully functional",
	}
	for _, tc := range []struct {
		name, spec string
		prepare    func(*cluster)
		change     func(*unstructured.Unstructured) bool
		want       map[string]string
		phase      string
	}{
		{"healthy", upstreamSpec, nil, nil, healthy, phaseReady},
		{"no route", upstreamSpec, nil, without("Route"), map[string]string{
			ConditionRouteAvailable: "False/RouteNotFound/Route not found",
			ConditionAvailable:      "False/NotAllComponentsReady/Not all components available",
			ConditionDegraded:       "True/PartialFunctionality/Some components are available but service is not fully functional",
		}, phaseNotReady},
		{"route not served", upstreamSpec, func(c *cluster) { c.APIs[gvkRoute] = false }, nil, map[string]string{
			ConditionRouteAvailable: "False/RouteAPINotServed/The cluster does not serve route.openshift.io/v1, so that there is no Route",
			ConditionAvailable:      "True/AllComponentsReady/AllComponentsReady",
		}, phaseReady},
		{"nothing", upstreamSpec, nil, func(*unstructured.Unstructured) bool { return false }, map[string]string{
			ConditionPVCAvailable:          "False/PVCNotFound/PersistentVolumeClaim not found",
			ConditionStorageReady:          "False/PVCNotFound/PersistentVolumeClaim not found",
			ConditionDegraded:              "True/NoFunctionality/No components are available",
			ConditionProvisioningSucceeded: "False/ProvisioningInProgress/Service provisioning in progress",
		}, phaseNotReady},
		{"claim not bound", upstreamSpec, nil, noStatus("PersistentVolumeClaim"), map[string]string{
			ConditionPVCAvailable: "False/PVCNotBound/PersistentVolumeClaim is not bound yet",
		}, phaseNotReady},
		{"no credentials", databaseSpec, nil, nil, map[string]string{
			ConditionDBAvailable: "False/DBCredentialsNotFound/Database credentials not found", ConditionPVCAvailable: "",
			ConditionStorageReady: "False/DBCredentialsNotFound/Database credentials not found",
		}, phaseNotReady},
		{"incomplete credentials", databaseSpec, func(c *cluster) { c.Put(credentials("")) }, nil, map[string]string{
			ConditionDBAvailable: "False/DBCredentialsError/Error with database credentials",
		}, phaseNotReady},
		{"database", databaseSpec, func(c *cluster) { c.Put(credentials("p")) }, nil, map[string]string{
			ConditionDBAvailable:  "True/DBAvailable/Database available",
			ConditionStorageReady: "True/StorageHealthy/Storage system is functioning correctly.",
		}, phaseReady},
		{"database while the route is missing", databaseSpec, func(c *cluster) { c.Put(credentials("p")) }, without("Route"), map[string]string{
			ConditionDBAvailable: "True/DBAvailable/Database available",
		}, phaseNotReady},
		{"database and a new pod beside one that serves", databaseSpec, func(c *cluster) { c.Put(credentials("p")) }, replaced, map[string]string{
			ConditionDBAvailable: "True/DBAvailable/Database available to the pods from before the latest change; those after it are not all ready, so that " +
				"it is not known whether they reach it",
			ConditionStorageReady: "True/StorageHealthy/Storage system is functioning correctly.",
			ConditionAvailable:    "True/AllComponentsReady/AllComponentsReady",
		}, phaseNotReady},
		{"database and pods that do not start", databaseSpec, func(c *cluster) { c.Put(credentials("p")) }, exceeded, map[string]string{
			ConditionDBAvailable: unchecked, ConditionStorageReady: unchecked,
			ConditionDegraded: "True/PartialFunctionality/Some components are available but service is not fully functional",
		}, phaseNotReady},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, cr := newCluster(), custom(t, tc.spec)
			if tc.prepare != nil {
				tc.prepare(c)
			}
			facts, p := gatherAndRender(t, c, cr)
			saw := seen(p, tc.change)
			if !facts.Serves.Route {
				delete(saw.Objects, plan.Key{GroupKind: gvkRoute.GroupKind(), Namespace: "ns", Name: "tas"})
			}
			verdict := testSystem().Project(cr, facts, saw)
			for kind, want := range tc.want {
				if got := condition(cr, kind); got != want {
					t.Errorf("%s: got %q, want %q", kind, got, want)
				}
			}
			if cr.Status.Phase != tc.phase {
				t.Errorf("phase %q", cr.Status.Phase)
			}
			ready := tc.phase == phaseReady
			if ready != (verdict.Reason == "AllComponentsReady") || ready != (verdict.Message == "All service components are ready") ||
				!ready && !strings.HasPrefix(verdict.Message, "Not all service components are ready") {
				t.Errorf("%+v", verdict)
			}
			for _, cond := range cr.Status.Conditions {
				if cond.ObservedGeneration != cr.Generation {
					t.Errorf("%s speaks of generation %d", cond.Type, cond.ObservedGeneration)
				}
			}
			// The same observation again changes nothing.
			before := cr.DeepCopy()
			testSystem().Project(cr, facts, saw)
			if compactJSON(t, before.Status) != compactJSON(t, cr.Status) {
				t.Error("a second projection differs")
			}
		})
	}
}

func Test_StatusFields(t *testing.T) {
	c, cr := newCluster(), custom(t, adrSpec)
	c.Put(parse(t, pvYAML))
	facts, p := gatherAndRender(t, c, cr)
	testSystem().Project(cr, facts, seen(p, nil))
	s := cr.Status
	if s.Replicas != 1 || s.Ready != "True" || s.StorageFormat != v1.StoragePVC || s.URL != ConsumerURL(cr) ||
		!strings.Contains(s.Selector, "app.kubernetes.io/instance=trustyai-service-example") {
		t.Errorf("%+v", s)
	}
	if got := condition(cr, ConditionStorageReady); got != "True/StorageHealthy/Storage system is functioning correctly." {
		t.Error(got)
	}
}

func Test_ModelMeshReady(t *testing.T) {
	config := parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: model-serving-config, namespace: ns}, data: {config.yaml: 'a: b'}}")
	c, cr := newCluster(), custom(t, adrSpec)
	c.Put(parse(t, pvYAML))
	c.Edited[WireMeshConfig] = []*unstructured.Unstructured{config}
	project := func() string {
		facts, p := gatherAndRender(t, c, cr)
		testSystem().Project(cr, facts, seen(p, nil))
		return condition(cr, ConditionModelMeshReady)
	}
	// The service is reachable as it is told now, not as it was told last: nothing would bring a second projection.
	if got := project(); got != "False/Pending/The ConfigMap model-serving-config is not wired: it is being wired" {
		t.Error(got)
	}
	wire := WiresIn(DefaultClusterDomain)[0]
	wanted := wire.Wanted(config, []client.Object{cr})
	edited, _, err := wire.Edit(config, nil, wanted)
	if err != nil || edited == nil {
		t.Fatal(err, wanted)
	}
	edited.SetAnnotations(map[string]string{"keeper.mlkeeper.dev/wiring": compactJSON(t, map[string]any{"entries": wanted})})
	c.Edited[WireMeshConfig] = []*unstructured.Unstructured{edited}
	if got := project(); got != "True/ModelMeshHealthy/ModelMesh is running and healthy." {
		t.Error(got, cr.Status.InferenceServices)
	}
}

// Test_PodsAreCountedAndTheRouteIsTold: the scale subresource counts pods, ready or not, and users come by the host of the Route.
func Test_PodsAreCountedAndTheRouteIsTold(t *testing.T) {
	router := func(host, admitted string) map[string]any {
		return map[string]any{"host": host, "conditions": []any{map[string]any{"type": "Admitted", "status": admitted}}}
	}
	for _, tc := range []struct {
		spec, want string
		routers    []any
	}{
		{upstreamSpec, "", nil},
		{upstreamSpec, "", []any{router("refused.example", "False")}},
		{upstreamSpec, "https://tas.example", []any{router("refused.example", "False"), router("tas.example", "True")}},
		{upstreamSpec + "  exposure: Plain\n", "http://tas.example", []any{router("tas.example", "True")}},
	} {
		c, cr := newCluster(), custom(t, tc.spec)
		facts, p := gatherAndRender(t, c, cr)
		cr.Status.ExternalURL = "https://stale.example"
		testSystem().Project(cr, facts, seen(p, func(u *unstructured.Unstructured) bool {
			switch u.GetKind() {
			case "Deployment":
				u.Object["status"] = map[string]any{"observedGeneration": int64(1), "replicas": int64(2), "readyReplicas": int64(1)}
			case "Route":
				u.Object["status"] = map[string]any{"ingress": tc.routers}
			}
			return true
		}))
		if cr.Status.Replicas != 2 || cr.Status.ExternalURL != tc.want {
			t.Errorf("routers %v: %d pods at %q, want 2 at %q", tc.routers, cr.Status.Replicas, cr.Status.ExternalURL, tc.want)
		}
	}
}
