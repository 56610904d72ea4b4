package trustyai

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/plan"
)

// stageService is the only stage: nothing of a TrustyAI service has to wait for anything else of it.
const stageService = "service"

// stepDelay is how soon the next step of a migration follows the status that announced it.
const stepDelay = 200 * time.Millisecond

// proxyRole is the ClusterRole that the proxy of a Secured service is bound to (config/rbac/trustyai-proxy-role.yaml).
const proxyRole = "mlkeeper-trustyai-proxy"

// scheduleForm is the form of a schedule, as in the schema.
var scheduleForm = regexp.MustCompile(`^([0-9]+(ms|s|m|h))+$`)

// scene is one rendering: what the children are made of, and the plan so far.
type scene struct {
	settings Settings
	cr       *v1.TrustyAIService
	facts    Facts
	names    names
	template Template
	// securesPods says that the pods of the spec are those of a Secured service, and layout where their image listens.
	securesPods bool
	layout      layout
	// served is what the pods serve to which Services, policy and entrances lead; they are others as long as those of the spec do not replace
	// them. secured and reached are the same of them.
	served  Served
	secured bool
	reached layout
	plan    plan.Plan
	objects []plan.Object
}

func (s *system) scene(cr *v1.TrustyAIService, facts Facts) *scene {
	r := &scene{
		settings: s.settings, cr: cr, facts: facts, names: namesOf(cr), template: templateOf(cr.Spec.Storage.Format, facts),
		securesPods: ExposureOf(cr) == v1.ExposureSecured, layout: layoutOf(facts.Generation), served: facts.served(cr),
	}
	r.secured, r.reached = r.served.Exposure == v1.ExposureSecured, layoutOf(r.served.Generation)
	if !r.reached.serves(r.served.Exposure) {
		r.reached = layoutOf("")
	}
	return r
}

// certified says that the service has certificates: it is Secured, or is about to be.
func (r *scene) certified() bool { return r.secured || r.securesPods }

// Render renders the children. It is pure.
func (s *system) Render(cr *v1.TrustyAIService, facts Facts) plan.Plan {
	r := s.scene(cr, facts)
	if facts.First != "" {
		r.problem(plan.Terminal, "DuplicateService", "spec.trustyaiMetrics", "",
			fmt.Sprintf("the namespace already has the TrustyAIService %q, and the names of the children are the same", facts.First),
			fmt.Sprintf("delete one of the two, or create this one with metrics instead of trustyaiMetrics (the older one, %s, keeps the names)", facts.First))
		return r.plan
	}
	r.certificates()
	r.loggerCA()
	r.claim()
	r.checkVolume()
	r.checkSelector()
	served := r.checkGeneration()
	deployment := r.workload(served)
	r.policy()
	r.services()
	if served || facts.Deployment != nil {
		r.monitor()
	}
	r.route()
	r.ingress()
	r.httpRoute()
	r.disruption()
	r.checkMigration()
	r.plan.Stages = []plan.Stage{{Name: stageService, Objects: append(r.identity(deployment), r.objects...)}}
	r.plan.SetDeletionPolicy(cr.Spec.DeletionPolicy)
	r.plan.Inputs = fmt.Sprintf("%s %s %t %t", facts.Certs.Digest, facts.Database.Digest, facts.Database.CA, facts.TrustedCA)
	r.plan.WakeAt = earliest(facts.Certs.RenewAt, facts.VolumeAt)
	for _, at := range []time.Time{facts.Certs.ExpiresAt, facts.Certs.StandsAt} {
		if at.After(facts.Now) {
			r.plan.WakeAt = earliest(r.plan.WakeAt, at)
		}
	}
	if !sameMigration(facts.Migration, facts.Next) {
		r.plan.WakeAt = facts.Now.Add(stepDelay)
	}
	return r.plan
}

func (r *scene) add(o plan.Object) { r.objects = append(r.objects, o) }

func (r *scene) problem(class plan.Class, reason, field, value, message, remedy string) {
	r.plan.Problems = append(r.plan.Problems, plan.Problem{
		Class: class, Reason: reason, Field: field, Value: value, Message: message, Remedy: remedy,
	})
}

func (r *scene) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for _, w := range r.plan.Warnings {
		if w == text {
			return
		}
	}
	r.plan.Warnings = append(r.plan.Warnings, text)
}

// labels are the labels of the children: those of TrustyAI ADR 3 with the instance added, or those of
// trustyai-service-operator HEAD 11c335b.
func (r *scene) labels() map[string]string {
	app, name, version := labelValue(r.cr.Name), labelValue(r.cr.Name), cmp.Or(r.settings.Version, upstreamVersion)
	if ADRShape(r.cr) {
		app, name, version = "trustyai", adrBase, adrVersion
	}
	return map[string]string{
		"app":                        app,
		"app.kubernetes.io/name":     name,
		"app.kubernetes.io/instance": labelValue(r.cr.Name),
		"app.kubernetes.io/part-of":  "trustyai",
		"app.kubernetes.io/version":  version,
	}
}

// podSelector selects the pods of this service alone. The version is not part of it, so that an upgrade changes no
// immutable field (defect 11).
func (r *scene) podSelector() map[string]string {
	labels := r.labels()
	delete(labels, "app.kubernetes.io/version")
	return labels
}

func (r *scene) meta(name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: r.cr.Namespace, Labels: labels}
}

// identity renders what the proxy of a Secured service runs as and is configured with
// (trustyai-service-operator HEAD 11c335b).
func (r *scene) identity(deployment *plan.Object) []plan.Object {
	if !r.certified() {
		return nil
	}
	account := r.labels()
	account["app"], account["app.kubernetes.io/name"] = "trustyai", labelValue(r.names.proxyAccount)
	// The proxies that start next read it.
	at := r.reached
	if deployment != nil && deployment.Hold == "" {
		at = r.layout
	}
	config := r.labels()
	config["app.kubernetes.io/component"] = "kube-rbac-proxy"
	return []plan.Object{
		plan.Typed(gvkServiceAccount, &corev1.ServiceAccount{ObjectMeta: r.meta(r.names.proxyAccount, account)}),
		plan.Typed(gvkBinding, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: r.bindingName(), Labels: account},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: r.names.proxyAccount, Namespace: r.cr.Namespace}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: proxyRole},
		}),
		plan.Typed(gvkConfigMap, &corev1.ConfigMap{
			ObjectMeta: r.meta(r.names.proxyConfig, config),
			Data:       map[string]string{"config.yaml": r.proxyConfiguration(at)},
		}),
	}
}

// bindingName is the name of the ClusterRoleBinding. As long as that of the original operator is there, the child has its name: it binds
// another role, so it is deleted, and what replaces it has a name that no other service can come to.
func (r *scene) bindingName() string {
	if r.facts.UpstreamBinding {
		return upstreamBinding(r.cr)
	}
	return r.names.proxyBinding
}

// proxyCiphers are the cipher suites of the proxy: those with forward secrecy only.
var proxyCiphers = []string{
	"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
	"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
	"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
}

// proxyConfigurationForm is the file of kube-rbac-proxy: a caller needs the right to get the Service. It is rendered in every
// pass, for which a YAML library takes ten times as long.
const proxyConfigurationForm = `authorization:
  resourceAttributes:
    apiGroup: ""
    name: %[1]q
    namespace: %[2]q
    resource: services
    resourceName: %[1]q
    verb: get
tlsConfig:
  cipherSuites:
  - %[3]s
  minVersion: VersionTLS12
upstreamConfig:
  proxyTimeout: 30s
  url: %[4]q
`

func (r *scene) proxyConfiguration(at layout) string {
	return fmt.Sprintf(proxyConfigurationForm, r.names.base, r.cr.Namespace, strings.Join(proxyCiphers, "\n  - "), upstreamOf(at))
}

// schedule is the metrics schedule, under whichever name the spec has it; ok is false when it cannot be used.
func (r *scene) schedule() (value string, ok bool) {
	field := "spec.metrics.schedule"
	switch spec := r.cr.Spec; {
	case spec.TrustyAIMetrics != nil:
		value, field = spec.TrustyAIMetrics.Schedule, "spec.trustyaiMetrics.schedule"
		if spec.Metrics != nil && spec.Metrics.Schedule != value {
			r.problem(plan.Terminal, "ScheduleAmbiguous", "spec.metrics.schedule", quote(spec.Metrics.Schedule),
				"differs from spec.trustyaiMetrics.schedule", "remove one of the two")
			return "", false
		}
	case spec.Metrics != nil:
		value = spec.Metrics.Schedule
	}
	if !scheduleForm.MatchString(value) {
		r.problem(plan.Terminal, "InvalidSchedule", field, quote(value), "is not a duration", "set a duration such as 5s or 1m")
		return "", false
	}
	return value, true
}

// quote prints user input on one line.
func quote(value string) string {
	const limit = 100
	if len(value) > limit {
		value = strings.ToValidUTF8(value[:limit], "") + "..."
	}
	return fmt.Sprintf("%q", value)
}
