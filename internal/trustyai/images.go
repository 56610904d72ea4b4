package trustyai

// The default images, those of upstream's params.env (trustyai-service-operator HEAD 11c335b); an administrator sets
// others with --trustyai-image and --trustyai-proxy-image.
const (
	DefaultImage      = "quay.io/trustyai/trustyai-service:latest"
	DefaultProxyImage = "quay.io/opendatahub/odh-kube-rbac-proxy:odh-stable"
)
