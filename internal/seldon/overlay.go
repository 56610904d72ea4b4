package seldon

import (
	"github.com/Masterminds/semver/v3"
	"helm.sh/helm/v4/pkg/chart/common"

	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
)

// values are Helm values.
type values = map[string]any

// The names that the switches wire together.
const (
	gatewayName          = "seldon-gateway"
	ingressNamespace     = "istio-system"
	ingressService       = "istio-ingressgateway"
	postgresSecret       = "metadata-postgres"
	elasticSecret        = "elastic-credentials"
	postgresHost         = "seldon-internal-postgres-postgresql"
	postgresDatabase     = "metadata"
	elasticCluster       = "seldon-internal-opensearch-cluster"
	elasticHost          = elasticCluster + "-master"
	deployService        = "seldon-deploy"
	loggerService        = "seldon-request-logger"
	loggerAliasNamespace = "seldon-logs"
	brokerName           = "default"
	uiPath               = "/seldon-deploy/"
)

// overlay are the values that MLKeeper sets for a component, between those of the chart and those of the user.
func (s *system) overlay(cr *v1alpha1.SeldonOperator, c component) values {
	switch c.name {
	case core:
		return s.overlayCore(cr)
	case enterprise:
		return s.overlayEnterprise(cr, c.chart.Version)
	case analytics:
		// The listings of Seldon's documentation have no Grafana.
		return values{"grafana": values{"enabled": false}}
	case catalogue:
		return overlayCatalogue(c.chart.Version)
	case payloadStore:
		return overlayPayloadStore(c.chart.Version)
	}
	return nil
}

func (s *system) overlayCore(cr *v1alpha1.SeldonOperator) values {
	out := values{}
	if cr.Spec.Enable.Routing {
		out["istio"] = values{"enabled": true, "gateway": gatewayOf(cr)}
		out["ambassador"] = values{"enabled": false}
	}
	if cr.Spec.Enable.Detectors {
		out["executor"] = values{"requestLogger": values{"defaultEndpoint": brokerURL(cr, s.settings.ClusterDomain)}}
	}
	return out
}

// overlayEnterprise is what Seldon Deploy needs to run at all on a bare cluster, and what each switch connects it to. The
// chart's own defaults need Argo CD, Istio, Knative, an OIDC provider, and an image of version 0.0.0.
func (s *system) overlayEnterprise(cr *v1alpha1.SeldonOperator, version string) values {
	on, namespace := cr.Spec.Enable, cr.Namespace
	out := values{
		"image":         values{"image": "seldonio/seldon-deploy-server:" + version},
		"enableAppAuth": false,
		"gitops": values{
			"argocd": values{"enabled": false},
			"git":    values{"webhook": values{"service": values{"create": false}}},
		},
		"virtualService": values{"create": false},
		"elasticsearch":  values{"basicAuth": false},
		"metadata":       values{"pg": values{"enabled": false}},
	}
	logger := values{
		"create":     false,
		"namespace":  values{"create": false, "name": namespace},
		"deployHost": "http://" + deployService + "." + namespace + "/seldon-deploy/api/v1alpha1",
	}
	out["requestLogger"] = logger
	if on.Analytics {
		prometheus := "http://seldon-core-analytics-prometheus-seldon." + namespace + "/api/v1/"
		out["prometheus"] = values{"seldon": values{"url": prometheus, "namespaceMetricName": "kubernetes_namespace"}}
		out["env"] = values{"ALERTMANAGER_URL": "http://seldon-core-analytics-prometheus-alertmanager." + namespace + "/api/v1/alerts"}
	}
	if on.Catalogue {
		out["metadata"] = values{"pg": values{"enabled": true, "secret": postgresSecret}}
	}
	if internalElastic(cr) {
		host := elasticHost + "." + namespace + ".svc." + s.settings.ClusterDomain
		out["elasticsearch"] = values{
			"url": "https://" + host + ":9200", "basicAuth": true,
			"secret": values{"name": elasticSecret, "userKey": "username", "passwordKey": "password"},
		}
		logger["elasticsearch"] = values{"host": host, "port": "9200", "protocol": "https"}
	}
	if on.Routing {
		out["virtualService"] = values{"create": true, "prefix": uiPath, "gateways": []any{gatewayOf(cr)}}
		out["ingressGateway"] = values{"seldonIngressService": ingressService, "ingressNamespace": ingressNamespace}
	}
	if on.Detectors {
		logger["create"] = true
		logger["trigger"] = values{"apiVersion": "eventing.knative.dev/v1", "broker": brokerName}
		// By default the logger reads from a Kafka that is not there.
		logger["kafka_consumer"] = values{"enabled": false}
	}
	return out
}

// overlayCatalogue has PostgreSQL take its password from our Secret. Charts up to version 10 have the fields at the top.
func overlayCatalogue(version string) values {
	const authAppeared = 11
	if v, err := semver.NewVersion(version); err == nil && v.Major() < authAppeared {
		return values{"existingSecret": postgresSecret, "postgresqlDatabase": postgresDatabase}
	}
	return values{"auth": values{
		"existingSecret": postgresSecret, "database": postgresDatabase,
		"secretKeys": values{"adminPasswordKey": "postgres-password"},
	}}
}

// overlayPayloadStore names the cluster. The chart's masterService is another name, which does not follow it.
func overlayPayloadStore(version string) values {
	out := values{"clusterName": elasticCluster, "masterService": elasticHost}
	if chosenPassword(version) {
		out["extraEnvs"] = []any{values{
			"name":      "OPENSEARCH_INITIAL_ADMIN_PASSWORD",
			"valueFrom": values{"secretKeyRef": values{"name": elasticSecret, "key": "password"}},
		}}
	}
	return out
}

// gatewayOf is the Gateway that the stack is reached through: ours, or the one that Seldon's documentation has users make. A
// user's values name another.
func gatewayOf(cr *v1alpha1.SeldonOperator) string {
	if ownGateway(cr) {
		return cr.Namespace + "/" + gatewayName
	}
	return ingressNamespace + "/" + gatewayName
}

// brokerURL is where the Broker takes events.
func brokerURL(cr *v1alpha1.SeldonOperator, domain string) string {
	return "http://broker-ingress.knative-eventing.svc." + domain + "/" + cr.Namespace + "/" + brokerName
}

// lookupValue finds a value of a user.
func lookupValue(v values, path string) (any, bool) {
	found, err := common.Values(v).PathValue(path)
	return found, err == nil
}

// textIn is a text among values, or another where there is none.
func textIn(v values, path, otherwise string) string {
	found, _ := lookupValue(v, path)
	if text, isText := found.(string); isText && text != "" {
		return text
	}
	return otherwise
}
