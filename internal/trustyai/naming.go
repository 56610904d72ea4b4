package trustyai

import (
	"cmp"

	v1 "mlkeeper.dev/api/trustyai/v1"
)

// DefaultClusterDomain is the DNS domain of a cluster unless the operator is told otherwise.
const DefaultClusterDomain = "cluster.local"

// Names that the ADR fixes (TrustyAI ADR 3).
const (
	adrBase           = "trustyai-service"
	adrRoute          = "trustyai"
	adrServiceMonitor = "trustyai-metrics"
	adrVersion        = "0.1.0"
)

// upstreamVersion is constants.Version of trustyai-service-operator HEAD 11c335b.
const upstreamVersion = "1.39.0"

// ADRShape says that a service gets the children of TrustyAI ADR 3 under the names of the ADR: it uses
// spec.trustyaiMetrics. The schema keeps the shape as it was when the custom resource was created.
func ADRShape(cr *v1.TrustyAIService) bool { return cr.Spec.TrustyAIMetrics != nil }

// ExposureOf is how a service is reached: what its spec says, else Plain in the ADR's shape and Secured in upstream's.
func ExposureOf(cr *v1.TrustyAIService) v1.Exposure {
	switch {
	case cr.Spec.Exposure != "":
		return cr.Spec.Exposure
	case ADRShape(cr):
		return v1.ExposurePlain
	default:
		return v1.ExposureSecured
	}
}

// exposureNow is how a service is reached now, by its status: as its spec says once its pods are made for that.
func exposureNow(cr *v1.TrustyAIService) v1.Exposure {
	return cmp.Or(cr.Status.Exposure, ExposureOf(cr))
}

// isOrWasSecured says that a service is Secured by its spec, or still is because its pods stay as they are.
func isOrWasSecured(cr *v1.TrustyAIService) bool {
	return ExposureOf(cr) == v1.ExposureSecured || exposureNow(cr) == v1.ExposureSecured
}

// ServiceName is the name of the Service and the Deployment: trustyai-service in the ADR's shape (TrustyAI ADR 3), the
// name of the custom resource in upstream's (trustyai-service-operator HEAD 11c335b).
func ServiceName(cr *v1.TrustyAIService) string {
	if ADRShape(cr) {
		return adrBase
	}
	return cr.Name
}

// InternalSecretName is the name of the Secret with the certificate that the service itself serves; ModelMesh mounts it
// to trust a Secured service (trustyai-service-operator HEAD 11c335b).
func InternalSecretName(cr *v1.TrustyAIService) string {
	if cr.Spec.TLS != nil && cr.Spec.TLS.SecretName != "" {
		return cr.Spec.TLS.SecretName
	}
	return ServiceName(cr) + "-internal"
}

// internalSecretNow is InternalSecretName of the pods that the status tells of.
func internalSecretNow(cr *v1.TrustyAIService) string {
	switch now := cr.Status.TLSSecretName; {
	case now == "", now == namesOf(cr).tlsSecret:
		return InternalSecretName(cr)
	case now == ServiceName(cr)+"-tls":
		return ServiceName(cr) + "-internal"
	default:
		return now
	}
}

// ConsumerURL is the address that ModelMesh sends payloads to, in a cluster with the default domain:
// http://trustyai-service.<ns>.svc.cluster.local/consumer/kserve/v2 in the ADR's shape (TrustyAI ADR 3),
// https://<name>.<ns>.svc/consumer/kserve/v2 for a Secured service (trustyai-service-operator HEAD 11c335b).
func ConsumerURL(cr *v1.TrustyAIService) string { return ConsumerURLIn(cr, DefaultClusterDomain) }

// ConsumerURLIn is ConsumerURL in a cluster with the given domain.
func ConsumerURLIn(cr *v1.TrustyAIService, clusterDomain string) string {
	if exposureNow(cr) == v1.ExposureSecured {
		return "https://" + ServiceName(cr) + "." + cr.Namespace + ".svc/consumer/kserve/v2"
	}
	return "http://" + host(cr, clusterDomain) + "/consumer/kserve/v2"
}

// LoggerURL is the address that the logger of a KServe InferenceService sends payloads to, in a cluster with the
// default domain (trustyai-service-operator HEAD 11c335b: https://<name>.<ns>.svc.cluster.local).
func LoggerURL(cr *v1.TrustyAIService) string { return LoggerURLIn(cr, DefaultClusterDomain) }

// LoggerURLIn is LoggerURL in a cluster with the given domain. It is the same for serverless InferenceServices, which upstream
// addresses by HTTP: nothing reaches the port without TLS of a Secured service.
func LoggerURLIn(cr *v1.TrustyAIService, clusterDomain string) string {
	if exposureNow(cr) == v1.ExposureSecured {
		return "https://" + host(cr, clusterDomain)
	}
	return openLoggerURL(cr, clusterDomain)
}

// openLoggerURL is the address of a logger without TLS.
func openLoggerURL(cr *v1.TrustyAIService, clusterDomain string) string {
	return "http://" + host(cr, clusterDomain)
}

func host(cr *v1.TrustyAIService, clusterDomain string) string {
	if clusterDomain == "" {
		clusterDomain = DefaultClusterDomain
	}
	return ServiceName(cr) + "." + cr.Namespace + ".svc." + clusterDomain
}

// bindingPrefix begins the names of the ClusterRoleBindings, which all namespaces share. What follows is namespace:name: neither can
// contain a colon, so that no two custom resources come to one name, and no name is one that other programs use.
const bindingPrefix = "mlkeeper:trustyai-proxy:"

// upstreamBinding is the name that the original operator gives the ClusterRoleBinding (trustyai-service-operator HEAD 11c335b). A service
// a in namespace b-c and one a-b in namespace c come to the same one.
func upstreamBinding(cr *v1.TrustyAIService) string {
	return ServiceName(cr) + "-" + cr.Namespace + "-proxy-rolebinding"
}

// names are the names of the children of one custom resource.
type names struct {
	base, proxyAccount, proxyBinding, proxyConfig string
	policy                                        string
	tlsService, tlsSecret, internalSecret         string
	gatewayCA                                     string
	caSecret, selfSignedIssuer                    string
	pvc, route, serviceMonitor                    string
	databaseSecret, databaseCA                    string
}

// namesOf returns the names of the children. In the ADR's shape the children that only a Secured service has are named
// after the Service as upstream names them after the custom resource.
func namesOf(cr *v1.TrustyAIService) names {
	b := ServiceName(cr)
	n := names{
		base:             b,
		proxyAccount:     b + "-proxy",
		proxyBinding:     bindingPrefix + cr.Namespace + ":" + cr.Name,
		proxyConfig:      b + "-kube-rbac-proxy-config",
		policy:           b + "-secured",
		tlsService:       b + "-tls",
		tlsSecret:        b + "-tls",
		internalSecret:   b + "-internal",
		gatewayCA:        b + "-gateway-ca",
		caSecret:         b + "-ca",
		selfSignedIssuer: b + "-selfsigned",
		pvc:              b + "-pvc",
		route:            b,
		serviceMonitor:   b,
		databaseSecret:   cr.Spec.Storage.DatabaseConfigurations,
		databaseCA:       cr.Name + "-db-ca",
	}
	if n.databaseSecret == "" {
		n.databaseSecret = cr.Name + "-db-credentials"
	}
	if cr.Spec.Storage.ExistingClaim != "" {
		n.pvc = cr.Spec.Storage.ExistingClaim
	}
	if ADRShape(cr) {
		n.route, n.serviceMonitor = adrRoute, adrServiceMonitor
	}
	if cr.Spec.TLS != nil && cr.Spec.TLS.SecretName != "" {
		n.tlsSecret, n.internalSecret = cr.Spec.TLS.SecretName, cr.Spec.TLS.SecretName
	}
	return n
}
