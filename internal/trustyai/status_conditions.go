package trustyai

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/wiring"
	"mlkeeper.dev/internal/workload"
)

const kindInferenceService = "InferenceService"

const (
	yes     = metav1.ConditionTrue
	no      = metav1.ConditionFalse
	unknown = metav1.ConditionUnknown
)

// finding is one condition before it is set.
type finding struct {
	status          metav1.ConditionStatus
	reason, message string
}

// conditions sets the conditions of the controller, but for that of ModelMesh. Reasons and messages are upstream's word for word where upstream has
// them for that case (section 3 of the reference: trustyai-service-operator HEAD 11c335b).
func (v *view) conditions() {
	workload := v.workload()
	storage := finding{yes, "StorageHealthy", "Storage system is functioning correctly."}
	complete, some := workload, workload
	for _, part := range []struct {
		kind string
		used bool
		find func(bool) finding
	}{
		{ConditionPVCAvailable, usesVolume(v.template), v.claim},
		{ConditionDBAvailable, usesDatabase(v.template), v.database},
	} {
		if !part.used {
			meta.RemoveStatusCondition(&v.cr.Status.Conditions, part.kind)
			continue
		}
		f := part.find(workload)
		v.set(part.kind, f.status, f.reason, f.message)
		complete, some = complete && f.status == yes, some || f.status == yes
		if f.status != yes && storage.status == yes {
			storage = f
		}
	}
	v.set(ConditionStorageReady, storage.status, storage.reason, storage.message)
	route, blocks := v.route()
	v.set(ConditionRouteAvailable, route.status, route.reason, route.message)
	complete, some = complete && !blocks, some || route.status == yes
	v.overall(complete, some)
	v.inference()
}

// overall sets the conditions that sum up. A service that is provisioned stays so while it is disturbed later.
func (v *view) overall(complete, some bool) {
	provisioned := meta.IsStatusConditionTrue(v.cr.Status.Conditions, ConditionProvisioningSucceeded)
	if provisioned {
		// A change of the spec is provisioned anew.
		c := meta.FindStatusCondition(v.cr.Status.Conditions, ConditionProvisioningSucceeded)
		provisioned = c.ObservedGeneration == v.cr.Generation
	}
	if complete {
		v.set(ConditionAvailable, yes, "AllComponentsReady", "AllComponentsReady")
		v.set(ConditionDegraded, no, "FullyFunctional", "All components are fully functional")
	} else {
		v.set(ConditionAvailable, no, "NotAllComponentsReady", "Not all components available")
		if some {
			v.set(ConditionDegraded, yes, "PartialFunctionality", "Some components are available but service is not fully functional")
		} else {
			v.set(ConditionDegraded, yes, "NoFunctionality", "No components are available")
		}
	}
	if provisioned || v.seen.Ready {
		v.set(ConditionProvisioningSucceeded, yes, "ProvisioningComplete", "Service provisioning completed successfully")
	} else {
		v.set(ConditionProvisioningSucceeded, no, "ProvisioningInProgress", "Service provisioning in progress")
	}
}

// workload says that pods serve: as many as declared, or those that a problem leaves running.
func (v *view) workload() bool { return v.rollout().Serves() }

// claim tells of the claim. Upstream says "not found" of a claim that is merely unbound.
func (v *view) claim(bool) finding {
	if v.cr.Spec.Storage.ExistingClaim != "" {
		return v.existingClaim()
	}
	state, found := v.state(plan.Key{GroupKind: gvkClaim.GroupKind(), Namespace: v.cr.Namespace, Name: v.names.pvc})
	if !found || state.Observed == nil {
		return finding{no, "PVCNotFound", "PersistentVolumeClaim not found"}
	}
	if state.Observed.Health.Status == health.Current {
		return finding{yes, "PVCFound", "PersistentVolumeClaim found"}
	}
	if p := v.problem(volumeReasons...); p != nil {
		return finding{no, "PVCNotBound", "PersistentVolumeClaim is not bound: " + p.Error()}
	}
	if state.Observed.Health.Status == health.Failed {
		return finding{no, "PVCLost", "PersistentVolumeClaim has lost its volume"}
	}
	return finding{no, "PVCNotBound", "PersistentVolumeClaim is not bound yet"}
}

// existingClaim tells of the claim that the spec names.
func (v *view) existingClaim() finding {
	claim := v.facts.Claim
	if claim == nil {
		return finding{no, "PVCNotFound", "PersistentVolumeClaim not found"}
	}
	switch corev1.PersistentVolumeClaimPhase(claim.Phase) {
	case corev1.ClaimBound:
		return finding{yes, "PVCFound", "PersistentVolumeClaim found"}
	case corev1.ClaimLost:
		return finding{no, "PVCLost", "PersistentVolumeClaim has lost its volume"}
	default:
		return finding{no, "PVCNotBound", "PersistentVolumeClaim is not bound yet"}
	}
}

// database tells of the database: the service is ready only with a connection to it. A rollout that exceeded its deadline is no evidence of
// the database, since it does so for every cause, such as an image that cannot be pulled. Pods, which may have some, are not read.
func (v *view) database(serves bool) finding {
	switch db := v.facts.Database; {
	case !db.Found:
		return finding{no, reasonDBCredentialsNotFound, "Database credentials not found"}
	case !db.usable():
		return finding{no, reasonDBCredentialsError, "Error with database credentials"}
	case serves && !v.rollout().Complete():
		// The change may be one of the credentials, which the pods that serve read at their start.
		return finding{yes, "DBAvailable", "Database available to the pods from before the latest change; those after it are not all ready, so that " +
			"it is not known whether they reach it"}
	case serves:
		return finding{yes, "DBAvailable", "Database available"}
	}
	if f, fails := v.databaseFailure(); fails {
		return f
	}
	if v.rollout().Exceeded {
		return finding{unknown, reasonDBNotChecked, "The pods did not become ready in time, so that their connection to the database is not known: " +
			"see what keeps them from it, such as their events and logs"}
	}
	return finding{unknown, reasonDBNotChecked, "The service is not ready yet, so that its connection to the database is not known"}
}

// databaseFailures are what the API may say against the database, by the reason of DBAvailable. They name the keys of the Secret, and no value
// of it: who reads the status may not read the Secret.
var databaseFailures = map[string]string{
	reasonDBServiceNotFound: "The namespace has no Service that databaseService of the Secret %s names: create it, or correct databaseService; name a " +
		"host outside of the cluster with its domain",
	reasonDBPortNotFound: "The Service that databaseService of the Secret %s names does not have the port of databasePort: correct databasePort, or " +
		"add the port to the Service",
	reasonDBServiceNotReady: "The Service that databaseService of the Secret %s names has no ready endpoint: look at the pods of the database, and at " +
		"the selector of the Service",
}

// databaseFailure is what the API says against the database. The Service may come later, so that pods are started all the same, and one pod that is
// ready proves the opposite. What was said last stands until the API has answered, such as after a restart of the manager.
func (v *view) databaseFailure() (f finding, fails bool) {
	db := v.facts.Database
	if _, ready := v.pods(); ready > 0 || !usesDatabase(v.template) {
		return finding{}, false
	}
	reason := db.Failure
	if last := meta.FindStatusCondition(v.cr.Status.Conditions, ConditionDBAvailable); db.Asked && last != nil {
		reason = last.Reason
	}
	message, fails := databaseFailures[reason]
	if !fails {
		return finding{}, false
	}
	return finding{no, reason, fmt.Sprintf(message, db.Secret)}, true
}

// route tells of the Route, and whether what it tells keeps the service from being available: a cluster without the
// API needs none.
func (v *view) route() (f finding, blocks bool) {
	if !v.facts.Serves.Route {
		return finding{no, "RouteAPINotServed", "The cluster does not serve " + gvkRoute.GroupVersion().String() + ", so that there is no Route"}, false
	}
	state, found := v.state(plan.Key{GroupKind: gvkRoute.GroupKind(), Namespace: v.cr.Namespace, Name: v.names.route})
	if !found || state.Observed == nil {
		return finding{no, "RouteNotFound", "Route not found"}, true
	}
	if state.Observed.Health.Status == health.Current {
		return finding{yes, "RouteFound", "Route found"}, false
	}
	return finding{no, "RouteNotAdmitted", "Route is not admitted by a router: " + state.Observed.Health.Message}, true
}

// wirings tells of each object whether payloads of its models reach this service, and why not.
func (v *view) wirings() []v1.WiringStatus {
	reported := map[plan.Key][]wiring.Outcome{}
	for _, wire := range WiresIn(v.settings.ClusterDomain) {
		for _, u := range v.facts.Inference.Targets[wire.Name] {
			key := plan.Key{GroupKind: wire.GVK.GroupKind(), Namespace: u.GetNamespace(), Name: u.GetName()}
			if outcomes := v.seen.Wiring[key.String()]; len(outcomes) > 0 {
				reported[key] = outcomes
			}
		}
	}
	return WiringOf(v.cr, Wired{
		Services: v.facts.Inference.Services, Targets: v.facts.Inference.Targets, Reported: reported,
		ClusterDomain: v.settings.ClusterDomain,
	})
}

// inference tells whether there are InferenceServices. It is informational.
func (v *view) inference() {
	if len(v.facts.Inference.Targets[WireKServe]) > 0 {
		v.set(ConditionInferenceServicesPresent, yes, "InferenceServicesFound", "InferenceServices found")
		return
	}
	v.set(ConditionInferenceServicesPresent, no, "InferenceServicesNotFound", "InferenceServices not found")
}

// modelMesh tells of ModelMesh (TrustyAI ADR 3), which is installed where one of its Deployments is, or a configuration
// that MLKeeper did not make. It never keeps a service from being Ready.
func (v *view) modelMesh() {
	f := v.mesh()
	v.set(ConditionModelMeshReady, f.status, f.reason, f.message)
}

func (v *view) mesh() finding {
	targets := v.facts.Inference.Targets
	installed := len(targets[WireMeshDeployments]) > 0
	for _, u := range targets[WireMeshConfig] {
		installed = installed || !madeByUs(u)
	}
	if !installed {
		return finding{no, "NotInstalled", "ModelMesh is not installed in the namespace"}
	}
	for _, u := range targets[WireMeshDeployments] {
		// A wire that does not keep the status says nothing of the pods.
		if _, known := u.Object["status"]; !known {
			continue
		}
		if d := workload.RolloutOf(u); d.Available < d.Desired {
			return finding{no, "ModelMeshNotAvailable", "ModelMesh is not running: the Deployment " + u.GetName() + " does not have all its pods"}
		}
	}
	entries := 0
	for _, w := range v.cr.Status.InferenceServices {
		if w.Kind == kindInferenceService {
			continue
		}
		if w.Wired != yes {
			return finding{no, w.Reason, "The " + w.Kind + " " + w.Name + " is not wired: " + w.Message}
		}
		entries++
	}
	if entries == 0 {
		return finding{no, "NotWired", "ModelMesh does not send its payloads to the service yet"}
	}
	return finding{yes, "ModelMeshHealthy", "ModelMesh is running and healthy."}
}
