package trustyai

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/workload"
)

const (
	// serviceNameLabel is upstream's label of the Service and the Route of the proxy.
	serviceNameLabel = "trustyai-service-name"
	// metricsLabel marks the one Service of a custom resource that has metrics, so that its ServiceMonitor scrapes
	// nothing else (defect 15).
	metricsLabel = "trustyai.opendatahub.io/metrics-of"
	// proxyPort is where kube-rbac-proxy listens.
	proxyPort = 8443
	// servingCertAnnotation asks OpenShift's service-ca for a certificate.
	servingCertAnnotation = "service.beta.openshift.io/serving-cert-secret-name"
)

// scrapeAnnotations are those that upstream sets on pods and on the internal Service; those of a Secured service name the port
// with TLS, the only one of the two that can be reached.
func scrapeAnnotations(secured bool, at layout) map[string]string {
	out := map[string]string{"prometheus.io/path": metricsPath, "prometheus.io/scheme": "http", "prometheus.io/scrape": "true"}
	if secured {
		out["prometheus.io/scheme"], out["prometheus.io/port"] = "https", strconv.Itoa(int(at.tls))
	}
	return out
}

// services renders the Service (TrustyAI ADR 3: port http 80 to 8080) and, for a Secured service, its TLS port and the
// Service of the proxy (trustyai-service-operator HEAD 11c335b).
func (r *scene) services() {
	labels := r.labels()
	internal := r.meta(r.names.base, labels)
	if !ADRShape(r.cr) {
		labels[metricsLabel] = labelValue(r.cr.Name)
		internal.Annotations = scrapeAnnotations(r.secured, r.reached)
	}
	ports := []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(r.reached.http)}}
	if r.secured {
		ports = append(ports, corev1.ServicePort{Name: "https", Protocol: corev1.ProtocolTCP, Port: 443, TargetPort: intstr.FromInt32(r.reached.tls)})
	}
	if r.certified() && r.facts.Certs.Source == CertsServiceCA {
		if internal.Annotations == nil {
			internal.Annotations = map[string]string{}
		}
		internal.Annotations[servingCertAnnotation] = r.names.base + "-internal"
	}
	r.add(plan.Typed(gvkService, &corev1.Service{
		ObjectMeta: internal,
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Selector: r.podSelector(), Ports: ports},
	}))
	if !r.certified() {
		return
	}
	tls := r.labels()
	tls[serviceNameLabel] = labelValue(r.cr.Name)
	if ADRShape(r.cr) {
		// The ServiceMonitor of the ADR selects by this label, and this Service has no metrics.
		tls["app.kubernetes.io/name"] = r.names.tlsService
	}
	meta := r.meta(r.names.tlsService, tls)
	if r.facts.Certs.Source == CertsServiceCA {
		meta.Annotations = map[string]string{servingCertAnnotation: r.names.base + "-tls"}
	}
	r.add(plan.Typed(gvkService, &corev1.Service{
		ObjectMeta: meta,
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, Selector: r.podSelector(),
			Ports: []corev1.ServicePort{{Name: "https", Protocol: corev1.ProtocolTCP, Port: 443, TargetPort: intstr.FromInt32(proxyPort)}},
		},
	}))
}

// entrance is the Service and its port by which the service is reached from outside of the cluster: without TLS the HTTP port, else the proxy.
func (r *scene) entrance() (service, port string) {
	if r.secured {
		return r.names.tlsService, "https"
	}
	return r.names.base, "http"
}

// route renders the Route: to the HTTP port without tls (TrustyAI ADR 3; its "tls: null" is an absent field to
// server-side apply), or reencrypt to the proxy (trustyai-service-operator HEAD 11c335b).
func (r *scene) route() {
	labels := r.labels()
	if ADRShape(r.cr) {
		delete(labels, "app.kubernetes.io/instance")
	}
	to, port := r.entrance()
	spec := map[string]any{}
	if r.secured {
		labels[serviceNameLabel] = labelValue(r.cr.Name)
		tls := map[string]any{"termination": "reencrypt", "insecureEdgeTerminationPolicy": "Redirect"}
		if r.facts.Certs.CA != "" {
			tls["destinationCACertificate"] = r.facts.Certs.CA
		}
		spec["tls"] = tls
	}
	spec["to"] = map[string]any{"kind": "Service", "name": to, "weight": int64(100)}
	spec["port"] = map[string]any{"targetPort": port}
	o := plan.Foreign(gvkRoute, r.cr.Namespace, r.names.route, labels, spec)
	if r.secured {
		o.Hold = r.mistrusted()
	}
	r.add(o)
}

// backendProtocol has ingress-nginx speak TLS to the proxy, which it does not do by the port's name alone.
const backendProtocol = "nginx.ingress.kubernetes.io/backend-protocol"

// ingress renders the Ingress.
func (r *scene) ingress() {
	spec := r.cr.Spec.Ingress
	if spec == nil {
		return
	}
	service, port := r.entrance()
	out := workload.Ingress(r.meta(r.names.base, r.labels()), spec, service, port)
	if r.secured {
		out.Annotations = map[string]string{backendProtocol: "HTTPS"}
	}
	r.add(plan.Typed(gvkIngress, out))
}

// certificates renders where the certificates of a Secured service come from.
func (r *scene) certificates() {
	if !r.securesPods {
		return
	}
	certs := r.facts.Certs
	r.checkIssuer()
	r.checkForeign()
	r.checkExpiry()
	r.checkAuthority()
	switch certs.Source {
	case CertsUser:
		name := r.names.tlsSecret
		switch {
		case certs.Missing:
			r.problem(plan.Waiting, "TLSSecretNotFound", "spec.tls.secretName", name, "there is no Secret of this name in the namespace",
				"create a Secret of type kubernetes.io/tls with the keys tls.crt and tls.key")
		case len(certs.MissingKeys) > 0:
			r.problem(plan.Waiting, "TLSSecretIncomplete", "spec.tls.secretName", name,
				"the Secret lacks a value for "+joinWords(certs.MissingKeys), "add the missing keys to the Secret")
		}
	case CertsCertManager:
		r.certManager()
	case CertsOwn:
		for _, own := range certs.Own {
			r.add(r.ownSecret(own))
		}
	}
}
