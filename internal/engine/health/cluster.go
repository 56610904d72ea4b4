package health

import "time"

// service is the rule of a Service. Only the type LoadBalancer waits for anything: an address in its status (core/v1,
// LoadBalancerIngress), which kstatus does not ask for.
func service(o object) Result {
	if o.text("spec", "type") != "LoadBalancer" {
		return current(ReasonExists, "The Service exists.")
	}
	for _, ingress := range o.list("status", "loadBalancer", "ingress") {
		if ingress.text("ip") != "" || ingress.text("hostname") != "" {
			return current("Published", "The load balancer of the Service has an address.")
		}
	}
	return inProgress("NoAddress", "The load balancer of the Service has no address yet.")
}

// serviceCIDR is the rule of a ServiceCIDR, whose controller reports Ready (networking/v1, ServiceCIDRConditionReady).
func serviceCIDR(o object) Result {
	if o.conditions()["Ready"].isTrue() {
		return current(ReasonReady, "The range of addresses is ready.")
	}
	return inProgress(ReasonNotReady, "The range of addresses is not ready yet.")
}

// brokenScaling are the reasons of ScalingActive=False that only an edit ends (pkg/controller/podautoscaler/horizontal.go).
// All others are about metrics or a target that may still come.
var brokenScaling = map[string]string{
	"InvalidSelector":         "The target of the autoscaler has no usable selector.",
	"AmbiguousSelector":       "The Pods of the target are selected by more than one autoscaler.",
	"InvalidMetricSourceType": "A metric of the autoscaler has a type that does not exist.",
}

// autoscaler is the rule of a HorizontalPodAutoscaler. Version v1 of the API has no conditions, so with one the object is
// current as soon as it exists. ScalingLimited is no trouble: a limit does what it declares.
func autoscaler(o object) Result {
	if o.text("apiVersion") == "autoscaling/v1" {
		return current(ReasonExists, "The autoscaler exists; version v1 of its API tells no more.")
	}
	conds := o.conditions()
	able, active := conds["AbleToScale"], conds["ScalingActive"]
	if message := brokenScaling[active.reason]; active.isFalse() && message != "" {
		return failed(active.reason, message)
	}
	switch {
	case able.isFalse():
		return inProgress(reasonOr(able.reason, "NotAbleToScale"), "The autoscaler cannot read or change the scale of its target.")
	case active.isFalse() && active.reason == "ScalingDisabled":
		return current(active.reason, "The target has zero replicas, which switches the autoscaler off.")
	case active.isTrue():
		return current("ScalingActive", "The autoscaler scales its target.")
	}
	return inProgress(reasonOr(active.reason, ReasonNotObserved), "The autoscaler has no usable metrics yet.")
}

// budget is the rule of a PodDisruptionBudget (policy/v1). Too few healthy Pods are what it guards, not its failure.
func budget(o object) Result {
	if c := o.conditions()["DisruptionAllowed"]; c.isFalse() && c.reason == "SyncFailed" {
		return failed(c.reason, "The disruption controller cannot count the Pods of the budget; see its events.")
	}
	return current("Computed", "The allowed disruptions are computed.")
}

// node is the rule of a Node: the kubelet reports Ready, and the node controller sets it to Unknown when that stops
// (pkg/controller/nodelifecycle).
func node(o object) Result {
	c, found := o.conditions()["Ready"]
	switch {
	case c.isTrue():
		return current(ReasonReady, "The node is ready.")
	case found && !c.isFalse():
		return unknown(reasonOr(c.reason, "NodeStatusUnknown"), "The kubelet of the node does not report.")
	}
	return inProgress(reasonOr(c.reason, ReasonNotReady), "The node is not ready.")
}

// establishedDelay is how long after a CustomResourceDefinition is Established the API server delays every creation of a custom
// resource, so that other API servers have seen the definition too. Each creation takes two seconds then (see
// customresource_handler.go of apiextensions-apiserver). The transition time has whole seconds; the additional 50 ms are for
// clock skew.
const establishedDelay = 2*time.Second + 50*time.Millisecond

// definition is the rule of a CustomResourceDefinition (apiextensions pkg/controller/status and establish). It is current
// once the API server creates its custom resources without a delay. A refused name is named by its message, which holds no
// changing values.
func definition(o object) Result {
	conds := o.conditions()
	if c := conds["NamesAccepted"]; c.isFalse() {
		return failed(reasonOr(c.reason, "NamesNotAccepted"), sentence(c.message, "Another resource has one of the names."))
	}
	c := conds["Established"]
	switch {
	case c.isTrue():
		out := current("Established", "The API is established.")
		if since, err := time.Parse(time.RFC3339, c.since); err == nil {
			out.NotBefore = since.UTC().Add(establishedDelay)
		}
		return out
	case c.isFalse() && c.reason != "Installing":
		return failed(reasonOr(c.reason, "NotEstablished"), sentence(c.message, "The API is not established."))
	}
	return inProgress("Installing", "The API is not established yet.")
}

// apiService is the rule of an APIService (kube-aggregator pkg/controllers/status). It fails as long as its server is not
// there, which may start at any time, so it is never more than in progress.
func apiService(o object) Result {
	c := o.conditions()["Available"]
	if c.isTrue() {
		return current("Available", "The API is available.")
	}
	return inProgress(reasonOr(c.reason, "NotAvailable"), "The API is not available; the server behind it does not answer.")
}

// signingRequest is the rule of a CertificateSigningRequest (certificates/v1). Denied and Failed are final.
func signingRequest(o object) Result {
	conds := o.conditions()
	for _, bad := range []string{"Denied", "Failed"} {
		if c := conds[bad]; c.isTrue() {
			return failed(reasonOr(c.reason, bad), sentence(c.message, "The request is answered with "+bad+"."))
		}
	}
	switch {
	case o.text("status", "certificate") != "":
		return current("Issued", "The certificate is issued.")
	case conds["Approved"].isTrue():
		return inProgress("Approved", "The request is approved; the certificate is not issued yet.")
	}
	return inProgress("PendingApproval", "The request waits for its approval.")
}

// flowSchema is the rule of a FlowSchema: it dangles as long as its priority level does not exist (flowcontrol/v1).
func flowSchema(o object) Result {
	if c := o.conditions()["Dangling"]; c.isTrue() {
		return inProgress("Dangling", "The priority level that the schema refers to does not exist.")
	}
	return current(ReasonExists, "The schema exists, and so does its priority level.")
}
