package health

import (
	"testing"
	"time"
)

const notEnough = "kstatus is content with a cluster IP"

var clusterSamples = []sample{
	{"cluster IP", "v1 Service", `spec: {type: ClusterIP}`, Current, ReasonExists, ""},
	{"external name", "v1 Service", `spec: {type: ExternalName}`, Current, ReasonExists, ""},
	{"no type", "v1 Service", ``, Current, ReasonExists, ""},
	{"no address", "v1 Service", `spec: {type: LoadBalancer, clusterIP: 10.0.0.1}`, InProgress, "NoAddress", notEnough},
	{"empty address", "v1 Service", `
spec: {type: LoadBalancer, clusterIP: 10.0.0.1}
status: {loadBalancer: {ingress: [{}, 7]}}`, InProgress, "NoAddress", notEnough},
	{"address", "v1 Service", `
spec: {type: LoadBalancer, clusterIP: 10.0.0.1}
status: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}`, Current, "Published", ""},
	{"host name", "v1 Service", `
spec: {type: LoadBalancer, clusterIP: 10.0.0.1}
status: {loadBalancer: {ingress: [{hostname: a.example}]}}`, Current, "Published", ""},
	{"no address", "networking.k8s.io/v1 Ingress", ``, Current, ReasonExists, ""},
	{"policy", "networking.k8s.io/v1 NetworkPolicy", ``, Current, ReasonExists, ""},
	{"not ready", "networking.k8s.io/v1 ServiceCIDR", ``, InProgress, ReasonNotReady, noRule},
	{"ready", "networking.k8s.io/v1 ServiceCIDR", `status: {conditions: [{type: Ready, status: "True"}]}`, Current, ReasonReady, ""},

	{"new", "autoscaling/v2 HorizontalPodAutoscaler", ``, InProgress, ReasonNotObserved, noRule},
	{"v1", "autoscaling/v1 HorizontalPodAutoscaler", `status: {currentReplicas: 1}`, Current, ReasonExists, ""},
	{
		"scaling", "autoscaling/v2 HorizontalPodAutoscaler", `
status: {conditions: [{type: AbleToScale, status: "True"}, {type: ScalingActive, status: "True"}, {type: ScalingLimited, status: "True", reason: TooManyReplicas}]}`,
		Current, "ScalingActive", "",
	},
	{
		"no metrics yet", "autoscaling/v2 HorizontalPodAutoscaler", `
status: {conditions: [{type: AbleToScale, status: "True"}, {type: ScalingActive, status: "False", reason: FailedGetResourceMetric}]}`,
		InProgress, "FailedGetResourceMetric", noRule,
	},
	{"no target", "autoscaling/v2 HorizontalPodAutoscaler", `
status: {conditions: [{type: AbleToScale, status: "False", reason: FailedGetScale}]}`, InProgress, "FailedGetScale", noRule},
	{
		"switched off", "autoscaling/v2 HorizontalPodAutoscaler", `
status: {conditions: [{type: AbleToScale, status: "True"}, {type: ScalingActive, status: "False", reason: ScalingDisabled}]}`,
		Current, "ScalingDisabled", "",
	},
	{"two autoscalers", "autoscaling/v2 HorizontalPodAutoscaler", `
status: {conditions: [{type: ScalingActive, status: "False", reason: AmbiguousSelector}]}`, Failed, "AmbiguousSelector", noRule},
	{"new", "policy/v1 PodDisruptionBudget", `metadata: {generation: 1}`, InProgress, ReasonNotObserved, "kstatus takes it for observed"},
	{"too few", "policy/v1 PodDisruptionBudget", `
metadata: {generation: 1}
status: {observedGeneration: 1, conditions: [{type: DisruptionAllowed, status: "False", reason: InsufficientPods}]}`, Current, "Computed", ""},
	{"enough", "policy/v1 PodDisruptionBudget", `
status: {observedGeneration: 1, conditions: [{type: DisruptionAllowed, status: "True", reason: SufficientPods}]}`, Current, "Computed", ""},
	{"cannot count", "policy/v1 PodDisruptionBudget", `
status: {observedGeneration: 1, conditions: [{type: DisruptionAllowed, status: "False", reason: SyncFailed}]}`, Failed, "SyncFailed", noRule},

	{"active", "v1 Namespace", `status: {phase: Active}`, Current, ReasonExists, ""},
	{"terminating", "v1 Namespace", `
metadata: {deletionTimestamp: "2026-01-01T00:00:00Z"}
status: {phase: Terminating}`, Terminating, ReasonDeleting, ""},
	{"new", "v1 Node", ``, InProgress, ReasonNotReady, noRule},
	{"ready", "v1 Node", `status: {conditions: [{type: Ready, status: "True", reason: KubeletReady}]}`, Current, ReasonReady, ""},
	{"not ready", "v1 Node", `status: {conditions: [{type: Ready, status: "False", reason: KubeletNotReady}]}`, InProgress, "KubeletNotReady", ""},
	{
		"lost", "v1 Node", `status: {conditions: [{type: Ready, status: Unknown, reason: NodeStatusUnknown}]}`,
		Unknown, "NodeStatusUnknown", "kstatus waits for it",
	},
	{"quota", "v1 ResourceQuota", `status: {hard: {pods: "1"}, used: {pods: "1"}}`, Current, ReasonExists, ""},
	{"endpoints", "v1 Endpoints", ``, Current, ReasonExists, ""},

	{"new", "apiextensions.k8s.io/v1 CustomResourceDefinition", ``, InProgress, "Installing", ""},
	{
		"installing", "apiextensions.k8s.io/v1 CustomResourceDefinition", `
status: {conditions: [{type: NamesAccepted, status: "True"}, {type: Established, status: "False", reason: Installing}]}`,
		InProgress, "Installing", "",
	},
	{"established", "apiextensions.k8s.io/v1 CustomResourceDefinition", `
status: {conditions: [{type: Established, status: "True"}, {type: NamesAccepted, status: "True"}]}`, Current, "Established", ""},
	{"established at a known time", definitionKind, established, Current, "Established", ""},
	{
		"names taken", "apiextensions.k8s.io/v1 CustomResourceDefinition", `
status: {conditions: [{type: NamesAccepted, status: "False", reason: PluralConflict, message: '"things" is already in use'}]}`,
		Failed, "PluralConflict", "",
	},
	{"not established", "apiextensions.k8s.io/v1 CustomResourceDefinition", `
status: {conditions: [{type: Established, status: "False", reason: NotAccepted}]}`, Failed, "NotAccepted", ""},
	{"new", "apiregistration.k8s.io/v1 APIService", ``, InProgress, "NotAvailable", noRule},
	{
		"local", "apiregistration.k8s.io/v1 APIService", `status: {conditions: [{type: Available, status: "True", reason: Local}]}`,
		Current, "Available", "",
	},
	{"no server", "apiregistration.k8s.io/v1 APIService", `
status: {conditions: [{type: Available, status: "False", reason: MissingEndpoints}]}`, InProgress, "MissingEndpoints", noRule},

	{"new", "certificates.k8s.io/v1 CertificateSigningRequest", ``, InProgress, "PendingApproval", noRule},
	{
		"approved", "certificates.k8s.io/v1 CertificateSigningRequest", `status: {conditions: [{type: Approved, status: "True"}]}`,
		InProgress, "Approved", noRule,
	},
	{"issued", "certificates.k8s.io/v1 CertificateSigningRequest", `
status: {certificate: QQ==, conditions: [{type: Approved, status: "True"}]}`, Current, "Issued", ""},
	{"denied", "certificates.k8s.io/v1 CertificateSigningRequest", `
status: {conditions: [{type: Denied, status: "True", reason: Policy, message: No.}]}`, Failed, "Policy", noRule},
	{
		"failed", "certificates.k8s.io/v1 CertificateSigningRequest", `status: {conditions: [{type: Failed, status: "True"}]}`,
		Failed, "Failed", noRule,
	},
	{"denied", "certificates.k8s.io/v1beta1 PodCertificateRequest", `
status: {conditions: [{type: Denied, status: "True", reason: UnsupportedKeyType}]}`, Failed, "UnsupportedKeyType", noRule},
	{
		"issued", "certificates.k8s.io/v1beta1 PodCertificateRequest", `status: {conditions: [{type: Issued, status: "True"}]}`,
		Current, "Issued", "",
	},
	{"dangling", "flowcontrol.apiserver.k8s.io/v1 FlowSchema", `
status: {conditions: [{type: Dangling, status: "True", reason: NotFound}]}`, InProgress, "Dangling", noRule},
	{"not dangling", "flowcontrol.apiserver.k8s.io/v1 FlowSchema", `
status: {conditions: [{type: Dangling, status: "False", reason: Found}]}`, Current, ReasonExists, ""},
	{"level", "flowcontrol.apiserver.k8s.io/v1 PriorityLevelConfiguration", ``, Current, ReasonExists, ""},
	{"policy", "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy", `
metadata: {generation: 2}
status: {observedGeneration: 2, typeChecking: {}}`, Current, ReasonExists, ""},
	{"webhook", "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration", ``, Current, ReasonExists, ""},
	{"role", "rbac.authorization.k8s.io/v1 Role", ``, Current, ReasonExists, ""},
}

func TestCluster(t *testing.T) { check(t, clusterSamples) }

const (
	definitionKind = "apiextensions.k8s.io/v1 CustomResourceDefinition"
	established    = `
status: {conditions: [{type: Established, status: "True", lastTransitionTime: "2026-01-02T04:04:05+01:00"}]}`
)

// TestADefinitionIsCurrentTwoSecondsAfterItWasEstablished: until then the API server delays each creation of a custom resource.
func TestADefinitionIsCurrentTwoSecondsAfterItWasEstablished(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		body string
		at   time.Time
		want Status
	}{
		"at once":                {established, since, InProgress},
		"a moment before":        {established, since.Add(establishedDelay - 1), InProgress},
		"after the delay":        {established, since.Add(establishedDelay), Current},
		"a day later":            {established, since.Add(24 * time.Hour), Current},
		"by a clock a bit ahead": {established, since.Add(-time.Second), InProgress},
		"by a clock far ahead":   {established, since.Add(-time.Hour), Current},
		"without a time":         {`status: {conditions: [{type: Established, status: "True"}]}`, since, Current},
		"no time":                {`status: {conditions: [{type: Established, status: "True", lastTransitionTime: now}]}`, since, Current},
		"not established": {
			`status: {conditions: [{type: Established, status: "False", reason: NotAccepted, lastTransitionTime: "2026-01-02T03:04:05Z"}]}`,
			since, Failed,
		},
	} {
		got := Of(sample{kind: definitionKind, body: c.body}.object(t)).At(c.at)
		if got.Status != c.want || got.Status == InProgress && !got.NotBefore.Equal(since.Add(establishedDelay)) {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
	if r := current(ReasonExists, "It exists."); r.At(time.Time{}) != r || r.At(since) != r {
		t.Error("a health without a time changes with time")
	}
}
